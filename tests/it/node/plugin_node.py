"""A node for gpuslice-device-plugin: simulated cards, an API server of its pods, and a kubelet on grpcio that registers,
dials back, allocates, keeps its checkpoint and starts containers in the order of the real one."""

import base64
import concurrent.futures
import copy
import importlib
import json
import os
import pathlib
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
from grpc_tools import protoc

from conftest import ROOT, stage_dir

PROGRAM = pathlib.Path(os.environ.get("GS_PLUGIN", stage_dir() / "bin" / "gpuslice-device-plugin"))
NODE = "node-1"
GPU = "nvidia.com/gpu"
ALLOCATED, LEFT = "hami.io/vgpu-devices-allocated", "hami.io/vgpu-devices-to-allocate"
LOCK, PHASE, BOUND = "hami.io/mutex.lock", "hami.io/bind-phase", "hami.io/bind-time"


def until(look, what: str, seconds: float = 60):
    end = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < end, what() if callable(what) else what
        time.sleep(0.01)  # polls a condition; the timeout decides
    return found


def modules():
    """Python's messages and stubs of proto/."""
    folder = tempfile.mkdtemp(prefix="gpuslice-proto-")
    files = sorted(str(f) for f in (ROOT / "proto").glob("deviceplugin*.proto"))
    assert protoc.main(["protoc", f"-I{ROOT / 'proto'}", f"--python_out={folder}", f"--grpc_python_out={folder}", *files]) == 0
    sys.path.insert(0, folder)
    found = {}
    for file in files:
        for kind in ("_pb2", "_pb2_grpc"):
            found |= vars(importlib.import_module(pathlib.Path(file).stem + kind))
    return found


M = modules()


class Api:
    """Nodes and pods that can be read, patched and watched."""

    def __init__(self):
        self.lock = threading.Condition()
        self.version = 100
        self.pods, self.nodes, self.log = {}, {NODE: {"metadata": {"name": NODE, "annotations": {}}}}, []
        self.requests = []
        self.is_away = False
        self.nodes[NODE]["metadata"]["resourceVersion"] = "100"
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *args):
                pass

            def do_GET(self):
                api.get(self)

            def do_PATCH(self):
                api.patch(self)

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request, client_address):
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def close(self):
        with self.lock:
            self.is_away = True
            self.lock.notify_all()
        self.server.shutdown()
        self.server.server_close()

    def find(self, parts):
        """(store, key) of a path's object."""
        if "pods" in parts and "namespaces" in parts:
            return self.pods, (parts[parts.index("namespaces") + 1], parts[-1])
        return self.nodes, parts[-1]

    def answer(self, handler, body, status=200):
        text = json.dumps(body).encode()
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(text)))
        handler.end_headers()
        handler.wfile.write(text)

    def refuse(self, handler, status, reason):
        self.answer(handler, {"kind": "Status", "status": "Failure", "reason": reason, "code": status, "message": reason}, status)

    def get(self, handler):
        url = urllib.parse.urlsplit(handler.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        parts = url.path.strip("/").split("/")
        with self.lock:
            self.requests.append(f"GET {url.path}")
            if self.is_away:
                handler.close_connection = True
                return
            if parts[-1] == "pods":
                assert query["fieldSelector"] == f"spec.nodeName={NODE}"
                if "watch" not in query:
                    items = list(self.pods.values())
                    self.answer(handler, {"kind": "PodList", "metadata": {"resourceVersion": str(self.version)},
                                          "items": items})
                    return
            else:
                store, key = self.find(parts)
                if key not in store:
                    self.refuse(handler, 404, "NotFound")
                else:
                    self.answer(handler, store[key])
                return
        self.watch(handler, int(query["resourceVersion"]))

    def watch(self, handler, version):
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.wfile.flush()
        at = 0
        try:
            while not self.is_away:
                with self.lock:
                    self.lock.wait_for(lambda: self.is_away or at < len(self.log), 1)
                    todo, at = self.log[at:], len(self.log)
                for number, text in todo:
                    if number > version:
                        handler.wfile.write(b"%x\r\n%s\r\n" % (len(text), text))
                handler.wfile.flush()
        except OSError:
            pass
        handler.close_connection = True

    def patch(self, handler):
        body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
        parts = handler.path.strip("/").split("/")
        with self.lock:
            self.requests.append(f"PATCH {handler.path}")
            store, key = self.find(parts)
            if self.is_away:
                handler.close_connection = True
                return
            if key not in store:
                self.refuse(handler, 404, "NotFound")
                return
            meta, mine = body.get("metadata", {}), store[key]["metadata"]
            for field in ("uid", "resourceVersion"):
                if field in meta and meta[field] != mine[field]:
                    self.refuse(handler, 409, "Conflict")
                    return
            for name, value in meta.get("annotations", {}).items():
                if value is None:
                    mine["annotations"].pop(name, None)
                else:
                    mine["annotations"][name] = value
            self.changed("MODIFIED", store[key], store is self.pods)
            self.answer(handler, store[key])

    def changed(self, word, obj, is_pod):
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        if is_pod:
            text = json.dumps({"type": word, "object": obj}).encode() + b"\n"
            self.log.append((self.version, text))
            self.lock.notify_all()

    def add(self, pod):
        with self.lock:
            meta = pod["metadata"]
            self.pods[meta["namespace"], meta["name"]] = pod
            self.changed("ADDED", pod, True)

    def remove(self, pod):
        with self.lock:
            meta = pod["metadata"]
            del self.pods[meta["namespace"], meta["name"]]
            self.changed("DELETED", copy.deepcopy(pod), True)

    def notes(self, pod=None):
        with self.lock:
            obj = self.nodes[NODE] if pod is None else self.pods[pod["metadata"]["namespace"], pod["metadata"]["name"]]
            return dict(obj["metadata"]["annotations"])

    def note(self, key, value):
        with self.lock:
            self.nodes[NODE]["metadata"]["annotations"][key] = value
            self.changed("MODIFIED", self.nodes[NODE], False)


def make_pod(name, slots, bound=1, phase="allocating"):
    """`slots`: of each container (name, is_init, grant text); grants that are not empty ask for as many cards."""
    def container(c, text):
        n = text.count(":")
        return {"name": c, "resources": {"limits": {GPU: str(n)} if n else {}}}

    grant = "".join(f"{text};" for _, _, text in slots)
    return {"metadata": {"namespace": "team", "name": name, "uid": f"uid-{name}-{time.monotonic_ns()}",
                         "annotations": {ALLOCATED: grant, LEFT: grant, PHASE: phase, BOUND: str(bound),
                                         "hami.io/vgpu-node": NODE}},
            "spec": {"nodeName": NODE, "initContainers": [container(c, t) for c, i, t in slots if i],
                     "containers": [container(c, t) for c, i, t in slots if not i]},
            "status": {"phase": "Pending"}}


class Refused(Exception):
    pass


class Kubelet:
    """Device manager of a kubelet, as far as a plugin can tell."""

    def __init__(self, folder):
        self.folder = folder
        self.socket = folder / "kubelet.sock"
        self.entries = []  # of the checkpoint
        self.devices = {}  # id: health
        self.lists = queue.Queue()
        self.registered = threading.Event()
        self.lock = threading.Lock()
        self.channel = self.server = None
        self.start()

    def start(self):
        for other in self.folder.glob("*.sock"):
            other.unlink()  # a kubelet that starts removes them all
        self.registered.clear()
        server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
        M["add_RegistrationServicer_to_server"](self, server)
        server.add_insecure_port(f"unix:{self.socket}")
        server.start()
        self.server = server

    def stop(self):
        if self.channel:
            self.channel.close()
        self.channel = None
        self.server.stop(None).wait()

    def restart(self):
        self.stop()
        self.start()
        assert self.registered.wait(30), "the plugin does not come back to the kubelet"

    def Register(self, request, context):
        """It dials back before it answers."""
        assert (request.version, request.resource_name) == ("v1beta1", GPU)
        channel = grpc.insecure_channel(f"unix:{self.folder / request.endpoint}",
                                        options=[("grpc.use_local_subchannel_pool", 1)])
        stub = M["DevicePluginStub"](channel)
        self.options = stub.GetDevicePluginOptions(M["Empty"](), timeout=10)
        assert self.options == request.options
        threading.Thread(target=self.watch, args=(stub,), daemon=True).start()
        self.channel, self.stub, self.endpoint = channel, stub, request.endpoint
        self.registered.set()
        return M["Empty"]()

    def watch(self, stub):
        try:
            for message in stub.ListAndWatch(M["Empty"]()):
                self.devices = {d.ID: d.health for d in message.devices}
                self.list_bytes = message.ByteSize()
                self.lists.put(message)
        except grpc.RpcError:
            pass

    def write(self):
        """kubelet_internal_checkpoint, as Go writes it."""
        data = {"PodDeviceEntries": self.entries or None, "RegisteredDevices": {GPU: sorted(self.devices)}}
        temp = self.folder / ".checkpoint.tmp"
        temp.write_text(json.dumps({"Data": data, "Checksum": 1234567}))
        temp.rename(self.folder / "kubelet_internal_checkpoint")

    def call(self, method, request):
        try:
            return getattr(self.stub, method)(request, timeout=30)
        except grpc.RpcError as e:
            raise Refused(e.code().name, e.details()) from None

    def choose(self, n, must=()):
        used = {i for e in self.entries for ids in e["DeviceIDs"].values() for i in ids}
        free = sorted(i for i, health in self.devices.items() if health == "Healthy" and i not in used)
        if len(free) < n:
            raise Refused("Insufficient")
        if not self.options.get_preferred_allocation_available:
            return free[:n]
        answer = self.call("GetPreferredAllocation", M["PreferredAllocationRequest"](container_requests=[
            {"available_deviceIDs": free, "must_include_deviceIDs": must, "allocation_size": n}]))
        ids = list(answer.container_responses[0].deviceIDs) if answer.container_responses else []
        return ids if len(ids) == n and set(ids) <= set(free) else free[:n]

    def admit(self, pod):
        """Allocate for each container, init containers first; an init container's ids go to later ones."""
        reusable = []
        meta = pod["metadata"]
        with self.lock:
            for kind in ("initContainers", "containers"):
                for c in pod["spec"][kind]:
                    n = int(c["resources"]["limits"].get(GPU, 0))
                    if not n:
                        continue
                    ids = reusable[:n] + self.choose(n - len(reusable[:n])) if n > len(reusable[:n]) else reusable[:n]
                    answer = self.call("Allocate", M["AllocateRequest"](container_requests=[{"devices_ids": ids[::-1]}]))
                    (one,) = answer.container_responses
                    self.entries.append({"PodUID": meta["uid"], "ContainerName": c["name"], "ResourceName": GPU,
                                         "DeviceIDs": {"0": list(ids)},
                                         "AllocResp": base64.b64encode(one.SerializeToString()).decode()})
                    if kind == "initContainers":
                        reusable = sorted(set(reusable) | set(ids))
                    self.write()

    def entry(self, pod, container):
        return next(e for e in self.entries
                    if (e["PodUID"], e["ContainerName"]) == (pod["metadata"]["uid"], container))

    def start_container(self, pod, container):
        """PreStartContainer; then what the runtime makes of the answer that was kept. None: without a CDI device."""
        entry = self.entry(pod, container)
        ids = [i for some in entry["DeviceIDs"].values() for i in some]
        if self.options.pre_start_required:
            self.call("PreStartContainer", M["PreStartContainerRequest"](devices_ids=ids))
        return M["ContainerAllocateResponse"].FromString(base64.b64decode(entry["AllocResp"]))

    def forget(self, pod):
        with self.lock:
            self.entries = [e for e in self.entries if e["PodUID"] != pod["metadata"]["uid"]]
            self.write()


class Container:
    """What a runtime starts: variables and mounts of the answer, then those of its CDI devices."""

    def __init__(self, answer, cdi_dir):
        self.env = dict(answer.envs)
        self.mounts = {m.container_path: (m.host_path, m.read_only) for m in answer.mounts}
        self.nodes = [d.host_path for d in answer.devices]
        for device in answer.cdi_devices:
            self.inject(device.name, cdi_dir)

    def inject(self, qualified, cdi_dir):
        kind, _, name = qualified.partition("=")
        found = [(spec, d) for path in cdi_dir.glob("*.json") for spec in [json.loads(path.read_text())]
                 for d in spec["devices"] if spec["kind"] == kind and d["name"] == name]
        if len(found) != 1:
            raise Refused(f"unresolvable CDI devices {qualified}")
        ((spec, device),) = found
        assert spec["cdiVersion"] == "0.5.0"
        edits = device["containerEdits"]
        self.env |= dict(e.split("=", 1) for e in edits.get("env", []))
        self.mounts |= {m["containerPath"]: (m["hostPath"], "ro" in m["options"]) for m in edits.get("mounts", [])}
        self.nodes += [n["hostPath"] for n in edits.get("deviceNodes", [])]

    def quota(self):
        """Lines of the limits that it sees: {uuid: (memory, cores)}."""
        folder, read_only = self.mounts["/run/gpuslice/quota"]
        assert read_only
        lines = (pathlib.Path(folder) / "quota").read_text().splitlines()
        assert lines[0] == "gpuslice-quota 1" and lines[2] == "fail closed"
        devices = [line.split() for line in lines if line.startswith("device ")]
        return {d[1]: (d[2].removeprefix("memory="), d[3].removeprefix("cores=")) for d in devices}


class Node:
    def __init__(self, sim, **config):
        self.sim = sim
        self.folder = sim.folder
        self.plugins = self.folder / "device-plugins"
        self.plugins.mkdir()
        self.cdi = self.folder / "cdi"
        self.hook_path = self.folder / "hook"
        (self.hook_path / "vgpu").mkdir(parents=True)
        self.api = Api()
        self.kubelet = Kubelet(self.plugins)
        self.node_config = self.folder / "config.json"
        self.node_config.write_text(json.dumps({"nodeconfig": [{"name": NODE} | config]}))
        self.kubeconfig = self.folder / "kubeconfig"
        self.kubeconfig.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "x", "users": [{"name": "x", "user": {}}],
            "clusters": [{"name": "x", "cluster": {"server": self.api.url}}],
            "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}]}))
        self.process = None
        self.err = open(self.folder / "log", "a+")

    def uuids(self):
        return [card["uuid"] for card in self.sim.status()["cards"]]

    def start(self, *flags, waits=True, **env):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{s.getsockname()[1]}"
        self.process = subprocess.Popen(
            [PROGRAM, f"--kubeconfig={self.kubeconfig}", f"--kubelet-socket={self.kubelet.socket}", f"--node-name={NODE}",
             f"--hook-path={self.hook_path}", f"--node-config={self.node_config}", f"--hook-library={self.sim.hook}",
             f"--cdi-dir={self.cdi}", f"--metrics-bind-address={self.url.removeprefix('http://')}", *flags],
            env=self.sim.env(**env), stderr=self.err)
        if waits:
            assert self.kubelet.registered.wait(30), self.log()
            until(lambda: self.get("/readyz") or self.process.poll() is not None, self.log)
            assert self.process.poll() is None, self.log()
            until(lambda: self.kubelet.devices, self.log)
        return self

    def get(self, path):
        try:
            with urllib.request.urlopen(self.url + path, timeout=10) as reply:
                return reply.read().decode()
        except OSError:
            return None

    def log(self):
        self.err.seek(0)
        return self.err.read()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(30)
        self.kubelet.registered.clear()
        self.kubelet.devices = {}

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
        return self.process.wait(30) if self.process else 0

    def run(self, pod, *containers):
        """Admit and start all containers in order: their views."""
        self.kubelet.admit(pod)
        return [Container(self.kubelet.start_container(pod, c), self.cdi) for c in containers]

    def close(self):
        try:
            code = self.stop()
            if code not in (0, -9):
                raise AssertionError(f"exit {code}\n{self.log()}")
        finally:
            self.kubelet.stop()
            self.api.close()
            self.err.close()
