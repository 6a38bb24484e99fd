"""Cost of the hook against the bare (simulated, zero-cost) driver, in interleaved runs.

Every figure is a median over rounds; a round measures bare and hooked one right after the other, so
that a noisy neighbour hits both. Added cost is the median of the per-round differences. Times are CPU time
of the client, which neither sleeps nor waits: on a shared machine wall time measures the neighbours. The
same figures in wall time stand beside them under `*_wall_*`.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def say(text):
    print(text, file=sys.stderr, flush=True)


class Bench:
    def __init__(self, build, stage, rounds, folder):
        self.client = build / "bench" / "hook_client"
        self.hook = stage / "lib" / "gpuslice" / "libvgpu.so"
        self.rounds = rounds
        self.folder = folder
        self.raw = {}
        sim = stage / "lib" / "gpuslice" / "sim" / "nvidia"
        self.bare = {k: v for k, v in os.environ.items() if not k.startswith(("GPUSLICE_", "CUDA_", "LD_"))}
        self.bare |= {"LD_LIBRARY_PATH": str(sim), "GPUSLICE_SIM_MODE": "zero-cost", "GPUSLICE_SIM_MEMORY": "64Gi",
                      "GPUSLICE_SIM_DIR": str(folder / "cards")}
        (folder / "cards").mkdir()
        self.hooked = self.bare | {"LD_PRELOAD": str(self.hook), "CUDA_DEVICE_MEMORY_LIMIT": "48Gi",
                                   "CUDA_DEVICE_MEMORY_SHARED_CACHE": str(folder / "slice.cache")}
        # HAMi's grant without a limit: counted, never refused.
        self.unlimited = self.hooked | {"CUDA_DEVICE_MEMORY_LIMIT": "0m",
                                        "CUDA_DEVICE_MEMORY_SHARED_CACHE": str(folder / "free.cache")}

    def one(self, env, op, live=0, iterations=100000):
        out = subprocess.run([self.client, op, str(live), str(iterations)], env=env, check=True, text=True,
                             stdout=subprocess.PIPE).stdout
        return [float(x) for x in out.split()]

    def many(self, env, count, op, live=0, iterations=20000):
        """`count` clients that begin measuring together; their figures, one list each."""
        gate_r, gate_w = os.pipe()
        os.set_inheritable(gate_r, True)
        procs = [subprocess.Popen([self.client, op, str(live), str(iterations)], env=env | {"GS_BENCH_GATE": str(gate_r)},
                                  stdout=subprocess.PIPE, text=True, pass_fds=[gate_r]) for _ in range(count)]
        os.close(gate_r)
        os.close(gate_w)
        rows = []
        for p in procs:
            out = p.communicate(timeout=300)[0]
            if p.returncode != 0:
                raise SystemExit(f"bench: {op} failed with {p.returncode}")
            rows.append([float(x) for x in out.split()])
        return rows

    def added(self, key, op, live, iterations, env=None):
        """{"cpu": (bare, hooked, added), "wall": ...}: medians, nanoseconds an operation."""
        pairs = []
        for _ in range(self.rounds):
            bare = self.one(self.bare, op, live, iterations)
            hooked = self.one(env or self.hooked, op, live, iterations)
            pairs.append((bare, hooked))
        self.raw[key] = pairs

        def medians(clock):
            return (statistics.median(p[0][clock] for p in pairs), statistics.median(p[1][clock] for p in pairs),
                    statistics.median(p[1][clock] - p[0][clock] for p in pairs))

        return {"wall": medians(0), "cpu": medians(1)}

    def start_up(self, count):
        """Added CPU time of start-up with `count` processes at once, milliseconds: p50, p95."""
        bare, hooked = [], []
        for _ in range(self.rounds):
            bare.append(sorted(r[1] / 1e6 for r in self.many(self.bare, count, "start")))
            hooked.append(sorted(r[1] / 1e6 for r in self.many(self.hooked, count, "start")))
        self.raw["startup"] = {"bare_cpu_ms": bare, "hooked_cpu_ms": hooked}

        def quantile(rows, q):
            return statistics.median(r[min(len(r) - 1, int(q * len(r)))] for r in rows)

        return {q: (quantile(bare, q), quantile(hooked, q)) for q in (0.5, 0.95)}


def measure(b):
    out = {"rounds": b.rounds, "cores": os.cpu_count(), "clock": "process cpu time"}
    for live in (0, 10000):
        say(f"alloc + free, {live} live")
        took = b.added(f"alloc_live{live}", "alloc", live, 100000)
        out |= {f"alloc_free_bare_ns_live{live}": took["cpu"][0], f"alloc_free_hooked_ns_live{live}": took["cpu"][1],
                f"alloc_free_added_ns_live{live}": took["cpu"][2], f"alloc_free_added_wall_ns_live{live}": took["wall"][2]}
    out["alloc_free_bare_ns"] = out["alloc_free_bare_ns_live0"]
    say("alloc + free, 8 processes on one slice")
    ratios = []
    for _ in range(b.rounds):
        alone = b.one(b.hooked, "alloc", 0, 20000)[1]
        eight = statistics.mean(r[1] for r in b.many(b.hooked, 8, "alloc"))
        ratios.append((alone, eight))
    b.raw["eight"] = ratios
    out["alloc_free_cpu_ns_1proc"] = statistics.median(r[0] for r in ratios)
    out["alloc_free_cpu_ns_8proc"] = statistics.median(r[1] for r in ratios)
    out["alloc_free_cpu_ratio_8proc"] = statistics.median(r[1] / r[0] for r in ratios)
    say("launch without a limit")
    took = b.added("launch", "launch", 0, 1000000, b.unlimited)
    out |= {"launch_bare_ns": took["cpu"][0], "launch_added_ns_unlimited": took["cpu"][2],
            "launch_added_wall_ns_unlimited": took["wall"][2]}
    say("cuMemGetInfo")
    took = b.added("meminfo", "meminfo", 0, 1000000)
    out |= {"mem_get_info_bare_ns": took["cpu"][0], "mem_get_info_ns": took["cpu"][1],
            "mem_get_info_wall_ns": took["wall"][1]}
    say("start-up of 64 processes")
    start = b.start_up(64)
    for q, name in ((0.5, "p50"), (0.95, "p95")):
        out[f"startup64_bare_{name}_ms"] = start[q][0]
        out[f"startup64_added_{name}_ms"] = start[q][1] - start[q][0]
    say("system calls")
    out["syscalls_per_1000_calls"] = b.one(b.hooked, "syscalls", 0, 1000)[0] / 4
    return {k: round(v, 3) if isinstance(v, float) else v for k, v in out.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--raw", metavar="FILE")
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    build = pathlib.Path(os.environ.get("GS_BUILD", ROOT / "build" / "release"))
    stage = pathlib.Path(os.environ.get("GS_STAGE", ROOT / "build" / "stage"))
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = pathlib.Path(tempfile.mkdtemp(prefix="gpuslice-bench-", dir=base))
    try:
        bench = Bench(build, stage, max(7, args.rounds), folder)
        result = measure(bench)
        if args.raw:
            pathlib.Path(args.raw).write_text(json.dumps(bench.raw))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if args.json:
        print(json.dumps(result))
    else:
        for key, value in result.items():
            print(f"{key:36} {value}")


main()
