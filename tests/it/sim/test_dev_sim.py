"""./dev sim: cards that stay are what they were made."""

import os
import re
import subprocess
import sys

import pytest

from conftest import ROOT

PROBE = sys.executable, "-c", """
import ctypes
nvml, card, n, memory = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p(), ctypes.c_uint(), (ctypes.c_ulonglong * 3)()
assert nvml.nvmlInit_v2() == 0
assert nvml.nvmlDeviceGetCount_v2(ctypes.byref(n)) == 0
assert nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(card)) == 0
assert nvml.nvmlDeviceGetMemoryInfo(card, memory) == 0
print(n.value, memory[0] >> 30)
"""


@pytest.fixture
def kept():
    name = f"test-{os.getpid()}"
    yield lambda *options: subprocess.run([ROOT / "dev", "sim", "--keep", name, *options, "--", *PROBE], cwd=ROOT,
                                          capture_output=True, text=True, timeout=60)
    subprocess.run([ROOT / "dev", "sim", "--stop", name], check=True, timeout=60)


def test_kept_cards_need_not_be_described_again(kept):
    for options in (("--cards", "2", "--memory", "4Gi"), (), ("--memory", "4Gi")):
        done = kept(*options)
        assert (done.returncode, done.stdout.split()) == (0, ["2", "4"]), done.stderr


@pytest.mark.parametrize("options, made", [(("--cards", "3"), "cards '1'"), (("--memory", "16Gi"), "memory '8Gi'"),
                                           (("--model", "X"), "model ''"), (("--zero-cost",), "mode ''")])
def test_kept_cards_are_not_changed_in_silence(kept, options, made):
    assert kept().returncode == 0
    done = kept(*options)
    assert done.returncode == 1 and done.stdout == ""
    assert f"were made with {made}" in done.stderr
    assert "./dev sim --stop" in done.stderr


def sim(*args, **kw):
    return subprocess.run([ROOT / "dev", "sim", *args], cwd=ROOT, capture_output=True, text=True, timeout=60, **kw)


@pytest.mark.parametrize("options, said", [
    (("--cards", "99"), "--cards '99': at most 64"), (("--cards", "x"), "--cards 'x': not a number"),
    (("--memory", "8Gb"), "--memory '8Gb': not a number"), (("--memory", "0"), "--memory '0': a card has more than nothing"),
    (("--memory", "5Ti"), "at most 4Ti"), (("--granularity", "3Mi"), "--granularity '3Mi': a power of two"),
    (("--overhead", "much"), "--overhead 'much': not a number"), (("--cudart", "11"), "--cudart '11': there is 12 and 13"),
    (("--bogus",), "--bogus"), (("--bogus", "1"), "unknown option '--bogus'; ./dev sim --help"),
    (("--vendor", "none"), "no simulated cards for vendor 'none'"),
], ids=str)
def test_a_wrong_option_is_told_in_one_line(options, said):
    """And not by the driver to a program that is started all the same."""
    for keep in ((), ("--keep", f"wrong-{os.getpid()}")):
        done = sim(*keep, *options, "--", "echo", "started")
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), done.stderr
        assert done.stderr.startswith("dev: sim: ") and said in done.stderr
    assert sim("--stop", f"wrong-{os.getpid()}").returncode == 1  # nothing of it was kept


def test_stopping_what_is_not_kept_is_told(kept):
    assert kept().returncode == 0
    done = sim("--stop", "nosuch")
    assert done.returncode == 1 and "no cards are kept as 'nosuch'; there are: " in done.stderr
    assert f"test-{os.getpid()}" in done.stderr


def test_faults_of_what_no_driver_serves_are_refused():
    for command in (("fault", "cuBogus", "--error", "2"), ("slow", "cuBogus", "5"), ("fault", "", "--error", "2"),
                    ("fault", "cudbgMain", "--error", "2")):
        done = sim("--", "gpuslice-sim", *command)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == f"gpuslice-sim: {command[0]}: the drivers serve no '{command[1]}'\n"
    for name in ("cuMemAlloc_v2", "cuLaunchKernel", "nvmlInit_v2"):
        assert sim("--", "gpuslice-sim", "fault", name, "--error", "2").returncode == 0, name


def test_two_terminals_share_kept_cards(kept):
    """As the README shows it: what a program in one shell holds, `gpuslice top` tells in another."""
    name = f"test-{os.getpid()}"
    assert kept("--cards", "2", "--memory", "16Gi").returncode == 0
    code = ("import ctypes as c, sys\nd, x, p = c.CDLL('libcuda.so.1'), c.c_void_p(), c.c_uint64()\n"
            "assert d.cuInit(0) == 0 and d.cuDevicePrimaryCtxRetain(c.byref(x), 0) == 0 and d.cuCtxSetCurrent(x) == 0\n"
            "assert d.cuMemAlloc_v2(c.byref(p), c.c_size_t(2 << 30)) == 0\nprint('holds', flush=True)\nsys.stdin.read()")
    first = subprocess.Popen([ROOT / "dev", "sim", "--keep", name, "--", "gpuslice", "run", "--memory", "4Gi", "--name", name,
                              "--", sys.executable, "-c", code], cwd=ROOT, text=True, stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE)
    try:
        assert first.stdout.readline() == "holds\n"
        top = sim("--keep", name, "--", "gpuslice", "top", "--once").stdout
        assert re.search(r"2 GiB / 16 GiB +0 % +4 GiB", top) and "2 GiB / 4 GiB" in top, top
        out = sim("--keep", name, "--", "gpuslice", "run", "--memory", "14Gi", "--device", "0", "--", "true")
        assert out.returncode == 125 and f"'{name}'" in out.stderr
    finally:
        first.stdin.close()
        first.wait(30)
        first.stdout.close()
