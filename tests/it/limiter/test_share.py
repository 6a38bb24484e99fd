"""A slice gets the share it asked for, however it launches; shares are of card time as the card itself accounts it."""

import pytest
from side_by_side import scenario, seen  # noqa: F401, I001 (a fixture; and it makes bench importable)
from limiter_cards import CLIENT, reports
from load import Cards, begun, hook_env, log_of, share_of

POINTS = 0.03  # coarse: a busy machine
SETTLE_S = 0.7
SECONDS = 5

GRID = [
    ("k20us", 30, ["--mode", "stream"]),
    ("k20us", 70, ["--mode", "graph"]),
    ("k1ms", 10, ["--mode", "stream"]),
    ("k1ms", 50, ["--mode", "sync"]),
    ("k1ms", 70, ["--mode", "graph", "--processes", "2"]),
    ("k50ms", 30, ["--mode", "stream"]),
    ("k50ms", 50, ["--mode", "graph", "--processes", "4"]),
    ("k20us,k1ms,k10ms", 50, ["--mode", "stream", "--bursty", "3"]),
]
WAYS = [
    ["--mode", "poll"], ["--mode", "callback"], ["--mode", "never"], ["--mode", "launching-callback"],
    ["--streams", "4"], ["--threads", "4", "--streams", "1"], ["--threads", "64", "--mode", "sync"],
    ["--api", "ex"], ["--api", "coop"], ["--api", "grid"], ["--api", "ptsz", "--streams", "1"],
    ["--api", "ex-ptsz", "--streams", "1"],
]


def held(kernels, share, options):
    with Cards() as cards:
        watch = cards.watch()
        p = cards.slice("cell", ["--cores", share], "--kernels", kernels, "--seconds", SETTLE_S + SECONDS + 1, *options)
        start = begun(watch, "cell")
        seen = share_of(watch, "cell", start + SETTLE_S, SECONDS)
        return seen, reports(p, 60)


@scenario(held)
@pytest.mark.parametrize("kernels,share,options", GRID, ids=lambda v: "-".join(v[1::2]) if isinstance(v, list) else str(v))
def test_share_is_what_was_asked_for(seen, kernels, share, options):
    assert seen[0] == pytest.approx(share / 100, abs=POINTS)


def beside_a_twin(share, *options):
    """Share of a slice, and of the same program without a hook on a card of its own at the same time."""
    with Cards() as cards, Cards() as others:
        options = [*options, "--seconds", SETTLE_S + SECONDS + 2]
        twin, watch = others.watch(), cards.watch()
        others.bare("cell", *options)
        cards.slice("cell", ["--cores", share], *options)
        after = max(begun(twin, "cell"), begun(watch, "cell")) + SETTLE_S
        return share_of(watch, "cell", after, SECONDS), share_of(twin, "cell", after, SECONDS)


@scenario(lambda: beside_a_twin(50, "--kernels", "k20us", "--mode", "sync", "--processes", "4"))
def test_short_kernels_of_several_processes_have_what_processors_allow(seen):
    """Four that wait 25,000 times a second: a busy machine cannot serve them, with a limit or without one. The twin takes
    processors that the slice would need; `./dev bench limiter --full` runs the two one after the other, and has 49.7."""
    own, twins = seen
    assert own < 0.5 + POINTS
    assert own > min(0.5, 0.5 * twins) - POINTS


def way(options):
    return held("k1ms", 40, options)


@scenario(way)
@pytest.mark.parametrize("options", WAYS, ids=lambda v: "-".join(w.lstrip("-") for w in v))
def test_every_way_of_launching_is_held(seen, options):
    share, rows = seen
    assert share == pytest.approx(0.40, abs=POINTS)
    assert len(rows) == 1 and rows[0]["launches"] > 1000


def long_kernels():
    with Cards() as cards:
        watch = cards.watch()
        cards.slice("long", ["--cores", "50"], "--kernels", "k1s", "--seconds", "60")
        start = begun(watch, "long")
        return share_of(watch, "long", start + 4.0, 12.0)


@scenario(long_kernels)
def test_kernels_of_a_second(seen):
    assert seen == pytest.approx(0.50, abs=0.05)  # six kernels in twelve seconds, one may be cut


def cards_of_a_slice():
    with Cards(cards=2) as cards:
        watch = cards.watch()
        for device in (0, 1):
            cards.start([CLIENT, "--kernels", "k1ms", "--device", device, "--seconds", "8"], "cell",
                        **hook_env(cards, "cell", CUDA_DEVICE_SM_LIMIT_0="20", CUDA_DEVICE_SM_LIMIT_1="60"))
        start = max(begun(watch, "cell", card=0), begun(watch, "cell", card=1))
        return [share_of(watch, "cell", start + SETTLE_S, SECONDS, card) for card in (0, 1)]


@scenario(cards_of_a_slice)
def test_each_card_has_its_own_share(seen):
    assert seen == [pytest.approx(0.20, abs=POINTS), pytest.approx(0.60, abs=POINTS)]


def joined():
    with Cards() as cards:
        watch = cards.watch()
        cards.slice("cell", ["--cores", "40"], "--kernels", "k1ms", "--seconds", "9")
        begun(watch, "cell")
        other = cards.start(["gpuslice", "run", "--join", "cell", "--", CLIENT, "--kernels", "k1ms", "--seconds", "6"],
                            "joined")
        start = begun(watch, "joined")
        shares = [share_of(watch, g, start + SETTLE_S, 4) for g in ("cell", "joined")]
        reports(other, 60)
        return shares


@scenario(joined)
def test_a_process_that_joins_shares_the_share(seen):
    assert sum(seen) == pytest.approx(0.40, abs=POINTS)
    assert min(seen) > 0.10  # nobody is left out


def variable(**env):
    with Cards() as cards:
        watch = cards.watch()
        cards.start([CLIENT, "--kernels", "k1ms", "--seconds", "6"], "cell", **hook_env(cards, "cell", **env))
        return share_of(watch, "cell", begun(watch, "cell") + SETTLE_S, 4)


@scenario(lambda env, share: variable(**env))
@pytest.mark.parametrize("env,share", [
    ({"CUDA_DEVICE_SM_LIMIT": "30"}, 0.30),
    ({"CUDA_DEVICE_SM_LIMIT": "30", "CUDA_DEVICE_SM_LIMIT_0": "60"}, 0.60),
    ({"CUDA_DEVICE_SM_LIMIT": "30", "CUDA_DEVICE_SM_LIMIT_1": "60"}, 0.30),
    ({"CUDA_DEVICE_SM_LIMIT": "30", "GPU_CORE_UTILIZATION_POLICY": "force"}, 0.30),
    ({"CUDA_DEVICE_SM_LIMIT": "30", "GPU_CORE_UTILIZATION_POLICY": "FORCE"}, 0.30),
    ({"CUDA_DEVICE_SM_LIMIT": "30", "GPU_CORE_UTILIZATION_POLICY": "disable"}, 1.00),
    # nobody lends: no board, no monitor
    ({"CUDA_DEVICE_SM_LIMIT": "30", "GPU_CORE_UTILIZATION_POLICY": "default"}, 0.30),
    ({"CUDA_DEVICE_SM_LIMIT": "30", "CUDA_TASK_PRIORITY": "0"}, 0.30),
    ({"CUDA_DEVICE_SM_LIMIT": "30", "CUDA_TASK_PRIORITY": "1"}, 0.30),
    ({"CUDA_TASK_PRIORITY": "0"}, 1.00),
    ({"CUDA_DEVICE_SM_LIMIT": "0"}, 1.00),  # HAMi: no limit
    ({"CUDA_DEVICE_SM_LIMIT": "100"}, 1.00),
], ids=lambda v: "-".join(f"{k.removeprefix('CUDA_')}={w}" for k, w in v.items()) if isinstance(v, dict) else str(v))
def test_limits_from_variables(seen, env, share):
    assert seen == pytest.approx(share, abs=POINTS)
