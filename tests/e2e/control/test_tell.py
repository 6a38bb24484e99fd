"""What the daemon tells: metrics that Prometheus' own parser reads, events, and `gpuslice explain`."""

import json
import os
import pathlib
import subprocess
import urllib.request

import pytest
from kit import daemon, objects, procs
from prometheus_client.parser import text_string_to_metric_families

MIB = 1 << 20


@pytest.fixture(scope="module")
def release(cluster, api):
    home = objects.create_namespace(api, "tell-system")
    made = daemon.Release(cluster, cluster.folder, home, "tell", {"legacyMetrics": True})
    made.install().start()
    yield made
    made.remove()


def samples(release) -> dict:
    """{(name, labels): value}; no series twice."""
    out = {}
    for family in text_string_to_metric_families(release.metrics()):
        for s in family.samples:
            key = (s.name, frozenset(s.labels.items()))
            assert key not in out, key
            out[key] = s.value
    return out


def value(all_samples, name, **labels):
    """The one sample of that name with (at least) these labels."""
    (found,) = [v for (n, has), v in all_samples.items() if n == name and set(labels.items()) <= has]
    return found


def events_of(api, pod, reason) -> list[dict]:
    path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/events"

    def found(events):
        return [e for e in events.values() if e["reason"] == reason]
    return api.wait_list(path, found, 20, reason, fieldSelector=f"involvedObject.name={pod['metadata']['name']}")


def test_metrics_of_cards_and_calls(release, api, make_nodes, make_pod, wait_bound):
    (node,) = make_nodes(1, cards=2, vendor="nvidia")
    pod = wait_bound(make_pod({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 4096, "nvidia.com/gpucores": 30}))
    grant = pod["metadata"]["annotations"]["hami.io/vgpu-devices-allocated"]
    uuid = grant.split(",")[0]
    got = procs.until(lambda: (s := samples(release)) and any(n == "hami_vgpu_memory_allocated_bytes" for n, _ in s) and s,
                      10, "the pod is in the metrics")
    got = procs.until(lambda: (s := samples(release)) and any(n == "gpuslice_scheduler_answers_total" and v >= 1 and
                      {("call", "bind"), ("outcome", "bound")} <= has for (n, has), v in s.items()) and s,
                      10, "its bind is answered")
    card = {"zone": "vGPU", "node": node, "device_uuid": uuid}
    assert value(got, "hami_gpu_memory_limit_bytes", **card) == 40960 * MIB
    assert value(got, "hami_gpu_memory_allocated_bytes", **card, device_cores="100") == 4096 * MIB
    assert value(got, "hami_gpu_core_allocated_ratio", **card) == 30
    assert value(got, "hami_gpu_shared_count", **card) == 1
    assert value(got, "hami_node_gpu_memory_allocated_ratio", **card) == pytest.approx(0.1)
    assert value(got, "hami_vgpu_memory_allocated_bytes", **card, namespace=pod["metadata"]["namespace"],
                 pod=pod["metadata"]["name"], container_index="0") == 4096 * MIB
    assert value(got, "vGPUMemoryAllocated", deviceuuid=uuid, podname=pod["metadata"]["name"]) == 4096 * MIB
    assert value(got, "nodeGPUOverview", nodeid=node, deviceuuid=uuid) == 4096 * MIB
    own = "gpuslice_scheduler_"
    assert value(got, own + "answers_total", call="filter", outcome="found") >= 1
    assert value(got, own + "answers_total", call="bind", outcome="bound") >= 1
    assert value(got, own + "answers_total", call="webhook", outcome="ours") >= 1
    for call in ("filter", "bind", "webhook"):
        assert value(got, own + "request_seconds_count", call=call) >= 1
        assert value(got, own + "request_seconds_bucket", call=call, le="+Inf") >= 1
    assert value(got, own + "cache_synced") == 1
    assert value(got, own + "cache_age_seconds") < 120
    assert value(got, own + "books", kind="devices") >= 2
    assert value(got, "process_resident_memory_bytes") > MIB


def test_events_name_the_card_and_the_shortfall(release, api, make_nodes, make_pod):
    (node,) = make_nodes(1, cards=1, vendor="nvidia")
    pod = make_pod({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 50000})
    (event,) = events_of(api, pod, "FilteringFailed")[:1]
    assert event["type"] == "Warning"
    assert event["message"].startswith("no available node, ")
    assert "needs 50000 MiB, best card GPU-" in event["message"] and "has 40960 free" in event["message"]
    # kube-scheduler's own message has the words of FailedNodes
    api.wait(objects.path_of(pod), lambda p: "CardInsufficientMemory (needs 50000 MiB" in objects.failed_scheduling(p), 20)
    got = samples(release)
    assert value(got, "gpuslice_scheduler_refusals_total", call="filter", reason="CardInsufficientMemory") >= 1


def test_events_of_a_pod_that_is_bound(release, api, make_nodes, make_pod, wait_bound):
    (node,) = make_nodes(1, cards=1, vendor="nvidia")
    pod = wait_bound(make_pod({"nvidia.com/gpu": 1}))
    meta = pod["metadata"]
    (found,) = events_of(api, pod, "FilteringSucceed")
    assert found["message"].startswith(f"find fit node({pod['spec']['nodeName']}), ")
    (bound,) = events_of(api, pod, "BindingSucceed")
    assert bound["message"] == (f"Successfully binding node [{pod['spec']['nodeName']}] to "
                                f"{meta['namespace']}/{meta['name']}")


def explain(*args) -> dict:
    program = pathlib.Path(os.environ["GS_STAGE"]) / "bin" / "gpuslice"
    done = subprocess.run([program, "explain", "--json", *map(str, args)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_explain_by_kubeconfig_and_by_dump(release, cluster, api, make_nodes, make_pod, wait_bound, tmp_path):
    (node,) = make_nodes(1, cards=1, vendor="nvidia")
    large = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 40960}
    use = {"nvidia.com/use-gpuuuid": f"GPU-{node}-0"}
    first = wait_bound(make_pod(large, annotations=use))
    second = make_pod(large, annotations=use)
    ns, name = second["metadata"]["namespace"], second["metadata"]["name"]
    live = explain("--kubeconfig", cluster.kubeconfig(), "pod", f"{ns}/{name}")
    dump = tmp_path / "all.json"
    items = []
    for kind, path in (("Node", "nodes"), ("Pod", "pods"), ("ResourceQuota", "resourcequotas")):
        items += [dict(o, kind=kind, apiVersion="v1") for o in api.get(f"/api/v1/{path}")["items"]]
    dump.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
    for got in (live, explain("--from-dump", dump, "pod", f"{ns}/{name}")):
        (mine,) = [n for n in got["nodes"] if n["name"] == node]
        assert mine["reasons"] == "1/1 CardInsufficientMemory"
        assert mine["words"] == f"needs 40960 MiB, best card GPU-{node}-0 has 0 free"
        assert [h["name"] for h in mine["closest"]["holders"]] == [first["metadata"]["name"]]
        assert [h["name"] for h in mine["room_without"]] == [first["metadata"]["name"]]


def test_a_bind_that_fails_is_told(release, api, make_pod):
    """HAMi's event, in its words."""
    pod = make_pod({"nvidia.com/gpu": 1}, schedulerName="nobody")
    meta = pod["metadata"]
    body = {"PodName": meta["name"], "PodNamespace": meta["namespace"], "PodUID": meta["uid"], "Node": "nowhere"}
    request = urllib.request.Request(release.url + "/bind", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, context=release.tls(), timeout=30) as reply:
        assert json.load(reply)["Error"] == "failed to get node nowhere"
    (event,) = events_of(api, pod, "BindingFailed")
    assert (event["type"], event["message"]) == ("Warning", "failed to get node nowhere")
    assert event["involvedObject"]["uid"] == meta["uid"]
