"""etcd, kube-apiserver, and on demand kube-scheduler and kube-controller-manager, on free loopback ports.

Nodes are API objects only: pods are bound, and never run. Facts on flags: Kubernetes 1.36 `--help`."""

import base64
import http.client
import json
import os
import pathlib
import shutil
import ssl
import sys
import urllib.request

import yaml

from kit import pki, procs
from kit.api import Api

ROOT = pathlib.Path(__file__).resolve().parents[3]
ADMIN, APISERVER = "admin", "apiserver"


def bin_dir() -> pathlib.Path:
    """The programs `tools/cluster.sh build` made: $GS_K8S_BIN, else .cache/k8s/bin."""
    folder = pathlib.Path(os.environ.get("GS_K8S_BIN", ROOT / ".cache" / "k8s" / "bin"))
    if not (folder / "kube-apiserver").exists():
        raise RuntimeError(f"no Kubernetes programs at {folder}: run ./dev cluster build")
    return folder


class Cluster:
    """One control plane in one folder. `keep`: its processes outlive this one (./dev cluster up). `api_args`: more
    arguments of kube-apiserver."""

    def __init__(self, folder: pathlib.Path, keep: bool = False, api_args: list | None = None):
        self.folder, self.keep, self.bin, self.api_args = folder, keep, bin_dir(), api_args or []
        self.procs: dict[str, procs.Process] = {}
        self.authority: pki.Authority | None = None
        self.ports: dict[str, int] = {}

    # -- start and stop --

    def start(self) -> "Cluster":
        names = ["etcd", "etcd-peer", "api", "scheduler", "controller-manager"]
        self.ports = dict(zip(names, procs.free_ports(len(names))))
        self._make_certificates()
        self._start_etcd()
        self.start_apiserver()
        return self

    def stop(self) -> None:
        for process in reversed(list(self.procs.values())):
            process.stop()
        self.procs.clear()

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def check(self) -> None:
        """Raise when a program of the control plane has ended."""
        for process in self.procs.values():
            process.check()

    def _make_certificates(self) -> None:
        folder = self.folder / "pki"
        self.authority = pki.Authority(folder)
        self.authority.issue(APISERVER, "kube-apiserver", sans=[
            "kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost", "127.0.0.1", "10.96.0.1"])
        self.add_user(ADMIN, ADMIN, "system:masters")
        self.add_user("scheduler", "system:kube-scheduler")
        self.add_user("controller-manager", "system:kube-controller-manager")
        pki.signing_pair(folder, "sa")

    def add_user(self, name: str, common_name: str, organization: str = "") -> None:
        """A kubeconfig `name` with a certificate of that user and group."""
        pair = self.authority.issue(name, common_name, organization)
        self.write_kubeconfig(name, {"client-certificate": str(pair.cert), "client-key": str(pair.key)})

    def _start_etcd(self) -> None:
        client, peer = (f"http://127.0.0.1:{self.ports[p]}" for p in ("etcd", "etcd-peer"))
        self._launch("etcd", [
            self.bin / "etcd", "--name", "e2e", "--data-dir", self.folder / "etcd", "--unsafe-no-fsync",
            "--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
            "--initial-advertise-peer-urls", peer, "--initial-cluster", f"e2e={peer}", "--log-level", "warn",
            "--quota-backend-bytes", 8 << 30])
        self.procs["etcd"].wait_ready(lambda: http_ok(self.ports["etcd"], "/readyz"))

    def start_apiserver(self) -> None:
        """Also after the one before was killed: same port, same data."""
        p = self.folder / "pki"
        self._launch("kube-apiserver", [
            self.bin / "kube-apiserver", f"--etcd-servers=http://127.0.0.1:{self.ports['etcd']}",
            "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", f"--secure-port={self.ports['api']}",
            f"--tls-cert-file={p / 'apiserver.crt'}", f"--tls-private-key-file={p / 'apiserver.key'}",
            f"--client-ca-file={p / 'ca.crt'}", f"--service-account-key-file={p / 'sa.pub'}",
            f"--service-account-signing-key-file={p / 'sa.key'}",
            "--service-account-issuer=https://kubernetes.default.svc", "--service-cluster-ip-range=10.96.0.0/24",
            "--authorization-mode=Node,RBAC", "--allow-privileged=true", "--endpoint-reconciler-type=none",
            # No kubelet and no node controller is there to take the not-ready taint off again.
            "--disable-admission-plugins=TaintNodesByCondition",
            "--max-requests-inflight=3000", "--max-mutating-requests-inflight=1000",
            f"--cert-dir={self.folder / 'certs'}", *self.api_args, *self._audit()])
        self.procs["kube-apiserver"].wait_ready(lambda: self.api_ready(), 120)

    def _audit(self) -> list[str]:
        """Where the folder is kept (GS_E2E_KEEP): who asked what and when, with what was written to pods."""
        if not os.environ.get("GS_E2E_KEEP"):
            return []
        policy, pods = self.folder / "audit.yaml", [{"group": "", "resources": ["pods", "pods/binding", "pods/eviction"]}]
        policy.write_text(yaml.safe_dump({
            "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [
                {"level": "RequestResponse", "verbs": ["create", "patch", "update", "delete"], "resources": pods},
                {"level": "Metadata", "resources": [{"group": ""}]}, {"level": "None"}]}))
        (self.folder / "log").mkdir(exist_ok=True)
        return [f"--audit-policy-file={policy}", f"--audit-log-path={self.folder / 'log' / 'audit.log'}",
                "--audit-log-maxsize=4096"]

    def start_scheduler(self) -> None:
        """The cluster's own kube-scheduler, for pods that ask for nothing of ours."""
        if "kube-scheduler" in self.procs:
            return
        self._launch("kube-scheduler", [
            self.bin / "kube-scheduler", f"--kubeconfig={self.kubeconfig('scheduler')}", "--leader-elect=false",
            "--bind-address=127.0.0.1", f"--secure-port={self.ports['scheduler']}", "--kube-api-qps=1000",
            "--kube-api-burst=2000"])
        self.procs["kube-scheduler"].wait_ready(lambda: https_ok(self.ports["scheduler"], "/readyz"))

    def start_controller_manager(self) -> None:
        """Controllers for tests that need them (quota status, disruption budgets, Deployments, namespaces). Nodes
        stay as the tests set them: what judges nodes by their heartbeat is off."""
        if "kube-controller-manager" in self.procs:
            return
        p = self.folder / "pki"
        self._launch("kube-controller-manager", [
            self.bin / "kube-controller-manager", f"--kubeconfig={self.kubeconfig('controller-manager')}",
            f"--service-account-private-key-file={p / 'sa.key'}", f"--root-ca-file={p / 'ca.crt'}",
            "--use-service-account-credentials=true", "--leader-elect=false", "--bind-address=127.0.0.1",
            f"--secure-port={self.ports['controller-manager']}",
            "--controllers=*,-node-lifecycle-controller,-taint-eviction-controller,-node-ipam-controller"])
        self.procs["kube-controller-manager"].wait_ready(
            lambda: https_ok(self.ports["controller-manager"], "/healthz"))

    def kill_apiserver(self) -> None:
        """SIGKILL; start_apiserver() brings it back."""
        self.procs.pop("kube-apiserver").kill()

    def compact(self) -> None:
        """Have etcd forget all states but the present one: who asks for what came after an older one is answered 410."""
        def ask(path: str, body: dict) -> dict:
            request = urllib.request.Request(f"http://127.0.0.1:{self.ports['etcd']}/v3/{path}", json.dumps(body).encode())
            with urllib.request.urlopen(request, timeout=30) as reply:
                return json.load(reply)

        revision = ask("maintenance/status", {})["header"]["revision"]
        ask("kv/compaction", {"revision": revision, "physical": True})

    def stop_program(self, name: str) -> None:
        self.procs.pop(name).stop()

    def _launch(self, name: str, argv: list) -> None:
        self.procs[name] = procs.Process(self.folder, name, argv, keep=self.keep).start()

    # -- access --

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.ports['api']}"

    @property
    def ca_file(self) -> pathlib.Path:
        return self.folder / "pki" / "ca.crt"

    def kubeconfig(self, user: str = ADMIN) -> pathlib.Path:
        return self.folder / f"{user}.kubeconfig"

    def write_kubeconfig(self, name: str, credential: dict) -> pathlib.Path:
        """A kubeconfig of a user with this credential (keys as in `users[].user`)."""
        ca = base64.b64encode(self.ca_file.read_bytes()).decode()
        config = {
            "apiVersion": "v1", "kind": "Config", "current-context": "e2e",
            "clusters": [{"name": "e2e", "cluster": {"server": self.url, "certificate-authority-data": ca}}],
            "users": [{"name": name, "user": credential}],
            "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": name}}]}
        pki.write_private(self.kubeconfig(name), yaml.safe_dump(config).encode())
        return self.kubeconfig(name)

    def service_account(self, namespace: str, name: str, seconds: int = 86400) -> pathlib.Path:
        """A kubeconfig of a ServiceAccount, by a token that the API server issues for it (TokenRequest)."""
        reply = self.api().post(f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token", {
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"expirationSeconds": seconds}})
        return self.write_kubeconfig(f"sa-{namespace}-{name}", {"token": reply["status"]["token"]})

    def api(self, user: str = ADMIN) -> Api:
        return Api(self.kubeconfig(user))

    def api_ready(self) -> bool:
        context = ssl.create_default_context(cafile=str(self.ca_file))
        pair = self.folder / "pki" / "admin"
        context.load_cert_chain(pair.with_suffix(".crt"), pair.with_suffix(".key"))
        return https_ok(self.ports["api"], "/readyz", context)


def http_ok(port: int, path: str, connection=None) -> bool:
    c = connection or http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        c.request("GET", path)
        return c.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        c.close()


def https_ok(port: int, path: str, context: ssl.SSLContext | None = None) -> bool:
    """Without a context the certificate is not looked at: a program of our own on a port of our own."""
    if context is None:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return http_ok(port, path, http.client.HTTPSConnection("127.0.0.1", port, timeout=5, context=context))


def state_of(folder: pathlib.Path) -> dict:
    return json.loads((folder / "state.json").read_text())


def main(argv: list[str]) -> int:
    """up FOLDER | down FOLDER | status FOLDER: what tools/cluster.sh calls."""
    verb, folder = argv[0], pathlib.Path(argv[1])
    if verb == "down":
        ended = procs.end_noted(folder)
        shutil.rmtree(folder, ignore_errors=True)
        print(f"ended {ended} processes", file=sys.stderr)
        return 0
    if verb == "status":
        if not (folder / "state.json").exists():
            print("down")
            return 1
        state = state_of(folder)
        alive = {name: procs.start_time(pid) == born for name, (pid, born) in state["programs"].items()}
        for name, is_alive in alive.items():
            print(f"{name}\t{'running' if is_alive else 'dead'}")
        print(f"kubeconfig\t{state['kubeconfig']}")
        return 0 if all(alive.values()) else 1
    procs.end_noted(folder)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    folder.chmod(0o700)
    cluster = Cluster(folder, keep=True)
    try:
        cluster.start()
        cluster.start_scheduler()
        cluster.start_controller_manager()
    except BaseException:
        cluster.stop()
        raise
    state = {"kubeconfig": str(cluster.kubeconfig()), "ports": cluster.ports,
             "programs": {n: [p.pid, procs.start_time(p.pid)] for n, p in cluster.procs.items()}}
    (folder / "state.json").write_text(json.dumps(state))
    print(cluster.kubeconfig())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
