"""The probe (probe.c) as an object: send commands, wait for what it says."""

import json
import os
import pathlib
import queue
import subprocess
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]


def program() -> pathlib.Path:
    build = pathlib.Path(os.environ.get("GS_BUILD", ROOT / "build" / "release"))
    return build / "tests" / "it" / "kube" / "kube_probe"


class Probe:
    """One run. Lines are kept; `wait` looks at those not yet looked at."""

    def __init__(self, kubeconfig=None, context: str | None = None, env: dict | None = None, **options):
        args = [str(program()), str(kubeconfig or ""), context or ""]
        environ = {**os.environ, **(env or {}), **{f"PROBE_{k.upper()}": str(v) for k, v in options.items()}}
        self.process = subprocess.Popen(args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ, text=True)
        self.lines: list[dict] = []
        self._queue: queue.Queue = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.process.stdout:
            self._queue.put(json.loads(line))
        self._queue.put(None)

    def send(self, *words) -> None:
        text = [json.dumps(w, separators=(",", ":")) if isinstance(w, (dict, list)) else str(w) for w in words]
        assert not any(" " in w for w in text), text
        self.process.stdin.write(" ".join(text) + "\n")
        self.process.stdin.flush()

    def wait(self, what: str, timeout: float = 20, **fields) -> dict:
        """The next line of that kind with those fields; others on the way are kept in `lines` only."""
        end = time.monotonic() + timeout
        while True:
            try:
                line = self._queue.get(timeout=max(0.01, end - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"no {what} {fields}; said: {self.lines[-20:]}") from None
            assert line is not None, f"the probe ended; said: {self.lines[-20:]}"
            self.lines.append(line)
            if line["what"] == what and all(line.get(k) == v for k, v in fields.items()):
                return line

    def heard(self, what: str, **fields) -> dict:
        """As wait, but a line that came already will do: for what may overtake a result."""
        for line in self.said(what):
            if all(line.get(k) == v for k, v in fields.items()):
                return line
        return self.wait(what, **fields)

    def ask(self, *words, timeout: float = 20) -> dict:
        """Send a request and wait for its result."""
        self.send(*words)
        return self.wait("result", timeout)

    def stats(self) -> dict:
        self.send("stats")
        return self.wait("stats")

    def said(self, what: str) -> list[dict]:
        return [line for line in self.lines if line["what"] == what]

    def resident_kib(self) -> int:
        for line in open(f"/proc/{self.process.pid}/status"):
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
        raise AssertionError("no VmRSS")

    def close(self) -> int:
        self.process.stdin.close()
        return self.process.wait(20)
