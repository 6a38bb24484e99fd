"""./dev sim: cards that stay are what they were made."""

import os
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
