"""Wrong words, no timers, tampered books, programs that launch in odd ways: a clear answer, a reason in the log, and
never a hang."""

import os
import signal
import struct

import pytest
from side_by_side import scenario, seen  # noqa: F401, I001 (a fixture; and it makes bench importable)
from limiter_cards import CLIENT, now, reports
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


def lied_to(stranger, pct):
    """NVML says that every process uses `pct` percent; beside the slice of 40 % another one of 60, or a program in no slice."""
    with Cards() as cards:
        watch = cards.watch()
        assert cards.start(["gpuslice-sim", "fault", f"nvml-lies={pct}"], "").wait(10) == 0
        options = ["--kernels", "k1ms", "--seconds", "10"]
        cards.slice("s", ["--cores", "40"], *options)
        cards.bare("x", *options) if stranger else cards.slice("x", ["--cores", "60"], *options)
        start = max(begun(watch, "s"), begun(watch, "x"))
        return share_of(watch, "s", start + 1.5, 4.0)


@scenario(lied_to)
@pytest.mark.parametrize("pct", [0, 30, 100])
@pytest.mark.parametrize("stranger", [False, True], ids=["slice", "stranger"])
def test_an_nvml_that_lies(seen, stranger, pct):
    """Slices go by their own measurements. Beside a stranger NVML alone knows of it: what it does not say costs the
    slice, what it makes up gives it no more than its share."""
    assert seen <= 0.40 + POINTS
    assert seen >= (0.15 if stranger else 0.40 - POINTS)


def stood_still():
    """For the slice time jumps: it is stopped for three seconds, as with a machine that was paused."""
    with Cards() as cards:
        watch = cards.watch(every_ms=20)
        p = cards.slice("s", ["--cores", "40"], "--kernels", "k1ms", "--seconds", "12")
        begun(watch, "s")
        share_of(watch, "s", now() + 1.0, 0.5)
        os.killpg(p.pid, signal.SIGSTOP)
        stopped = share_of(watch, "s", now() + 0.3, 2.7)
        os.killpg(p.pid, signal.SIGCONT)
        at = now()
        return stopped, share_of(watch, "s", at, 0.5), share_of(watch, "s", at + 0.5, 3.0)


@scenario(stood_still)
def test_a_jump_of_time_is_no_riches(seen):
    stopped, first, after = seen
    assert stopped <= 0.01
    assert first <= 0.40 + 0.1 + POINTS  # a quantum in half a second
    assert after == pytest.approx(0.40, abs=POINTS)


def share_for_no_card(variables):
    with Cards() as cards:
        watch = cards.watch()
        log = cards.folder / "log"
        cards.start([CLIENT, *SHORT], "s", **hook_env(cards, "s", GPUSLICE_LOG=log, **variables))
        begun(watch, "s")
        return share_of(watch, "s", now() + 0.7, 2.0), log.read_text() if log.exists() else ""


@scenario(share_for_no_card)
@pytest.mark.parametrize("variables", [{"CUDA_DEVICE_SM_LIMIT_0": "40", "CUDA_DEVICE_SM_LIMIT_1": "20"},
                                       {"CUDA_DEVICE_SM_LIMIT": "40", "CUDA_DEVICE_SM_LIMIT_7": "abc"}],
                         ids=["one more", "a bad one"])
def test_variables_for_cards_that_are_not_there_do_nothing(seen, variables):
    assert seen[0] == pytest.approx(0.40, abs=POINTS), seen[1]
