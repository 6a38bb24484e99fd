"""Simulated cards of one's own, programs on them, and the card's word on who had it: shared by the bench and by
tests/it/limiter."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
STAGE = pathlib.Path(os.environ.get("GS_STAGE", ROOT / "build" / "stage"))
BUILD = pathlib.Path(os.environ.get("GS_BUILD", ROOT / "build" / "release"))
CLIENT = BUILD / "bench" / "limiter_client"
OURS = ("GPUSLICE_", "CUDA_", "HAMI_", "GPU_CORE_", "LD_", "XDG_RUNTIME")


class Watch:
    """Samples of the card time of every group, as the simulated cards account it: `curve(group)` gives (t, seconds)."""

    def __init__(self, env, every_ms=50):
        self.rows = []
        self.changed = threading.Condition()
        self.process = subprocess.Popen([STAGE / "bin" / "gpuslice-sim", "usage", "--json", "--every", str(every_ms)],
                                        env=env, stdout=subprocess.PIPE, text=True)
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        for line in self.process.stdout:
            row = json.loads(line)
            used = {(g["name"], c["index"]): (c["t_ns"] / 1e9, c["busy_ns"] / 1e9) for g in row["groups"]
                    for c in g["cards"]}
            with self.changed:
                self.rows.append((row["now_ns"] / 1e9, used))
                self.changed.notify_all()

    def curve(self, group, card=0):
        with self.changed:
            return [used.get((group, card), (t, 0.0)) for t, used in self.rows]

    def until(self, ready, timeout):
        """Wait until ready(rows) says yes; False when time ran out."""
        with self.changed:
            return self.changed.wait_for(lambda: ready(self.rows), timeout)

    def until_used(self, group, seconds, timeout, card=0):
        """Wait until the group has had so much card time."""
        return self.until(lambda rows: rows and rows[-1][1].get((group, card), (0, 0.0))[1] >= seconds, timeout)

    def until_time(self, t, timeout):
        return self.until(lambda rows: rows and rows[-1][0] >= t, timeout)

    def until_used_at(self, group, t, timeout, card=0):
        """Wait until the card's account of the group reaches beyond the moment t."""
        return self.until(lambda rows: rows and rows[-1][1].get((group, card), (0, 0.0))[0] > t, timeout)

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.thread.join()
        self.process.stdout.close()


class Cards:
    """One set of simulated cards, with a run-time folder (and so boards) of its own. Use as a context."""

    def __init__(self, cards=1, memory="8Gi", **config):
        base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gpuslice-limiter-", dir=base))
        self.config = {f"GPUSLICE_SIM_{k.upper()}": str(v) for k, v in {"cards": cards, "memory": memory, **config}.items()}
        (self.folder / "cards").mkdir()
        (self.folder / "run").mkdir(mode=0o700)
        self.started = []
        self.watches = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for p in self.started:
            end(p)
        for w in self.watches:
            w.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def env(self, **extra):
        env = {k: v for k, v in os.environ.items() if not k.startswith(OURS)}
        sim = STAGE / "lib" / "gpuslice" / "sim" / "nvidia"
        env |= {"GPUSLICE_SIM_DIR": str(self.folder / "cards"), "LD_LIBRARY_PATH": str(sim),
                "XDG_RUNTIME_DIR": str(self.folder / "run"), "PATH": f"{STAGE / 'bin'}:{env['PATH']}"}
        env |= self.config
        return env | {k: str(v) for k, v in extra.items() if v is not None}

    def watch(self, every_ms=50):
        w = Watch(self.env(), every_ms)
        self.watches.append(w)
        w.until(lambda rows: rows, 30)  # before anything runs, so that its beginning is seen
        return w

    def start(self, argv, group, **extra):
        """A program of its own session on the cards; without a hook unless `extra` or argv bring one."""
        p = subprocess.Popen([str(a) for a in argv], env=self.env(GPUSLICE_SIM_GROUP=group, **extra), text=True,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             start_new_session=True)
        self.started.append(p)
        return p

    def bare(self, group, *client, **extra):
        return self.start([CLIENT, *client], group, **extra)

    def slice(self, name, options, *client, **extra):
        """The load under `gpuslice run --name NAME OPTIONS`; the cards know it by its name too."""
        return self.start([STAGE / "bin" / "gpuslice", "run", "--name", name, *options, "--", CLIENT, *client], name,
                          **extra)

    def cli(self, *args, timeout=60):
        return subprocess.run([STAGE / "bin" / "gpuslice", *map(str, args)], env=self.env(), timeout=timeout, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def end(p, patience=10):
    """End a program that we started, and all it started."""
    for sig in (signal.SIGTERM, signal.SIGKILL):
        if p.poll() is None:
            try:
                os.killpg(p.pid, sig)
            except ProcessLookupError:
                pass
        try:
            p.wait(patience)
            break
        except subprocess.TimeoutExpired:
            continue
    for stream in (p.stdout, p.stderr):
        stream.close()


def reports(p, timeout):
    """The client's JSON lines, one a process; raises when it failed."""
    try:
        out, err = p.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"{p.args} did not end within {timeout} s") from None
    if p.returncode != 0:
        raise RuntimeError(f"{p.args} ended with {p.returncode}: {err[-2000:]}")
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


def now():
    return time.clock_gettime(time.CLOCK_MONOTONIC)
