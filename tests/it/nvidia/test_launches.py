"""What programs do around launches while their share is held: every one of them ends, with the right answers."""

import sys

import pytest

SETUP = """
import ctypes as C, threading, time
from cu import Cuda, Error
cu = Cuda()
PTX = b'''.version 7.0
.target sm_70
.address_size 64
.visible .entry quick()
{
\\tret;
}
.visible .entry slow()
{
\\tret;
}
'''
def load():
    module, quick, slow = C.c_void_p(), C.c_void_p(), C.c_void_p()
    cu.call("cuModuleLoadData", C.byref(module), PTX)
    cu.call("cuModuleGetFunction", C.byref(quick), module, b"quick")
    cu.call("cuModuleGetFunction", C.byref(slow), module, b"slow")
    return module, quick, slow
def launch(f, stream=None, blocks=1, name="cuLaunchKernel"):
    cu.call(name, f, blocks, 1, 1, 32, 1, 1, 0, stream, None, None)
def stream(flags=1):
    s = C.c_void_p()
    cu.call("cuStreamCreate", C.byref(s), flags)
    return s
module, quick, slow = load()
"""

CASES = {
    # a graph of exactly what was captured: nothing of ours in it
    "capture": """
s, other, graph, n = stream(), stream(), C.c_void_p(), C.c_size_t()
for round in range(20):
    for _ in range(50):
        launch(quick, s)
    cu.call("cuStreamBeginCapture_v2", s, 0)
    for _ in range(300):
        launch(quick, s)
        launch(quick, s, 4)
    done = threading.Thread(target=lambda: (cu.call("cuCtxSetCurrent", cu.ctx), [launch(quick, other) for _ in range(200)]))
    done.start()
    done.join()
    cu.call("cuStreamEndCapture", s, C.byref(graph))
    cu.call("cuGraphGetNodes", graph, None, C.byref(n))
    assert n.value == 600, n.value
    executable = C.c_void_p()
    cu.call("cuGraphInstantiateWithFlags", C.byref(executable), graph, C.c_ulonglong(0))
    cu.call("cuGraphLaunch", executable, s)
    cu.call("cuStreamSynchronize", s)
    cu.call("cuGraphExecDestroy", executable)
    cu.call("cuGraphDestroy", graph)
""",
    # captures that end badly, or with their stream, are over all the same
    "broken-capture": """
for round in range(100):
    s, t, graph = stream(), stream(), C.c_void_p()
    launch(quick, s)
    cu.call("cuStreamBeginCapture_v2", s, 2)
    launch(quick, s)
    if round % 3 == 0:
        assert cu.code("cuStreamEndCapture", t, C.byref(graph)) != 0
        cu.call("cuStreamEndCapture", s, C.byref(graph))
    elif round % 3 == 1:
        cu.code("cuStreamSynchronize", s)  # not allowed: breaks it
        cu.code("cuStreamEndCapture", s, C.byref(graph))
    cu.call("cuStreamDestroy_v2", s)
    for _ in range(20):
        launch(quick, t)
    cu.call("cuStreamDestroy_v2", t)
""",
    "contexts-with-work": """
for round in range(60):
    ctx = C.c_void_p()
    cu.call("cuCtxCreate_v2", C.byref(ctx), 0, 0)
    m, q, w = load()
    s = stream()
    for _ in range(40):
        launch(q, s)
    launch(w, s)
    cu.call("cuCtxDestroy_v2", ctx)
    cu.call("cuCtxSetCurrent", cu.ctx)
    launch(quick)
for round in range(20):
    launch(quick)
    launch(slow)
    cu.call("cuDevicePrimaryCtxReset_v2", 0)
    cu.call("cuCtxSetCurrent", cu.ctx)
    cu.call("cuDevicePrimaryCtxRetain", C.byref(cu.ctx), 0)
    cu.call("cuCtxSetCurrent", cu.ctx)
    module, quick, slow = load()
""",
    "streams-with-work": """
for round in range(400):
    s = stream()
    for _ in range(7):
        launch(quick, s)
    if round % 40 == 0:
        launch(slow, s)
    cu.call("cuStreamDestroy_v2", s)
""",
    "code-that-goes": """
for round in range(60):
    for _ in range(50):
        launch(quick)
    launch(slow)
    cu.call("cuModuleUnload", module)
    module, quick, slow = load()
""",
    # the card waits for what the program does after its next launches
    "waits-for-the-host": """
flag, dflag = C.c_void_p(), C.c_uint64()
cu.call("cuMemHostAlloc", C.byref(flag), C.c_size_t(4096), 2)
cu.call("cuMemHostGetDevicePointer_v2", C.byref(dflag), flag, 0)
word = C.cast(flag, C.POINTER(C.c_uint32))
s = stream()
began = time.monotonic()
for round in range(3):
    word[0] = 0
    cu.call("cuStreamWaitValue32_v2", s, dflag, 1, 1)
    for _ in range(6):
        launch(slow, s)
    for _ in range(100):
        launch(quick, s)
    word[0] = 1
    cu.call("cuStreamSynchronize", s)
assert time.monotonic() - began < 20, time.monotonic() - began
""",
    "many-threads": """
def work(i):
    cu.call("cuCtxSetCurrent", cu.ctx)
    s = stream()
    for k in range(150):
        launch(quick if (i + k) % 50 else slow, s if i % 2 else None, 1 + k % 9)
    cu.call("cuStreamSynchronize", s)
    cu.call("cuStreamDestroy_v2", s)
threads = [threading.Thread(target=work, args=(i,)) for i in range(64)]
[t.start() for t in threads]
[t.join() for t in threads]
""",
    "never-synchronises": """
for _ in range(3000):
    launch(quick)
for _ in range(20):
    launch(slow)
""",
    "failing-launches": """
for _ in range(300):
    assert cu.code("cuLaunchKernel", quick, 1, 1, 1, 2048, 1, 1, 0, None, None, None) == 1
    assert cu.code("cuLaunchKernel", quick, 0, 1, 1, 32, 1, 1, 0, None, None, None) == 1
    assert cu.code("cuLaunchKernelEx", None, quick, None, None) == 1
    assert cu.code("cuGraphLaunch", None, None) != 0
began = time.monotonic()
launch(quick)
cu.sync()
assert time.monotonic() - began < 1  # nothing was charged for them
""",
    "every-twin": """
for name in ("cuLaunchKernel", "cuLaunchKernel_ptsz", "cuLaunchCooperativeKernel", "cuLaunchCooperativeKernel_ptsz"):
    for _ in range(200):
        launch(quick, None, 1, name)
cu.call("cuFuncSetBlockShape", quick, 32, 1, 1)
for _ in range(200):
    cu.call("cuLaunch", quick)
    cu.call("cuLaunchGrid", quick, 2, 2)
    cu.call("cuLaunchGridAsync", quick, 2, 2, None)
class Params(C.Structure):
    _fields_ = [("f", C.c_void_p), ("dim", C.c_uint * 6), ("shared", C.c_uint), ("stream", C.c_void_p), ("params", C.c_void_p)]
s = stream()
multi = (Params * 1)(Params(quick, (C.c_uint * 6)(1, 1, 1, 32, 1, 1), 0, s, None))
for _ in range(200):
    cu.call("cuLaunchCooperativeKernelMultiDevice", multi, 1, 0)
cu.sync()
""",
}


@pytest.mark.parametrize("case", CASES)
def test_it_ends(make_sim, case):
    sim = make_sim(cards=1, memory="8Gi", kernel_ns="quick=20000,slow=5000000,20000")
    env = sim.hook_env("4Gi", CUDA_DEVICE_SM_LIMIT="40", PYTHONPATH=str(__file__).rsplit("/", 1)[0])
    done = sim.run(sys.executable, "-c", SETUP + CASES[case], env=env, timeout=100)
    assert done.returncode == 0, done.stderr[-2000:]


def test_two_cards_each_pay(make_sim):
    """A stream of another card's context, and the same function's handle: the card that works pays."""
    sim = make_sim(cards=2, memory="8Gi", kernel_ns="quick=1000000,slow=1000000,20000")
    env = sim.hook_env("4Gi", CUDA_DEVICE_SM_LIMIT_0="20", CUDA_DEVICE_SM_LIMIT_1="80",
                       PYTHONPATH=str(__file__).rsplit("/", 1)[0])
    done = sim.run(sys.executable, "-c", SETUP + """
second = Cuda(1)
m2, q2, s2 = load()
took = []
for ctx, f in ((cu.ctx, quick), (second.ctx, q2)):
    cu.call("cuCtxSetCurrent", ctx)
    for _ in range(300):
        launch(f)
    cu.sync()
    began = time.monotonic()
    for _ in range(300):
        launch(f)
    cu.sync()
    took.append(time.monotonic() - began)
print(*took)
""", env=env, timeout=100)
    assert done.returncode == 0, done.stderr[-2000:]
    first, other = map(float, done.stdout.split())
    assert first == pytest.approx(1.5, rel=0.15) and other == pytest.approx(0.375, rel=0.25)
