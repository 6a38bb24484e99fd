"""A real node beside a real control plane: containerd and kubelet, in namespaces of their own (network, mounts,
processes), so that nothing of it outlives its owner or is seen by the machine.

`Node` starts this file as a program inside the namespaces; tests reach in by `run`, mostly with kubectl and helm.
Facts: Kubernetes 1.36 and containerd 1.6 configuration."""

import json
import os
import pathlib
import subprocess
import sys

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from kit import procs  # noqa: E402
from kit.cluster import ROOT, Cluster, http_ok  # noqa: E402
from kit.service import Service  # noqa: E402

NAME, ADDRESS, API_ADDRESS = "n0", "192.0.2.1", "10.96.0.1"
PAUSE = "localhost/pause:1"
TOOLS = ROOT / ".cache" / "tools"  # unpacked there by tools/deps.sh node
CONTAINERD, RUNC, CNI = TOOLS / "containerd/usr/bin", TOOLS / "runc/usr/sbin", TOOLS / "cni/usr/lib/cni"
PRIVATE = ("/run", "/var/lib/kubelet", "/var/log")  # empty inside the namespaces


def why_not() -> str:
    """What this machine lacks for a node; empty: nothing."""
    for file in (CONTAINERD / "containerd", RUNC / "runc", CNI / "ptp"):
        if not file.exists():
            return f"no {file.name}: this machine has no Debian archive to take it from"
    tried = subprocess.run(["unshare", "--net", "--mount", "--pid", "--fork", "true"], capture_output=True, text=True)
    if tried.returncode:
        return tried.stderr.strip()
    try:
        procs.make_cgroups(probe := f"{procs.PREFIX}probe-{os.getpid()}")
    except OSError as e:
        return f"no control groups to be had: {e}"
    procs.drop_cgroups(probe)
    return ""


class Node:
    """`images`: archives to import."""

    def __init__(self, folder: pathlib.Path, images: list[pathlib.Path]):
        self.folder, self.images = folder, images
        self.kubeconfig = folder / "admin.kubeconfig"
        self.process = procs.Process(folder, "node", [
            "unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "--",
            sys.executable, __file__, folder, *images])

    def start(self) -> "Node":
        self.process.start()
        try:
            self.process.wait_ready((self.folder / "ready").exists, 180)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        self.process.kill()
        procs.until(lambda: procs.drop_cgroups(self.folder.name), 30, "control groups are empty")

    def run(self, *argv, stdin: str | None = None) -> str:
        """A command inside; its output."""
        inside = (pathlib.Path("/proc") / str(self.process.pid) / "task" / str(self.process.pid) / "children").read_text()
        done = subprocess.run(["nsenter", "-t", inside.split()[0], "-n", "-m", "-p", "--", *map(str, argv)],
                              input=stdin, text=True, capture_output=True, timeout=180,
                              env=dict(os.environ, KUBECONFIG=str(self.kubeconfig), HOME=str(self.folder)))
        if done.returncode:
            raise RuntimeError(f"{argv}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout


# -- inside --

def network() -> None:
    for argv in (["link", "set", "lo", "up"], ["addr", "add", f"{ADDRESS}/32", "dev", "lo"],
                 ["addr", "add", f"{API_ADDRESS}/32", "dev", "lo"]):
        subprocess.run(["ip", *argv], check=True)
    pathlib.Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def mounts() -> None:
    for folder in PRIVATE:
        os.makedirs(folder, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "none", folder], check=True)


def containerd(folder: pathlib.Path, images: list[str]) -> pathlib.Path:
    """Started, with the images; its socket."""
    home = folder / "containerd"
    home.mkdir()
    (home / "cni").mkdir()
    (home / "cni" / "10-pods.conflist").write_text(json.dumps({"cniVersion": "0.4.0", "name": "pods", "plugins": [{
        "type": "ptp", "ipam": {"type": "host-local", "dataDir": str(home / "ipam"),
                                "ranges": [[{"subnet": "10.88.0.0/16"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}))
    socket = home / "sock"
    (home / "config.toml").write_text(f"""
version = 2
root = "{home / 'root'}"
state = "{home / 'state'}"
[grpc]
address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE}"
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{CNI}"
conf_dir = "{home / 'cni'}"
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "native"
""")
    env = dict(os.environ, PATH=f"{CONTAINERD}:{RUNC}:{os.environ['PATH']}")
    process = procs.Process(folder, "containerd", [CONTAINERD / "containerd", "-c", home / "config.toml"], env).start()
    ctr = [CONTAINERD / "ctr", "-a", socket, "-n", "k8s.io"]
    process.wait_ready(lambda: subprocess.run([*ctr, "version"], capture_output=True).returncode == 0)
    for image in images:
        subprocess.run([*ctr, "images", "import", "--snapshotter", "native", image], check=True, env=env)
    return socket


def kubelet(folder: pathlib.Path, cluster: Cluster, socket: pathlib.Path) -> None:
    cluster.add_user("node", f"system:node:{NAME}", "system:nodes")
    config = folder / "kubelet.yaml"
    config.write_text(yaml.safe_dump({
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        # Nobody but this test can reach it.
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "containerRuntimeEndpoint": f"unix://{socket}", "cgroupDriver": "cgroupfs", "cgroupRoot": f"/{folder.name}",
        "failCgroupV1": False, "failSwapOn": False, "makeIPTablesUtilChains": False, "serializeImagePulls": False,
        "nodeStatusUpdateFrequency": "1s", "healthzPort": 10248, "localStorageCapacityIsolation": False,
        "evictionHard": {"memory.available": "1Mi", "nodefs.available": "0%", "imagefs.available": "0%"}}))
    procs.make_cgroups(folder.name)
    procs.Process(folder, "kubelet", [
        cluster.bin / "kubelet", f"--config={config}", f"--kubeconfig={cluster.kubeconfig('node')}",
        f"--hostname-override={NAME}", f"--node-ip={ADDRESS}", f"--root-dir={folder / 'kubelet'}",
        f"--cert-dir={folder / 'kubelet-certs'}"]).start().wait_ready(lambda: http_ok(10248, "/healthz"))


def main(folder: pathlib.Path, images: list[str]) -> None:
    network()
    mounts()
    # Webhooks are called at their endpoints: no proxy of Services is here. Pods find the API server where its own
    # Service says.
    cluster = Cluster(folder, api_args=["--enable-aggregator-routing=true",
                                        "--kubelet-preferred-address-types=InternalIP"]).start()
    Service([cluster.ports["api"]], (API_ADDRESS, 443)).start()
    cluster.start_scheduler()
    cluster.start_controller_manager()
    kubelet(folder, cluster, containerd(folder, images))
    api = cluster.api()
    api.wait(f"/api/v1/nodes/{NAME}", lambda n: n and any(
        c["type"] == "Ready" and c["status"] == "True" for c in n["status"].get("conditions", [])), 120, "node ready")
    (folder / "ready").touch()

    while True:
        os.wait()  # the first process of a namespace collects the dead


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), sys.argv[2:])
