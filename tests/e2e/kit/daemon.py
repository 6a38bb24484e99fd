"""gpuslice-scheduler as the chart runs it: the chart is installed by helm, and its Deployment's own command line,
files and ServiceAccount are used for processes on this machine; beside each a real kube-scheduler with the chart's
configuration."""

import base64
import json
import os
import pathlib
import signal
import ssl
import urllib.request

import yaml

from kit import helm, objects, procs
from kit.cluster import ROOT, Cluster, https_ok
from kit.service import Service

TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount"


def program() -> pathlib.Path:
    return pathlib.Path(os.environ.get("GS_STAGE", ROOT / "build" / "stage")) / "bin" / "gpuslice-scheduler"


class Replica:
    """One pod of the Deployment: the daemon and its kube-scheduler."""

    def __init__(self, release: "Release", index: int):
        self.release, self.index = release, index
        self.name = f"{release.name}-{index}"
        self.port, self.local_port, self.metrics_port, self.kube_port = procs.free_ports(4)
        self.daemon: procs.Process | None = None
        self.kube_scheduler: procs.Process | None = None
        self.wire: Service | None = None

    def wired(self) -> Service:
        """What its daemon reaches the API server by from now on, and nobody else does."""
        r = self.release
        self.wire = Service([r.cluster.ports["api"]])
        self.wire.start()
        return self.wire

    @property
    def kubeconfig(self) -> pathlib.Path:
        """The daemon's."""
        r = self.release
        if not self.wire:
            return r.kubeconfig
        config = yaml.safe_load(r.kubeconfig.read_text())
        config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{self.wire.port}"
        path = r.folder / f"{self.name}.kubeconfig"
        path.write_text(yaml.safe_dump(config))
        return path

    def on_host(self, argv: list) -> list:
        """Replicas know each other by host name: where there are several, each has one of its own, as a pod has."""
        if len(self.release.replicas) == 1:
            return argv
        return ["unshare", "--uts", "--", "sh", "-c", 'hostname "$0" && exec "$@"', self.name, *argv]

    def start(self, kube_scheduler: bool = True) -> "Replica":
        self.start_daemon()
        if kube_scheduler:
            self.start_kube_scheduler()
        return self

    def start_daemon(self, wait: bool = True) -> None:
        r = self.release
        env = dict(os.environ, KUBECONFIG=str(self.kubeconfig), POD_NAME=self.name, POD_NAMESPACE=r.namespace)
        self.daemon = procs.Process(r.folder, f"{self.name}-daemon", self.on_host(r.argv(self)), env).start()
        if wait:
            self.daemon.wait_ready(self.is_ready)

    def start_kube_scheduler(self, wait: bool = True) -> None:
        config = self.release.kube_scheduler_config(self)
        self.kube_scheduler = procs.Process(self.release.folder, f"{self.name}-kube-scheduler", self.on_host([
            self.release.cluster.bin / "kube-scheduler", f"--config={config}", "--bind-address=127.0.0.1",
            f"--secure-port={self.kube_port}",
            f"--authentication-kubeconfig={self.release.kube_kubeconfig}",
            f"--authorization-kubeconfig={self.release.kube_kubeconfig}",
            f"-v={4 if os.environ.get('GS_E2E_KEEP') else 0}"])).start()
        if wait:
            self.kube_scheduler.wait_ready(lambda: https_ok(self.kube_port, "/healthz"))

    def is_ready(self) -> bool:
        return https_ok(self.port, "/readyz")

    def restart_daemon(self, number: int = signal.SIGTERM) -> None:
        """End the daemon by a signal and start it again, on the same port."""
        self.daemon.stop(number)
        self.start_daemon()

    def kill(self) -> None:
        """SIGKILL to both, as a node that loses power."""
        for process in (self.daemon, self.kube_scheduler):
            if process:
                process.kill()

    def tend(self) -> None:
        """Start again what has ended, as a kubelet does."""
        if not self.daemon.is_running():
            self.start_daemon()
        if not self.kube_scheduler.is_running():
            self.start_kube_scheduler()

    def stop(self) -> int | None:
        """Both by SIGTERM; the daemon's exit status."""
        if self.kube_scheduler:
            self.kube_scheduler.stop()
        return self.daemon.stop() if self.daemon else None

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def metrics(self) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=30) as reply:
            return reply.read().decode()

    def call(self, verb: str, body: dict) -> dict:
        """As kube-scheduler calls the extender, from this machine."""
        request = urllib.request.Request(f"{self.url}/{verb}", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, context=self.tls(), timeout=60) as reply:
            return json.load(reply)

    def filter(self, pod: dict, nodes: list[str]) -> dict:
        """Have a card decided for a pod that need not exist."""
        meta = {"namespace": "default", "uid": pod["metadata"]["name"], **pod["metadata"]}
        return self.call("filter", {"Pod": {**pod, "metadata": meta}, "NodeNames": nodes})

    def until_it_leads(self, node: str) -> None:
        """A bind is answered only then."""
        nobody = {"PodName": "nobody", "PodNamespace": "default", "PodUID": "nobody", "Node": node}
        assert "not found" in self.call("bind", nobody)["Error"]

    def promise(self, pod: dict, node: str) -> None:
        """Have a card of the node kept for a pod that need not exist. What a daemon decides before it leads is void
        when it does."""
        self.until_it_leads(node)
        procs.until(lambda: self.filter(pod, [node])["NodeNames"] == [node], 10, f"a card of {node} is promised")

    def tls(self) -> ssl.SSLContext:
        """Trusts what the chart's webhook configuration tells the API server to trust."""
        return ssl.create_default_context(cadata=self.release.ca)


class Release:
    """The chart, installed. `argv0` stands in for the staged program: a list, the chart's arguments are added."""

    def __init__(self, cluster: Cluster, folder: pathlib.Path, namespace: str, name: str, values: dict | None = None,
                 replicas: int = 1, argv0: list | None = None, lease: dict | None = None):
        self.cluster, self.namespace, self.name = cluster, namespace, name
        self.folder = folder / name
        self.folder.mkdir()
        self.argv0, self.lease = argv0 or [program()], lease or {}
        self.api = cluster.api()
        self.replicas = [Replica(self, i) for i in range(replicas)]
        # Of one replica the API server calls the port itself: nothing stands between.
        self.service = Service([r.port for r in self.replicas]) if replicas > 1 else None
        self.values = merged({
            "fullnameOverride": name, "schedulerName": f"{name}-scheduler",
            "scheduler": {"leaderElect": replicas > 1, "replicas": replicas, "admissionWebhook": {"customURL": {
                "enabled": True, "host": "127.0.0.1",
                "port": self.service.port if self.service else self.replicas[0].port}}}}, values or {})

    @property
    def scheduler_name(self) -> str:
        return self.values["schedulerName"]

    def install(self) -> "Release":
        if self.service:
            self.service.start()
        self.notes = helm.install(self.folder, self.cluster.kubeconfig(), self.name, self.namespace, self.values)
        self.read()
        return self

    def upgrade(self, values: dict) -> None:
        """helm upgrade; replicas started from now on run by it."""
        self.values = merged(self.values, values)
        self.notes = helm.install(self.folder, self.cluster.kubeconfig(), self.name, self.namespace, self.values,
                                  verb="upgrade")
        self.read()

    def read(self) -> None:
        """Take files, command line and accounts from the API server, as a kubelet would. `kubeconfig` is the
        daemon's, `kube_kubeconfig` that of the kube-scheduler beside it."""
        path = f"/apis/apps/v1/namespaces/{self.namespace}/deployments/{self.name}-scheduler"
        self.pod_spec = self.api.get(path)["spec"]["template"]["spec"]
        self.kubeconfig = self.cluster.service_account(self.namespace, self.pod_spec["serviceAccountName"])
        self.kube_kubeconfig = None
        self.mounts = {}
        by_name = {c["name"]: c for c in self.pod_spec["containers"]}
        self.container = by_name["gpuslice-scheduler"]
        for container in by_name.values():
            for mount in container["volumeMounts"]:
                volume = next(v for v in self.pod_spec["volumes"] if v["name"] == mount["name"])
                if mount["mountPath"] != TOKEN:
                    self.mounts[mount["mountPath"]] = self._materialise(volume)
                elif "secret" in volume:
                    self.kube_kubeconfig = self._kubeconfig_of(volume["secret"]["secretName"])
        hook = self.api.find(f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{self.name}-webhook")
        bundle = hook["webhooks"][0]["clientConfig"].get("caBundle", "") if hook else ""
        self.ca = base64.b64decode(bundle).decode()

    def _kubeconfig_of(self, secret: str) -> pathlib.Path:
        """Of the account a token Secret is for. The controller that would put the token in need not run here."""
        made = self.api.get(f"/api/v1/namespaces/{self.namespace}/secrets/{secret}")
        assert made["type"] == "kubernetes.io/service-account-token"
        return self.cluster.service_account(self.namespace,
                                            made["metadata"]["annotations"]["kubernetes.io/service-account.name"])

    def _materialise(self, volume: dict) -> pathlib.Path:
        folder = self.folder / "mnt" / volume["name"]
        folder.mkdir(parents=True, exist_ok=True)
        if "configMap" in volume:
            path, name = "configmaps", volume["configMap"]["name"]
        else:
            path, name = "secrets", volume["secret"]["secretName"]
        data = self.api.get(f"/api/v1/namespaces/{self.namespace}/{path}/{name}")["data"]
        for key, text in data.items():
            new = folder / f".{key}.new"
            new.touch(mode=0o600)
            new.write_bytes(base64.b64decode(text) if path == "secrets" else text.encode())
            new.rename(folder / key)  # as a kubelet: never half a file
        return folder

    def argv(self, replica: Replica) -> list[str]:
        """The Deployment's arguments with this replica's ports and files."""
        replace = {"--http_bind": f"127.0.0.1:{replica.port}",
                   "--extender-bind": f"127.0.0.1:{replica.local_port}",
                   "--metrics-bind-address": f"127.0.0.1:{replica.metrics_port}"}
        args = []
        for arg in self.container["args"]:
            flag, _, value = arg.partition("=")
            value = replace.get(flag, value)
            for mount, folder in self.mounts.items():
                if value.startswith(mount + "/"):
                    value = str(folder) + value[len(mount):]
            args.append(f"{flag}={value}" if value else flag)
        return [str(a) for a in self.argv0] + args

    def kube_scheduler_config(self, replica: Replica) -> pathlib.Path:
        config = yaml.safe_load((self.mounts["/config"] / "config.yaml").read_text())
        extender = config["extenders"][0]
        has_local = any(a.startswith("--extender-bind=") for a in self.container["args"])
        port = replica.local_port if has_local else replica.port
        extender["urlPrefix"] = extender["urlPrefix"].rpartition(":")[0] + f":{port}"
        config["clientConnection"]["kubeconfig"] = str(self.kube_kubeconfig)
        config["leaderElection"].update(self.lease)
        path = self.folder / f"kube-scheduler-{replica.index}.yaml"
        path.write_text(yaml.safe_dump(config))
        return path

    def start(self, kube_scheduler: bool = True) -> "Release":
        """Until the webhook is asked, too: the API server takes up its configuration some time after helm's return,
        and creates pods without it meanwhile."""
        for replica in self.replicas:
            replica.start(kube_scheduler)
        if self.ca:
            objects.create_account(self.api, "default", "default")
            asks = objects.pod("probe", {self.values.get("resourceName", "nvidia.com/gpu"): 1})
            procs.until(lambda: self.api.post(objects.PODS.format("default"), asks, dryRun="All")
                        ["spec"]["schedulerName"] != "default-scheduler", 30, "the webhook is asked")
        return self

    def held_lease(self) -> dict | None:
        """kube-scheduler's, once somebody holds it."""
        found = self.api.get(f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases")["items"]
        return next((x for x in found if x["spec"].get("holderIdentity")), None)

    def leader(self) -> Replica:
        """Whose kube-scheduler holds the lease."""
        holder = procs.until(self.held_lease, 60, "somebody leads")["spec"]["holderIdentity"]
        return next(r for r in self.replicas if holder.startswith(r.name + "_"))

    def remove(self) -> None:
        for replica in self.replicas:
            replica.stop()
            if replica.wire:
                replica.wire.stop()
        if self.service:
            self.service.stop()
        helm.uninstall(self.folder, self.cluster.kubeconfig(), self.name, self.namespace)

    def __getattr__(self, name: str):
        """Of a release of one replica: that replica's."""
        if name.startswith("_") or "replicas" not in self.__dict__ or len(self.replicas) != 1:
            raise AttributeError(name)
        return getattr(self.replicas[0], name)


def merged(base: dict, more: dict) -> dict:
    """`more` over `base`, maps into maps."""
    out = dict(base)
    for key, value in more.items():
        out[key] = merged(out[key], value) if isinstance(value, dict) and isinstance(out.get(key), dict) else value
    return out
