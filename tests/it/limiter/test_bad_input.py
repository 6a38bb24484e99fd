"""Wrong words, no timers, tampered books, programs that launch in odd ways: a clear answer, a reason in the log, and
never a hang."""

import os
import struct

import pytest
from side_by_side import scenario, seen  # noqa: F401, I001 (a fixture; and it makes bench importable)
from limiter_cards import CLIENT, reports
from load import Cards, begun, hook_env, ledger_of, log_of, share_of

POINTS = 0.03
SHORT = ["--kernels", "k1ms", "--seconds", "5"]


@pytest.mark.parametrize("cores", ["0", "101", "-5", "abc", "", "30,40", "30.5", "1e1", "0x10", "99999999999999999999"])
def test_run_refuses_a_bad_share(make_sim, cores):
    sim = make_sim()
    out = sim.held(["--cores", cores], "echo", "started")
    assert out.returncode == 125 and out.stdout == ""
    assert "cores" in out.stderr
    assert cores in out.stderr or cores == "30,40" and "2 shares, but only 1 card" in out.stderr


@pytest.mark.parametrize("policy", ["FIXED", "lend", ""])
def test_run_refuses_a_bad_policy(make_sim, policy):
    out = make_sim().held(["--cores", "30", "--policy", policy], "echo", "started")
    assert out.returncode == 125 and out.stdout == ""


@pytest.mark.parametrize("variable,value", [
    ("CUDA_DEVICE_SM_LIMIT", "101"), ("CUDA_DEVICE_SM_LIMIT", "-5"), ("CUDA_DEVICE_SM_LIMIT", "abc"),
    ("CUDA_DEVICE_SM_LIMIT_0", "50%"), ("GPU_CORE_UTILIZATION_POLICY", "sometimes"), ("CUDA_TASK_PRIORITY", "2"),
])
def test_a_bad_variable_closes_and_says_why(variable, value):
    with Cards(overhead="100Mi") as cards:
        log = cards.folder / "log"
        p = cards.start([CLIENT, *SHORT], "s", **hook_env(cards, "s", GPUSLICE_LOG=log, **{variable: value}))
        _, err = p.communicate(timeout=60)
        assert p.returncode == 1 and "failed with 2" in err  # out of memory: closed
        assert variable in log.read_text()


def without_timers(function):
    with Cards() as cards:
        watch = cards.watch()
        assert cards.start(["gpuslice-sim", "fault", function, "--error", "801"], "").wait(10) == 0
        p = cards.slice("s", ["--cores", "40"], "--mode", "callback", "--no-events", *SHORT)
        share = share_of(watch, "s", begun(watch, "s") + 0.7, 3.0)
        log = log_of(cards, "s")
        return share, log, reports(p, 60)


def tampered(write):
    """A mate of the slice writes nonsense into the bucket."""
    with Cards() as cards:
        watch = cards.watch()
        cards.slice("s", ["--cores", "40"], "--kernels", "k1ms", "--seconds", "12")
        begun(watch, "s")
        bucket_at = 2011136 + 4096 + 1024 * 128 + 1024 * 160 + 512 * 112 + 192  # docs/protocol/ledger.md
        fd = os.open(ledger_of(cards, "s"), os.O_RDWR)
        try:
            tokens, refill = struct.unpack("<qQ", os.pread(fd, 16, bucket_at))
            os.pwrite(fd, struct.pack("<qQ", *write(tokens, refill)), bucket_at)
        finally:
            os.close(fd)
        at = watch.rows[-1][0]
        return share_of(watch, "s", at + 2.0, 3.0)


HOUR = 3600 * 10**9
NONSENSE = {
    "filled up an hour ahead": lambda tokens, refill: (tokens, refill + HOUR),
    "filled up an hour ago": lambda tokens, refill: (tokens, refill - HOUR),
    "filled up never": lambda tokens, refill: (tokens, 0),
    "endless debt": lambda tokens, refill: (-(2**63), refill),
    "endless riches": lambda tokens, refill: (2**63 - 1, refill),
    "clock of the end": lambda tokens, refill: (tokens, 2**64 - 1),
}


@scenario(lambda what: tampered(NONSENSE[what]))
@pytest.mark.parametrize("what", NONSENSE)
def test_nonsense_in_the_bucket_is_over_soon(seen, what):
    assert seen == pytest.approx(0.40, abs=POINTS)


def forked():
    with Cards() as cards:
        watch = cards.watch()
        p = cards.slice("s", ["--cores", "40"], "--forked-launch", *SHORT)
        share = share_of(watch, "s", begun(watch, "s") + 0.7, 3.0)
        return share, reports(p, 60)


@scenario(forked)
def test_a_forked_child_that_launches_gets_the_drivers_answer(seen):
    share, rows = seen
    assert rows[0] == {"child_status": 3}  # CUDA_ERROR_NOT_INITIALIZED
    assert share == pytest.approx(0.40, abs=POINTS)


@scenario(without_timers)
@pytest.mark.parametrize("function", ["cuEventCreate", "cuEventElapsedTime", "cuEventRecord"])
def test_without_timers_it_is_paced_and_says_so(seen, function):
    share, log, rows = seen
    assert 0.05 <= share <= 0.9, share  # by estimate alone: not exact, not free, not stuck
    assert log.strip(), "no reason in the log"
    assert rows[0]["launches"] > 100
