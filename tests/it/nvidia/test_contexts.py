"""Contexts that come about by other calls than cuCtxCreate: charged once, returned once."""

import subprocess
import sys

from conftest import MIB, stage_dir

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


FIRST = """
import ctypes as C
cuda = C.CDLL("libcuda.so.1")
assert cuda.cuInit(0) == 0
print("ready", flush=True)
input()
print(cuda.cuDevicePrimaryCtxRetain(C.byref(C.c_void_p()), 0), flush=True)
input()
"""


def test_first_contexts_of_many_processes_keep_to_the_limit(make_sim):
    """What a context costs is not known yet; made at once, four would take 160 MiB of 64."""
    sim = make_sim(cards=1, memory="4Gi", overhead="40Mi")
    sim.status()
    slow = sim.run(stage_dir() / "bin" / "gpuslice-sim", "slow", "cuDevicePrimaryCtxRetain", "100")
    assert slow.returncode == 0, slow.stderr
    many = [subprocess.Popen([sys.executable, "-c", FIRST], env=sim.hook_env("64Mi"), text=True,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(4)]
    assert [p.stdout.readline() for p in many] == ["ready\n"] * 4
    for p in many:
        p.stdin.write("\n")
        p.stdin.flush()
    answers = sorted(p.stdout.readline().strip() for p in many)
    group = next(g for g in sim.status()["groups"] if g["name"] == "slice.cache")
    for p in many:
        p.communicate("\n")
    assert answers == ["0", "2", "2", "2"]
    assert group["cards"][0]["peak_bytes"] == 40 * MIB
