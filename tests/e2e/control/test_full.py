"""Pods with almost as many annotations as the API server takes: they are bound with a grant, or refused in words and
bound once they have room. None is bound so that nobody can write to it any more."""

import pytest
from kit import agent, daemon, objects
from kit.api import Refused

MOST = 262144  # bytes of keys and values: Kubernetes' TotalAnnotationSizeLimitB
RESERVE = 16384  # that a pod with slices must leave: docs/scheduler.md
FULL = MOST - 27  # less room than any grant needs
KEY = "example.com/much"
SLICE = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1000}
AWAY = {"hami.io/webhook": "ignore"}
OPEN = {"admissionPolicy": {"enabled": False}}  # the agent writes as the admin, not as a plugin


@pytest.fixture(scope="module")
def release(cluster, api):
    home = objects.create_namespace(api, "full-system")
    made = daemon.Release(cluster, cluster.folder, home, "full", OPEN)
    made.install().start()
    yield made
    made.remove()


@pytest.fixture
def node(make_nodes) -> str:
    return make_nodes(1, cards=1, vendor="nvidia", annotations={"gpuslice.io/identity": "prestart"})[0]


def much(size: int) -> dict:
    """Annotations of so many bytes."""
    return {KEY: "x" * (size - len(KEY))}


def says_why(text: str) -> bool:
    return f"the pod's annotations have {FULL} bytes" in text and str(MOST) in text


def test_the_api_server_takes_no_more(make_pod):
    """The limit is where we think."""
    make_pod(annotations=much(MOST), scheduler="nobody")
    with pytest.raises(Refused, match="Too long"):
        make_pod(annotations=much(MOST + 1), scheduler="nobody")


def test_refused_at_once(release, make_pod):
    with pytest.raises(Refused) as refused:
        make_pod(SLICE, annotations=much(FULL))
    assert refused.value.status == 403
    assert says_why(refused.value.body["message"])


def test_who_asks_for_no_card_is_let_pass(release, node, make_pod, wait_bound):
    pod = wait_bound(make_pod({"cpu": 1}, annotations=much(FULL), scheduler=release.scheduler_name))
    assert pod["metadata"]["annotations"] == much(FULL)


def test_bound_with_the_least_room(release, node, make_pod, wait_bound, api):
    """And the node can write what it has to say."""
    pod = wait_bound(make_pod(SLICE, annotations=much(MOST - RESERVE)))
    assert objects.note(pod, "hami.io/vgpu-devices-allocated").startswith(f"GPU-{node}-0,NVIDIA,1000,")
    agent.hand_out(api, pod)
    agent.set_phase(api, pod, "Running")
    with pytest.raises(Refused):
        make_pod(SLICE, annotations=much(MOST - RESERVE + 1))


def test_what_we_write_to_it_takes_none_of_that(release, node, make_pod, wait_bound, api):
    """Who begins to lead writes to pods that may be being bound."""
    release.kube_scheduler.stop()
    pod = make_pod(SLICE, annotations=much(MOST - RESERVE))
    release.restart_daemon()
    api.wait(objects.path_of(pod), lambda p: objects.note(p, "gpuslice.io/fence"), 60, "written to")
    release.start_kube_scheduler()
    wait_bound(pod, 60)


def test_where_no_webhook_was_asked(release, node, make_namespace, make_pod, wait_bound, api):
    """It waits, is told why, and is bound when it has room."""
    pod = make_pod(SLICE, annotations=much(FULL), in_namespace=make_namespace(labels=AWAY),
                   scheduler=release.scheduler_name)
    assert says_why(api.wait(objects.path_of(pod), objects.failed_scheduling, 60, "told why"))
    pod = api.patch(objects.path_of(pod), {"metadata": {"annotations": {KEY: None}}})
    assert objects.note(wait_bound(pod, 60), "hami.io/vgpu-devices-allocated")


def test_filled_between_filter_and_bind(release, node, make_pod, wait_bound, api):
    wait_bound(make_pod(SLICE))  # it leads
    pod = make_pod(SLICE, scheduler="nobody")
    path, meta = objects.path_of(pod), pod["metadata"]

    def choose() -> None:
        assert release.filter(api.get(path), [node])["NodeNames"] == [node]

    def bind() -> str:
        return release.call("bind", {"PodName": meta["name"], "PodNamespace": meta["namespace"], "PodUID": meta["uid"],
                                     "Node": node})["Error"]

    choose()
    api.patch(path, {"metadata": {"annotations": much(FULL)}})
    assert says_why(bind())
    assert not objects.is_bound(api.get(path))
    api.patch(path, {"metadata": {"annotations": {KEY: None}}})
    choose()
    assert bind() == ""
    assert objects.note(wait_bound(pod), "hami.io/vgpu-devices-allocated")
