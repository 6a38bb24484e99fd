"""gpuslice explain: why a pod waits, from a dump and from a kubeconfig."""

import json
import subprocess

import pytest
from conftest import stage_dir


def register(node, cards, mem=8192, kind="NVIDIA-A10"):
    devices = [{"id": f"GPU-{node}-{i}", "index": i, "count": 10, "devmem": mem, "devcore": 100, "type": kind,
                "mode": "hami-core", "health": True} for i in range(cards)]
    return {"kind": "Node", "metadata": {"name": node, "annotations": {"hami.io/node-nvidia-register": json.dumps(devices)}},
            "status": {"allocatable": {"nvidia.com/gpu": str(cards * 10)}, "capacity": {"nvidia.com/gpu": str(cards * 10)}}}


def holder(name, node, grant, priority=0, phase="Running"):
    return {"kind": "Pod", "metadata": {"name": name, "namespace": "team", "uid": "u-" + name, "annotations": {
                "hami.io/vgpu-node": node, "hami.io/vgpu-devices-allocated": grant}},
            "spec": {"nodeName": node, "priority": priority, "containers": [{"name": "c"}]}, "status": {"phase": phase}}


def waiting(name, limits, namespace="team", annotations=None, scheduler="hami-scheduler"):
    return {"kind": "Pod", "metadata": {"name": name, "namespace": namespace, "uid": "u-" + name,
                                        "annotations": annotations or {}},
            "spec": {"schedulerName": scheduler, "containers": [{"name": "main", "resources": {"limits": limits}}]},
            "status": {"phase": "Pending"}}


def gpu(count=1, **more):
    return {"nvidia.com/gpu": str(count), **{f"nvidia.com/{k}": str(v) for k, v in more.items()}}


@pytest.fixture
def dump(tmp_path):
    """Two nodes, one of two full cards and one of another type, and who holds them."""
    items = [
        register("n1", 2), register("n2", 1, kind="NVIDIA-V100"),
        holder("small", "n1", "GPU-n1-0,NVIDIA,2048,10:;"),
        holder("large", "n1", "GPU-n1-0,NVIDIA,4096,10:;", priority=100),
        holder("other", "n1", "GPU-n1-1,NVIDIA,8192,10:;"),
        holder("ended", "n1", "GPU-n1-1,NVIDIA,8192,10:;", phase="Succeeded"),
    ]

    def write(*pods):
        path = tmp_path / "all.json"
        path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": [*items, *pods]}))
        return path

    return write


def command(*args):
    return [stage_dir() / "bin" / "gpuslice", "explain", *map(str, args)]


def explain(*args, status=0):
    done = subprocess.run(command(*args), capture_output=True, text=True, timeout=60)
    assert done.returncode == status, done.stderr
    return done.stdout if status == 0 else done.stderr


def test_who_would_have_to_end(dump):
    path = dump(waiting("job", gpu(gpumem=4096, gpucores=30), annotations={"nvidia.com/use-gputype": "A10"}))
    got = json.loads(explain("--from-dump", path, "--json", "pod", "team/job"))
    assert got["asks"] == [{"container": "main", "vendor": "NVIDIA", "cards": 1, "memory_mib": 4096,
                            "memory_percent": 0, "cores": 30}]
    assert got["fit"] == 0
    n1, n2 = got["nodes"]
    assert (n1["name"], n1["reasons"]) == ("n1", "2/2 CardInsufficientMemory")
    assert n1["words"] == "needs 4096 MiB, best card GPU-n1-0 has 2048 free"
    assert n1["closest"]["card"] == "GPU-n1-0"
    assert sorted(h["name"] for h in n1["closest"]["holders"]) == ["large", "small"]
    # 2048 free and 2048 of the pod of low priority: enough without the other two
    assert [h["name"] for h in n1["room_without"]] == ["small"]
    assert (n2["reasons"], n2["room_without"], n2["closest"]) == ("1/1 CardTypeMismatch", None, None)
    assert "1 node: needs 4096 MiB, best card GPU-n1-0 on n1 has 2048 free" in got["sentence"]
    text = explain("--from-dump", path, "pod", "team/job")
    assert "GPU-n1-0 is held by:" in text
    assert "room without team/small (2048 MiB, 10 cores)" in text
    assert "no end of other pods would make room" in text


def test_low_priority_goes_first(dump):
    """Either of two alone would do: the one of low priority is named."""
    path = dump(waiting("job", gpu(gpumem=6144), annotations={"nvidia.com/use-gputype": "A10"}))
    (n1, _) = json.loads(explain("--from-dump", path, "--json", "pod", "team/job"))["nodes"]
    assert [h["name"] for h in n1["room_without"]] == ["other"]


def test_several_have_to_end(dump):
    path = dump(waiting("job", gpu(2, gpumem=8192), annotations={"nvidia.com/use-gputype": "A10"}))
    (n1, _) = json.loads(explain("--from-dump", path, "--json", "pod", "team/job"))["nodes"]
    assert sorted(h["name"] for h in n1["room_without"]) == ["large", "other", "small"]


def test_a_node_has_room(dump):
    path = dump(waiting("job", gpu(gpumem=4096)))
    got = json.loads(explain("--from-dump", path, "--json", "pod", "team/job"))
    assert got["fit"] == 1 and got["sentence"] is None
    assert (got["nodes"][0]["name"], got["nodes"][0]["cards"]) == ("n2", "GPU-n2-0")


def test_own_share_does_not_count(dump):
    """A pod that is bound is looked at as if it came anew."""
    other = waiting("held", gpu(gpumem=8192), annotations={"hami.io/vgpu-node": "n2",
                    "hami.io/vgpu-devices-allocated": "GPU-n2-0,NVIDIA,8192,0:;"})
    other["spec"]["nodeName"] = "n2"
    got = json.loads(explain("--from-dump", dump(other), "--json", "pod", "team/held"))
    assert got["fit"] == 1 and got["pod"]["node"] == "n2"


def test_bound_pod_with_full_annotations(dump):
    """Of 262,144 bytes 16,384 are kept for a grant: one that has its grant may have used them."""
    pod = waiting("held", gpu(gpumem=8192), annotations={"hami.io/vgpu-devices-allocated": "GPU-n2-0,NVIDIA,8192,0:;",
                                                         "k": "v" * 250000})
    assert "with a grant, which takes 16384" in explain("--from-dump", dump(pod), "pod", "team/held", status=1)
    pod["spec"]["nodeName"] = "n2"
    got = json.loads(explain("--from-dump", dump(pod), "--json", "pod", "team/held"))
    assert got["fit"] == 1 and got["nodes"][0]["name"] == "n2"


def test_quota(dump):
    quota = {"kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "team"},
             "spec": {"hard": {"limits.nvidia.com/gpumem": "14500"}}}  # 14336 are used
    path = dump(quota, waiting("job", gpu(gpumem=1024)))
    got = json.loads(explain("--from-dump", path, "--json", "pod", "team/job"))
    assert got["fit"] == 0
    assert any("ResourceQuotaNotFit" in n["reasons"] for n in got["nodes"])


def test_the_webhook_was_not_reached(dump):
    path = dump(waiting("job", gpu(gpumem=1024), namespace="default", scheduler="default-scheduler"))
    assert "the webhook was not reached" in explain("--from-dump", path, "pod", "job")


def test_unknown_policies_of_the_pod_are_told(dump):
    path = dump(waiting("job", gpu(gpumem=1024), annotations={"hami.io/gpu-scheduler-policy": "spred"}))
    assert 'hami.io/gpu-scheduler-policy names "spred", which is not known' in explain("--from-dump", path, "pod", "team/job")


def test_nothing_asked(dump):
    assert "asks for no cards" in explain("--from-dump", dump(waiting("job", {"cpu": "1"})), "pod", "team/job")


def test_refusals(dump, tmp_path):
    path = dump()
    assert "no pod missing in namespace team" in explain("--from-dump", path, "pod", "team/missing", status=1)
    assert "'pod' is missing" in explain("--from-dump", path, "node", "n1", status=2)
    assert "No such file" in explain("--from-dump", tmp_path / "none", "pod", "a/b", status=1)
    bad = tmp_path / "bad"
    bad.write_text("{")
    assert "not JSON" in explain("--from-dump", bad, "pod", "a/b", status=1)
    bad.write_text("{}")
    assert "no List" in explain("--from-dump", bad, "pod", "a/b", status=1)
    config = tmp_path / "config.yaml"
    config.write_text("nvidia:\n  deviceSplitCount: many\n")
    message = explain("--from-dump", path, "--device-config-file", config, "pod", "a/b", status=1)
    assert "line: 2" in message and "deviceSplitCount" in message


def test_node_that_cannot_be_read(dump):
    """The daemon's log and the pod's event say the same: the node, its annotation, and what is wrong with it."""
    bad = register("bad", 2)
    bad["metadata"]["annotations"]["hami.io/node-nvidia-register"] = "a,1,1,1,T,0,true:b,x,1,1,T,0,true:"
    path = dump(bad, waiting("job", gpu(gpumem=8000), annotations={"nvidia.com/use-gputype": "A10"}))
    why = 'annotation hami.io/node-nvidia-register: device 1: invalid count field: "x"'
    got = json.loads(explain("--from-dump", path, "--json", "pod", "team/job"))
    assert got["unreadable"] == [{"node": "bad", "why": why}]
    assert f"; 1 node: no devices registered; of 1 node something cannot be read: bad: {why}" in got["sentence"]
    assert f"\nbad: cannot be read: {why}\n" in explain("--from-dump", path, "pod", "team/job")
    done = subprocess.run(command("--from-dump", path, "pod", "team/job"), capture_output=True, timeout=60)
    assert done.stderr == b""  # it is said once


def test_a_card_of_two_nodes(dump):
    path = dump(register("n1", 1) | {"metadata": {**register("n1", 1)["metadata"], "name": "copy"}},
                waiting("job", gpu(gpumem=8000), annotations={"nvidia.com/use-gpuuuid": "GPU-n1-0"}))
    got = json.loads(explain("--from-dump", path, "--json", "pod", "team/job"))
    nodes = {n["name"]: n for n in got["nodes"]}
    assert "CardClaimedTwice" in nodes["copy"]["reasons"]
    assert nodes["copy"]["words"] == "card GPU-n1-0 is registered by copy and by n1"
    assert "card GPU-n1-0 is registered by" in got["sentence"]


def test_hostile_names(dump):
    """Nothing from the cluster drives the terminal; what cannot be read is counted and left out."""
    evil = holder("\x1b[31mred", "n1", "GPU-n1-1,NVIDIA,1,1:;")
    broken = {"kind": "Pod", "metadata": {"name": 5}}
    path = dump(evil, broken, waiting("job", gpu(gpumem=8000), annotations={"nvidia.com/use-gputype": "A10"}))
    done = subprocess.run(command("--from-dump", path, "pod", "team/job"), capture_output=True, timeout=60)
    assert done.returncode == 0
    assert b"\x1b" not in done.stdout
    assert b"1 objects" in done.stderr
    assert b"the first: pod 5" in done.stderr or b"the first: pod : " in done.stderr
