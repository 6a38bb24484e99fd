"""What a gRPC server of ours costs: memory and threads at rest, and a unary call by grpcio. See docs/performance.md.

The server is tests/it/grpc's, on its own: no other part of a daemon. Percentiles of a call are the client's time on the
clock, one call after the other on one connection; the same against a server of grpcio's is beside it, so that what
Python takes for its end can be told apart."""

import argparse
import json
import pathlib
import statistics
import sys
import tempfile
import time

# In place of this folder, where our own name would hide the package grpc.
sys.path[0] = str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "it" / "grpc")

from grpc_peers import Peer, Tool, channel, unary, watch  # noqa: E402


def percentiles(path, method, calls):
    with channel(path) as c:
        call = unary(c, method)
        for _ in range(200):
            call(b"x" * 100)
        times = []
        for _ in range(calls):
            begun = time.perf_counter_ns()
            call(b"x" * 100)
            times.append(time.perf_counter_ns() - begun)
    times.sort()
    return times[len(times) // 2] / 1000, times[len(times) * 99 // 100] / 1000


def memory(tool):
    return {"rss_kib": tool.memory("VmRSS") // 1024, "private_kib": private(tool) // 1024, "threads": tool.memory("Threads")}


def private(tool):
    total = 0
    for line in pathlib.Path(f"/proc/{tool.process.pid}/smaps_rollup").read_text().splitlines():
        if line.startswith(("Private_Clean:", "Private_Dirty:")):
            total += int(line.split()[1]) * 1024
    return total


def cpu_s(tool):
    fields = pathlib.Path(f"/proc/{tool.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def measure(folder, calls, rounds, rest_s):
    found = {"loop_only": loop_only()}
    path = folder / "a.sock"
    tool = Tool("--serve", path)
    try:
        found["at_start"] = memory(tool)
        with channel(path) as c:
            tool.say("devices 1000 0", "published")
            stream = watch(c, "/v1beta1.DevicePlugin/ListAndWatch")
            next(stream)
            found["one_stream_of_1000_devices"] = memory(tool)
            before = cpu_s(tool)
            time.sleep(rest_s)
            found["cpu_at_rest_pct"] = round(100 * (cpu_s(tool) - before) / rest_s, 3)
        peer = Peer(folder / "b.sock", {"/s/Echo": lambda message, context: message})
        ours, theirs = [], []
        for _ in range(rounds):
            ours.append(percentiles(path, "/test.Unary/Echo", calls))
            theirs.append(percentiles(folder / "b.sock", "/s/Echo", calls))
        peer.close()
        found["after_calls"] = memory(tool)
        for name, samples in ("ours", ours), ("grpcio", theirs):
            found[f"{name}_p50_us"] = round(statistics.median(s[0] for s in samples), 1)
            found[f"{name}_p99_us"] = round(statistics.median(s[1] for s in samples), 1)
        tool.quit()
    finally:
        tool.close()
    return found


def loop_only():
    """The same program before gRPC is asked for anything but its thread: no server, no client."""
    tool = Tool()
    try:
        tool.stats()
        found = memory(tool)
        tool.quit()
        return found
    finally:
        tool.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--rest", type=float, default=10, help="seconds at rest")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gpuslice-grpc-") as folder:
        found = measure(pathlib.Path(folder), args.calls, args.rounds, args.rest)
    print(json.dumps(found, indent=None if args.json else 1))


main()
