"""Limits that change while programs run: by `gpuslice resize`, and by HAMi's monitor."""

import json
import pathlib
import sys
import time

import pytest
from side_by_side import scenario, seen  # noqa: F401, I001 (a fixture; and it makes bench importable)
from hami_monitor import Monitor
from limiter_cards import CLIENT, now
from load import Cards, begun, hook_env, log_of, share_of

POINTS = 0.03
MIB = 1 << 20


def resized():
    with Cards() as cards:
        watch = cards.watch()
        cards.slice("s", ["--cores", "30"], "--kernels", "k1ms", "--seconds", "20", "--processes", "2")
        first = share_of(watch, "s", begun(watch, "s") + 0.7, 3.0)
        shares = [first]
        for share in (70, 20):
            out = cards.cli("resize", "s", "--cores", share)
            assert out.returncode == 0, out.stderr
            shares.append(share_of(watch, "s", now() + 1.0, 3.0))
        return shares


@scenario(resized)
def test_a_new_share_is_in_force_within_a_second(seen):
    assert seen == [pytest.approx(s, abs=POINTS) for s in (0.30, 0.70, 0.20)]


# Two processes of the slice look every 20 ms whether 600 MiB are granted, and say when that changes.
LOOK = f"""
import json, sys, time
sys.path.insert(0, {str(pathlib.Path(__file__).resolve().parents[1] / "nvidia")!r})
from cu import Cuda, Error, MIB
c = Cuda()
kept = c.alloc(100 * MIB)
last = None
while True:
    try:
        c.free(c.alloc(600 * MIB)); granted = True
    except Error as e:
        assert e.code == 2, e
        granted = False
    if granted != last:
        print(json.dumps([time.clock_gettime(time.CLOCK_MONOTONIC), granted, c.free_mib()]), flush=True)
        last = granted
    time.sleep(0.02)
"""


def resized_memory():
    def heard():
        return [json.loads(p.stdout.readline()) for p in both]

    with Cards() as cards:
        first = cards.start(["gpuslice", "run", "--name", "m", "--memory", "512Mi", "--", sys.executable, "-c", LOOK], "m")
        assert json.loads(first.stdout.readline())[1] is False
        second = cards.start(["gpuslice", "run", "--join", "m", "--", sys.executable, "-c", LOOK], "m")
        assert json.loads(second.stdout.readline())[1] is False
        both, delays = [first, second], []
        for size in ("2Gi", "150Mi"):
            asked = now()
            out = cards.cli("resize", "m", "--memory", size)
            assert out.returncode == 0, out.stderr
            rows = heard()
            delays.append([t - asked for t, _, _ in rows])
        alive = [p.poll() is None for p in both]
        return delays, rows, alive, log_of(cards, "m")


@scenario(resized_memory)
def test_a_new_memory_limit_is_in_force_within_a_second(seen):
    delays, last, alive, log = seen
    assert all(0 <= d <= 1.0 for row in delays for d in row), delays
    # 200 MiB are in use and the limit is 150: nothing was freed, nothing is granted, and the log says so
    assert [granted for _, granted, _ in last] == [False, False]
    assert all(alive)
    assert "in use" in log


def bad_resize(args):
    with Cards() as cards:
        watch = cards.watch()
        cards.slice("s", ["--cores", "30"], "--kernels", "k1ms", "--seconds", "8")
        start = begun(watch, "s")
        out = cards.cli("resize", "s", *args)
        return out.returncode, out.stderr, share_of(watch, "s", max(start + 0.7, now()), 3.0)


@scenario(bad_resize)
@pytest.mark.parametrize("args", [["--cores", "0"], ["--cores", "101"], ["--cores", "-5"], ["--cores", "abc"],
                                  ["--memory", "lots"]], ids=lambda v: "".join(v))
def test_a_bad_resize_changes_nothing(seen, args):
    status, message, share = seen
    assert status != 0 and args[1] in message
    assert share == pytest.approx(0.30, abs=POINTS)


# ---- suspend and resume --------------------------------------------------------------------------------------------


def suspended_in_a_wait():
    """Four threads of `b` wait for its share when it is suspended; `a` is hungry beside it."""
    with Cards() as cards:
        watch = cards.watch()
        elastic = ["--cores", "30", "--policy", "elastic"]
        cards.slice("a", elastic, "--kernels", "k1ms", "--seconds", "40")
        cards.slice("b", elastic, "--kernels", "k1ms", "--seconds", "40", "--threads", "4", "--streams", "1")
        beside = share_of(watch, "a", max(begun(watch, "a"), begun(watch, "b")) + 1.0, 2.0)
        cards.cli("suspend", "b")
        lent = share_of(watch, "a", now() + 0.4, 2.0)
        log = log_of(cards, "b")
        cards.cli("resume", "b")
        return beside, lent, log, [share_of(watch, g, now() + 1.0, 2.0) for g in ("a", "b")]


@scenario(suspended_in_a_wait)
def test_a_suspension_that_comes_while_launches_wait(seen):
    beside, lent, log, after = seen
    assert beside == pytest.approx(0.30, abs=POINTS)
    assert log.count("the slice is suspended") == 4, log  # each launch that waits says why
    assert lent >= 0.95  # who is suspended asks for nothing
    assert after == [pytest.approx(0.30, abs=POINTS)] * 2


# ---- HAMi's monitor ------------------------------------------------------------------------------------------------


def blocked():
    """A monitor that lives blocks the slice, ticks, and lets it go."""
    with Cards() as cards:
        watch = cards.watch()
        cards.start([CLIENT, "--kernels", "k1ms", "--seconds", "40"], "s",
                    **hook_env(cards, "s", CUDA_DEVICE_SM_LIMIT="50", CUDA_TASK_PRIORITY="1"))
        start = begun(watch, "s")
        monitor = Monitor(cards.folder / "s.cache")
        before = share_of(watch, "s", start + 0.7, 2.0)
        marks = monitor.recent_kernel, monitor.priority, monitor.last_kernel_time
        monitor.tick(block=True)
        held_back = share_of(watch, "s", now() + 1.0, 3.0)
        monitor.tick()
        after = share_of(watch, "s", now() + 1.0, 2.0)
        return before, marks, held_back, after, time.time()


@scenario(blocked)
def test_hami_monitor_holds_a_slice_back_and_lets_it_go(seen):
    before, (recent, priority, last_kernel), held_back, after, wall = seen
    assert before == pytest.approx(0.50, abs=POINTS)
    assert recent > 0 and priority == 1 and abs(wall - last_kernel) < 60
    assert held_back <= 0.06
    assert after == pytest.approx(0.50, abs=POINTS)


def left_blocked():
    """A monitor that blocked the slice and died."""
    with Cards() as cards:
        watch = cards.watch()
        cards.start([CLIENT, "--kernels", "k1ms", "--seconds", "60"], "s",
                    **hook_env(cards, "s", CUDA_DEVICE_SM_LIMIT="50"))
        begun(watch, "s")
        monitor = Monitor(cards.folder / "s.cache")
        monitor.tick(block=True)
        blocked_at = now()
        early = share_of(watch, "s", blocked_at + 1.0, 6.0)
        late = share_of(watch, "s", blocked_at + 20.0, 4.0)
        return early, late, monitor.recent_kernel


@scenario(left_blocked)
def test_a_dead_monitors_block_ends(seen):
    early, late, recent = seen
    assert 0.0 < early <= 0.06  # never nothing
    assert late == pytest.approx(0.50, abs=POINTS) and recent >= 0


def lone_under_monitor(policy, switch, share):
    del share  # what the test expects
    with Cards() as cards:
        watch = cards.watch()
        cards.start([CLIENT, "--kernels", "k1ms", "--seconds", "25"], "s",
                    **hook_env(cards, "s", CUDA_DEVICE_SM_LIMIT="30", GPU_CORE_UTILIZATION_POLICY=policy))
        begun(watch, "s")
        monitor = Monitor(cards.folder / "s.cache")
        for _ in range(12):  # faster than the real one, which is what shows that it lives
            monitor.tick()
            monitor.utilization_switch = switch
            time.sleep(0.5)
        start = now() - 3.0
        return share_of(watch, "s", start, 2.9)


@scenario(lone_under_monitor)
@pytest.mark.parametrize("policy,switch,share", [("default", 0, 1.0), ("default", 1, 0.30), ("force", 0, 0.30)])
def test_hami_monitor_lends_the_card_to_who_is_alone(seen, policy, switch, share):
    assert seen == pytest.approx(share, abs=0.05)

