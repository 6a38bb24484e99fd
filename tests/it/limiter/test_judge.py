"""The judge of shares against curves whose figures are known."""

import pytest
import side_by_side  # noqa: F401 (makes bench importable)

import limiter_judge as judge


def steady(share, seconds=13.0, start=100.0, every=0.05):
    """Idle half a second, then `share` of the card all the time."""
    return [(start + i * every, max(0.0, i * every - 0.5) * share) for i in range(int(seconds / every))]


def kernels(length, share, count, start=100.0, every=0.05, first_extra=0.0):
    """Equal kernels at full speed, each followed by the pause that makes it `share`."""
    begins = [1.0 + k * length / share + (first_extra if k else 0.0) for k in range(count)]
    end = begins[-1] + length / share

    def used(t):
        return sum(min(length, max(0.0, t - b)) for b in begins)

    return [(start + i * every, used(i * every)) for i in range(int(end / every))]


def test_a_steady_share_has_no_error():
    row = judge.case(steady(0.3), judge.expected(0.3, None), 1e-3)
    assert row["error_10s_points"] == pytest.approx(0, abs=1e-6)
    assert row["p95_error_1s_points"] == pytest.approx(0, abs=1e-6)
    assert row["share_10s"] == pytest.approx(0.3)


def test_a_wrong_share_is_off_by_the_difference():
    row = judge.case(steady(0.35), judge.expected(0.3, None), 1e-3)
    assert row["error_10s_points"] == pytest.approx(5)
    assert row["settle_ms"] == judge.NEVER_MS


def test_who_cannot_use_the_share_is_measured_against_a_twin():
    row = judge.case(steady(0.25), judge.expected(0.3, steady(0.25)), 1e-3)
    assert row["error_10s_points"] == pytest.approx(0, abs=1e-6) and row["settle_ms"] < 51


def test_settling_is_when_the_windows_hold():
    # the whole card for 400 ms, then 30 %
    curve = [(100 + i * 0.05, min(i * 0.05, 0.4) + max(0.0, i * 0.05 - 0.4) * 0.3) for i in range(260)]
    settled = judge.settle(curve, 100.0, judge.expected(0.3, None), 3.0)
    # a window that begins at s has (0.4 - s) x 0.7 too much: within three points from s = 0.357 on
    assert settled == pytest.approx(0.4, abs=0.051)


def test_begin_is_found_between_samples():
    assert judge.begin([(10.0, 0.0), (10.05, 0.02), (10.10, 0.07)]) == pytest.approx(10.03)
    with pytest.raises(ValueError):
        judge.begin([(10.0, 0.0), (10.05, 0.0)])


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_long_kernels_at_their_share(share):
    curve = kernels(1.0, share, 27)
    error, settled = judge.long_kernels(curve, judge.begin(curve), 1.0, share)
    assert error == pytest.approx(0, abs=0.2) and settled == 1


def test_long_kernels_that_settle_late():
    curve = kernels(1.0, 0.5, 27, first_extra=1.0)  # two seconds of pause behind the first
    error, settled = judge.long_kernels(curve, judge.begin(curve), 1.0, 0.5)
    assert error == pytest.approx(0, abs=0.2) and settled == 2


@pytest.mark.parametrize("q,value", [(0.5, 50), (0.95, 95), (0.99, 99), (1.0, 100)])
def test_quantile_is_the_nearest_rank(q, value):
    assert judge.quantile(list(range(1, 101)), q) == value
