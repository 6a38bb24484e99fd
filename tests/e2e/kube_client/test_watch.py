"""The watch of src/kube against kube-apiserver."""

from kit import objects


def test_follows_changes(probe, api, make_pod, namespace):
    first = make_pod()
    probe.send("watch", "pods", namespace)
    assert probe.wait("added")["uid"] == first["metadata"]["uid"]
    probe.wait("synced")
    second = make_pod()
    assert probe.wait("added")["name"] == second["metadata"]["name"]
    api.patch(objects.path_of(second), {"metadata": {"annotations": {"x.io/k": "v"}}})
    changed = probe.wait("modified", name=second["metadata"]["name"])
    assert changed["annotations"]["x.io/k"] == "v"
    api.delete(objects.path_of(first))
    gone = probe.wait("deleted", uid=first["metadata"]["uid"])
    assert gone["has_object"]


def test_selectors(probe, api, make_nodes, make_pod, namespace):
    [node] = make_nodes(1)
    inside, outside = make_pod(labels={"team": "a"}), make_pod(labels={"team": "b"})
    probe.send("watch", "pods", namespace, "team=a", "spec.nodeName=")
    assert probe.wait("added")["uid"] == inside["metadata"]["uid"]
    probe.wait("synced")
    for pod in (outside, inside):
        assert probe.ask("bind", namespace, pod["metadata"]["name"], pod["metadata"]["uid"], node)["rc"] == 0
    probe.heard("deleted", uid=inside["metadata"]["uid"])  # it has a node now: no longer selected
    assert {line["uid"] for line in probe.said("added")} == {inside["metadata"]["uid"]}


def test_relist_tells_nothing_new(probe, make_pod, namespace):
    pods = [make_pod() for _ in range(3)]
    probe.send("watch", "pods", namespace)
    probe.wait("synced")
    probe.send("relist")
    probe.wait("relisted")
    assert sorted(line["uid"] for line in probe.said("added")) == sorted(p["metadata"]["uid"] for p in pods)
    assert not probe.said("modified") and not probe.said("deleted")


def test_goes_on_after_short_watches(make_probe, api, make_pod, namespace):
    probe = make_probe(watch_s=1)
    probe.send("watch", "pods", namespace)
    probe.wait("synced")
    for _ in range(4):
        pod = make_pod()
        probe.wait("added", uid=pod["metadata"]["uid"])
        probe.wait("trouble", timeout=30)  # ended by the server, too soon to be a good one
    assert probe.stats()["relists"] == 0


def test_survives_the_api_server(probe, cluster, api, make_pod, namespace):
    """Killed and started again on the same data: nothing is told twice, nothing is missed."""
    before = make_pod()
    probe.send("watch", "pods", namespace)
    probe.wait("synced")
    cluster.procs.pop("kube-apiserver").kill()
    probe.wait("trouble", timeout=30)
    cluster.start_apiserver()
    after = make_pod()
    probe.wait("added", timeout=60, uid=after["metadata"]["uid"])
    assert [line["uid"] for line in probe.said("added")] == [before["metadata"]["uid"], after["metadata"]["uid"]]
    assert not probe.said("deleted")
