"""Two slices on one card: shares hold beside a hungry neighbour, idle shares are lent, priority goes first."""

import os
import signal

import pytest
from side_by_side import scenario, seen  # noqa: F401, I001 (a fixture; and it makes bench importable)
from limiter_cards import CLIENT, reports
from load import Cards, begun, folder_without_nvml, judge, share_of

POINTS = 0.03
BESIDE = 0.02  # of two that are both hungry all the time
SETTLE_S = 1.0
SECONDS = 5


def both(a, b, nvml):
    with Cards() as cards:
        watch = cards.watch()
        drivers = {"LD_LIBRARY_PATH": folder_without_nvml(cards)} if nvml == "absent" else {}
        if nvml == "failing":
            for name in ("nvmlDeviceGetProcessUtilization", "nvmlDeviceGetComputeRunningProcesses_v3"):
                cards.start(["gpuslice-sim", "fault", name, "--error", "999"], "").wait(10)
        for name, share, kernels in (("a", 30, a), ("b", 70, b)):
            cards.start(["gpuslice", "run", "--name", name, "--cores", share, "--", CLIENT, "--kernels", kernels,
                         "--seconds", SETTLE_S + SECONDS + 4], name, **drivers)
        start = max(begun(watch, "a"), begun(watch, "b"))
        return [share_of(watch, g, start + SETTLE_S, SECONDS) for g in ("a", "b")]


@scenario(both)
@pytest.mark.parametrize("a,b,nvml", [
    ("k1ms", "k1ms", "present"), ("k1ms", "k20ms", "present"), ("k20ms", "k1ms", "present"), ("k1ms", "k1ms", "absent"),
    ("k5ms", "k50ms", "absent"), ("k1ms", "k10ms", "failing"), ("k50ms", "k1ms", "present"), ("k50ms", "k20us", "absent"),
])
def test_thirty_beside_seventy(seen, a, b, nvml):
    assert seen == [pytest.approx(0.30, abs=BESIDE), pytest.approx(0.70, abs=BESIDE)]


# ---- elastic -------------------------------------------------------------------------------------------------------

QUANTUM = 0.2


def lent():
    """`a` is hungry all the time, `b` exists, idles, comes, goes: shares of `a` while b idles, of both while b works,
    and of `a` afterwards, each from 200 ms behind the change on."""
    with Cards() as cards:
        watch = cards.watch(every_ms=20)
        # the neighbour's slice stands, without work
        cards.start(["gpuslice", "run", "--name", "b", "--cores", "30", "--policy", "elastic", "--", "sleep", "60"], "b")
        cards.slice("a", ["--cores", "30", "--policy", "elastic"], "--kernels", "k1ms", "--seconds", "30")
        start = begun(watch, "a")
        alone = share_of(watch, "a", start + 1.0, 2.0)
        work = cards.start(["gpuslice", "run", "--join", "b", "--", CLIENT, "--kernels", "k1ms", "--seconds", "4"], "b")
        came = begun(watch, "b")
        beside = [share_of(watch, g, came + QUANTUM, 2.0) for g in ("a", "b")]
        reports(work, 60)
        curve = watch.curve("b")
        gone = next(t for t, used in curve if used >= curve[-1][1] - 1e-9)
        again = share_of(watch, "a", gone + QUANTUM, 2.0)
        return alone, beside, again


@scenario(lent)
def test_an_idle_share_is_lent_and_comes_back(seen):
    alone, beside, again = seen
    assert alone >= 0.95 and again >= 0.95
    assert beside == [pytest.approx(0.30, abs=POINTS), pytest.approx(0.30, abs=POINTS)]


def stale():
    """The writer of the board stands still: what was lent ends, and comes back with him."""
    with Cards() as cards:
        watch = cards.watch(every_ms=20)
        holders = [cards.start(["gpuslice", "run", "--name", "b", "--cores", "30", "--policy", "elastic", "--", "sleep",
                                "60"], "b"),
                   cards.slice("a", ["--cores", "30", "--policy", "elastic"], "--kernels", "k1ms", "--seconds", "30")]
        start = begun(watch, "a")
        before = share_of(watch, "a", start + 1.0, 2.0)
        for p in holders:
            os.kill(p.pid, signal.SIGSTOP)
        stopped = watch.rows[-1][0]
        try:
            during = share_of(watch, "a", stopped + 0.6, 3.0)
        finally:
            for p in holders:
                os.kill(p.pid, signal.SIGCONT)
        after = share_of(watch, "a", watch.rows[-1][0] + 0.6, 2.0)
        return before, during, after


@scenario(stale)
def test_a_board_that_nobody_writes_lends_nothing(seen):
    before, during, after = seen
    assert before >= 0.95 and after >= 0.95
    assert during == pytest.approx(0.30, abs=POINTS)


def unlent():
    """Fixed slices get nothing of an idle neighbour's, and an elastic one does not reach into a fixed one's promise
    while that works."""
    with Cards() as cards:
        watch = cards.watch()
        cards.slice("fixed", ["--cores", "30"], "--kernels", "k1ms", "--seconds", "14")
        first = share_of(watch, "fixed", begun(watch, "fixed") + 1.0, 3.0)
        cards.slice("elastic", ["--cores", "40", "--policy", "elastic"], "--kernels", "k1ms", "--seconds", "8")
        start = begun(watch, "elastic")
        return first, share_of(watch, "fixed", start + 1.0, 4.0), share_of(watch, "elastic", start + 1.0, 4.0)


@scenario(unlent)
def test_a_fixed_share_is_neither_more_nor_less(seen):
    first, fixed, elastic = seen
    assert first == pytest.approx(0.30, abs=POINTS)
    assert fixed == pytest.approx(0.30, abs=POINTS)
    assert elastic == pytest.approx(0.40, abs=POINTS)


# ---- priority ------------------------------------------------------------------------------------------------------

REQUESTS = 300
TURN_US = 3000  # of 2 ms (docs/simulator-time.md, 3), which a newcomer may wait for, and what a busy machine adds


def latencies(low_kernel, low_options, batch, lows):
    def requests(cards):
        return cards.slice("high", ["--priority", "high"], "--kernels", "k1ms", "--batch", batch,
                           "--requests", REQUESTS, "--think-us", "40000")

    with Cards() as cards:
        (alone,) = reports(requests(cards), 60)
    with Cards() as cards:
        watch = cards.watch()
        names = [f"low{i}" for i in range(lows)]
        for name in names:
            cards.slice(name, ["--priority", "low", *low_options], "--kernels", low_kernel, "--seconds", "60")
        for name in names:
            begun(watch, name)
        p = requests(cards)
        start = begun(watch, "high")
        (beside,) = reports(p, 90)
        shares = [judge.windows(watch.curve(name), start + 1.0, watch.rows[-1][0] - start - 2.0)[0][1] for name in names]
    return alone, beside, min(shares)


@scenario(latencies)
@pytest.mark.parametrize("low_kernel,low_options,batch,lows", [
    ("k1ms", ["--cores", "90"], 20, 1), ("k5ms", ["--cores", "90", "--policy", "elastic"], 20, 1), ("k1ms", [], 20, 1),
    ("k1ms", ["--cores", "90"], 1, 1), ("k10ms", ["--cores", "90", "--policy", "elastic"], 3, 1),
    ("k20ms", ["--cores", "90"], 3, 1), ("k20ms", ["--cores", "45"], 3, 2),
], ids=lambda v: "".join(v) if isinstance(v, list) else str(v))
def test_high_priority_goes_first(seen, low_kernel, low_options, batch, lows):
    """By the card's own word: late_us is how much later it was done than with nothing else to do, so that neither a late
    wake-up of the program nor a slow launch counts."""
    alone, beside, low = seen
    kernel_us = {"k1ms": 1000, "k5ms": 5000, "k10ms": 10000, "k20ms": 20000}[low_kernel]
    assert judge.quantile(alone["late_us"], 0.99) <= 1000  # the hook's own calls
    assert judge.quantile(beside["late_us"], 0.99) <= lows * (min(kernel_us, batch * 1000) + TURN_US)
    if batch == 20:
        assert judge.quantile(beside["card_us"], 0.95) <= 1.2 * judge.quantile(alone["card_us"], 0.95) + 1500
    assert low >= 0.02
