"""Views of real objects: what src/kube reads is what the official client reads."""

from kit import objects

PHASES = {"Pending": 1, "Running": 2, "Succeeded": 3, "Failed": 4}


def test_pod(probe, api, make_nodes, namespace):
    [node] = make_nodes(1)
    api.post("/apis/scheduling.k8s.io/v1/priorityclasses",
             {"metadata": {"name": f"{namespace}-high"}, "value": 1000, "preemptionPolicy": "Never"})
    body = {
        "metadata": {"name": "v", "labels": {"a": "b"}, "annotations": {"hami.io/x": "y;:,", "e": ""}},
        "spec": {
            "priorityClassName": f"{namespace}-high", "terminationGracePeriodSeconds": 7,
            "schedulerName": "hami-scheduler",
            "initContainers": [{"name": "i", "image": "x", "restartPolicy": "Always"}, {"name": "j", "image": "x"}],
            "containers": [{
                "name": "c", "image": "x", "securityContext": {"privileged": True},
                "resources": {"limits": {"nvidia.com/gpu": 2, "nvidia.com/gpumem": 1000, "memory": "1.5Gi"}},
                "env": [{"name": "A", "value": "1"},
                        {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]}]}}
    pod = api.post(objects.PODS.format(namespace), body)
    assert probe.ask("bind", namespace, "v", pod["metadata"]["uid"], node)["rc"] == 0
    state = {"terminated": {"exitCode": 3, "reason": "Error"}}
    status = {"name": "j", "image": "x", "imageID": "x", "ready": False, "restartCount": 0, "state": state}
    api.patch(objects.path_of(pod) + "/status", {"status": {"phase": "Running", "initContainerStatuses": [status]}})
    probe.send("view", "pods", namespace, "v")
    got, want = probe.wait("view"), api.core.read_namespaced_pod("v", namespace)
    meta, spec = want.metadata, want.spec
    assert (got["namespace"], got["name"], got["uid"], got["version"], got["labels"]) == (
        meta.namespace, meta.name, meta.uid, meta.resource_version, meta.labels)
    assert got["annotations"] == meta.annotations
    assert got["created_us"] == int(meta.creation_timestamp.timestamp()) * 10**6
    assert (got["nodeName"], got["schedulerName"], got["priorityClassName"], got["preemptionPolicy"]) == (
        spec.node_name, spec.scheduler_name, spec.priority_class_name, spec.preemption_policy)
    assert (got["priority"], got["grace"]) == (spec.priority, spec.termination_grace_period_seconds)
    assert (got["phase"], got["init_exit"]) == (PHASES[want.status.phase], 3)
    containers = spec.init_containers + spec.containers
    assert len(got["containers"]) == len(containers)
    for i, c in enumerate(containers):
        seen = got["containers"][str(i)]
        assert seen["name"] == c.name and seen["init"] == (i < 2)
        assert seen["sidecar"] == (c.restart_policy == "Always")
        assert seen["privileged"] == bool(c.security_context and c.security_context.privileged)
        assert seen.get("limits") == (c.resources.limits if c.resources else None)
        assert seen.get("requests") == (c.resources.requests if c.resources else None)
        assert seen.get("env") == ({e.name: e.value for e in c.env if not e.value_from} if c.env else None)


def test_node(probe, api, make_nodes):
    [name] = make_nodes(1, cards=8, vendor="nvidia")
    api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}})
    probe.send("view", "nodes", "-", name)
    got, want = probe.wait("view"), api.core.read_node(name)
    assert (got["name"], got["uid"], got.get("labels")) == (name, want.metadata.uid, want.metadata.labels)
    assert got["annotations"] == want.metadata.annotations
    assert (got["capacity"], got["allocatable"]) == (want.status.capacity, want.status.allocatable)
    assert got["unschedulable"] is True
