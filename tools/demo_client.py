"""A plain CUDA program in Python (NVIDIA's own bindings); it knows nothing of gpuslice.

Prints what the card seems to be, allocates half of it, then asks for more than there is. With
--hold FILE it then writes its process id to FILE and keeps the memory until it is stopped.
"""

import os
import signal
import sys

import pynvml
from cuda.bindings import driver

GIB = 1 << 30


def ok(result):
    code, *rest = result
    if code != driver.CUresult.CUDA_SUCCESS:
        raise SystemExit(f"driver says {code.name}")
    return rest[0] if len(rest) == 1 else rest


pynvml.nvmlInit()
handle = pynvml.nvmlDeviceGetHandleByIndex(0)
print(f"NVML:         {pynvml.nvmlDeviceGetMemoryInfo(handle).total / GIB:.1f} GiB in all")
ok(driver.cuInit(0))
context = ok(driver.cuDevicePrimaryCtxRetain(0))
ok(driver.cuCtxSetCurrent(context))
free, total = ok(driver.cuMemGetInfo())
print(f"cuMemGetInfo: {total / GIB:.1f} GiB in all, {free / GIB:.1f} free")
pointer = ok(driver.cuMemAlloc(total // 2))
print(f"allocated     {total // 2 / GIB:.1f} GiB: granted, {ok(driver.cuMemGetInfo())[0] / GIB:.1f} free")
code, _ = driver.cuMemAlloc(total)
print(f"asked for     {total / GIB:.1f} GiB: refused: {code.name}")
if sys.argv[1:2] == ["--hold"]:
    with open(sys.argv[2], "w") as file:
        file.write(f"{os.getpid()}\n")
    signal.pause()
