"""Unmodified third-party programs under a share of a card's time: they finish, their results are right, and they get
their share, as they say themselves or as the simulated card says."""

import pathlib
import re
import shutil
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import limiter_judge as judge  # noqa: E402
from limiter_cards import STAGE, Cards  # noqa: E402

SIM_LIB = STAGE / "lib" / "gpuslice" / "sim" / "nvidia"


def need(program):
    if not shutil.which(program):
        pytest.skip(f"{program} is not installed: ./dev deps clients")


def finished(p, timeout):
    out, err = p.communicate(timeout=timeout)
    assert p.returncode == 0, err[-3000:]
    return out


def held(cards, options, argv, **extra):
    """`gpuslice run OPTIONS -- ARGV`, or bare without options."""
    before = [STAGE / "bin" / "gpuslice", "run", "--name", "slice", *options, "--"] if options else []
    return cards.start([*before, *argv], "slice", **extra)


# ---- hashcat -------------------------------------------------------------------------------------------------------

# One launch is always the same work and takes as long: speed is launches a second.
HASHCAT = ["hashcat", "-b", "-m", "0", "--backend-ignore-hip", "--backend-ignore-opencl", "--self-test-disable",
           "--runtime", "5", "--force", "--kernel-accel", "256", "--kernel-loops", "16", "--kernel-threads", "64"]


def hashcat_speed(folder, options):
    nvrtc = pytest.importorskip("nvidia.cuda_nvrtc", reason="python module nvidia-cuda-nvrtc-cu12 is not installed")
    lib = next(pathlib.Path(nvrtc.__path__[0]).glob("lib/libnvrtc.so.1*"))
    # hashcat opens the unversioned name only, and leaves CUDA out silently where it is missing.
    if not (folder / "libnvrtc.so").exists():
        (folder / "libnvrtc.so").symlink_to(lib)
        (folder / "home").mkdir()
    home = str(folder / "home")
    with Cards() as cards:
        p = held(cards, options, HASHCAT, LD_LIBRARY_PATH=f"{SIM_LIB}:{folder}:{lib.parent}", HOME=home,
                 XDG_CACHE_HOME=home, XDG_DATA_HOME=home, GPUSLICE_SIM_KERNEL_NS=20_000_000)
        out = finished(p, 240)
    found = re.search(r"Speed\.#1\.*: +([0-9.]+) ([kMG]?)H/s", out)
    assert found, out
    return float(found[1]) * {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}[found[2]]


def test_hashcat_reports_the_speed_of_its_share(tmp_path):
    need("hashcat")
    whole = hashcat_speed(tmp_path, None)
    for share in (30, 60):
        part = hashcat_speed(tmp_path, ["--cores", str(share)])
        assert part / whole == pytest.approx(share / 100, abs=0.03), (whole, part)


# ---- ffmpeg --------------------------------------------------------------------------------------------------------


def ffmpeg(options, kernel_ns):
    """(MD5 of what the filter made, share of the card between its first and its last work)."""
    argv = ["ffmpeg", "-v", "error", "-init_hw_device", "cuda=cu:0", "-filter_hw_device", "cu", "-f", "lavfi", "-i",
            "testsrc=s=320x240:r=25:d=12", "-vf", "format=yuv420p,hwupload_cuda,yadif_cuda,hwdownload,format=yuv420p", "-f",
            "md5", "-"]
    with Cards() as cards:
        watch = cards.watch()
        out = finished(held(cards, options, argv, GPUSLICE_SIM_KERNEL_NS=kernel_ns), 120)
        curve = watch.curve("slice")
    start = judge.begin(curve)
    settled = judge.windows(curve, start + 0.7, 3.0)
    assert settled, "over too soon"
    return out, settled[0][1], curve[-1][1]


def test_ffmpeg_filter_is_right_and_has_its_share():
    need("ffmpeg")
    whole, rate, work = ffmpeg(None, 10_000_000)
    assert re.fullmatch(r"MD5=[0-9a-f]{32}\n", whole)
    assert rate > 0.5  # it would use more
    part, share, same_work = ffmpeg(["--cores", "30"], 10_000_000)
    assert part == whole
    assert same_work == pytest.approx(work, rel=0.01)  # as many kernels on the card
    assert share == pytest.approx(0.30, abs=0.03)


def test_ffmpeg_without_kernels_is_what_it_is_without_cuda():
    """Copies alone: the picture comes back as it went in, whatever the share."""
    need("ffmpeg")
    chain = ["-f", "lavfi", "-i", "testsrc=s=320x240:d=0.4", "-vf"]
    with Cards() as cards:
        plain = finished(cards.start(["ffmpeg", "-v", "error", *chain, "format=yuv420p", "-f", "md5", "-"], ""), 60)
        out = finished(held(cards, ["--cores", "20"],
                            ["ffmpeg", "-v", "error", "-init_hw_device", "cuda=cu:0", "-filter_hw_device", "cu", *chain,
                             "format=yuv420p,hwupload_cuda,hwdownload,format=yuv420p", "-f", "md5", "-"]), 60)
    assert out == plain
