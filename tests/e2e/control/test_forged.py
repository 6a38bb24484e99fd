"""Grants that nobody gave, and binds that nobody asked for."""

from kit import cards, objects, procs

OPEN = {"admissionPolicy": {"enabled": False}}  # as a cluster before 1.30: only the signature is left
SLICE = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1000}
SIGNATURE = "gpuslice.io/grant-signature"


def bind(release, pod_name, namespace, uid, node) -> str:
    return release.call("bind", {"PodName": pod_name, "PodNamespace": namespace, "PodUID": uid, "Node": node})["Error"]


def test_forged_grants_count_for_nothing(scheduler_daemon, make_nodes, make_pod, wait_bound, api, namespace):
    release = scheduler_daemon(values=OPEN)
    (node,) = make_nodes(1, cards=1, vendor="nvidia", annotations={"gpuslice.io/identity": "prestart"})
    forged = {cards.GRANT: f"GPU-{node}-0,NVIDIA,40000,100:;", "hami.io/vgpu-node": node}
    real = wait_bound(make_pod(SLICE))
    assert real["metadata"]["annotations"][SIGNATURE].startswith("1:")
    # 1: a label leads past the webhook, the node is set by hand; 2: the same, with a made-up signature
    make_pod(labels={"hami.io/webhook": "ignore"}, annotations=forged, nodeName=node)
    make_pod(labels={"hami.io/webhook": "ignore"}, nodeName=node,
             annotations={**forged, SIGNATURE: f"1:{'0' * 64}:{cards.GRANT}"})
    # 3: annotated later
    late = make_pod(nodeName=node)
    api.patch(objects.path_of(late), {"metadata": {"annotations": forged}})
    # and the real one's signature on another pod
    make_pod(labels={"hami.io/webhook": "ignore"}, nodeName=node, annotations=real["metadata"]["annotations"])
    # 4: the owner of a real grant makes it smaller, or takes it off
    api.patch(objects.path_of(real), {"metadata": {"annotations": {cards.GRANT: f"GPU-{node}-0,NVIDIA,1,0:;"}}})
    api.patch(objects.path_of(real), {"metadata": {"annotations": {cards.GRANT: None}}})
    # 5: the webhook takes it off
    stripped = make_pod(SLICE, annotations=forged)
    assert objects.note(stripped, cards.GRANT) is None
    wait_bound(stripped)  # its event comes after those of the others
    books = procs.until(lambda: (b := cards.in_books(release.metrics()))["slots"] and b, 30, "books")
    assert dict(books["mem"]) == {f"GPU-{node}-0": 2000}
    assert dict(books["slots"]) == {f"GPU-{node}-0": 2}


def test_pods_that_are_not_believed_are_told(scheduler_daemon, make_nodes, make_pod, api):
    """As after HAMi, or with a lost key: how many, and whose cards are given twice, at the start and at each change."""
    release = scheduler_daemon(values=OPEN)
    (node,) = make_nodes(1, cards=1, vendor="nvidia", annotations={"gpuslice.io/identity": "prestart"})
    grant = {cards.GRANT: f"GPU-{node}-0,NVIDIA,1000,10:;", "hami.io/vgpu-node": node}
    pods = [make_pod(labels={"hami.io/webhook": "ignore"}, annotations=grant, nodeName=node) for _ in range(4)]
    names = [objects.path_of(p).split("/namespaces/")[1].replace("/pods", "") for p in pods]

    def told(n) -> str:
        series = f"gpuslice_scheduler_untrusted_pods {n}" in release.metrics().splitlines()
        lines = [w for w in release.daemon.log.read_text().splitlines() if "are not believed" in w]
        return series and lines and f"pods={n}" in lines[-1].replace('"pods":', "pods=") and lines[-1]
    line = procs.until(lambda: told(4), 30, "four")
    assert sum(name in line for name in names) == 3
    release.restart_daemon()
    procs.until(lambda: told(4), 30, "four again")
    api.delete(objects.path_of(pods[0]))
    procs.until(lambda: told(3), 30, "three")
    for pod in pods[1:]:
        api.delete(objects.path_of(pod))
    procs.until(lambda: "believed again" in release.daemon.log.read_text(), 30, "none")
    assert "gpuslice_scheduler_untrusted_pods 0" in release.metrics().splitlines()


def test_forged_binds(scheduler_daemon, make_nodes, make_pod, wait_bound, api, namespace):
    release = scheduler_daemon(values=OPEN)
    (node,) = make_nodes(1, cards=1, vendor="nvidia", annotations={"gpuslice.io/identity": "prestart"})
    victim = wait_bound(make_pod(SLICE))
    uid, name = victim["metadata"]["uid"], victim["metadata"]["name"]
    other = make_pod({"cpu": "1"}, schedulerName="nobody")
    assert "not found" in bind(release, "madeup", namespace, uid, node)
    assert "uid" in bind(release, other["metadata"]["name"], namespace, uid, node)
    assert "bound already" in bind(release, name, namespace, uid, node)
    assert bind(release, name, namespace, "", node)
    assert dict(cards.in_books(release.metrics())["slots"]) == {f"GPU-{node}-0": 1}
    assert not objects.is_bound(api.get(objects.path_of(other)))
