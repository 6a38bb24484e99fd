"""gpuslice doctor on simulated cards and on a tree of files that stands for the machine's."""

import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile

import pytest

from conftest import GIB, stage_dir

CONFIG = """
nvidia:
  resourceCountName: nvidia.com/gpu
  deviceSplitCount: 10
  deviceMemoryScaling: 1
"""


class Machine:
    """Files of a machine where all is in order; a test spoils what it is about."""

    def __init__(self, folder):
        self.root = pathlib.Path(folder)
        self.sockets = []
        for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
            self.put(f"dev/{name}")
        self.put("dev/kmsg", "6,1,2,-;Linux version 6.14\n")
        self.put("sys/fs/cgroup/cgroup.controllers", "cpu memory dmem pids\n")
        self.put("sys/bus/pci/devices/0000:02:00.0/numa_node", "1\n")
        self.put("etc/containerd/config.toml", 'version = 2\n  enable_cdi = true\n  cdi_spec_dirs = ["/etc/cdi"]\n')
        self.put("etc/cdi/x.json", "{}")
        self.put("var/run/cdi/.keep")
        for name in ("run/containerd/containerd.sock", "var/lib/kubelet/device-plugins/kubelet.sock",
                     "var/lib/kubelet/pod-resources/kubelet.sock"):
            self.listen(name)

    def put(self, name, text=""):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def listen(self, name):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        s = socket.socket(socket.AF_UNIX)
        s.bind(str(path))
        s.listen(8)
        self.sockets.append(s)
        return s

    def remove(self, name):
        (self.root / name).unlink()


@pytest.fixture
def machine():
    folder = tempfile.mkdtemp(prefix="gsd-", dir="/tmp")
    made = Machine(folder)
    yield made
    for s in made.sockets:
        s.close()
    shutil.rmtree(folder)


class Doctor:
    def __init__(self, sim, machine):
        self.sim, self.machine = sim, machine
        self.exe = stage_dir() / "bin" / "gpuslice"
        self.words = ["doctor", "--root", str(machine.root), "--json"]

    def __call__(self, *words, **env):
        self.done = self.sim.run(self.exe, *self.words, *words, env=self.sim.env(**env))
        assert self.done.returncode in (0, 1, 3), self.done.stderr
        self.report = json.loads(self.done.stdout)
        return self.report

    def start(self, *words, **env):
        return subprocess.Popen([str(self.exe), *self.words, *words], env=self.sim.env(**env), stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def find(self, check, state=None):
        return [f for f in self.report["findings"] if f["check"] == check and state in (None, f["state"])]

    def tool(self, *words):
        done = self.sim.run(stage_dir() / "bin" / "gpuslice-sim", *words)
        assert done.returncode == 0, done.stderr


@pytest.fixture
def doctor(make_sim, machine):
    return Doctor(make_sim(cards=2, memory="16Gi", model="Tesla T4"), machine)


def test_a_sound_machine(doctor):
    report = doctor()
    assert [f for f in report["findings"] if f["state"] in ("warning", "broken")] == []
    assert doctor.done.returncode == 0 and report["version"] == 1 and report["worst"] in ("ok", "note")
    a, b = report["cards"]
    assert (a["index"], a["name"], a["memory_bytes"], a["pci"], a["numa"]) == (0, "Tesla T4", 16 * GIB, "0000:01:00.0", 0)
    assert (b["pci"], b["numa"], b["health"], b["split"], b["parts"]) == ("0000:02:00.0", 1, "well", False, [])
    assert a["links"] == {b["uuid"]: 20}  # one processor, no NVLink
    assert report["driver"] and report["runtime"] == "13.0"
    registered = json.loads(report["register"])
    assert [d["type"] for d in registered] == ["NVIDIA-Tesla T4"] * 2
    assert [(d["count"], d["devmem"], d["devcore"]) for d in registered] == [(10, 16384, 100)] * 2
    assert json.loads(report["scores"]) == [{"uuid": a["uuid"], "score": {b["uuid"]: 20}},
                                            {"uuid": b["uuid"], "score": {a["uuid"]: 20}}]
    assert {"hook", "preload", "cgroup", "dmem", "selinux", "apparmor", "runtime-cdi", "cdi-folders", "kubelet", "driver",
            "card", "health", "kernel-log", "device-nodes", "config"} <= {f["check"] for f in report["findings"]}


def test_text_names_each_finding_with_its_fix(doctor):
    doctor.machine.put("etc/ld.so.preload", "/nowhere/lib.so\n")
    done = doctor.sim.run(doctor.exe, "doctor", "--root", doctor.machine.root)
    assert done.returncode == 3
    lines = done.stdout.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("broken"))
    assert "/nowhere/lib.so, which is not there" in lines[at] and "-> take the line out" in lines[at + 1]
    assert lines[-1].startswith("1 broken, 0 warnings")


def test_without_a_driver(doctor):
    doctor.sim.lib = "/nonexistent"
    report = doctor()
    assert doctor.done.returncode == 3 and report["cards"] == [] and report["register"] is None
    assert "no driver answers" in doctor.find("driver", "broken")[0]["text"]
    assert doctor.find("hook", "ok")  # the rest is looked at all the same


def test_one_card_that_cannot_be_asked_hides_no_other(doctor):
    doctor.tool("fault", "nvmlDeviceGetUUID", "--nth", "1", "--error", "999")
    report = doctor()
    assert [c["index"] for c in report["cards"]] == [1]
    assert "card 0 cannot be asked" in doctor.find("card", "warning")[0]["text"]
    doctor.tool("reset")
    for function in ("nvmlDeviceGetName", "nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetMinorNumber"):
        doctor.tool("fault", function, "--nth", "1", "--error", "999")
    report = doctor()
    assert [c["index"] for c in report["cards"]] == [0, 1]
    assert (report["cards"][0]["name"], report["cards"][0]["pci"], report["cards"][1]["pci"]) == ("unknown", "", "0000:02:00.0")


def test_links_and_their_disagreements(doctor):
    doctor.tool("near", "0", "1", "system")
    doctor.tool("link", "0", "1", "4")
    a, b = doctor()["cards"]
    assert a["links"] == {b["uuid"]: 410} and b["links"] == {a["uuid"]: 410}
    assert [f["text"] for f in doctor.find("links")] == [
        "1 of 1 pairs of cards have links of their own; scores of nearness from 410 to 410"]
    doctor.tool("link", "1", "0", "0", "--one-way")
    report = doctor()
    assert report["cards"][0]["links"] == {b["uuid"]: 0} and doctor.done.returncode == 1
    assert "disagree" in doctor.find("links", "warning")[0]["text"]
    doctor.tool("link", "0", "1", "0")
    doctor.tool("link", "0", "switch", "12")
    doctor.tool("link", "1", "switch", "18")
    assert doctor()["cards"][0]["links"] == {b["uuid"]: 1210}  # the smaller of the two


def offers(doctor):
    return {f["text"].split(" of ")[1]: int(f["text"].split()[5]) for f in doctor.find("config", "ok")}


def config(machine, name, text):
    machine.put(name, text)
    return str(machine.root / name)


def test_mig_devices_under_each_strategy(doctor):
    doctor.tool("mig", "1", "1g.5gb", "1g.5gb+me", "3g.20gb")
    report = doctor()
    parts = report["cards"][1]["parts"]
    assert [p["profile"] for p in parts] == ["1g.5gb", "1g.5gb+me", "3g.20gb"]
    assert [p["memory_bytes"] >> 20 for p in parts] == [4864, 4864, 20224]
    assert all(p["uuid"].startswith("MIG-") and p["health"] == "well" for p in parts)
    assert offers(doctor) == {"nvidia.com/gpu": 20}
    words = ["--node-name", "n", "--node-config-file"]
    node = '{"nodeconfig":[{"name":"n","migstrategy":"%s"}]}'
    doctor(*words, config(doctor.machine, "mixed.json", node % "mixed"))
    assert offers(doctor) == {"nvidia.com/gpu": 10, "nvidia.com/mig-1g.5gb": 1, "nvidia.com/mig-1g.5gb.me": 1,
                              "nvidia.com/mig-3g.20gb": 1}
    assert len(json.loads(doctor.report["register"])) == 1
    report = doctor(*words, config(doctor.machine, "single.json", node % "single"))
    assert doctor.done.returncode == 3 and report["register"] is None
    assert "MIG strategy single" in doctor.find("config", "broken")[0]["text"]
    doctor.tool("mig", "0", "1g.5gb", "1g.5gb")
    doctor.tool("mig", "1", "1g.5gb")
    doctor(*words, str(doctor.machine.root / "single.json"))
    assert offers(doctor) == {"nvidia.com/gpu": 3}


def test_configuration_as_the_plugin_reads_it(doctor):
    device = config(doctor.machine, "device-config.yaml", CONFIG.replace("Scaling: 1", "Scaling: 1.5"))
    report = doctor("--device-config-file", device)
    first = report["cards"][0]["uuid"]
    assert [d["devmem"] for d in json.loads(report["register"])] == [24576, 24576]
    node = config(doctor.machine, "config.json", json.dumps({"NodeConfig": [
        {"Name": "n", "deviceSplitCount": 4, "filterDevices": {"uuid": [first]}}, {"name": "m", "devicesplitcount": 5}]}))
    report = doctor("--device-config-file", device, "--node-config-file", node, NODE_NAME="n")
    assert [(d["index"], d["count"], d["devmem"]) for d in json.loads(report["register"])] == [(1, 4, 24576)]
    doctor.machine.put("config.json", "{")
    report = doctor("--node-config-file", node, NODE_NAME="n")
    assert "none of it holds" in doctor.find("config", "warning")[0]["text"] and len(json.loads(report["register"])) == 2
    doctor.machine.put("device-config.yaml", "nvidia:\n  deviceSplitCount: many\n")
    report = doctor("--device-config-file", device)
    assert doctor.done.returncode == 3 and "deviceSplitCount" in doctor.find("config", "broken")[0]["text"]


def test_a_card_without_a_figure_of_its_memory(doctor):
    doctor.tool("fault", "nvmlDeviceGetMemoryInfo", "--error", "3")  # NVML_ERROR_NOT_SUPPORTED: memory shared with the host
    report = doctor()
    assert report["register"] == "[]" and any("preConfiguredDeviceMemory" in f["text"] for f in doctor.find("config", "warning"))
    assert [c["health"] for c in report["cards"]] == ["well", "well"]
    device = config(doctor.machine, "d.yaml", CONFIG + "  preConfiguredDeviceMemory: 131072\n")
    assert [d["devmem"] for d in json.loads(doctor("--device-config-file", device)["register"])] == [131072] * 2


def test_errors_in_the_kernels_log(doctor):
    doctor.machine.put("dev/kmsg", "4,1,1,-;NVRM: Xid (PCI:0000:01:00): 79, pid=1, GPU has fallen off the bus.\n"
                                   "4,2,2,-;NVRM: Xid (PCI:0000:02:00): 31, pid=7, name=python\n"
                                   "4,3,3,-;NVRM: Xid (PCI:0000:02:00): 31, pid=8, name=python\n"
                                   "4,4,4,-;NVRM: Xid (PCI:0000:77:00): 48, of a card that is gone\n")
    doctor()
    assert doctor.done.returncode == 1
    [warning] = doctor.find("kernel-log", "warning")
    assert warning["text"].startswith("card 0 reported XID 79, GPU has fallen off the bus, 1 time") and "reset" in warning["fix"]
    [note] = doctor.find("kernel-log", "note")
    assert "card 1 reported XID 31, 2 times" in note["text"] and "program" in note["fix"]
    doctor.machine.remove("dev/kmsg")
    doctor()
    assert doctor.done.returncode == 0 and "cannot be read" in doctor.find("kernel-log", "note")[0]["text"]


def missing(doctor):
    return sorted(f["text"].split()[0] for f in doctor.find("device-nodes", "broken"))


def test_device_nodes(doctor):
    doctor.machine.remove("dev/nvidia1")
    doctor.machine.remove("dev/nvidia-uvm")
    doctor()
    assert missing(doctor) == ["/dev/nvidia-uvm", "/dev/nvidia1"]
    assert doctor.done.returncode == 3
    for name in ("nvidia1", "nvidia-uvm"):
        doctor.machine.put(f"dev/{name}")
    doctor.tool("mig", "0", "1g.5gb")
    base = "proc/driver/nvidia/capabilities/gpu0/mig/gi1"
    doctor.machine.put(f"{base}/access", "DeviceFileMinor: 12\nDeviceFileMode: 292\nDeviceFileModify: 1\n")
    doctor.machine.put(f"{base}/ci0/access", "DeviceFileMinor: 13\n")
    doctor.machine.put("dev/nvidia-caps/nvidia-cap12")
    doctor()
    assert missing(doctor) == ["/dev/nvidia-caps/nvidia-cap13"]
    doctor.machine.put("dev/nvidia-caps/nvidia-cap13")
    doctor()
    assert doctor.find("device-nodes", "ok")


def test_a_driver_that_needs_no_nodes(doctor):
    shutil.rmtree(doctor.machine.root / "dev")
    doctor()
    assert doctor.done.returncode == 0 and "without any device node" in doctor.find("device-nodes", "note")[0]["text"]


def test_the_hook_library(doctor):
    doctor()
    said = re.search(r"wants glibc 2\.(\d+) or later", doctor.find("hook", "ok")[0]["text"])
    needs = subprocess.run(["readelf", "-W", "-V", doctor.sim.hook], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert int(said[1]) == max(int(n) for n in re.findall(r"Name: GLIBC_2\.(\d+)", needs))
    doctor(GPUSLICE_HOOK="/nowhere/libvgpu.so")
    assert "/nowhere/libvgpu.so" in doctor.find("hook", "broken")[0]["text"]
    doctor.machine.put("broken.so", "no library")
    doctor(GPUSLICE_HOOK=str(doctor.machine.root / "broken.so"))
    assert "cannot be loaded" in doctor.find("hook", "broken")[0]["text"]


def test_what_is_preloaded(doctor):
    doctor.machine.put("opt/libvgpu.so")
    doctor.machine.put("etc/ld.so.preload", "/opt/libvgpu.so /opt/gone.so\n")
    doctor()
    assert "into every program" in doctor.find("preload", "warning")[0]["text"]
    assert "/opt/gone.so" in doctor.find("preload", "broken")[0]["text"]


@pytest.mark.parametrize("files,check,state,word", [
    ({"sys/fs/cgroup/cgroup.controllers": None, "sys/fs/cgroup/memory/x": ""}, "cgroup", "note", "version 1"),
    ({"sys/fs/cgroup/cgroup.controllers": "cpu notdmem\n"}, "dmem", "note", "no dmem"),
    ({"sys/fs/selinux/enforce": "1"}, "selinux", "warning", "SELinux enforces"),
    ({"sys/module/apparmor/parameters/enabled": "Y\n"}, "apparmor", "note", "AppArmor is on"),
    ({"etc/containerd/config.toml": "# enable_cdi = true\n enable_cdi = false # no\n"}, "runtime-cdi", "warning", "is off"),
    ({"etc/containerd/config.toml": "version = 2\n"}, "runtime-cdi", "warning", "unless told to"),
    ({"run/containerd/containerd.sock": None}, "runtime", "note", "no container runtime"),
    ({"var/lib/kubelet/device-plugins/kubelet.sock": None}, "kubelet", "broken", "is not there"),
    ({"var/lib/kubelet/pod-resources/kubelet.sock": None}, "kubelet", "warning", "is not there"),
])
def test_the_rest_of_the_machine(doctor, files, check, state, word):
    for name, text in files.items():
        if text is None:
            doctor.machine.remove(name)
        else:
            doctor.machine.put(name, text)
    doctor()
    assert any(word in f["text"] for f in doctor.find(check, state)), doctor.report
    assert doctor.done.returncode == {"note": 0, "warning": 1, "broken": 3}[state]


def test_sockets_without_anybody_behind(doctor):
    for s in doctor.machine.sockets:
        s.close()
    doctor()
    assert "nobody listens" in doctor.find("runtime", "broken")[0]["text"]
    assert "nobody who listens" in doctor.find("kubelet", "broken")[0]["text"]


def test_other_plugins_are_named(doctor):
    doctor.machine.listen("var/lib/kubelet/device-plugins/nvidia-gpu.sock")
    doctor()
    assert any("nvidia-gpu.sock" in f["text"] for f in doctor.find("kubelet", "note"))


def test_containerd_is_asked(doctor, tmp_path):
    """On the machine itself (no --root) containerd says what it does: its own answers, from a stand-in on the PATH."""
    tool = tmp_path / "containerd"
    tool.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20"\n'
                    '[ "$1" = config ] && printf "version = 2\\n"\n')
    tool.chmod(0o755)
    if not pathlib.Path("/run/containerd/containerd.sock").exists():
        pytest.skip("no containerd on this machine")
    doctor.words = ["doctor", "--json"]
    doctor(PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert "1.6 has no CDI" in doctor.find("runtime-cdi", "warning")[0]["text"]


@pytest.mark.parametrize("words", [("--watch", "x"), ("--watch", "-1"), ("--watch", "86401"), ("--root", "/nowhere"), ("what",)])
def test_bad_words_are_told(doctor, words):
    done = doctor.sim.run(doctor.exe, "doctor", *words)
    assert done.returncode == 2 and done.stderr.startswith("gpuslice: ")


# --- health over time; the clock is the driver's and the doctor's own, and nothing here sleeps to hope ---

def watched(doctor, steps, seconds=60, **env):
    """Run the doctor and take steps: each a command for the cards, then the change that has to be seen next."""
    doctor.words = ["doctor", "--root", str(doctor.machine.root)]
    watch = doctor.start("--watch", str(seconds), **env)
    seen = []
    try:
        assert "watching 2 cards" in watch.stdout.readline()
        for command, want in steps:
            if command:
                doctor.tool(*command.split())
            for word in [want] if isinstance(want, str) else want:
                line = watch.stdout.readline()
                seen.append(line)
                assert word in line, (command, seen)
    finally:
        watch.kill()
        watch.wait()
        watch.stdout.close()
        watch.stderr.close()
    return [float(line.split()[0]) for line in seen]


def test_an_error_passes(doctor):
    ill, well = watched(doctor, [("xid 0 94", "card 0 reported an error (XID 94)"), ("", "card 0 well")])
    assert 9.8 <= well - ill <= 30  # quiet for 10 s; printed in tenths


def test_a_card_that_needs_a_reset_is_sick_until_it_had_one(doctor):
    times = watched(doctor, [
        ("xid 0 119", "card 0 has to be reset (XID 119, GSP does not answer)"), ("lose 0", "card 0 is lost"),
        ("return 0", "card 0 well")])
    assert times[-1] - times[-2] <= 30


def test_the_driver_says_what_is_to_be_done(doctor):
    times = watched(doctor, [("recovery 1 reset", "card 1 has to be reset"), ("recovery 1 none", "card 1 well")])
    assert times[1] - times[0] <= 30


def test_the_driver_goes_and_comes_back(doctor):
    gone = ["card 0 is without its driver", "card 1 is without its driver"]
    back = ["card 0 well", "card 1 well"]
    times = watched(doctor, [("driver stop", gone), ("driver start", back)])
    assert times[2] - times[1] <= 30


def test_a_mig_device_is_hit_alone(doctor):
    doctor.tool("mig", "0", "1g.5gb", "1g.5gb")
    watched(doctor, [("xid 0 94 1", "card 0 MIG MIG-")])


def test_errors_of_programs_do_no_harm(doctor):
    # had 31 counted, its line would come before that of 94
    watched(doctor, [("xid 0 31", []), ("xid 1 94", "card 1 reported an error (XID 94)")])
    watched(doctor, [("xid 0 94", []), ("xid 1 31", "card 1 reported an error (XID 31)")],
            DP_DISABLE_HEALTHCHECKS="94", DP_ENABLE_HEALTHCHECKS="31")


def test_a_card_without_events_is_asked(doctor):
    doctor.tool("fault", "nvmlDeviceRegisterEvents", "--error", "3")
    watched(doctor, [("lose 1", "card 1 is lost")])
    doctor.tool("reset")
    doctor.tool("fault", "nvmlDeviceRegisterEvents", "--error", "3")
    doctor.words.append("--json")
    report = doctor()
    assert len(doctor.find("health", "warning")) == 2 and [c["health"] for c in report["cards"]] == ["well", "well"]


def test_events_that_cannot_be_waited_for_hide_nothing(doctor):
    doctor.tool("fault", "nvmlEventSetWait_v2", "--error", "15")  # what NVML answers while one of the cards is lost
    watched(doctor, [("lose 1", "card 1 is lost"), ("recovery 0 reset", "card 0 has to be reset")])


def test_a_driver_that_is_loaded_anew_between_two_looks(doctor):
    """Too quick to be seen away: the session is void all the same, and the reset it meant counts."""
    watched(doctor, [("xid 0 119", "card 0 has to be reset"), ("driver start", "card 0 well")])


def test_changes_are_in_the_report(doctor):
    doctor.tool("recovery", "0", "reset")
    report = doctor("--watch", "1")
    assert doctor.done.returncode == 3 and report["worst"] == "broken"
    assert [c["text"] for c in report["changes"]] == ["watching 2 cards", "card 0 has to be reset"]
    assert report["cards"][0]["health"] == "has to be reset" and report["cards"][0]["errors"] == 0
    assert '"health":false' not in report["register"] and [d.get("health") for d in json.loads(report["register"])] == [None, True]
