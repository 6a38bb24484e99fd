"""A cluster that stands still, for bench/scheduler.py: an API server of fixed nodes and granted pods.

Answers LIST (in pages) with text made beforehand, holds watches open and writes to them what it is told, and takes
every write without a look at it. It runs in a process of its own."""

import json
import multiprocessing
import queue
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CARDS, SHARES, MEM, TYPE = 8, 10, 40960, "NVIDIA-A100-SXM4-40GB"
VERSION = "1000"


def uuid(node: int, card: int) -> str:
    return f"GPU-{node:08x}-7a3c-4f1e-9d20-{card:012x}"


def node_name(i: int) -> str:
    return f"gpu-node-{i:05d}"


def node(i: int) -> dict:
    """As large as a node of a real cluster: labels, images, conditions."""
    devices = [{"id": uuid(i, c), "index": c, "count": SHARES, "devmem": MEM, "devcore": 100, "type": TYPE,
                "numa": c // 4, "mode": "hami-core", "health": True} for c in range(CARDS)]
    name = node_name(i)
    amounts = {"cpu": "128", "memory": "1056Gi", "pods": "250", "ephemeral-storage": "3Ti", "nvidia.com/gpu": "80"}
    return {
        "metadata": {"name": name, "uid": f"n-{i}", "resourceVersion": VERSION,
                     "annotations": {"hami.io/node-nvidia-register": json.dumps(devices, separators=(",", ":")),
                                     "gpuslice.io/identity": "prestart",
                                     "volumes.kubernetes.io/controller-managed-attach-detach": "true"},
                     "labels": {f"example.com/label-{k}": f"value-{k}" for k in range(12)} | {
                         "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "gpu": "on"}},
        "spec": {"podCIDR": "10.0.0.0/24"},
        "status": {"capacity": amounts, "allocatable": amounts,
                   "conditions": [{"type": t, "status": "False", "reason": "KubeletHasEnough",
                                   "message": "kubelet has sufficient of it", "lastHeartbeatTime":
                                   "2026-08-01T00:00:00Z", "lastTransitionTime": "2026-08-01T00:00:00Z"}
                                  for t in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")],
                   "images": [{"names": [f"registry.example.com/team/image-{k}:v1.{k}"], "sizeBytes": 10**8 + k}
                              for k in range(20)]}}


def wants(mem: int, cores: int, cards: int = 1) -> dict:
    return {"nvidia.com/gpu": str(cards), "nvidia.com/gpumem": str(mem), "nvidia.com/gpucores": str(cores)}


def pod(name: str, uid: str, limits: dict, annotations: dict | None = None, on: str | None = None) -> dict:
    """As the API server has a plain pod of a Deployment."""
    spec = {"schedulerName": "gpuslice-scheduler", "serviceAccountName": "default", "restartPolicy": "Always",
            "priority": 0, "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
            "containers": [{"name": "main", "image": "registry.example.com/team/app:v1.2.3",
                            "command": ["python", "-m", "server", "--port", "8080"],
                            "env": [{"name": f"SETTING_{k}", "value": f"value of setting {k}"} for k in range(8)],
                            "resources": {"limits": limits, "requests": limits},
                            "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets/token"}]}],
            "volumes": [{"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}],
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}]}
    if on:
        spec["nodeName"] = on
    return {"metadata": {"name": name, "namespace": "default", "uid": uid, "resourceVersion": VERSION,
                         "labels": {"app": "app", "pod-template-hash": "5d4f8c7b9"},
                         "annotations": annotations or {},
                         "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "app-5d4f8c7b9",
                                              "uid": "r-1", "controller": True}]},
            "spec": spec, "status": {"phase": "Running" if on else "Pending", "qosClass": "BestEffort"}}


def granted(i: int, nodes: int, version: str = VERSION) -> dict:
    """Pod i of the cluster: on node i mod nodes, a share of one card."""
    at, card = i % nodes, (i // nodes + i) % CARDS
    mem, cores = (2000, 4000, 8000)[i % 3], (10, 20)[i % 2]
    grant = f"{uuid(at, card)},NVIDIA,{mem},{cores}:;"
    made = pod(f"app-{i:06d}", f"u-{i}", wants(mem, cores), {
        "hami.io/vgpu-node": node_name(at), "hami.io/vgpu-time": "1790000000", "hami.io/bind-phase": "success",
        "hami.io/vgpu-devices-to-allocate": grant, "hami.io/vgpu-devices-allocated": grant}, node_name(at))
    made["metadata"]["resourceVersion"] = version
    return made


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    lists: dict  # resource: [text of each object]
    watches: dict  # resource: queues of those who watch

    def log_message(self, *args):
        pass

    def do_GET(self):
        path, _, query = self.path.partition("?")
        query = dict(urllib.parse.parse_qsl(query))
        kind = path.rpartition("/")[2]
        if "watch" in query:
            self.watch(kind)
            return
        self.list(self.lists.get(kind, []), int(query.get("limit", 0)), int(query.get("continue", 0)))

    def list(self, items: list, limit: int, start: int):
        end = start + limit if limit else len(items)
        meta = {"resourceVersion": VERSION} | ({"continue": str(end)} if end < len(items) else {})
        head = b'{"kind":"List","apiVersion":"v1","metadata":' + json.dumps(meta).encode() + b',"items":['
        self.answer(head + b",".join(items[start:end]) + b"]}")

    def answer(self, body: bytes, status: int = 200):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def watch(self, kind: str):
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        mine = queue.Queue(64)
        self.watches.setdefault(kind, []).append(mine)
        try:
            while True:
                text = mine.get()
                self.wfile.write(b"%x\r\n%s\r\n" % (len(text), text))
        except OSError:
            self.watches[kind].remove(mine)
        self.close_connection = True

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.answer(body, 201)

    do_PATCH = do_PUT = do_POST


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        pass


def push_events(watches: dict, nodes: int, pods: int, n: int, changes: int = 0) -> None:
    """Pods come, change and go: n events on the pods' watch, in thirds; the cluster is as before after them."""
    version = 10**6 + changes * 10**8
    for first in range(0, n // 3, 200):
        text = []
        for i in range(first, min(first + 200, n // 3)):
            version += 3
            made = granted(pods + i % 5000, nodes, str(version))
            made["metadata"]["uid"] = f"e-{version}"
            for step, word in enumerate(("ADDED", "MODIFIED", "DELETED")):
                made["metadata"]["resourceVersion"] = str(version + step)
                text.append(json.dumps({"type": word, "object": made}, separators=(",", ":")))
        block = ("\n".join(text) + "\n").encode()
        for one in watches.get("pods", []):
            one.put(block)
    while any(not one.empty() for one in watches.get("pods", [])):
        time.sleep(0.01)


def serve(pipe, nodes: int, pods: int) -> None:
    def text(obj):
        return json.dumps(obj, separators=(",", ":")).encode()

    Handler.lists = {"nodes": [text(node(i)) for i in range(nodes)],
                     "pods": [text(granted(i, nodes)) for i in range(pods)]}
    Handler.watches = {}
    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    pipe.send((server.server_address[1], sum(map(len, Handler.lists["nodes"] + Handler.lists["pods"]))))
    rounds = 0
    while True:
        n = pipe.recv()
        if n is None:
            return
        push_events(Handler.watches, nodes, pods, n, rounds)
        rounds += 1
        pipe.send(n)


class Cluster:
    """The server in its process. `port`, `bytes` of all objects."""

    def __init__(self, nodes: int, pods: int):
        self.nodes, self.pods = nodes, pods
        self._pipe, theirs = multiprocessing.Pipe()
        self._process = multiprocessing.Process(target=serve, args=(theirs, nodes, pods), daemon=True)
        self._process.start()
        self.port, self.bytes = self._pipe.recv()

    def pages(self) -> list[str]:
        """URLs of the LISTs that a client in pages of 500 asks for."""
        sizes = {"nodes": self.nodes, "pods": self.pods, "resourcequotas": 1}
        return [f"http://127.0.0.1:{self.port}/api/v1/{kind}?limit=500&continue={at}"
                for kind, n in sizes.items() for at in range(0, n, 500)]

    def push(self, n: int) -> None:
        self._pipe.send(n)
        self._pipe.recv()

    def close(self) -> None:
        self._pipe.send(None)
        self._process.join(10)
        if self._process.is_alive():
            self._process.kill()
