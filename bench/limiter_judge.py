"""What a curve of card time says about a share. Pure: no clock, no processes.

A curve is a list of (t, used): seconds of CLOCK_MONOTONIC, and the card time that a slice has had until then as the
card itself accounts it, in seconds. Windows begin and end at samples and are divided by their true length, so
nothing is interpolated. Shares are fractions of the card, errors are points (percent of the card).
"""

import bisect
import statistics

NEVER_MS = 1e6  # settle time of what does not settle


def begin(curve):
    """Time at which the slice's first work came onto the card: between two samples, from the time it had."""
    for (_, before), (t, used) in zip(curve, curve[1:]):
        if used > before:
            return t - (used - before)
    raise ValueError("the slice never used the card")


def windows(curve, start, length):
    """(start, share) of every window of `length` seconds that begins at a sample at or after `start`."""
    times = [t for t, _ in curve]
    out = []
    for i in range(bisect.bisect_left(times, start), len(curve)):
        j = bisect.bisect_left(times, times[i] + length - 1e-3)
        if j == len(curve):
            break
        out.append((times[i], (curve[j][1] - curve[i][1]) / (times[j] - times[i])))
    return out


def used_at(curve, t):
    """Card time until `t`, between samples by the rule of three: for a program whose load is steady."""
    i = bisect.bisect_left(curve, (t,))
    if i == 0 or i == len(curve):
        raise ValueError("not sampled then")
    (t0, before), (t1, after) = curve[i - 1], curve[i]
    return before + (after - before) * (t - t0) / (t1 - t0)


def expected(share, twin):
    """Target of a window: the share, or what a twin that nothing holds had of its own card in the same window."""
    if twin is None:
        return lambda start, length: share

    def target(start, length):
        return min(share, (used_at(twin, start + length) - used_at(twin, start)) / length)

    return target


def errors(curve, start, length, target):
    return [abs(share - target(t, length)) * 100 for t, share in windows(curve, start, length)]


def quantile(values, q):
    """Nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -(-int(q * 1000 * len(ordered)) // 1000) - 1))]


def settle(curve, start, target, bound, length=1.0):
    """Seconds from `start` to the first sample from which every window of `length` that begins within the next second
    is off by `bound` points at most; None: never. What comes later is judged by the quantile over all windows."""
    seen = windows(curve, start, length)
    for t, _ in seen:
        if all(abs(share - target(s, length)) * 100 <= bound for s, share in seen if t <= s < t + 1.0):
            return max(0.0, t - start)
    return None


def completions(curve, start, piece):
    """Times at which the slice had had 1, 2, ... times `piece` seconds of card time: ends of equal kernels. Between two
    samples work is taken to have come first and idleness after, as it does where one kernel ends."""
    out, k = [], 1
    for (t0, before), (t1, used) in zip(curve, curve[1:]):
        while used >= k * piece - 1e-6:
            if t1 >= start:
                out.append(min(t1, t0 + max(0.0, k * piece - before)))
            k += 1
    return out


def long_kernels(curve, start, piece, target, count=20, within=3):
    """Equal kernels of `piece` seconds: (error in points over `count` kernels, number of the kernel from which the share
    over any three successive ones is within three points). The count begins behind kernel `within`."""
    ends = completions(curve, start, piece)
    if len(ends) < within + count + 1:
        raise ValueError(f"only {len(ends)} kernels ended")
    first = within - 1
    share = count * piece / (ends[first + count] - ends[first])
    settled = None
    for k in range(len(ends) - 3):
        if all(abs(3 * piece / (ends[i + 3] - ends[i]) - target) * 100 <= 3 for i in range(k, len(ends) - 3)):
            settled = k + 1
            break
    return abs(share - target) * 100, settled


def case(curve, target, kernel_s, seconds=10.0, settle_allowed=0.5):
    """The figures of one cell of the grid; `target` is made by expected(). Bound of a 1 s window: 3 points for kernels up to 1 ms, else one kernel's
    length and 1 point."""
    start = begin(curve)
    bound = 3.0 if kernel_s <= 1e-3 else kernel_s * 100 + 1.0
    long = errors(curve, start + settle_allowed, seconds, target)
    short = errors(curve, start + settle_allowed, 1.0, target)
    settled = settle(curve, start, target, bound)
    return {
        "error_10s_points": max(long),
        "p95_error_1s_points": quantile(short, 0.95),
        "max_error_1s_points": max(short),
        "bound_1s_points": bound,
        "settle_ms": round(settled * 1e3, 1) if settled is not None else NEVER_MS,
        "share_10s": statistics.mean(share for _, share in windows(curve, start + settle_allowed, seconds)),
        "samples": len(curve),
    }
