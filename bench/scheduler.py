"""Measure gpuslice-scheduler: whole HTTP round trips of filter and webhook, memory, time until it is ready, and, where
the Kubernetes programs are built (./dev cluster build), pods bound by a real kube-scheduler.

The daemon runs against a cluster that stands still (bench/scheduler_api.py): nodes of 8 cards, granted pods. One client
(bench/scheduler_client.c) posts over one kept-alive connection, one call after the other. Of each call two things are
said: its time on the clock, from the first byte sent to the last one read, and the processor time of the daemon, which
other load on the machine does not change.

  best     every node fits, and the one that is best is among the names
  typical  two cards of a fuller kind: some nodes do not fit
  none     no node fits: a reason for each name
"""

import argparse
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import scheduler_api as api  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[1]
STAGE = pathlib.Path(os.environ.get("GS_STAGE", ROOT / "build" / "stage"))
BUILD = pathlib.Path(os.environ.get("GS_BUILD", ROOT / "build" / "release"))
DAEMON, CLIENT = STAGE / "bin" / "gpuslice-scheduler", BUILD / "bench" / "scheduler_client"
K8S = pathlib.Path(os.environ.get("GS_K8S_BIN", ROOT / ".cache" / "k8s" / "bin"))
ASKS = {"best": (api.wants(1000, 5), '"NodeNames":["'), "typical": (api.wants(30000, 30, 2), '"NodeNames":["'),
        "none": (api.wants(90000, 10), '"NodeNames":null')}
PODS = 64  # different ones, in turn: each call voids what was decided for its pod before


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Daemon:
    """gpuslice-scheduler on a cluster of bench/scheduler_api.py. `ready_s` from its start."""

    def __init__(self, folder: pathlib.Path, cluster: api.Cluster, *flags: str):
        self.port = free_port()
        config = {"apiVersion": "v1", "kind": "Config", "current-context": "b", "users": [{"name": "b", "user": {}}],
                  "clusters": [{"name": "b", "cluster": {"server": f"http://127.0.0.1:{cluster.port}"}}],
                  "contexts": [{"name": "b", "context": {"cluster": "b", "user": "b"}}]}
        path = folder / f"kubeconfig-{self.port}"
        path.write_text(json.dumps(config))
        self.log = (folder / f"daemon-{self.port}.log").open("w")
        began = time.monotonic()
        self.process = subprocess.Popen([
            DAEMON, f"--http_bind=127.0.0.1:{self.port}", f"--metrics-bind-address=127.0.0.1:{free_port()}",
            "--scheduler-name=gpuslice-scheduler", f"--kubeconfig={path}", *flags], stderr=self.log, stdout=self.log)
        self.tls = any(f.startswith("--cert_file") for f in flags)
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() > began + 120:
                raise RuntimeError(f"the daemon is not ready: see {self.log.name}")
            time.sleep(0.01)
        self.ready_s = time.monotonic() - began

    def is_ready(self) -> bool:
        if self.tls:
            return subprocess.run(["curl", "-skfo", "/dev/null", f"https://127.0.0.1:{self.port}/readyz"],
                                  check=False).returncode == 0
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=5) as reply:
                return reply.status == 200
        except OSError:
            return False

    def cpu_ns(self) -> int:
        """Processor time of all its threads."""
        total = 0
        for task in pathlib.Path(f"/proc/{self.process.pid}/task").iterdir():
            total += int((task / "schedstat").read_text().split()[0])
        return total

    def rss_mib(self) -> float:
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return round(int(line.split()[1]) / 1024, 1)
        return 0.0

    def idle(self) -> None:
        """Until it has worked off what came."""
        before = -1
        while (now := self.cpu_ns()) != before:
            before = now
            time.sleep(0.3)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


def write_bodies(path: pathlib.Path, bodies: list[dict]) -> None:
    with path.open("wb") as f:
        for body in bodies:
            text = json.dumps(body, separators=(",", ":")).encode()
            f.write(b"%d\n%s" % (len(text), text))


def calls(daemon: Daemon, path: str, bodies: list[dict], count: int, expect: str, folder: pathlib.Path, raw: dict,
          name: str) -> dict:
    """One series: times on the clock, and processor time of the daemon per call."""
    file, samples = folder / "bodies", folder / "samples"
    write_bodies(file, bodies)
    before = daemon.cpu_ns()
    out = subprocess.run([CLIENT, str(daemon.port), path, file, str(count), "--expect", expect, "--raw", samples] +
                         (["--tls"] if daemon.tls else []), check=True, capture_output=True, text=True).stdout
    result = json.loads(out)
    result["cpu_ms"] = round((daemon.cpu_ns() - before) / 1e6 / (count + 20), 4)
    raw[name] = [int(line) for line in samples.read_text().split()]
    return result


def filter_bodies(ask: str, names: list[str]) -> list[dict]:
    return [{"Pod": api.pod(f"new-{k}", f"new-{ask}-{k}", ASKS[ask][0]), "Nodes": None, "NodeNames": names}
            for k in range(PODS)]


def unbound(k: int, limits: dict) -> dict:
    """As a webhook sees it."""
    made = api.pod(f"new-{k}", "", limits)
    made["spec"]["schedulerName"] = "default-scheduler"
    return made


def reviews(ours: bool) -> list[dict]:
    limits = api.wants(1000, 5) if ours else {"cpu": "1"}
    return [{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": f"r-{k}", "operation": "CREATE", "namespace": "default", "kind": {"version": "v1", "kind": "Pod"},
        "resource": {"version": "v1", "resource": "pods"},
        "object": unbound(k, limits)}} for k in range(PODS)]


def curl_s(cluster: api.Cluster) -> float:
    """The same LISTs by curl, over one connection."""
    began = time.monotonic()
    args = [a for url in cluster.pages() for a in ("-o", "/dev/null", url)]
    subprocess.run(["curl", "-sf", *args], check=True)
    return round(time.monotonic() - began, 3)


def certificate(folder: pathlib.Path) -> list[str]:
    cert, key = folder / "tls.crt", folder / "tls.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-days", "2", "-subj", "/CN=127.0.0.1", "-keyout", key, "-out", cert], check=True,
                   capture_output=True)
    return [f"--cert_file={cert}", f"--key_file={key}"]


def still(nodes: int, pods: int, args, folder: pathlib.Path, raw: dict) -> dict:
    """Everything that needs no Kubernetes, at one size."""
    say(f"{nodes} nodes, {pods} pods")
    cluster = api.Cluster(nodes, pods)
    names, case = [api.node_name(i) for i in range(nodes)], {"nodes": nodes, "pods": pods}
    lists = [curl_s(cluster)]
    daemon = Daemon(folder, cluster)
    lists.append(curl_s(cluster))
    try:
        case |= {"ready_s": round(daemon.ready_s, 3), "lists_by_curl_s": max(lists), "objects_bytes": cluster.bytes}
        for ask, (_, expect) in ASKS.items():
            count = args.calls if ask != "none" else max(200, args.calls // 10)
            case[f"filter_{ask}"] = calls(daemon, "/filter", filter_bodies(ask, names), count, expect, folder, raw,
                                          f"filter_{ask}_{nodes}")
        for who, ours, expect in (("ours", True, '"patch":'), ("others", False, '"allowed":true')):
            case[f"webhook_{who}"] = calls(daemon, "/webhook", reviews(ours), args.calls, expect, folder, raw,
                                           f"webhook_{who}_{nodes}")
        case["rss_mib"] = daemon.rss_mib()
    finally:
        daemon.stop()
    daemon = Daemon(folder, cluster, *certificate(folder))
    try:
        case["filter_typical_tls"] = calls(daemon, "/filter", filter_bodies("typical", names), args.calls,
                                           ASKS["typical"][1], folder, raw, f"filter_typical_tls_{nodes}")
    finally:
        daemon.stop()
        cluster.close()
    return case


def growth(nodes: int, pods: int, events: int, folder: pathlib.Path) -> dict:
    """Memory at a size, and after so many pods came, changed and went."""
    say(f"memory: {nodes} nodes, {pods} pods, {events} events")
    cluster = api.Cluster(nodes, pods)
    daemon = Daemon(folder, cluster)
    try:
        case = {"nodes": nodes, "pods": pods, "ready_s": round(daemon.ready_s, 3), "rss_mib": daemon.rss_mib()}
        cluster.push(events // 10)  # what a first few events need is no growth
        daemon.idle()
        case["rss_mib_warm"], before = daemon.rss_mib(), daemon.cpu_ns()
        cluster.push(events)
        daemon.idle()
        case |= {"events": events, "rss_mib_after": daemon.rss_mib(),
                 "event_cpu_us": round((daemon.cpu_ns() - before) / 1e3 / events, 2)}
        return case
    finally:
        daemon.stop()
        cluster.close()


def real(folder: pathlib.Path, args) -> dict:
    """Pods bound per second by a real kube-scheduler; nothing where it is not built."""
    if args.no_cluster or not (K8S / "kube-apiserver").exists() or not (K8S / "helm").exists():
        say("no Kubernetes programs (./dev cluster build): pods bound per second are left out")
        return {}
    import scheduler_cluster  # needs the packages of the end-to-end tests

    return scheduler_cluster.measure(folder, args.pods)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    parser.add_argument("--raw", metavar="FILE", help="write every sample there")
    parser.add_argument("--full", action="store_true", help="more calls, and a million events")
    parser.add_argument("--calls", type=int, help="of each kind")
    parser.add_argument("--pods", type=int, default=300, help="bound on the real cluster, of each kind")
    parser.add_argument("--no-cluster", action="store_true", help="leave the real cluster out")
    args = parser.parse_args()
    args.calls = args.calls or (20000 if args.full else 3000)
    raw: dict = {}
    folder = pathlib.Path(tempfile.mkdtemp(prefix="gpuslice-bench-"))
    try:
        cases = {"1000": still(1000, 4000, args, folder, raw), "5000": still(5000, 20000, args, folder, raw),
                 "memory": growth(5000, 40000, 10**6 if args.full else 60000, folder)}
        cases["cluster"] = real(folder, args)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    large, cluster = cases["5000"], cases["cluster"]
    result = {"nodes": 5000, "cards": 5000 * api.CARDS, "pods": 20000,
              "filter_p50_ms": large["filter_typical"]["p50_ms"], "filter_p99_ms": large["filter_typical"]["p99_ms"],
              "filter_max_ms": large["filter_typical"]["max_ms"], "rss_mib": large["rss_mib"],
              "ready_s": large["ready_s"], "webhook_p99_ms": large["webhook_ours"]["p99_ms"],
              "bound_per_s": cluster.get("bound_per_s"), "plain_bound_per_s": cluster.get("plain_bound_per_s"),
              "cores": os.cpu_count(), "load": os.getloadavg()[0], "cases": cases}
    if args.raw:
        pathlib.Path(args.raw).write_text(json.dumps(raw))
    if args.json:
        print(json.dumps(result))
    else:
        print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
