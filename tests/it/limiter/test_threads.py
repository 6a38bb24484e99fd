"""A program that launches from many threads: it gets its share, and each of its threads gets on. One after the other,
and not beside the other scenarios: hundreds of threads would take the processors from those."""

import pytest
import side_by_side  # noqa: F401, I001 (it makes bench importable)
from limiter_cards import reports
from load import Cards, begun, share_of

POINTS = 0.03
SETTLE_S = 1.0
SECONDS = 4


def threads(n, options, load):
    """(share, fewest launches of a thread, launches of a thread on the average, longest wait for one in seconds)"""
    with Cards() as cards:
        watch = cards.watch()
        p = cards.slice("s", options, *load, "--threads", n, "--own-waits", "--seconds", SETTLE_S + SECONDS + 1)
        share = share_of(watch, "s", begun(watch, "s") + SETTLE_S, SECONDS)
        (row,) = reports(p, 90)
        return share, row["fewest_of_a_thread"], row["launches"] / n, row["longest_launch_ns"] / 1e9


@pytest.mark.parametrize("n,options,load", [
    (64, ["--cores", "40"], ["--kernels", "k2ms", "--mode", "sync"]),
    (64, ["--cores", "40"], ["--kernels", "k2ms", "--mode", "stream", "--streams", "2"]),
    (256, ["--cores", "40"], ["--kernels", "k2ms", "--mode", "sync"]),
    # each thread has a graph of its own, whose length nobody knows at first
    (64, ["--cores", "40"], ["--kernels", "k2ms", "--mode", "graph", "--batch", "5"]),
    # nothing is held: they wait for room on the card alone
    (64, ["--priority", "high"], ["--kernels", "k2ms", "--mode", "sync"]),
    (128, ["--cores", "40", "--policy", "elastic"], ["--kernels", "k2ms", "--mode", "sync"]),
], ids=lambda v: "-".join(v).replace("--", "") if isinstance(v, list) else str(v))
def test_many_threads_share_what_the_slice_has(n, options, load):
    share, fewest, mean, longest_s = threads(n, options, load)
    is_held = "--cores" in options and "elastic" not in options
    piece_s = 10e-3 if "graph" in load else 2e-3
    round_s = n * piece_s / (0.40 if is_held else 1.0)  # every thread once
    assert fewest >= mean / 3, (fewest, mean)
    assert longest_s <= 3 * round_s + 0.5, (longest_s, round_s)
    if is_held:
        assert share == pytest.approx(0.40, abs=POINTS)
    else:
        assert share >= 0.95
