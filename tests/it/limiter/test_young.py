"""What is new all the time: processes that live for a moment, graphs that are launched once. A slice pays for what the
card did, and gets what it was promised. One after the other, and not beside the other scenarios: how much of the card
such programs can use is a matter of processors."""

import pytest
import side_by_side  # noqa: F401, I001 (it makes bench importable)
from limiter_cards import BUILD, STAGE
from load import Cards, begun, share_of

CLIENT = BUILD / "tests" / "it" / "limiter" / "ways_client"
POINTS = 0.03

# N at a time, and one after the other, until so many seconds have passed
LIVES = """n=$1; until=$(($(date +%s) + $2)); shift 2
while [ "$n" -gt 0 ]; do (while [ "$(date +%s)" -lt "$until" ]; do "$@"; done) & n=$((n - 1)); done; wait"""


def share(cores, seconds, n, *argv, lives_s=None):
    with Cards() as cards:
        watch = cards.watch()
        life = lives_s or seconds + 1.5
        cards.start([STAGE / "bin" / "gpuslice", "run", "--name", "s", "--cores", cores, "--", "sh", "-c", LIVES, "sh", n,
                     seconds + 3 if lives_s else 1, CLIENT, *argv, life], "s")
        return share_of(watch, "s", begun(watch, "s") + 1.0, seconds)


@pytest.mark.parametrize("loops,long,percent", [(3, "2000", "20"), (4, "2000", "30")])
def test_short_lives_begin_with_what_others_of_the_slice_found(loops, long, percent):
    """None lives long enough to find out by itself that launches of its kernel differ."""
    got = share(30, 9, loops, "unlike", long, percent, "sync", "20", lives_s=0.3)
    assert got == pytest.approx(0.30, abs=0.03)


def test_short_lives_use_what_they_take():
    """Each end took what was left of 3 ms with it: three loops of 6 ms had 26 for 30."""
    assert share(30, 8, 3, "moment", "k20us", "300", lives_s=1) == pytest.approx(0.30, abs=0.02)


@pytest.mark.parametrize("processes", [2, 4])
def test_processes_with_a_new_graph_for_each_launch_get_their_share(processes):
    bare, held = (share(cores, 4, processes, "fresh", "graph", "k100us") for cores in (100, 60))
    assert 0.7 * min(0.60, bare) < held < 0.60 + POINTS


def test_new_graphs_that_turn_out_long_are_held():
    """They were short for a while: a process is taken at its word no further than for the next ones."""
    got = share(60, 6, 2, "fresh", "turns", "k100us,k50ms")
    assert got < 0.60 + POINTS
