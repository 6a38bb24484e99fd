"""What gpuslice-monitor tells of containers, against the cards' own account and the table of HAMi's names."""

import json
import re
import subprocess

import pytest

from conftest import MIB, ROOT
from monitor_node import PROGRAM, Node, pod, until, write_region

VDEVICE = {"namespace", "pod", "container", "vdevice_index", "device_uuid"}
OLD = {"podnamespace", "podname", "ctrname", "vdeviceid", "deviceuuid"}
HOST = {"node", "device_index", "device_uuid", "device_type"}
# The sheet of HAMi's wire formats, 6.1; every series of its has the label zone, too.
HAMI = {
    "hami_host_gpu_memory_used_bytes": HOST,
    "hami_host_gpu_utilization_ratio": HOST,
    "hami_host_gpu_memory_controller_utilization_ratio": HOST - {"node"},
    "hami_vgpu_memory_used_bytes": VDEVICE,
    "hami_vgpu_memory_limit_bytes": VDEVICE,
    "hami_container_device_memory_bytes": VDEVICE,
    "hami_container_device_utilization_ratio": VDEVICE,
    "hami_container_last_kernel_elapsed_seconds": VDEVICE,
    "hami_vgpu_memory_context_bytes": VDEVICE,
    "hami_vgpu_memory_module_bytes": VDEVICE,
    "hami_vgpu_memory_buffer_bytes": VDEVICE,
    "hami_mig_device_info": VDEVICE | {"mig_uuid", "profile", "gpu_instance_id", "compute_instance_id"},
}
LEGACY = {
    "HostGPUMemoryUsage": {"nodeid", "deviceidx", "deviceuuid", "devicetype"},
    "HostCoreUtilization": {"nodeid", "deviceidx", "deviceuuid", "devicetype"},
    "vGPU_device_memory_usage_in_bytes": OLD,
    "vGPU_device_memory_limit_in_bytes": OLD,
    "Device_utilization_desc_of_container": OLD,
    "Device_last_kernel_of_container": OLD,
    "Device_memory_desc_of_container": OLD | {"context", "module", "data", "offset"},
    "MigInfo": OLD | {"instanceid"},
}
BUILD = {"version", "revision", "build_date", "go_version", "compiler", "platform"}
SLICE = "%s,NVIDIA,1000,30:"
MIG = json.dumps([{"containerIndex": 0, "deviceIndex": 0, "gpuUUID": "GPU-x", "profile": "1g.5gb",
                   "placement": {"start": 2, "size": 1}, "migUUID": "MIG-1", "gpuInstanceID": 9, "computeInstanceID": 0}])


@pytest.fixture
def node(make_sim):
    made = Node(make_sim(cards=2, memory="8Gi"))
    yield made
    made.close()


def test_a_slice(node):
    """At rest page, ledger and card agree to the byte."""
    first, second = node.uuids()
    node.api.pods = [pod("app", "aa-1", SLICE % first)]
    client = node.client("aa-1")
    assert client.ask("alloc(300)") == 0
    assert client.ask("alloc(800)") == 2  # beyond its slice
    node.start().ready()
    who = {"namespace": "team", "pod": "app", "container": "main", "device_uuid": first, "vdevice_index": "0"}
    card = next(c for c in node.sim.status()["cards"] if c["uuid"] == first)
    s = node.settled("gpuslice_container_processes", 1, pod="app")
    used = s.one("hami_vgpu_memory_used_bytes", **who)
    assert used == s.one("hami_container_device_memory_bytes", **who) == card["used_bytes"] >= 300 * MIB
    assert s.one("gpuslice_container_driver_memory_bytes", **who) == used
    assert s.one("hami_vgpu_memory_limit_bytes", **who) == 1000 * MIB
    assert s.one("hami_host_gpu_memory_used_bytes", device_uuid=first, node="node-1") == card["used_bytes"]
    assert s.one("hami_host_gpu_memory_used_bytes", device_uuid=second) == 0
    assert s.one("gpuslice_host_gpu_memory_bytes", device_uuid=second) == 8 << 30
    assert s.one("gpuslice_container_refused_allocations_total", **who) == 1
    assert s.one("gpuslice_container_log_lines_total", pod="app", reason="OVER_LIMIT") == 1
    assert s.one("gpuslice_container_held", pod="app", held="hook") == 1
    assert s.one("gpuslice_container_core_limit_ratio", **who) == 30
    assert s.one("gpuslice_container_unheld_processes", pod="app") == 0
    assert s.one("gpuslice_container_excess_bytes", **who) == 0
    parts = [s.one(f"hami_vgpu_memory_{part}_bytes", **who) for part in ("context", "module", "buffer")]
    assert sum(parts) <= used and parts[2] >= 300 * MIB
    assert client.ask("free()") == 0
    node.until(lambda s: s.one("hami_vgpu_memory_used_bytes", **who) < 300 * MIB, "memory that was given back is shown")
    client.kill()
    s = node.settled("gpuslice_container_processes", 0, pod="app")
    assert s.one("hami_vgpu_memory_used_bytes", **who) == 0


def test_names_and_labels(node):
    """Golden: every name of HAMi's with its labels and no other; and the page is one that Prometheus likes."""
    first, second = node.uuids()
    node.api.pods = [pod("app", "aa-1", SLICE % first), pod("part", "bb-1", f"{first},NVIDIA,4864,14:", more={
        "hami.io/vgpu-mig-allocations": MIG.replace("GPU-x", first)})]
    client = node.client("aa-1", CUDA_DEVICE_SM_LIMIT="30")
    assert client.ask("alloc(10)") == 0
    write_region(node.folder("cc-1") / "x.cache", second, used=4096, last=1790000000)
    node.api.pods.append(pod("old", "cc-1", SLICE % second))
    node.start("--legacy-metrics").ready()
    s = node.settled("gpuslice_container_processes", 1, pod="app")
    for name, labels in (HAMI | LEGACY).items():
        assert s.sample[name], f"no series of {name}"
        for sample in s.sample[name]:
            assert set(sample.labels) == labels | {"zone"}, name
            assert sample.labels["zone"] == "vGPU"
    assert set(s.sample["hami_build_info"][0].labels) == BUILD
    known = HAMI.keys() | LEGACY.keys() | {"hami_build_info"}
    strangers = {n for n in s.sample if not n.startswith(("gpuslice_", "process_"))} - known
    assert not strangers
    lint(s)
    node.stop()
    node.start().ready()
    assert not LEGACY.keys() & node.scrape().sample.keys()


def lint(s):
    """The exposition format's rules, and those of promtool that its parser does not see."""
    heads, seen, current = set(), set(), None
    for line in s.text.splitlines():
        if line.startswith("# HELP "):
            current = line.split(" ")[2]
            assert current not in heads, f"{current} comes twice"
            assert len(line.split(" ", 3)[3]) > 10, current
            heads.add(current)
        elif line.startswith("# TYPE "):
            name, kind = line.split(" ")[2:]
            assert name == current and kind in ("gauge", "counter")
            assert (kind == "counter") == name.endswith("_total"), name
        else:
            assert re.match(r"[a-zA-Z_:][a-zA-Z0-9_:]*", line).group() == current, f"{line} is out of place"
            series = line.rpartition(" ")[0]
            assert series not in seen, f"{series} comes twice"
            seen.add(series)
    assert s.text.endswith("\n")


def test_only_live_containers(node):
    """Pods that are over or gone, and containers that ended, have no series; idle ones have."""
    first, _ = node.uuids()
    grant = SLICE % first
    node.api.pods = [pod("over", "aa-1", grant, phase="Succeeded"), pod("ended", "aa-2", grant, state="ended"),
                     pod("idle", "aa-3", grant), pod("two", "aa-4", grant, "", grant, init=("side",), containers=("cpu", "main"))]
    for uid in ("aa-1", "aa-2", "aa-3", "aa-5"):
        node.folder(uid)
    node.folder("aa-4", "side")
    node.folder("aa-4", "main")
    (node.containers / "lost+found").mkdir()
    (node.containers / "file").write_text("")
    node.start().ready()
    s = node.scrape()
    found = {(x.labels["pod"], x.labels["container"]) for x in s.sample["hami_vgpu_memory_used_bytes"]}
    assert found == {("idle", "main"), ("two", "side"), ("two", "main")}
    assert s.find("hami_vgpu_memory_used_bytes") == [0, 0, 0]
    lists = [q for path, q in node.api.seen if path == "GET /api/v1/pods"]
    assert lists and all(q["fieldSelector"] == "spec.nodeName=node-1" for q in lists)


def test_pods_come_and_go(node):
    """And their folders are removed once they are old enough, and the server has been heard of since."""
    first, _ = node.uuids()
    node.start(HAMI_RESYNC_INTERVAL="2s").ready()
    assert not node.scrape().find("hami_vgpu_memory_used_bytes")
    one = pod("app", "aa-1", SLICE % first)
    folder = node.folder("aa-1")
    client = node.client("aa-1")
    node.tell("ADDED", one)
    node.settled("gpuslice_container_processes", 1, pod="app")
    node.tell("DELETED", one)
    node.until(lambda s: "app" not in s.text, "a pod that is gone has series")
    # its process lives: others of that age go, this one stays
    other = node.folder("bb-1")
    (other / "deep" / "er").mkdir(parents=True)
    until(lambda: node.bookmark() or not other.exists(), "the folder of a pod that is gone stays")
    assert folder.exists() and client.ask("alloc(1)") == 0
    (node.proc / str(client.pid) / "cgroup").unlink()
    client.kill()
    until(lambda: node.bookmark() or not folder.exists(), "the folder of a pod that is gone stays")


def test_whole_cards_and_partitions(node):
    """They have no ledger; the driver tells what they use."""
    first, second = node.uuids()
    node.api.pods = [pod("whole", "aa-1", f"{first},NVIDIA,8192,100:"),
                     pod("part", "bb-1", f"{second},NVIDIA,2048,14:",
                         more={"hami.io/vgpu-mig-allocations": MIG.replace("GPU-x", second)})]
    client = node.client("aa-1", hook=False)
    assert client.ask("alloc(500)") == 0
    node.start().ready()
    s = node.until(lambda s: s.find("hami_vgpu_memory_used_bytes", pod="whole") >= [500 * MIB] and s, "not shown")
    assert s.one("hami_vgpu_memory_limit_bytes", pod="whole") == 8 << 30
    assert s.one("gpuslice_container_held", pod="whole", held="exclusive") == 1
    assert s.one("gpuslice_container_held", pod="part", held="hardware") == 1
    assert s.one("hami_vgpu_memory_limit_bytes", pod="part") == 2 << 30
    assert s.one("gpuslice_container_without_ledger", pod="whole") == 0
    assert s.one("hami_mig_device_info", pod="part", mig_uuid="MIG-1", profile="1g.5gb", gpu_instance_id="9") == 1


def test_without_a_cluster(node):
    """Folders are all there is, and their names are their pods'."""
    first, _ = node.uuids()
    client = node.client("aa-1")
    assert client.ask("alloc(50)") == 0
    node.start(cluster=False).ready()
    node.until(lambda s: s.find("hami_vgpu_memory_used_bytes", namespace="", pod="aa-1", container="main", device_uuid=first)
               >= [50 * MIB], "not shown")
    assert not (node.hook_path / "board").exists()


def test_json(node):
    first, second = node.uuids()
    node.api.pods = [pod("app", "aa-1", SLICE % first)]
    client = node.client("aa-1")
    assert client.ask("alloc(50)") == 0
    done = node.json()
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert done.stdout.count("\n") == 1 and told["version"] == 1 and told["node"] == "node-1" and told["driver_up"]
    assert [c["uuid"] for c in told["cards"]] == [first, second]
    (one,) = told["containers"]
    assert {k: one[k] for k in ("namespace", "pod", "container", "pod_uid", "file", "processes")} == {
        "namespace": "team", "pod": "app", "container": "main", "pod_uid": "aa-1", "file": "ledger", "processes": 1}
    (device,) = one["devices"]
    assert device["uuid"] == first and device["held"] == "hook" and device["limit_bytes"] == 1000 * MIB
    assert device["used_bytes"] == next(c for c in node.sim.status()["cards"] if c["uuid"] == first)["used_bytes"]
    alone = node.json(cluster=False)
    assert alone.returncode == 0 and json.loads(alone.stdout)["containers"][0]["pod"] == "aa-1"


def test_no_driver(node):
    """A machine whose driver is not there, or went: said, and all else is told."""
    first, _ = node.uuids()
    node.api.pods = [pod("app", "aa-1", SLICE % first)]
    client = node.client("aa-1")
    assert client.ask("alloc(50)") == 0
    node.start(env={"LD_LIBRARY_PATH": ""}).ready()
    s = node.until(lambda s: s.find("hami_vgpu_memory_used_bytes", pod="app") >= [50 * MIB] and s, "not shown")
    assert s.one("gpuslice_monitor_driver_up") == 0
    assert not s.find("hami_host_gpu_memory_used_bytes")
    assert len(node.lines("the cards' driver does not answer")) == 1


def test_driver_that_hangs(node):
    """It holds up nothing: pages are written, and the end comes when it is asked for."""
    first, _ = node.uuids()
    node.api.pods = [pod("app", "aa-1", SLICE % first)]
    client = node.client("aa-1")
    assert client.ask("alloc(50)") == 0
    node.start().ready()
    node.settled("gpuslice_monitor_driver_up", 1)
    assert node.sim.run("gpuslice-sim", "slow", "nvmlDeviceGetMemoryInfo", "100000").returncode == 0
    assert client.ask("alloc(50)") == 0
    s = node.until(lambda s: s.one("hami_vgpu_memory_used_bytes", pod="app") >= 100 * MIB and s, "looks have stopped")
    s = node.settled("gpuslice_monitor_driver_up", 0)
    assert not s.find("hami_host_gpu_memory_used_bytes")
    assert s.one("hami_vgpu_memory_limit_bytes", pod="app") == 1000 * MIB
    node.stop()


def test_api_server_comes_later(node):
    first, _ = node.uuids()
    node.folder("aa-1")
    node.api.pods = [pod("app", "aa-1", SLICE % first)]
    node.point_at("http://127.0.0.1:9")  # nobody listens there
    node.start()
    status, why = until(lambda: node.get("/readyz"), "it does not listen")
    assert status == 503 and "pods" in why
    assert node.get("/healthz") == (200, "ok\n")
    assert "hami_vgpu" not in "".join(line for line in node.get("/metrics")[1].splitlines() if line[0] != "#")
    node.stop()
    node.point_at(node.api.url)
    node.start().ready()
    node.settled("hami_vgpu_memory_used_bytes", 0, pod="app")


def say(*args, **env):
    return subprocess.run([PROGRAM, *args], capture_output=True, text=True, timeout=60, env=env)


def test_command_line():
    version = re.search(r"version: '([^']+)'", (ROOT / "meson.build").read_text()).group(1)
    for args in (["--version"], ["version"]):
        assert say(*args).stdout == f"gpuslice-monitor {version}\n"
    assert "--metrics-bind-address ADDR" in say("--help").stdout and "(:9394)" in say("--help").stdout
    for env, word in (({}, "HOOK_PATH"), ({"HOOK_PATH": "/x"}, "NODE_NAME"),
                      ({"HOOK_PATH": "/x", "NODE_NAME": "a b"}, "no name of a node"),
                      ({"HOOK_PATH": "/x", "NODE_NAME": "a", "HAMI_RESYNC_INTERVAL": "5"}, "HAMI_RESYNC_INTERVAL")):
        done = say(**env)
        assert done.returncode == 2 and word in done.stderr, done.stderr
    done = say("--metrics-bind-adress=:1", HOOK_PATH="/x", NODE_NAME="a")
    assert done.returncode == 2 and "is it --metrics-bind-address?" in done.stderr
    done = say(HOOK_PATH="/x", NODE_NAME="a", HOME="/nonexistent")
    assert done.returncode == 1 and "--no-cluster" in done.stderr
