"""examples/by-hand, as docs/scheduler.md tells to use it: daemon and kube-scheduler from a kubeconfig, no chart. The
files are taken as they stand, but for the port."""

import shutil
import subprocess

import pytest
import yaml
from kit import cards, daemon, helm, objects, procs
from kit.cluster import ROOT, http_ok, https_ok

FILES = ROOT / "examples" / "by-hand"
PORT = 8080  # of the files and of the manual


@pytest.fixture
def started(cluster, tmp_path):
    """Both programs, in a folder with the files and a `kubeconfig`; kubectl there."""
    shutil.copytree(FILES, tmp_path, dirs_exist_ok=True)
    shutil.copy(cluster.kubeconfig(), tmp_path / "kubeconfig")
    port, metrics, secure = procs.free_ports(3)
    config = tmp_path / "kube-scheduler.yaml"
    text = config.read_text()
    assert text.count(f":{PORT} ") == 1
    config.write_text(text.replace(f":{PORT} ", f":{port} "))
    ours = procs.Process(tmp_path, "daemon", [
        daemon.program(), "--kubeconfig", "kubeconfig", "--scheduler-name", "hami-scheduler",
        "--http_bind", f"127.0.0.1:{port}", "--metrics-bind-address", f"127.0.0.1:{metrics}"]).start()
    theirs = procs.Process(tmp_path, "kube-scheduler", [
        cluster.bin / "kube-scheduler", "--config", "kube-scheduler.yaml", "--bind-address=127.0.0.1",
        f"--secure-port={secure}"]).start()
    ours.wait_ready(lambda: http_ok(port, "/readyz"))
    theirs.wait_ready(lambda: https_ok(secure, "/readyz"))

    def kubectl(*args) -> str:
        return subprocess.run([cluster.bin / "kubectl", "--kubeconfig", "kubeconfig", *args], cwd=tmp_path, check=True,
                              stdout=subprocess.PIPE, text=True, timeout=60).stdout
    yield kubectl
    theirs.stop()
    ours.stop()


def test_the_files_work_as_they_stand(started, api, wait_bound):
    objects.create_account(api, "default", "default")
    assert "created" in started("apply", "-f", "node.yaml")
    try:
        assert "created" in started("apply", "-f", "pod.yaml")
        bound = wait_bound(api.get(objects.PODS.format("default") + "/slice"))
        assert bound["spec"]["nodeName"] == "gpu-node"
        assert cards.GRANT in bound["metadata"]["annotations"]
        cards.check([bound], 40960, 10)
    finally:
        started("delete", "--ignore-not-found", "--grace-period=0", "--force", "-f", "pod.yaml", "-f", "node.yaml")


def test_the_extender_is_the_charts(tmp_path):
    """What both say, they say alike."""
    by_hand = yaml.safe_load((FILES / "kube-scheduler.yaml").read_text())
    charts = yaml.safe_load(helm.pick(helm.template(tmp_path), "ConfigMap", "gpuslice-scheduler")["data"]["config.yaml"])
    (mine,), (its,) = by_hand["extenders"], charts["extenders"]
    assert mine.pop("urlPrefix") != its.pop("urlPrefix")
    assert mine == its
    for key in ("profiles", "podInitialBackoffSeconds", "podMaxBackoffSeconds"):
        assert by_hand[key] == charts[key], key
