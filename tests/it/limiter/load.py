"""What the scenarios of these tests have in common."""

import limiter_judge as judge
from limiter_cards import STAGE, Cards

HOOK = STAGE / "lib" / "gpuslice" / "libvgpu.so"


def hook_env(cards, name, **more):
    """A slice made by variables, as HAMi's device plugin would; no `gpuslice run`."""
    return {"LD_PRELOAD": HOOK, "CUDA_DEVICE_MEMORY_LIMIT": "0m",
            "CUDA_DEVICE_MEMORY_SHARED_CACHE": cards.folder / f"{name}.cache", **more}


def share_of(watch, group, after, seconds, card=0):
    """Share of the card that the group had in the `seconds` from `after` on (monotonic); waits until they are over."""
    assert watch.until_time(after + seconds + 0.1, seconds + 60), "the cards say nothing"
    found = judge.windows(watch.curve(group, card), after, seconds)
    assert found, "not sampled"
    return found[0][1]


def begun(watch, group, timeout=60, card=0):
    """Moment at which the group's first work came onto the card."""
    assert watch.until_used(group, 1e-6, timeout, card), f"{group} never came onto the card"
    return judge.begin(watch.curve(group, card))


def log_of(cards, name):
    """What the slice's log ring says."""
    out = cards.cli("log", name)
    return out.stdout + out.stderr


def ledger_of(cards, name):
    """Ledger of a slice that `gpuslice run` made."""
    return cards.folder / "run" / "gpuslice" / name / "slice.cache"


def folder_without_nvml(cards):
    """A folder that has the simulated libcuda and nothing else."""
    folder = cards.folder / "cuda-only"
    folder.mkdir()
    for name in ("libcuda.so.1", "libcuda.so"):
        (folder / name).symlink_to(STAGE / "lib" / "gpuslice" / "sim" / "nvidia" / name)
    return folder


__all__ = ["Cards", "HOOK", "begun", "folder_without_nvml", "hook_env", "judge", "ledger_of", "log_of", "share_of"]
