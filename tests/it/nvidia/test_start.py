"""When the hook starts, and what it leaves alone until then."""

import textwrap

MIB = 1 << 20

CLIENT = """
import ctypes as C, os
cu = C.CDLL("libcuda.so.1")
OOM, NOT_INITIALIZED = 2, 3

def allowed():
    device, ctx, ptr, n = C.c_int(), C.c_void_p(), C.c_uint64(), 0
    assert cu.cuInit(0) == 0
    assert cu.cuDeviceGet(C.byref(device), 0) == 0
    assert cu.cuDevicePrimaryCtxRetain(C.byref(ctx), device) == 0 and cu.cuCtxSetCurrent(ctx) == 0
    while (code := cu.cuMemAlloc_v2(C.byref(ptr), C.c_size_t(8 << 20))) == 0 and n < 20:
        n += 1
    return n * 8, code
"""


def without_nvml(sim, tmp_path):
    """A machine that has libcuda.so.1 only."""
    folder = tmp_path / "cuda-only"
    folder.mkdir()
    (folder / "libcuda.so.1").symlink_to(sim.lib / "libcuda.so.1")
    return str(folder)


def run(sim, tmp_path, code, **env):
    lib = without_nvml(sim, tmp_path)
    out = sim.python(CLIENT + textwrap.dedent(code), env=sim.hook_env("64m", LD_LIBRARY_PATH=lib, **env))
    assert out.returncode == 0, out.stdout + out.stderr
    return out.stdout.split()


def test_a_call_before_cuinit_does_not_initialise_cuda(sim, tmp_path):
    """The driver refuses CUDA in a child once its parent has initialised it; a question does not count as that."""
    assert run(sim, tmp_path, """
        total = C.c_size_t()
        print(cu.cuDeviceTotalMem_v2(C.byref(total), 0) == NOT_INITIALIZED)
        print(cu.cuDeviceTotalMem_v2(C.byref(total), 0) == NOT_INITIALIZED, flush=True)
        if os.fork() == 0:
            print(*allowed(), flush=True)
            os._exit(0)
        os.wait()
        print(*allowed())
    """) == ["True", "True", "64", "2", "64", "2"]


def test_the_program_is_held_from_its_cuinit_on(sim, tmp_path):
    """What was asked too early is not answered for good."""
    assert run(sim, tmp_path, """
        ptr = C.c_uint64()
        print(cu.cuMemAlloc_v2(C.byref(ptr), C.c_size_t(1 << 20)) == NOT_INITIALIZED)
        print(*allowed())
        free, total = C.c_size_t(), C.c_size_t()
        assert cu.cuMemGetInfo_v2(C.byref(free), C.byref(total)) == 0
        print(free.value >> 20, total.value >> 20)
    """) == ["True", "64", "2", "0", "64"]
