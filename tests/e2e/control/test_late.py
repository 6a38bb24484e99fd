"""A Binding that the API server carries out when its sender has given it up, or is dead: a real API server behind a
proxy that holds the write back. Between the two the card is given to somebody else."""

import threading

import pytest
from kit import cards, objects
from kit.proxy import Proxy

SLICE = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 30000}  # of 40960 MiB: one fits


@pytest.fixture
def held(install_chart, cluster, make_nodes, make_pod):
    """A release whose daemon asks by the proxy; one card; pods made on it."""
    release = install_chart()
    proxy = Proxy(cluster, release.kubeconfig)
    release.kubeconfig = proxy.kubeconfig(release.folder)
    release.start(kube_scheduler=False)
    make_nodes(1, cards=1, vendor="nvidia", prefix="late", annotations={"gpuslice.io/identity": "prestart"})
    yield release, proxy
    proxy.stop()


def choose(release, pod) -> dict:
    return release.call("filter", {"Pod": pod, "NodeNames": ["late-0"]})


def bind(release, pod) -> str:
    meta = pod["metadata"]
    return release.call("bind", {"PodName": meta["name"], "PodNamespace": meta["namespace"], "PodUID": meta["uid"],
                                 "Node": "late-0"})["Error"]


def place(release, pod) -> None:
    """As kube-scheduler does, until the daemon leads."""
    for _ in range(30):
        found = choose(release, pod)
        if found.get("NodeNames") and not (error := bind(release, pod)):
            return
    raise AssertionError(found if not found.get("NodeNames") else error)


def lands_on_nobody(proxy, api, namespace, bound) -> None:
    status, body = proxy.release()
    pods = api.get(objects.PODS.format(namespace))["items"]
    cards.check(pods, 40960, 10)
    assert status == 409, body
    assert b"ResourceVersion in precondition" in body
    assert {p["metadata"]["name"] for p in pods if objects.is_bound(p)} == bound


def test_its_sender_is_dead(held, make_pod, api, namespace):
    release, proxy = held
    first = make_pod(SLICE, "first")
    place(release, make_pod({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 100}, "small"))  # it leads
    assert choose(release, first)["NodeNames"]
    proxy.hold("/pods/first/binding")
    calls = threading.Thread(target=lambda: pytest.raises(OSError, bind, release, first))
    calls.start()
    proxy.wait_held()
    release.daemon.kill()
    calls.join()
    release.start_daemon()
    place(release, make_pod(SLICE, "second"))
    lands_on_nobody(proxy, api, namespace, {"second", "small"})


def test_its_sender_gave_it_up(held, make_pod, api, namespace):
    release, proxy = held
    first = make_pod(SLICE, "first")
    place(release, make_pod({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 100}, "small"))
    assert choose(release, first)["NodeNames"]
    proxy.hold("/pods/first/binding")
    assert bind(release, first) == "the API server did not take the Binding"
    place(release, make_pod(SLICE, "second"))
    lands_on_nobody(proxy, api, namespace, {"second", "small"})


def test_its_pod_has_changed_meanwhile(held, make_pod, api, namespace):
    """Somebody writes to a pod between filter and bind: that is no reason to refuse it."""
    release, _ = held
    place(release, make_pod({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 100}, "small"))
    first = make_pod(SLICE, "first")
    assert choose(release, first)["NodeNames"]
    api.patch(objects.path_of(first), {"metadata": {"annotations": {"x": "y"}}})
    assert bind(release, first) == ""
    bound = api.get(objects.path_of(first))
    assert bound["spec"]["nodeName"] == "late-0"
    assert objects.note(bound, "x") == "y"
    assert "binds_rewritten_total 1" in release.metrics()
