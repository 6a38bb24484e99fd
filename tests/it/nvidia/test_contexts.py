"""Contexts that come about by other calls than cuCtxCreate: charged once, returned once."""

from conftest import MIB

CLIENT = """
import ctypes as C
import sys
cuda = C.CDLL("libcuda.so.1")
def call(name, *args):
    rc = getattr(cuda, name)(*args)
    if rc:
        print(name, rc)
        sys.exit()
call("cuInit", 0)
resource, desc = (C.c_ubyte * 512)(), C.c_void_p()
call("cuDeviceGetDevResource", 0, resource, 1)
call("cuDevResourceGenerateDesc", C.byref(desc), resource, 1)
def used():
    free, total, current, before = C.c_size_t(), C.c_size_t(), C.c_void_p(), C.c_void_p()
    call("cuCtxFromGreenCtx", C.byref(current), green)
    call("cuCtxPushCurrent_v2", current)
    call("cuMemGetInfo_v2", C.byref(free), C.byref(total))
    call("cuCtxPopCurrent_v2", C.byref(before))
    return total.value - free.value
seen = set()
for _ in range(8):
    green = C.c_void_p()
    call("cuGreenCtxCreate", C.byref(green), desc, 0, 1)
    seen.add(used())
    second = C.c_void_p()
    call("cuGreenCtxCreate", C.byref(second), desc, 0, 1)
    seen.add(used())
    call("cuGreenCtxDestroy", second)
    seen.add(used())
    call("cuGreenCtxDestroy", green)
print(*sorted(seen))
"""


def test_green_contexts_charge_the_primary_context_once(make_sim):
    """24 MiB a context under 64 MiB: a charge that stayed, or came twice, would end in out of memory."""
    sim = make_sim(cards=1, memory="4Gi", overhead="24Mi")
    done = sim.python(CLIENT, env=sim.hook_env("64Mi"))
    assert done.stdout.split() == [str(24 * MIB)], done.stdout + done.stderr


def test_green_context_beyond_the_limit(make_sim):
    sim = make_sim(cards=1, memory="4Gi", overhead="80Mi")
    done = sim.python(CLIENT, env=sim.hook_env("64Mi"))
    assert done.stdout.split() == ["cuGreenCtxCreate", "2"], done.stdout + done.stderr
