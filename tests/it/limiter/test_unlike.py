"""Work that nobody waits for, and kernels of one name whose lengths differ: a slice pays for what the card did."""

import pytest
from side_by_side import scenario, seen  # noqa: F401, I001 (a fixture; and it makes bench importable)
from limiter_cards import BUILD, STAGE
from load import Cards, begun, log_of, share_of

CLIENT = BUILD / "tests" / "it" / "limiter" / "ways_client"
SHARE = 20
SECONDS = 10
POINTS = 0.03


TOGETHER = 'n=$1; shift; while [ "$n" -gt 0 ]; do "$@" & n=$((n - 1)); done; wait'


def ran(*argv, after=0.0, seconds=SECONDS, cores=SHARE, fault=None, log=False, processes=1):
    """Share of the card from `after` seconds after the first work on, the end of the program, and its log."""
    with Cards() as cards:
        watch = cards.watch()
        if fault:
            assert cards.start(["gpuslice-sim", "fault", *fault], "").wait(10) == 0
        program = [CLIENT, *argv, str(after + seconds + 0.5)]
        if processes > 1:
            program = ["sh", "-c", TOGETHER, "sh", processes, *program]
        p = cards.start([STAGE / "bin" / "gpuslice", "run", "--name", "s", "--cores", cores, "--", *program], "s")
        share = share_of(watch, "s", begun(watch, "s") + after, seconds)
        text = log_of(cards, "s") if log else ""
        _, err = p.communicate(timeout=90)
        return share, p.returncode, err, text


@scenario(lambda how: ran("ends", how, "k100ms"))
@pytest.mark.parametrize("how", ["copy", "query", "event", "leave", "die"])
def test_a_program_that_ends_pays_for_its_last_launch(seen, how):
    share, rc, err, _ = seen
    assert rc == 0, err
    assert 0.10 < share < SHARE / 100 + POINTS  # what is charged by the clock is an upper bound


@scenario(lambda: ran("contexts", "k50ms"))
def test_a_context_takes_nothing_with_it_unpaid(seen):
    share, rc, err, _ = seen
    assert rc == 0, err
    assert share == pytest.approx(SHARE / 100, abs=POINTS)


UNLIKE = [  # long us, percent, how, short us
    ("20000", "10", "sync", "20"), ("2000", "10", "sync", "20"), ("20000", "10", "poll", "20"),
    ("2000", "50", "sync", "20"), ("5000", "30", "sync", "100"), ("20000", "10", "stream", "20"),
    ("2000", "10", "stream", "20"),
    ("2000", "2", "failing", "20"), ("20000", "1", "elsewhere", "20"),  # had 73 and 45 for 30
]


@scenario(lambda of: ran("unlike", *of))
@pytest.mark.parametrize("of", UNLIKE, ids="-".join)
def test_a_kernel_of_unlike_lengths_is_held(seen, of):
    share, rc, err, _ = seen
    assert rc == 0, err
    assert share == pytest.approx(SHARE / 100, abs=POINTS + 0.005)  # one in ten is 20 ms: what runs at the end counts


@scenario(lambda of: ran("streams", *of, after=1.0, cores=30))
@pytest.mark.parametrize("of", [("2000", "20", "context", "20"), ("500", "30", "context", "50"), ("2000", "20", "never", "20")],
                         ids="-".join)
def test_unlike_kernels_on_two_streams_are_held(seen, of):
    """What a sample took is partly the other stream's: two had 68 to 89 for 30, and 10 to 26 if nobody waited for them."""
    share, rc, err, _ = seen
    assert rc == 0, err
    assert share == pytest.approx(0.30, abs=POINTS)


TOGETHER_UNLIKE = [  # processes, share, long us, percent, short us
    (2, 20, "5000", "2", "20"), (4, 20, "5000", "2", "20"), (2, 20, "20000", "10", "20"), (4, 20, "20000", "2", "20"),
    (2, 60, "2000", "5", "20"),
]


@scenario(lambda processes, cores, long, percent, short: ran("unlike", long, percent, "sync", short, after=1.0,
                                                             processes=processes, cores=cores))
@pytest.mark.parametrize("processes,cores,long,percent,short", TOGETHER_UNLIKE)
def test_several_processes_with_unlike_kernels_share_one_share(seen, processes, cores, long, percent, short):
    """Was it a launch of another process that took so long, or one of its own that is unlike the others?"""
    share, _, err, _ = seen
    assert err == ""
    assert share == pytest.approx(cores / 100, abs=POINTS)


def beside(cores, *unlike):
    """Shares of a slice with kernels of one name and unlike lengths, and of its hungry neighbour with 70."""
    with Cards() as cards:
        watch = cards.watch()
        cards.start([STAGE / "bin" / "gpuslice", "run", "--name", "s", "--cores", cores, "--", CLIENT, "unlike", *unlike,
                     SECONDS + 3], "s")
        cards.slice("v", ["--cores", "70"], "--kernels", "k1ms", "--seconds", SECONDS + 3)
        after = max(begun(watch, "s"), begun(watch, "v")) + 1.0
        return [share_of(watch, g, after, SECONDS) for g in ("s", "v")]


# what the neighbour's turns explain is given back: at 20 ms in one of ten a slice had 50 for 30
@scenario(lambda of: beside(20, *of))
@pytest.mark.parametrize("of", [("20000", "10", "stream", "20"), ("5000", "2", "sync", "20"), ("2000", "50", "sync", "20")],
                         ids="-".join)
def test_unlike_kernels_beside_another_slice_are_held(seen, of):
    own, neighbours = seen
    assert own < SHARE / 100 + POINTS + 0.005
    assert neighbours > 0.64  # of 70, hungry; machines are busy


@scenario(lambda processes, how, long, percent: ran("unlike", long, percent, how, "20", after=1.0, cores=50,
                                                    processes=processes))
@pytest.mark.parametrize("processes,how,long,percent", [
    (2, "host", "20000", "0.1"), (4, "host", "20000", "0.1"), (4, "event", "20000", "0.1"), (4, "nap", "20000", "0.1"),
    (4, "host", "2000", "2"),
])
def test_several_processes_that_launch_in_batches_share_one_share(seen, processes, how, long, percent):
    """Nobody waits for the stream: the end of what is out shows in nothing that the program does."""
    share, _, err, _ = seen
    assert err == ""
    assert 0.35 < share < 0.55  # where processors are scarce it cannot use all of it


@scenario(lambda: (ran("pauses", seconds=8, cores=50), ran("pauses", seconds=8, cores=100)))
def test_pauses_of_a_program_that_never_waits_are_not_charged(seen):
    (held, *_), (free, *_) = seen
    assert free < 0.5  # it needs no more than it may have
    assert held > 0.85 * free


@scenario(lambda: ran("phases", "20000"))
def test_a_kernel_that_becomes_long_is_held(seen):
    share, rc, err, _ = seen
    assert rc == 0, err
    assert share == pytest.approx(SHARE / 100, abs=POINTS)


@scenario(lambda: ran("graph"))
def test_a_graph_that_is_changed_is_held(seen):
    share, rc, err, _ = seen
    assert rc == 0, err
    assert share == pytest.approx(SHARE / 100, abs=POINTS)


@scenario(lambda: ran("many", "k500ms", seconds=10))
def test_patience_ends_for_one_launch_at_a_time(seen):
    share, _, _, _ = seen
    assert share < 0.35  # two, and one a second until the first is charged; all 48 would be 1.0


@scenario(lambda: ran("captures", "k20ms", seconds=5, cores=60))
def test_captures_of_other_threads_stay_whole(seen):
    _, rc, err, _ = seen
    assert rc == 0, err


FAULTS = [  # what the driver does not do, and what the program runs meanwhile
    ("cuEventQuery", "999"), ("cuEventRecord", "801"), ("cuEventElapsedTime", "999"), ("cuCtxGetCurrent", "999"),
]


@scenario(lambda function, error: ran("unlike", "400000", "100", "sync", "400000", seconds=8,
                                      fault=(function, "--error", error), log=True))
@pytest.mark.parametrize("function,error", FAULTS)
def test_without_timers_time_counts_until_the_program_has_waited(seen, function, error):
    share, rc, err, log = seen
    assert rc == 0, err
    assert share < SHARE / 100 + 0.06  # a launch of 400 ms more or less
    if function != "cuEventRecord":  # that one is told after eight
        assert function in log
