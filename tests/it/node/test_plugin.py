"""gpuslice-device-plugin with a kubelet and an API server that are not ours."""

import json
import pathlib
import subprocess
import threading
import time

import pytest

from plugin_node import (ALLOCATED, LEFT, LOCK, NODE, PHASE, PROGRAM, Container, Node, Refused, make_pod, until)

MIB = 1 << 20


@pytest.fixture
def make_node(make_sim):
    made = []

    def make(cards=2, memory="8Gi", **config):
        made.append(Node(make_sim(cards=cards, memory=memory), **config))
        return made[-1]

    yield make
    for node in made:
        node.close()


@pytest.fixture
def node(make_node):
    return make_node()


def slot(uuid, mem=1000, cores=30):
    return f"{uuid},NVIDIA,{mem},{cores}:"


def test_what_is_offered(node):
    """Each card as ten shares (the chart's number), and the annotations that schedulers read."""
    node.start()
    a, b = node.uuids()
    assert node.kubelet.devices == {f"{u}-{i}": "Healthy" for u in (a, b) for i in range(10)}
    assert node.kubelet.options.pre_start_required
    notes = until(lambda: (n := node.api.notes()) if "gpuslice.io/identity" in node.api.notes() else None, node.log)
    assert notes["gpuslice.io/identity"] == "prestart"
    cards = json.loads(notes["hami.io/node-nvidia-register"])
    assert [(c["id"], c["count"], c["devmem"], c["devcore"], c["health"]) for c in cards] == [
        (u, 10, 8192, 100, True) for u in (a, b)]


def test_one_pod(node):
    """Allocate promises and gives no card; the start gives exactly what was granted."""
    node.start()
    uuid = node.uuids()[1]
    pod = make_pod("one", [("main", False, slot(uuid, 3000, 30))])
    node.api.add(pod)
    node.kubelet.admit(pod)
    early = node.kubelet.entry(pod, "main")
    answer = node.kubelet.start_container(pod, "main")
    assert dict(answer.envs)["NVIDIA_VISIBLE_DEVICES"] == "void"
    (device,) = answer.cdi_devices
    assert device.name.startswith("gpuslice.io/slot=slot-")
    seen = Container(answer, node.cdi)
    vgpu = f"{node.hook_path}/vgpu"
    assert seen.quota() == {uuid: (str(3000 * MIB), "30")}
    assert seen.env["NVIDIA_VISIBLE_DEVICES"] == uuid
    assert seen.env["CUDA_DEVICE_MEMORY_LIMIT_0"] == "3000m"
    assert seen.env["CUDA_DEVICE_SM_LIMIT"] == "30"
    assert seen.env["CUDA_DEVICE_MEMORY_SHARED_CACHE"].startswith(f"{vgpu}/")
    ledger, read_only = seen.mounts[vgpu]
    assert ledger == f"{vgpu}/containers/{pod['metadata']['uid']}_main" and not read_only
    assert pathlib.Path(ledger).stat().st_mode & 0o777 == 0o777
    assert pathlib.Path(ledger).parent.stat().st_mode & 0o777 == 0o700
    assert seen.mounts[f"{vgpu}/libvgpu.so"] == (f"{vgpu}/libvgpu.so", True)
    assert seen.mounts["/etc/ld.so.preload"] == (f"{vgpu}/ld.so.preload", True)
    assert pathlib.Path(f"{vgpu}/ld.so.preload").read_text() == f"{vgpu}/libvgpu.so\n"
    assert early["PodUID"] == pod["metadata"]["uid"]
    until(lambda: node.api.notes(pod)[PHASE] == "success", node.log)


def test_a_program_in_the_slice(node):
    """The hook takes the limits from the folder that the container was given."""
    node.start()
    uuid = node.uuids()[0]
    pod = make_pod("prog", [("main", False, slot(uuid, 1000, 0))])
    node.api.add(pod)
    (seen,) = node.run(pod, "main")
    quota = seen.mounts["/run/gpuslice/quota"][0]
    ledger = seen.mounts[f"{node.hook_path}/vgpu"][0]
    code = """
import ctypes as C
c = C.CDLL('libcuda.so.1'); assert c.cuInit(0) == 0
d, ctx, p, free, total = C.c_int(), C.c_void_p(), C.c_uint64(), C.c_size_t(), C.c_size_t()
assert c.cuDeviceGet(C.byref(d), 0) == 0 and c.cuDevicePrimaryCtxRetain(C.byref(ctx), d) == 0
assert c.cuCtxSetCurrent(ctx) == 0 and c.cuMemGetInfo_v2(C.byref(free), C.byref(total)) == 0
print(total.value >> 20, c.cuMemAlloc_v2(C.byref(p), C.c_size_t(1100 << 20)))
"""
    done = node.sim.python(code, env=node.sim.env(
        LD_PRELOAD=node.sim.hook, GPUSLICE_QUOTA_DIR=quota, CUDA_VISIBLE_DEVICES=uuid,
        CUDA_DEVICE_MEMORY_SHARED_CACHE=f"{ledger}/main.cache"))
    assert done.stdout.split() == ["1000", "2"], done.stderr + done.stdout  # CUDA_ERROR_OUT_OF_MEMORY


def test_init_containers_and_several_cards(node):
    """An init container and the app container hold the same ids, and each gets its own slice; containers without cards
    between them have no part in it."""
    node.start()
    a, b = node.uuids()
    pod = make_pod("many", [("init", True, slot(a, 500, 5)), ("plain", False, ""), ("app", False, slot(a, 1500, 15)),
                            ("two", False, slot(a, 700, 7) + slot(b, 800, 8))])
    node.api.add(pod)
    init, app, two = node.run(pod, "init", "app", "two")
    assert set(node.kubelet.entry(pod, "init")["DeviceIDs"]["0"]) == set(node.kubelet.entry(pod, "app")["DeviceIDs"]["0"])
    assert init.quota() == {a: (str(500 * MIB), "5")}
    assert app.quota() == {a: (str(1500 * MIB), "15")}
    assert two.quota() == {a: (str(700 * MIB), "7"), b: (str(800 * MIB), "8")}


def test_ids_name_the_granted_card(make_node):
    node = make_node(cards=4, enablegetpreferredallocation=True).start()
    uuids = node.uuids()
    for k, uuid in enumerate(reversed(uuids)):
        pod = make_pod(f"p{k}", [("main", False, slot(uuid))], bound=k + 1)
        node.api.add(pod)
        # the watch has to have shown it, or there is nothing to guess by
        until(lambda: f"gpuslice_plugin_pods {k + 1}" in node.get("/metrics"), node.log)
        node.kubelet.admit(pod)
        assert node.kubelet.entry(pod, "main")["DeviceIDs"]["0"][0].rsplit("-", 1)[0] == uuid


def test_the_watch_is_behind(node):
    """PreStartContainer waits for the grant; a pod that never gets one is refused in words."""
    node.start("--prestart-wait=2s")
    uuid = node.uuids()[0]
    pod = make_pod("late", [("main", False, slot(uuid))])
    node.kubelet.admit(pod)
    threading.Timer(0.5, node.api.add, [pod]).start()
    seen = Container(node.kubelet.start_container(pod, "main"), node.cdi)
    assert seen.quota() == {uuid: (str(1000 * MIB), "30")}
    never = make_pod("never", [("main", False, slot(uuid))])
    del never["metadata"]["annotations"][ALLOCATED]
    node.api.add(never)
    node.kubelet.admit(never)
    with pytest.raises(Refused, match="was given no card"):
        node.kubelet.start_container(never, "main")


def test_many_pods_at_once(node):
    """Sixteen pods of different sizes, started in any order at once: none gets another one's slice."""
    node.start()
    uuids = node.uuids()
    pods = [make_pod(f"p{i}", [("main", False, slot(uuids[i % 2], 100 + i, i + 1))], bound=i) for i in range(16)]
    threads = []
    for pod in pods:
        node.api.add(pod)
        node.kubelet.admit(pod)
    seen = {}

    def start(i):
        seen[i] = Container(node.kubelet.start_container(pods[i], "main"), node.cdi).quota()

    for i in range(16):
        threads.append(threading.Thread(target=start, args=(15 - i,)))
        threads[-1].start()
    for t in threads:
        t.join(30)
    assert seen == {i: {uuids[i % 2]: (str((100 + i) * MIB), str(i + 1))} for i in range(16)}


def test_names_are_never_used_again(node):
    """Ids come back, names of CDI devices do not; what belongs to nobody is removed."""
    node.start()
    uuid = node.uuids()[0]
    names = set()
    for i in range(5):
        pod = make_pod("again", [("main", False, slot(uuid, 100 + i))])
        node.api.add(pod)
        (seen,) = node.run(pod, "main")
        assert seen.quota() == {uuid: (str((100 + i) * MIB), "30")}
        names |= {d["name"] for f in node.cdi.glob("*.json") for d in json.loads(f.read_text())["devices"]}
        node.kubelet.forget(pod)
        node.api.remove(pod)
    assert len(names) == 5
    until(lambda: not list(node.cdi.glob("*.json")), node.log)
    until(lambda: not [*(node.hook_path / "vgpu").glob("containers/*"), *(node.hook_path / "vgpu").glob("quota/*")], node.log)


def test_kubelet_restart(node):
    node.start()
    uuid = node.uuids()[0]
    pod = make_pod("before", [("main", False, slot(uuid))])
    node.api.add(pod)
    node.run(pod, "main")
    for _ in range(3):
        node.kubelet.restart()
        until(lambda: len(node.kubelet.devices) == 20, node.log)
    assert Container(node.kubelet.start_container(pod, "main"), node.cdi).quota() == {uuid: (str(1000 * MIB), "30")}
    after = make_pod("after", [("main", False, slot(uuid, 500))])
    node.api.add(after)
    assert node.run(after, "main")[0].quota() == {uuid: (str(500 * MIB), "30")}


def test_plugin_killed(node):
    """A new one goes by the checkpoint: slots that were lost are made again, containers start again."""
    node.start()
    uuid = node.uuids()[0]
    pod = make_pod("lives", [("main", False, slot(uuid))])
    node.api.add(pod)
    node.run(pod, "main")
    node.kill()
    for spec in node.cdi.glob("*.json"):
        spec.unlink()  # as after a reboot
    node.start()
    until(lambda: list(node.cdi.glob("*.json")), node.log)
    assert Container(node.kubelet.start_container(pod, "main"), node.cdi).quota() == {uuid: (str(1000 * MIB), "30")}


def test_api_server_away(node):
    """Containers of a pod that is known start, and start again, without it; also under a plugin that was started anew."""
    node.start()
    uuid = node.uuids()[0]
    pod = make_pod("known", [("main", False, slot(uuid))])
    node.api.add(pod)
    node.run(pod, "main")
    node.api.is_away = True
    assert Container(node.kubelet.start_container(pod, "main"), node.cdi).quota() == {uuid: (str(1000 * MIB), "30")}
    node.kill()
    node.start(waits=False)
    assert node.kubelet.registered.wait(30), node.log()
    assert Container(node.kubelet.start_container(pod, "main"), node.cdi).quota() == {uuid: (str(1000 * MIB), "30")}


def test_hostile_folder(node):
    """What a container leaves in its folder is removed, links are not followed, and the next start has a new one."""
    node.start()
    uuid = node.uuids()[0]
    pod = make_pod("bad", [("main", False, slot(uuid))])
    node.api.add(pod)
    (seen,) = node.run(pod, "main")
    ledger = pathlib.Path(seen.mounts[f"{node.hook_path}/vgpu"][0])
    keep = node.folder / "keep"
    keep.mkdir()
    (keep / "file").write_text("mine")
    deep = ledger
    for _ in range(200):
        deep = deep / "d"
        deep.mkdir()
        (deep / "f").write_text("x")
    (ledger / "link").symlink_to(keep)
    (deep / "link").symlink_to(keep)
    (ledger / "main.cache").write_bytes(b"\0" * 4096)
    node.kubelet.start_container(pod, "main")
    assert list(ledger.iterdir()) == []
    node.kubelet.forget(pod)
    node.api.remove(pod)
    until(lambda: not ledger.exists(), node.log)
    assert (keep / "file").read_text() == "mine"


@pytest.mark.parametrize("ids, words", [
    ([], "no container|no device ids|checkpoint has no container"),
    (["GPU-nobody-0"], "checkpoint has no container"),
])
def test_ids_of_nobody(node, ids, words):
    node.start("--prestart-wait=1s")
    node.kubelet.write()
    with pytest.raises(Refused, match=words):
        node.kubelet.call("PreStartContainer",
                          __import__("plugin_node").M["PreStartContainerRequest"](devices_ids=ids))


def test_two_plugins(node):
    """Beside the vendor's own plugin this one does not start."""
    import socket
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(node.plugins / "nvidia-gpu.sock"))
        other.listen(4)
        node.start(waits=False)
        assert node.process.wait(30) == 1
        assert "another plugin for these cards is running" in node.log()
    node.process = None


def test_without_driver(node):
    node.sim.lib = node.folder / "nothing"
    node.start(waits=False)
    assert node.process.wait(30) == 1
    assert "the driver does not answer" in node.log()
    node.process = None


def test_pods_before_cards(node):
    """Pods and a checkpoint are there before the driver answers: nothing is made of cards that nobody knows."""
    node.start()
    pod = make_pod("lives", [("main", False, slot(node.uuids()[0]))])
    node.api.add(pod)
    node.run(pod, "main")
    node.kill()
    (spec,) = node.cdi.glob("*.json")
    spec.unlink()  # it would be made again
    node.sim.lib = node.folder / "nothing"
    node.start("--fail-on-init-error=false", waits=False)
    until(lambda: node.log().count("pods of this node are known") == 2, node.log)
    assert "gpuslice_plugin_pods 1" in until(lambda: node.get("/metrics"), node.log)
    assert not node.kubelet.devices and node.process.poll() is None


# ---- HAMi's protocol

def lock_for(node, pod):
    node.api.note(LOCK, f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())},team,{pod['metadata']['name']}")


def test_hamis_way(node):
    """Allocate finds the pod by the lock, answers in full, takes its slot off, and gives the lock back at the end."""
    node.start("--identity=allocate")
    a, b = node.uuids()
    assert not node.kubelet.options.pre_start_required
    pod = make_pod("two", [("x", False, slot(a, 100, 10)), ("y", False, slot(b, 200, 20))])
    other = make_pod("other", [("z", False, slot(b, 300, 30))], bound=0)
    node.api.add(other)
    node.api.add(pod)
    lock_for(node, pod)
    x, y = node.run(pod, "x", "y")
    assert x.quota() == {a: (str(100 * MIB), "10")} and y.quota() == {b: (str(200 * MIB), "20")}
    assert x.env["NVIDIA_VISIBLE_DEVICES"] == a and not list(node.folder.glob("cdi/*.json"))
    notes = node.api.notes(pod)
    assert notes[PHASE] == "success" and set(notes[LEFT]) <= set(";")
    until(lambda: LOCK not in node.api.notes(), node.log)
    # no lock: the pending pod that was bound first
    (z,) = node.run(other, "z")
    assert z.quota() == {b: (str(300 * MIB), "30")}


def test_hamis_way_fails(node):
    """The phase says so, and the lock is free again."""
    node.start("--identity=allocate")
    a, _ = node.uuids()
    pod = make_pod("odd", [("x", False, slot(a))])
    node.api.add(pod)
    lock_for(node, pod)
    node.kubelet.entries = []
    with pytest.raises(Refused, match="device number not matched"):
        node.kubelet.call("Allocate", __import__("plugin_node").M["AllocateRequest"](
            container_requests=[{"devices_ids": [f"{a}-0", f"{a}-1"]}]))
    until(lambda: node.api.notes(pod)[PHASE] == "failed" and LOCK not in node.api.notes(), node.log)


def test_metrics(node):
    from prometheus_client.parser import text_string_to_metric_families
    node.start()
    pod = make_pod("one", [("main", False, slot(node.uuids()[0]))])
    node.api.add(pod)
    node.run(pod, "main")
    samples = {(s.name, s.labels.get("call")): s.value for f in text_string_to_metric_families(node.get("/metrics"))
               for s in f.samples}
    assert samples["gpuslice_plugin_call_seconds_count", "Allocate"] == 1
    assert samples["gpuslice_plugin_call_seconds_count", "PreStartContainer"] == 1
    assert samples["gpuslice_plugin_devices", None] == 20
    assert samples["gpuslice_plugin_registered", None] == 1


def test_command_line():
    done = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout.startswith("gpuslice-device-plugin ")
    for flag, words in [("--device-list-strategy=none", "is none of"), ("--identiti=x", "is it --identity"),
                        ("--identity=guess", "is none of")]:
        done = subprocess.run([PROGRAM, "--node-name=n", flag], capture_output=True, text=True, timeout=60)
        assert done.returncode == 2 and words in done.stderr, done.stderr
