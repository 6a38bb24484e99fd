"""A greedy CUDA program in Python (NVIDIA's own bindings): kernels of one millisecond, one after the other.

Runs until it is stopped, or for --seconds N, and then prints how many it got done in a second.
"""

import sys
import time

from cuda.bindings import driver

MILLISECOND = 1_000_000
SPIN = b"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry spin(.param .u64 ns)
{
    .reg .u64 %t<4>;
    .reg .pred %p;
    ld.param.u64 %t1, [ns];
    mov.u64 %t2, %globaltimer;
    add.u64 %t1, %t1, %t2;
again:
    mov.u64 %t2, %globaltimer;
    setp.lt.u64 %p, %t2, %t1;
    @%p bra again;
    ret;
}
"""


def ok(result):
    code, *rest = result
    if code != driver.CUresult.CUDA_SUCCESS:
        raise SystemExit(f"driver says {code.name}")
    return rest[0] if len(rest) == 1 else rest


def main() -> None:
    import ctypes

    seconds = float(sys.argv[2]) if sys.argv[1:2] == ["--seconds"] else float("inf")
    ok(driver.cuInit(0))
    ok(driver.cuCtxSetCurrent(ok(driver.cuDevicePrimaryCtxRetain(0))))
    kernel = ok(driver.cuModuleGetFunction(ok(driver.cuModuleLoadData(SPIN)), b"spin"))
    done, start = 0, time.monotonic()
    while time.monotonic() - start < seconds:
        for _ in range(10):
            ok(driver.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, 0, ((MILLISECOND,), (ctypes.c_uint64,)), 0))
        ok(driver.cuCtxSynchronize())
        done += 10
    print(f"{done / (time.monotonic() - start):.0f} kernels of 1 ms in a second")


main()
