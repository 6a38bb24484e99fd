"""The webhook behind a real API server: what its patch does to a pod, whom it refuses, whom it leaves alone."""

import base64
import json
import ssl
import threading

import pytest
from kit import daemon, objects, pki, procs
from kit.api import Refused

SOFT = {"huawei.com/vnpu-mode": "hami-core"}
B3 = {"huawei.com/Ascend910B3": 1, "huawei.com/Ascend910B3-memory": 28672, "huawei.com/Ascend910B3-core": 40}
GPU = {"nvidia.com/gpu": 1}


@pytest.fixture(scope="module")
def release(cluster, api):
    """One daemon and kube-scheduler for this file, with Ascend's soft split switched on."""
    home = objects.create_namespace(api, "webhook-system")
    made = daemon.Release(cluster, cluster.folder, home, "webhook", {
        "devices": {"ascend": {"enabled": True, "nodeSelector": {"ascend": "on"}, "customresources": list(B3)}}})
    made.install().start()
    yield made
    made.remove()


def refusal(make_pod, *args, **more) -> str:
    with pytest.raises(Refused) as got:
        make_pod(*args, **more)
    return got.value.body["message"]


def test_a_pod_of_ours_is_completed(release, make_pod):
    pod = make_pod(GPU)
    assert pod["spec"]["schedulerName"] == release.scheduler_name
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "1", "nvidia.com/gpucores": "100"}


def test_priority_replaces_a_value_by_reference(release, make_pod):
    container = objects.container("c", {**GPU, "nvidia.com/gpumem": 1000, "nvidia.com/priority": 1})
    container["env"] = [{"name": "A", "value": "1"},
                        {"name": "CUDA_TASK_PRIORITY", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
    pod = make_pod(containers=[container])
    assert pod["spec"]["containers"][0]["env"] == [{"name": "A", "value": "1"},
                                                   {"name": "CUDA_TASK_PRIORITY", "value": "1"}]


def test_a_pod_of_1000_containers(release, make_pod):
    limits = {**GPU, "nvidia.com/gpumem": 10, "nvidia.com/priority": 1}
    pod = make_pod(containers=[objects.container(f"c{i}", limits) for i in range(1000)])
    assert pod["spec"]["schedulerName"] == release.scheduler_name
    assert all(c["env"] == [{"name": "CUDA_TASK_PRIORITY", "value": "1"}] for c in pod["spec"]["containers"])


def test_who_asks_for_nothing_is_left_alone(release, cluster, api, make_namespace, make_pod):
    """Byte for byte what the API server makes of the same pod where the webhook is not asked."""
    away = make_namespace(labels={"hami.io/webhook": "ignore"})
    init = objects.container("i", {"cpu": 1})
    pods = [make_pod({"cpu": "100m"}, name="same", inits=[init], env=None, in_namespace=ns, labels={"a": "b"},
                     annotations={"c": "d"}) for ns in (None, away)]
    for pod in pods:
        for key in ("uid", "namespace", "creationTimestamp", "resourceVersion", "managedFields", "selfLink"):
            pod["metadata"].pop(key, None)
    assert json.dumps(pods[0]) == json.dumps(pods[1])


def test_generate_name_and_dry_run(release, api, namespace):
    body = objects.pod("x", GPU)
    body["metadata"] = {"generateName": "made-"}
    path = objects.PODS.format(namespace)
    pod = api.post(path, body, dryRun="All")
    assert pod["metadata"]["name"].startswith("made-")
    assert pod["spec"]["schedulerName"] == release.scheduler_name
    assert api.get(path)["items"] == []


def test_forged_grants_are_taken_out(release, api, namespace, make_pod):
    forged = {"hami.io/vgpu-devices-allocated": "GPU-x,NVIDIA,1,1:;", "hami.io/vgpu-node": "n",
              "gpuslice.io/grant-signature": "x", "huawei.com/Ascend910B3": "[]", "AWS_NEURON_IDS": "0", "mine": "1"}
    for scheduler in (None, "volcano"):
        pod = make_pod(GPU, annotations=forged, labels={"hami.io/vgpu-node": "n", "mine": "1"}, scheduler=scheduler)
        assert pod["metadata"]["annotations"] == {"mine": "1"}
        assert pod["metadata"]["labels"] == {"mine": "1"}
    assert pod["spec"]["schedulerName"] == "volcano"


def test_refusals_in_words(release, make_pod):
    says = 'admission webhook "vgpu.hami.io" denied the request: '
    for limits, more, text in [
            ({**GPU, "nvidia.com/gpumem-percentage": 101}, {}, "invalid nvidia.com/gpumem-percentage value 101"),
            (GPU, {"nodeName": "n"}, "pod has node assigned"),
            (B3, {}, "huawei.com/Ascend910B3-core is only supported in hami-core (soft split) mode"),
    ]:
        message = refusal(make_pod, limits, **more)
        assert message.startswith(says) and text in message, message
    side = [objects.container("a", GPU), objects.container("b", privileged=True)]
    assert refusal(make_pod, containers=side) == says + "container b is privileged"


def test_quota_counts_slices(release, api, namespace, make_pod):
    api.post(f"/api/v1/namespaces/{namespace}/resourcequotas", {
        "metadata": {"name": "q"}, "spec": {"hard": {"limits.nvidia.com/gpumem": "3000"}}})
    limits = {"nvidia.com/gpu": 2, "nvidia.com/gpumem": 2000}  # each of two cards

    def refused():
        try:
            api.post(objects.PODS.format(namespace), objects.pod("q", limits), dryRun="All")
        except Refused as e:
            return "exceeding resource quota" in e.body["message"]
        return False

    procs.until(refused, 30, "the quota is known")
    make_pod({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 2000})


def test_soft_split_pod_of_the_description(release, make_nodes, make_pod, wait_bound):
    """spec/examples.md: webhook, filter and bind, with this grant."""
    (node,) = make_nodes(1, cards=1, vendor="ascend")
    notes = wait_bound(make_pod(B3, annotations=SOFT))["metadata"]["annotations"]
    assert notes["hami.io/Ascend910B3-devices-allocated"] == f"npu-{node}-0,Ascend910B3,28672,40:;"
    assert notes["hami.io/vgpu-node"] == node
    assert json.loads(notes["huawei.com/Ascend910B3"]) == [{"UUID": f"npu-{node}-0", "memory": 28672, "core": 40}]


def test_certificate_changes_under_load(release, api, namespace, tmp_path):
    """No request fails while files change: an unasked webhook would leave the pod as it came (failurePolicy Ignore)."""
    hook = f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{release.name}-webhook"
    tls = release.mounts["/tls"]
    authority = pki.Authority(tmp_path, "next")
    trust(api, hook, release.ca + authority.cert.read_text())
    asked, missed, stop = [0], [], threading.Event()

    def load():
        body = objects.pod("load", GPU)
        while not stop.is_set():
            pod = api.post(objects.PODS.format(namespace), body, dryRun="All")
            asked[0] += 1
            if pod["spec"]["schedulerName"] != release.scheduler_name:
                missed.append(pod)

    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for number in range(3):
            pair = authority.issue(f"server-{number}", "webhook", sans=["127.0.0.1"])
            for source, name in ((pair.cert, "tls.crt"), (pair.key, "tls.key")):  # for a moment they do not fit
                new = tls / f".{name}.new"
                new.write_bytes(source.read_bytes())
                new.rename(tls / name)
            before = asked[0]
            procs.until(lambda: served(release) == pair.cert.read_text().strip(), 20, "the new certificate is served")
            procs.until(lambda: asked[0] > before + 20, 30, "requests go on")
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)
    assert not missed and asked[0] > 60


def trust(api, hook: str, bundle: str) -> None:
    body = api.get(hook)
    body["webhooks"][0]["clientConfig"]["caBundle"] = base64.b64encode(bundle.encode()).decode()
    api.put(hook, body)


def served(release) -> str:
    return ssl.get_server_certificate(("127.0.0.1", release.port), timeout=10).strip()


def test_a_dead_webhook_blocks_nobody(release, api, make_pod, namespace):
    """failurePolicy Ignore: pods of kube-system and of everybody else are created while it is down."""
    objects.create_namespace(api, "kube-system")
    release.daemon.stop()
    try:
        for ns in ("kube-system", namespace):
            pod = make_pod({"cpu": "1m"}, name="survives", in_namespace=ns)
            assert pod["spec"]["schedulerName"] == "default-scheduler"
            api.delete(objects.path_of(pod))
    finally:
        release.start_daemon()
