"""A driver that fails at any call the hook makes for itself: the program gets an error of the driver's own, and the
card never loses more than the limit."""

import pytest

from conftest import MIB, ROOT, stage_dir

LIMIT = 96
# what the hook asks the driver for its own purposes while memory is taken and given back
ASKED = ["cuCtxGetCurrent", "cuCtxGetDevice", "cuDeviceGetCount", "cuDeviceGetMemPool", "cuDeviceGetUuid",
         "cuDeviceGetUuid_v2", "cuDeviceTotalMem_v2", "cuDevicePrimaryCtxGetState", "cuDriverGetVersion",
         "cuMemGetAllocationGranularity", "cuMemPoolGetAttribute", "cuMemPoolTrimTo", "cuPointerGetAttribute",
         "cuStreamGetCtx", "cuStreamIsCapturing", "nvmlInit_v2", "nvmlDeviceGetHandleByUUID",
         "nvmlDeviceGetComputeRunningProcesses_v3"]
PROGRAM = """
from cu import *
def attempt(f, *args):
    try:
        return f(*args)
    except Error:
        return None
c = Cuda()
for turn in range(2):
    linear = [attempt(c.alloc, (1 + i % 5) * MIB) for i in range(30)]
    pooled = [attempt(c.alloc_async, (1 + i % 7) * MIB) for i in range(30)]
    blocks = [attempt(c.create, 2 * MIB) for i in range(30)]
    for p in linear: p and attempt(c.free, p)
    for p in pooled: p and attempt(c.free_async, p)
    for h in blocks: h and attempt(c.release, h)
    attempt(c.sync)
print("end")
"""


@pytest.mark.parametrize("nth", [None, 3])
def test_the_limit_holds(sim, nth):
    tool = stage_dir() / "bin" / "gpuslice-sim"
    nv = ROOT / "tests" / "it" / "nvidia"
    sim.status()
    for function in ASKED:
        assert sim.run(tool, "reset").returncode == 0
        which = ["--nth", nth] if nth else []
        assert sim.run(tool, "fault", function, *which, "--error", 999).returncode == 0
        out = sim.python(PROGRAM, env=sim.hook_env(f"{LIMIT}m", ledger=function, PYTHONPATH=nv))
        assert out.returncode == 0 and out.stdout == "end\n", (function, out.stderr)
    groups = {g["name"]: g["cards"] for g in sim.status()["groups"]}
    over = {f: groups[f][0]["peak_bytes"] / MIB for f in ASKED if f in groups and groups[f]
            and groups[f][0]["peak_bytes"] > LIMIT * MIB}
    assert over == {}
