"""Crash matrix of the limiter: programs that share half a card are killed at random, as holders of work in flight and
as waiters; one that is spared measures its waits.

    limited.py --client LIMITER_CLIENT --hook LIBVGPU --sim FOLDER --ctl GPUSLICE-SIM
               [--kills N] [--workers N] [--seed N] [--calm ENDS]

Checks: the longest wait of a spared program's launches is at most one quantum (50 ms) longer than it is while as many
compete, come and go as often, but end in good order; the slice gets its share of the card all the while, as the card itself accounts it, so that
nothing is lost with the dead. Of waits, what the thread was ready to run and had no processor is left out, and the
longest such time is allowed for on top: a peer whose turn it is may stand in it.
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

QUANTUM_MS = 50.0
SHARE = 0.50
SHARE_POINTS = 5.0  # of the median second, while processes die and start
PAUSE_S = 0.01  # between two ends, on average
MODES = ("sync", "stream", "graph", "callback")


def now():
    return time.clock_gettime(time.CLOCK_MONOTONIC)


class Slice:
    def __init__(self, args, folder):
        self.client, self.ctl = args.client, args.ctl
        env = {k: v for k, v in os.environ.items() if not k.startswith(("GPUSLICE_", "CUDA_", "HAMI_", "LD_"))}
        self.plain = env | {"GPUSLICE_SIM_DIR": str(folder), "LD_LIBRARY_PATH": args.sim, "GPUSLICE_SIM_GROUP": "crash"}
        self.env = self.plain | {"LD_PRELOAD": args.hook, "CUDA_DEVICE_MEMORY_LIMIT": "0m", "CUDA_DEVICE_SM_LIMIT": "50",
                                 "CUDA_DEVICE_MEMORY_SHARED_CACHE": str(folder / "slice.cache")}
        self.samples = []
        self.watch = subprocess.Popen([self.ctl, "usage", "--json", "--every", "100"], env=self.plain, text=True,
                                      stdout=subprocess.PIPE)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.watch.stdout:
            row = json.loads(line)
            for group in row["groups"]:
                if group["name"] == "crash":
                    card = group["cards"][0]
                    self.samples.append((card["t_ns"] / 1e9, card["busy_ns"] / 1e9))

    def worker(self, mode):
        return subprocess.Popen([self.client, "--kernels", "k1ms", "--mode", mode, "--batch", "4", "--until-term"],
                                env=self.env, stdout=subprocess.DEVNULL)

    def survivor(self):
        return subprocess.Popen([self.client, "--kernels", "k1ms", "--mode", "sync", "--until-term", "--own-waits"],
                                env=self.env, stdout=subprocess.PIPE, text=True)

    def seconds(self, begin, end):
        """Share of the card in every second between two moments."""
        rows = [s for s in self.samples if begin <= s[0] <= end]
        return [(b[1] - a[1]) / (b[0] - a[0]) for a, b in zip(rows[::10], rows[10::10])]

    def close(self):
        self.watch.terminate()
        self.watch.wait()
        self.reader.join()


def ended(survivor):
    """What the spared program measured: milliseconds."""
    survivor.send_signal(signal.SIGTERM)
    out = survivor.communicate(timeout=60)[0]
    if survivor.returncode != 0:
        raise SystemExit(f"the spared program ended with {survivor.returncode}")
    row = json.loads(out)
    return row["longest_launch_ns"] / 1e6, row["longest_delay_ns"] / 1e6, row["launches"]


def churn(slice_, workers, ends, sig, rng):
    """End one worker after the other, each followed by a new one at once."""
    leaving = []
    for _ in range(ends):
        i = rng.randrange(len(workers))
        workers[i].send_signal(sig)
        leaving.append(workers[i])
        workers[i] = slice_.worker(rng.choice(MODES))
        time.sleep(rng.random() * 2 * PAUSE_S)
        leaving = [p for p in leaving if not is_gone(p, sig)]
    for p in leaving:
        p.wait(60)


def is_gone(p, sig):
    status = p.poll()
    if status is None:
        return False
    # one that has only just been started knows no SIGTERM yet
    if status not in (-sig, 0 if sig == signal.SIGTERM else -sig):
        raise SystemExit(f"a worker ended by itself with {status}")
    return True


def judge(calm, storm, shares):
    wait, delay = calm[0], max(calm[1], storm[1])
    bound = wait + QUANTUM_MS + delay
    bad = []
    if storm[0] > bound:
        bad.append(f"a launch waited {storm[0]:.1f} ms: {wait:.1f} in good order + {QUANTUM_MS:.0f} + {delay:.1f} allowed")
    typical = statistics.median(shares)
    if abs(typical - SHARE) * 100 > SHARE_POINTS:
        bad.append(f"the slice had {typical:.3f} of the card in the median second")
    return bad


def run(args, folder):
    rng = random.Random(args.seed)
    slice_ = Slice(args, folder)
    workers = [slice_.worker(MODES[i % len(MODES)]) for i in range(args.workers)]
    try:
        time.sleep(3)  # all are up, whoever is slow to start included
        survivor = slice_.survivor()
        churn(slice_, workers, args.calm, signal.SIGTERM, rng)
        calm = ended(survivor)
        survivor = slice_.survivor()
        begun = now()
        churn(slice_, workers, args.kills, signal.SIGKILL, rng)
        over = now()
        storm = ended(survivor)
    finally:
        for p in workers:
            p.kill()
            p.wait()
        slice_.close()
    shares = slice_.seconds(begun, over)
    print(f"limiter crash matrix: {args.kills} kills, {args.workers} workers, seed {args.seed}, {over - begun:.1f} s")
    for name, (wait, delay, launches) in (("good order", calm), ("kills", storm)):
        print(f"  {name}: longest wait {wait:.1f} ms, time off the processor {delay:.1f} ms, {launches} launches")
    print(f"  share of the card, seconds: median {statistics.median(shares):.3f}, {min(shares):.3f} to {max(shares):.3f}")
    return judge(calm, storm, shares)


def main():
    parser = argparse.ArgumentParser()
    for name in ("client", "hook", "sim", "ctl"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--kills", type=int, default=10000)
    parser.add_argument("--workers", type=int, default=32)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--calm", type=int, default=2000)
    args = parser.parse_args()
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = pathlib.Path(tempfile.mkdtemp(prefix="gpuslice-crash-", dir=base))
    try:
        bad = run(args, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for line in bad:
        print(f"FAILED: {line}")
    sys.exit(1 if bad else 0)


main()
