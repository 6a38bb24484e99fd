"""gpuslice-scheduler as it is staged, on a small cluster that is only an API."""

import json
import resource
import subprocess
import sys
import time
import urllib.request

from conftest import ROOT, stage_dir
from ports import free_port

sys.path.insert(0, str(ROOT / "bench"))
import scheduler_api  # noqa: E402

PROGRAM = stage_dir() / "bin" / "gpuslice-scheduler"


def get(url: str) -> str | None:
    """None: not yet."""
    try:
        with urllib.request.urlopen(url, timeout=10) as reply:
            return reply.read().decode()
    except OSError:
        return None


def until(look, what: str):
    end = time.monotonic() + 60
    while not (found := look()):
        assert time.monotonic() < end, what
        time.sleep(0.02)  # polls a condition; the timeout decides
    return found


class Daemon:
    """Runs until close(). `files`: its limit of open files, soft and hard."""

    def __init__(self, folder, *flags, files=None):
        self.cluster = scheduler_api.Cluster(2, 2)
        config = folder / "kubeconfig"
        config.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "x", "users": [{"name": "x", "user": {}}],
            "clusters": [{"name": "x", "cluster": {"server": f"http://127.0.0.1:{self.cluster.port}"}}],
            "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}]}))
        calls, metrics = free_port(), free_port()
        self.calls, self.metrics = f"http://127.0.0.1:{calls}", f"http://127.0.0.1:{metrics}"
        self.err = open(folder / "log", "w+")
        self.process = subprocess.Popen(
            [PROGRAM, f"--kubeconfig={config}", f"--http_bind=127.0.0.1:{calls}", f"--metrics-bind-address=127.0.0.1:{metrics}",
             *flags], stderr=self.err,
            preexec_fn=(lambda: resource.setrlimit(resource.RLIMIT_NOFILE, files)) if files else None)

    def wait_ready(self):
        until(lambda: self.process.poll() is not None or get(f"{self.calls}/readyz"), "the daemon is not ready")
        assert self.process.poll() is None, self.log()
        return self

    def log(self) -> str:
        self.err.seek(0)
        return self.err.read()

    def close(self):
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(30)
        self.err.close()
        self.cluster.close()
