"""Judge the limiter: shares of card time as the simulated card itself accounts them, and what the limiter costs.

A cell of the grid is one slice: a share, a kernel length, a way of launching, a number of processes. It runs on a card
of its own; the card is asked every 50 ms how much of its time the slice has had (bench/limiter_judge.py says what
becomes of that). What is expected is the share, or what the same program reaches without a hook where that is less:
programs that wait after each short kernel cannot fill a card, and how far they get depends on the machine at that
moment, so that a twin without a hook runs beside such a cell, on a card of its own. Where a twin would itself take the
processors that the cell needs (20 us and a wait), it runs before and after instead, and nothing runs beside the cell.
Other cells sleep most of the time and run side by side. Costs are measured afterwards, alone, in interleaved pairs.

  settled  a slice is settled from the first sample on from which every 1 s window that begins within the next second
           is within the bound of its kind: 3 points for kernels up to 1 ms, else one kernel's length and 1 point.
           1 s kernels: from the kernel on from which the share over any three successive ones is within 3 points.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import statistics
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import limiter_judge as judge  # noqa: E402
from limiter_cards import BUILD, CLIENT, STAGE, Cards, now, reports  # noqa: E402

BURSTY = "k20us,k100us,k500us,k2ms,k10ms,k50ms"
#        name: (kernels, longest in seconds, extra options)
KERNELS = {
    "20us": ("k20us", 20e-6, []),
    "1ms": ("k1ms", 1e-3, []),
    "50ms": ("k50ms", 50e-3, []),
    "bursty": (BURSTY, 50e-3, ["--bursty", "7"]),
    "1s": ("k1s", 1.0, []),
}
SHARES = (10, 30, 50, 70, 90)
MODES = ("stream", "graph", "sync")
PROCESSES = (1, 2, 4)
SHORT = [
    ("1s", 50, "stream", 1), ("1s", 70, "sync", 2), ("1s", 90, "graph", 1),
    ("20us", 10, "stream", 1), ("20us", 50, "graph", 2), ("20us", 30, "sync", 1), ("20us", 90, "stream", 4),
    ("1ms", 10, "graph", 2), ("1ms", 30, "stream", 1), ("1ms", 50, "sync", 4), ("1ms", 70, "graph", 1),
    ("1ms", 90, "stream", 2), ("1ms", 90, "sync", 1),
    ("50ms", 10, "stream", 1), ("50ms", 30, "graph", 4), ("50ms", 50, "sync", 2), ("50ms", 90, "stream", 1),
    ("bursty", 10, "sync", 1), ("bursty", 30, "stream", 4), ("bursty", 50, "stream", 1), ("bursty", 70, "graph", 2),
    ("bursty", 90, "graph", 1),
]
CELL_S, LONG_KERNELS, BARE_S = 11.8, 25, 4


def say(text):
    print(text, file=sys.stderr, flush=True)


class Seats:
    """So many cells at once as the processors carry: each takes as many seats as its kind costs."""

    def __init__(self, n):
        self.free = n
        self.changed = threading.Condition()

    def take(self, n):
        with self.changed:
            self.changed.wait_for(lambda: self.free >= n)
            self.free -= n

    def give(self, n):
        with self.changed:
            self.free += n
            self.changed.notify_all()


def client_options(kernel, mode, processes, seconds):
    names, _, extra = KERNELS[kernel]
    return ["--kernels", names, "--mode", mode, "--processes", str(processes), "--seconds", str(seconds), *extra]


def fills_processors(kernel, mode):
    return kernel == "20us" and mode == "sync"


def has_twin(kernel, mode):
    return kernel == "bursty" or (kernel == "1ms" and mode == "sync")


def sampled(cards, options, held):
    """Start a program on the cards, under a slice's options or bare. (watch, moment of its first work)."""
    watch = cards.watch()
    if held:
        cards.slice("cell", held, *options)
    else:
        cards.bare("cell", *options)
    if not watch.until_used("cell", 1e-6, 30):
        raise RuntimeError("never came onto the card")
    return watch, judge.begin(watch.curve("cell"))


def bare_share(kernel, mode, processes):
    """What the program reaches without a hook, on a card of its own."""
    with Cards() as cards:
        watch, start = sampled(cards, client_options(kernel, mode, processes, BARE_S + 2), None)
        watch.until_time(start + 0.5 + BARE_S, BARE_S + 30)
        return judge.windows(watch.curve("cell"), start + 0.5, BARE_S - 0.1)[0][1]


def held_beside_twin(kernel, share, mode, processes, seconds):
    """(curve of the cell, its beginning, curve of its twin or None)."""
    options = client_options(kernel, mode, processes, seconds + 4)
    with Cards() as cards, Cards() as others:
        twin = sampled(others, options, None)[0] if has_twin(kernel, mode) else None
        watch, start = sampled(cards, options, ["--cores", str(share)])
        watch.until_time(start + seconds, seconds + 30)
        curve = watch.curve("cell")
        if twin:
            twin.until_used_at("cell", curve[-1][0], 30)
            twin = twin.curve("cell")
    return curve, start, twin


def run_cell(kernel, share, mode, processes):
    _, longest, _ = KERNELS[kernel]
    alone = fills_processors(kernel, mode)
    seconds = (LONG_KERNELS + processes) * 100 / share + 2 if longest >= 1 else CELL_S
    out = {"kernel": kernel, "share_pct": share, "mode": mode, "processes": processes}
    bare = [bare_share(kernel, mode, processes)] if alone else []
    curve, start, twin = held_beside_twin(kernel, share, mode, processes, seconds)
    if alone:
        bare.append(bare_share(kernel, mode, processes))
    if twin:
        bare = [judge.windows(twin, start + 0.5, 10.0)[0][1]]
    if bare:
        out["bare_share"] = statistics.mean(bare)
    if longest >= 1:
        error, settled = judge.long_kernels(curve, start, longest, share / 100)
        out |= {"error_20_kernels_points": error, "settled_kernel": settled or 1e6,
                "holds": error <= 1 and settled is not None and settled <= 3}
    else:
        target = judge.expected(min([share / 100, *bare]) if alone else share / 100, twin)
        out |= judge.case(curve, target, longest)
        out["holds"] = (out["error_10s_points"] <= 1 and out["settle_ms"] <= 500 and
                        out["p95_error_1s_points"] <= out["bound_1s_points"])
    return {k: round(v, 4) if isinstance(v, float) else v for k, v in out.items()}, curve


def in_parallel(jobs, seats):
    """[(weight, function)] -> results in order. Heavy and long ones first is the caller's business."""
    places = Seats(seats)

    def run(weight, function):
        places.take(weight)
        try:
            return function()
        finally:
            places.give(weight)

    with concurrent.futures.ThreadPoolExecutor(max_workers=seats) as pool:
        return [f.result() for f in [pool.submit(run, *job) for job in jobs]]


def grid(cells, seats, raw):
    def weight(kernel, mode, processes):
        if fills_processors(kernel, mode):
            return seats
        if kernel == "20us":
            return min(seats, 3 * max(1, processes // 2))
        return 2 if has_twin(kernel, mode) else 1

    say(f"{len(cells)} cells")

    def one(cell):
        kernel, share, mode, processes = cell
        try:
            row, curve = run_cell(kernel, share, mode, processes)
        except (RuntimeError, ValueError) as e:
            row, curve = {"kernel": kernel, "share_pct": share, "mode": mode, "processes": processes, "holds": False,
                          "failed": str(e)}, []
        say(json.dumps(row))
        raw["-".join(map(str, cell))] = curve
        return row

    return in_parallel([(weight(c[0], c[2], c[3]), lambda c=c: one(c)) for c in cells], seats)


def summary(cases):
    def worst(key, kernels):
        values = [c.get(key, 1e6) for c in cases if c["kernel"] in kernels]
        return max(values, default=None)

    return {
        "max_error_10s_points": worst("error_10s_points", ("20us", "1ms", "50ms", "bursty")),
        "p95_error_1s_points": worst("p95_error_1s_points", ("20us", "1ms")),
        "settle_ms": worst("settle_ms", ("20us", "1ms", "50ms", "bursty")),
        "max_error_20_long_kernels_points": worst("error_20_kernels_points", ("1s",)),
        "max_settled_long_kernel": worst("settled_kernel", ("1s",)),
        "cells": len(cases),
        "cells_that_hold": sum(c["holds"] for c in cases),
    }


# ---- what it costs -------------------------------------------------------------------------------------------------


# A share of 100 % alone goes straight to the driver; with a priority each launch is counted, so that others can see the
# slice active, and never waits.
FULL = {"bare": None, "full": ["--cores", "100"], "high": ["--cores", "100", "--priority", "high"]}


def timed(cards, how, kernel, count):
    """(card seconds, wall seconds) of `count` launches."""
    options = ["--kernels", kernel, "--count", str(count)]
    p = cards.bare(how, *options) if FULL[how] is None else cards.slice(how, FULL[how], *options)
    (row,) = reports(p, 60)
    return row["card_ms"] / 1e3 * count / row["launches"], (row["end_ns"] - row["start_ns"]) / 1e9 * count / row["launches"]


def full_share(pairs, raw):
    """Row 4: throughput at a share of 100 % against none, pair by pair."""
    out = {"full_share_pairs": pairs}
    ratios = []
    for kernel, count in (("k100us", 4000), ("k1ms", 400)):
        rows = []
        for i in range(pairs):
            with Cards() as cards:
                rows.append({how: timed(cards, how, kernel, count) for how in sorted(FULL, reverse=i % 2 == 1)})
        raw[f"full-{kernel}"] = rows
        for how, key in (("full", "full_share"), ("high", "full_share_high_priority")):
            card = statistics.median(r["bare"][0] / r[how][0] for r in rows)
            wall = statistics.median(r[how][1] / r["bare"][1] - 1 for r in rows)
            out[f"{key}_throughput_ratio_{kernel[1:]}"] = round(card, 5)
            out[f"{key}_wall_loss_pct_{kernel[1:]}"] = round(wall * 100, 3)
            ratios.append(card)
        out[f"full_share_bare_card_s_{kernel[1:]}"] = round(statistics.median(r["bare"][0] for r in rows), 5)
    out["full_share_throughput_ratio"] = round(min(ratios), 5)
    return out


def launch_cost(rounds, raw):
    """Row 5: CPU time that a limited launch adds which need not wait, on a card whose kernels take no time. Events tell
    the host's own time there, so that a launch seems to take what its call takes: 99 %, and a pause before, leave room
    for that. A round in which the client slept all the same has measured something else and is not counted."""
    client = BUILD / "bench" / "hook_client"
    with Cards(mode="zero-cost", memory="64Gi") as cards:
        bare = cards.env()
        held = cards.env(LD_PRELOAD=STAGE / "lib" / "gpuslice" / "libvgpu.so", CUDA_DEVICE_MEMORY_LIMIT="0m",
                         CUDA_DEVICE_SM_LIMIT="99",
                         CUDA_DEVICE_MEMORY_SHARED_CACHE=cards.folder / "slice.cache")

        def one(env, *args):
            out = subprocess.run([client, *args], env=env, check=True, text=True, stdout=subprocess.PIPE).stdout
            return [float(x) for x in out.split()]

        rows, waited = [], 0
        while len(rows) < rounds and waited < rounds:
            row = one(bare, "launch", "0", "1000000"), one(held, "launch", "0", "1000000")
            if row[1][2] == 0:
                rows.append(row)
            else:
                waited += 1
        if not rows:
            raise RuntimeError("no loop of launches went without waiting")
        calls = one(held, "launch-syscalls", "0", "100000")[0]
    raw["launch"] = rows
    return {
        "launch_bare_ns": round(statistics.median(b[1] for b, _ in rows), 2),
        "launch_limited_ns": round(statistics.median(h[1] for _, h in rows), 2),
        "launch_added_ns_limited": round(statistics.median(h[1] - b[1] for b, h in rows), 2),
        "launch_added_wall_ns_limited": round(statistics.median(h[0] - b[0] for b, h in rows), 2),
        "launch_syscalls_per_100000": calls,
        "launch_rounds": len(rows),
        "launch_rounds_not_counted": waited,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    parser.add_argument("--full", action="store_true", help="every cell of the grid: a quarter of an hour or more")
    parser.add_argument("--raw", metavar="FILE", help="write every sample there")
    parser.add_argument("--cell", action="append", metavar="KERNEL,SHARE,MODE,PROCESSES",
                        help="only this cell; may be repeated; costs are left out")
    parser.add_argument("--costs", action="store_true", help="only the costs")
    parser.add_argument("--seats", type=int, default=4 * (os.cpu_count() or 2))
    args = parser.parse_args()
    raw, began, cells = {}, now(), SHORT
    if args.full:
        cells = [(k, s, m, n) for k in ("1s", "20us", "1ms", "50ms", "bursty") for s in SHARES for m in MODES
                 for n in PROCESSES]
    if args.cell:
        cells = [(k, int(s), m, int(n)) for k, s, m, n in (c.split(",") for c in args.cell)]
    result = {}
    if not args.costs:
        cases = grid(cells, args.seats, raw)
        result = summary(cases) | {"cases": cases}
    if not args.cell:
        say("full share against none")
        result |= full_share(20, raw)
        say("cost of a launch")
        result |= launch_cost(9, raw)
    result["seconds"] = round(now() - began, 1)
    result["cores"] = os.cpu_count()
    if args.raw:
        pathlib.Path(args.raw).write_text(json.dumps(raw))
    if args.json:
        print(json.dumps(result))
    else:
        for key, value in result.items():
            if key != "cases":
                print(f"{key:40} {value}")


if __name__ == "__main__":
    main()
