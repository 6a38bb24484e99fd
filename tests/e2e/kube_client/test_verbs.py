"""Verbs of src/kube against kube-apiserver, compared with what the official client sees."""

import pytest
from kit import objects


def name_of(pod: dict) -> str:
    return pod["metadata"]["name"]


def test_get_and_errors(probe, api, namespace):
    assert probe.ask("get", "/version")["root"] == api.get("/version")
    missing = probe.ask("get", f"/api/v1/namespaces/{namespace}/pods/nope")
    assert (missing["errno"], missing["status"], missing["reason"]) == ("ENOENT", 404, "NotFound")
    assert missing["message"] == 'pods "nope" not found'
    ready = probe.ask("get", "/readyz")
    assert ready["rc"] == 0 and "root" not in ready


def test_create_patch_delete(probe, api, namespace):
    body = {"metadata": {"name": "c1"}, "data": {"a": "1"}}
    made = probe.ask("create", "configmaps", namespace, body)
    assert made["status"] == 201
    again = probe.ask("create", "configmaps", namespace, body)
    assert (again["errno"], again["reason"]) == ("EEXIST", "AlreadyExists")
    assert probe.ask("merge", "configmaps", namespace, "c1", {"data": {"b": "2", "a": None}})["rc"] == 0
    assert api.core.read_namespaced_config_map("c1", namespace).data == {"b": "2"}
    patch = [{"op": "add", "path": "/metadata/annotations", "value": {}},
             {"op": "add", "path": "/metadata/annotations/x.io~1y", "value": "z"}]
    assert probe.ask("json", "configmaps", namespace, "c1", patch)["rc"] == 0
    seen = api.core.read_namespaced_config_map("c1", namespace)
    assert seen.metadata.annotations == {"x.io/y": "z"}
    stale = {"metadata": {"resourceVersion": made["root"]["metadata"]["resourceVersion"], "labels": {"a": "b"}}}
    conflict = probe.ask("merge", "configmaps", namespace, "c1", stale)
    assert (conflict["errno"], conflict["status"], conflict["reason"], conflict["tries"]) == ("EBUSY", 409, "Conflict", 1)
    other = probe.ask("delete", "configmaps", namespace, "c1", "00000000-0000-0000-0000-000000000000")
    assert other["errno"] == "EBUSY"
    assert probe.ask("delete", "configmaps", namespace, "c1", seen.metadata.uid)["rc"] == 0
    assert api.find(f"/api/v1/namespaces/{namespace}/configmaps/c1") is None
    invalid = probe.ask("create", "configmaps", namespace, {"metadata": {"name": "Not_Valid"}})
    assert (invalid["errno"], invalid["status"], invalid["reason"]) == ("EINVAL", 422, "Invalid")


def test_bind_carries_annotations_and_uid(probe, api, make_nodes, make_pod):
    [node] = make_nodes(1)
    pod = make_pod()
    ns, name, uid = pod["metadata"]["namespace"], name_of(pod), pod["metadata"]["uid"]
    wrong = probe.ask("bind", ns, name, "00000000-0000-0000-0000-000000000000", node, "a.io/x=1")
    assert (wrong["errno"], wrong["status"]) == ("EBUSY", 409)
    assert not objects.is_bound(api.get(objects.path_of(pod)))
    assert probe.ask("bind", ns, name, uid, node, "a.io/x=1", "b.io/y=GPU-1,NVIDIA,8192,50:;")["rc"] == 0
    seen = api.core.read_namespaced_pod(name, ns)
    assert seen.spec.node_name == node
    assert {k: seen.metadata.annotations[k] for k in ("a.io/x", "b.io/y")} == {
        "a.io/x": "1", "b.io/y": "GPU-1,NVIDIA,8192,50:;"}
    twice = probe.ask("bind", ns, name, uid, node)
    assert twice["errno"] == "EBUSY"


def test_evict(probe, api, make_nodes, make_pod, namespace):
    [node] = make_nodes(1)
    pods = [make_pod(labels={"app": "e"}) for _ in range(2)]
    for pod in pods:
        assert probe.ask("bind", namespace, name_of(pod), pod["metadata"]["uid"], node)["rc"] == 0
        api.patch(objects.path_of(pod) + "/status",
                  {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}})
    api.post(f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets",
             {"metadata": {"name": "b"}, "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "e"}}}})
    held = probe.ask("evict", namespace, name_of(pods[0]))
    assert (held["errno"], held["status"], held["reason"], held["tries"]) == ("EAGAIN", 429, "TooManyRequests", 1)
    api.delete(f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/b")
    other = probe.ask("evict", namespace, name_of(pods[0]), "00000000-0000-0000-0000-000000000000")
    assert other["errno"] == "EBUSY"
    assert probe.ask("evict", namespace, name_of(pods[0]), pods[0]["metadata"]["uid"])["rc"] == 0
    left = api.find(objects.path_of(pods[0]))
    assert left is None or left["metadata"]["deletionTimestamp"]


@pytest.mark.parametrize("page", [1, 7, 500])
def test_list_by_pages(probe, api, namespace, page):
    api.create_all(f"/api/v1/namespaces/{namespace}/configmaps",
                   [{"metadata": {"name": f"m{i}"}} for i in range(25)])
    want = len(api.core.list_namespaced_config_map(namespace).items)
    probe.send("list", "configmaps", namespace, page)
    got = probe.wait("list")
    assert (got["rc"], got["items"]) == (0, want) and got["version"]
