"""A node for gpuslice-monitor: simulated cards, folders of containers, programs under the hook in them, and an API
server of its pods alone."""

import collections
import json
import os
import pathlib
import queue
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

from conftest import ROOT, stage_dir
from ports import free_port

sys.path.insert(0, str(ROOT / "tests" / "it" / "kube"))
import fake_api  # noqa: E402

PROGRAM = stage_dir() / "bin" / "gpuslice-monitor"
NODE = "node-1"

# A program that does as it is told, one Python expression a line, and prints what came of it.
CLIENT = """
import ctypes as C, os, sys
c = C.CDLL('libcuda.so.1')
assert c.cuInit(0) == 0
ctx, held = C.c_void_p(), []
assert c.cuDevicePrimaryCtxRetain(C.byref(ctx), 0) == 0 and c.cuCtxSetCurrent(ctx) == 0
def alloc(mib):
    p = C.c_uint64()
    r = c.cuMemAlloc_v2(C.byref(p), C.c_size_t(mib << 20))
    if r == 0: held.append(p)
    return r
def free():
    return c.cuMemFree_v2(held.pop())
print(os.getpid(), flush=True)
for line in sys.stdin: print(eval(line), flush=True)
"""


def until(look, what: str, seconds: float = 60):
    end = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < end, what
        time.sleep(0.02)  # polls a condition; the timeout decides
    return found


class Client:
    """Keeps what it allocated until it is closed."""

    def __init__(self, env):
        self.process = subprocess.Popen([sys.executable, "-c", CLIENT], env=env, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.pid = int(self.process.stdout.readline())

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return eval(self.process.stdout.readline())

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.close()

    def close(self):
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()


def pod(name, uid, *grants, containers=("main",), init=(), env=(), state="running", phase="Running", more=None):
    """As the API server has it. `grants`: text of each container's slot, init containers first."""
    def status(c):
        value = {"running": {}} if state == "running" else {"terminated": {"exitCode": 0}} if state == "ended" else {}
        return {"name": c, "containerID": f"containerd://{container_id(uid, c)}", "state": value}

    annotations = {"hami.io/vgpu-node": NODE} | (more or {})
    if grants:
        annotations["hami.io/vgpu-devices-allocated"] = "".join(f"{g};" for g in grants)
    return {"metadata": {"namespace": "team", "name": name, "uid": uid, "resourceVersion": "10", "annotations": annotations},
            "spec": {"nodeName": NODE, "initContainers": [{"name": c, "restartPolicy": "Always"} for c in init],
                     "containers": [{"name": c, "env": [{"name": k, "value": v} for k, v in env]} for c in containers]},
            "status": {"phase": phase, "initContainerStatuses": [status(c) for c in init],
                       "containerStatuses": [status(c) for c in containers]}}


def container_id(uid, container):
    return (uid.replace("-", "") + container.encode().hex()).ljust(64, "0")[:64]


def families(text):
    return {f.name: f for f in text_string_to_metric_families(text)}


class Series:
    """A page of metrics, read by Prometheus' own client library."""

    def __init__(self, text):
        self.text = text
        self.family = families(text)
        self.sample = collections.defaultdict(list)
        for family in self.family.values():
            for s in family.samples:
                self.sample[s.name].append(s)

    def find(self, name, **labels):
        """Values of the series that have these labels."""
        return [s.value for s in self.sample[name] if labels.items() <= s.labels.items()]

    def one(self, name, **labels):
        (value,) = self.find(name, **labels)
        return value


class Node:
    def __init__(self, sim):
        self.sim = sim
        self.hook_path = sim.folder / "vgpu"
        self.containers = self.hook_path / "containers"
        self.containers.mkdir(parents=True)
        self.proc = sim.folder / "proc"
        self.proc.mkdir()
        self.api = fake_api.FakeApi()
        self.events = queue.Queue()
        self.version = 10
        self.api.scripts = [self._feed] * 50
        self.config = sim.folder / "kubeconfig"
        self.point_at(self.api.url)
        self.running = []
        self.monitor = self.why = None

    def point_at(self, url):
        self.config.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "x", "users": [{"name": "x", "user": {}}],
            "clusters": [{"name": "x", "cluster": {"server": url}}],
            "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}]}))

    # ---- the API

    def _feed(self, stream):
        while (event := self.events.get()) is not None:
            stream.send(event)

    def tell(self, word, what):
        self.version += 1
        what["metadata"]["resourceVersion"] = str(self.version)
        self.events.put(fake_api.frame(word, what))

    def writes(self):
        """What was written to the API, in order: (what, object)."""
        return [(what, json.loads(body)) for what, body in list(self.api.written)]

    def bookmark(self):
        """A word of the server that says no more than that it is there."""
        self.version += 1
        self.events.put(fake_api.bookmark(self.version))

    # ---- cards and containers

    def uuids(self):
        return [card["uuid"] for card in self.sim.status()["cards"]]

    def folder(self, uid, container="main"):
        path = self.containers / f"{uid}_{container}"
        path.mkdir(mode=0o777, exist_ok=True)
        return path

    def client(self, uid, container="main", limit="1000m", hook=True, **env):
        """A program in the container; without the hook where somebody unset LD_PRELOAD."""
        ledger = (self.folder(uid, container) / "slice.cache").relative_to(self.sim.folder) if hook else None
        full = self.sim.hook_env(limit, ledger=ledger, **env) if hook else self.sim.env(**env)
        full["GPUSLICE_SIM_GROUP"] = uid
        self.running.append(Client(full))
        self.place(self.running[-1].pid, uid, container)
        return self.running[-1]

    def place(self, pid, uid, container="main"):
        """What the node's /proc says of a process in that container."""
        (self.proc / str(pid)).mkdir(exist_ok=True)
        (self.proc / str(pid) / "cgroup").write_text(
            f"0::/kubepods.slice/kubepods-pod{uid.replace('-', '_')}.slice/cri-containerd-{container_id(uid, container)}.scope\n")

    # ---- the monitor

    def start(self, *flags, cluster=True, env=None, **variables):
        self.url = f"http://127.0.0.1:{free_port()}"
        full = self.sim.env(HOOK_PATH=str(self.hook_path), NODE_NAME=NODE, **variables) | (env or {})
        self.err = open(self.sim.folder / "log", "a+")
        self.monitor = subprocess.Popen(
            [PROGRAM, f"--metrics-bind-address={self.url.removeprefix('http://')}", f"--proc={self.proc}",
             *([f"--kubeconfig={self.config}"] if cluster else ["--no-cluster"]), *flags], env=full, stderr=self.err)
        return self

    def get(self, path):
        """Status and text; None: it does not answer yet."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=10) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode()
        except OSError as e:
            self.why = e
            return None

    def ready(self):
        until(lambda: self.monitor.poll() is not None or (self.get("/readyz") or (0,))[0] == 200, "the monitor is not ready")
        assert self.monitor.poll() is None, self.log()
        return self

    def scrape(self):
        reply = self.get("/metrics")
        assert reply and reply[0] == 200, (reply, self.why, self.monitor.poll(), self.log())
        return Series(reply[1])

    def until(self, look, what):
        """Scrape until it holds; returns what `look` found."""
        return until(lambda: look(self.scrape()), what)

    def settled(self, name, value, **labels):
        return self.until(lambda s: s.find(name, **labels) == [value] and s, f"{name} {labels} is not {value}")

    def log(self):
        self.err.seek(0)
        return self.err.read()

    def lines(self, text):
        return [json.loads(line) for line in self.log().splitlines() if text in line]

    def json(self, *flags, cluster=True):
        return subprocess.run([PROGRAM, "--json", f"--proc={self.proc}",
                               *([f"--kubeconfig={self.config}"] if cluster else ["--no-cluster"]), *flags],
                              env=self.sim.env(HOOK_PATH=str(self.hook_path), NODE_NAME=NODE), capture_output=True, text=True,
                              timeout=60)

    def rss_bytes(self):
        return next(int(line.split()[1]) * 1024 for line in pathlib.Path(f"/proc/{self.monitor.pid}/status").read_text().splitlines()
                    if line.startswith("VmRSS"))

    def stop(self):
        if self.monitor is not None and self.monitor.poll() is None:
            self.monitor.terminate()
            assert self.monitor.wait(30) == 0

    def close(self):
        for client in self.running:
            if client.process.poll() is None:
                client.close()
        for _ in range(50):
            self.events.put(None)
        self.api.close()
        if self.monitor is not None:
            if self.monitor.poll() is None:
                self.monitor.kill()
            self.monitor.wait(30)
            self.err.close()


def write_region(path: pathlib.Path, uuid: str, priority=1, recent=0, used=0, host_pid=0, limit=1 << 30, last=0):
    """A file of HAMi's libvgpu, v1.2, by the offsets of its sheet and not by our headers."""
    import struct

    data = bytearray(2008953)
    struct.pack_into("<iii", data, 0, 19920718, 1, 2)
    struct.pack_into("<Q", data, 56, 1)
    data[64:64 + len(uuid)] = uuid.encode()
    struct.pack_into("<Q", data, 1600, limit)
    struct.pack_into("<Q", data, 1728, 30)
    struct.pack_into("<ii", data, 1856, 7, host_pid)
    struct.pack_into("<QQQQQ", data, 1856 + 8, used // 4, used // 4, used // 2, 0, used)
    struct.pack_into("<Q", data, 1856 + 1160 + 16, 25)
    struct.pack_into("<i", data, 1856 + 1928, 1)
    struct.pack_into("<iiii", data, 2008896, 1, 1, recent, priority)
    struct.pack_into("<q", data, 2008912, last)
    path.write_bytes(data)


def read_words(path):
    """utilization_switch, recent_kernel."""
    import struct

    with open(path, "rb") as file:
        file.seek(2008900)
        return struct.unpack("<ii", file.read(8))


__all__ = ["NODE", "PROGRAM", "Node", "Series", "container_id", "os", "pod", "read_words", "until", "write_region"]
