"""Copies and fills: free unless GPUSLICE_LIMIT_COPIES asks for it, then held to the slice's share like launches."""

import sys

import pytest

# The simulated bus is slow, so that it and not the machine's own memory is what a program waits for.
BUS_MBPS = 200
SHARE = 30
POINTS = 0.03

SETUP = """
import ctypes as C, threading, time
from cu import Cuda, Error
cu = Cuda()
N = 1 << 20
def stream():
    s = C.c_void_p()
    cu.call("cuStreamCreate", C.byref(s), 1)
    return s
def pinned(n, fill=0):
    p = C.c_void_p()
    cu.call("cuMemHostAlloc", C.byref(p), C.c_size_t(n), 0)
    C.memset(p, fill, n)
    return p
def up(dst, src, n, s=None, name="cuMemcpyHtoDAsync_v2"):
    cu.call(name, C.c_uint64(dst), src, C.c_size_t(n), s)
"""

# Copies per second over the second half of what it does; the first may use what is at hand.
RATE = """
import sys
size, seconds = int(sys.argv[1]), 2.0
batch = max(4, (4 << 20) // size)
d, h, s = cu.alloc(size), pinned(size), stream()
def some():
    for _ in range(batch):
        {call}
    {wait}
def count(seconds):
    began, n = time.monotonic(), 0
    while time.monotonic() - began < seconds:
        some()
        n += batch
    return n / (time.monotonic() - began)
count(1.0)
print(count(seconds))
"""
WAYS = {
    "up": ('up(d, h, size, s)', 'cu.call("cuStreamSynchronize", s)'),
    "down": ('cu.call("cuMemcpyDtoHAsync_v2", h, C.c_uint64(d), C.c_size_t(size), s)',
             'cu.call("cuStreamSynchronize", s)'),
    "waits": ('cu.call("cuMemcpyHtoD_v2", C.c_uint64(d), h, C.c_size_t(size))', "pass"),
    "per-thread": ('up(d, h, size, None, "cuMemcpyHtoDAsync_v2_ptsz")',
                   'cu.call("cuStreamSynchronize_ptsz", None)'),
}


def environment(sim, share=SHARE, **more):
    return sim.hook_env("4Gi", CUDA_DEVICE_SM_LIMIT=share, PYTHONPATH=str(__file__).rsplit("/", 1)[0], **more)


def rate(make_sim, way, size, **more):
    sim = make_sim(cards=1, memory="8Gi", bus_mbps=BUS_MBPS)
    call, wait = WAYS[way]
    env = environment(sim, **more)
    if more.get("bare"):
        env.pop("LD_PRELOAD")
    done = sim.run(sys.executable, "-c", SETUP + RATE.format(call=call, wait=wait), size, env=env, timeout=60)
    assert done.returncode == 0, done.stderr[-2000:]
    return float(done.stdout)


# 64 KiB (0.3 ms) go by their estimate, 1 MiB (5 ms) is measured each time
@pytest.mark.parametrize("way,size", [("up", 1 << 16), ("up", 1 << 20), ("down", 1 << 20), ("waits", 1 << 20),
                                      ("per-thread", 1 << 20)])
def test_a_program_that_only_copies_is_held(make_sim, way, size):
    bus = 1e9 / (2000 + size * 1000 / BUS_MBPS)
    bare = rate(make_sim, way, size, bare=1)
    held = rate(make_sim, way, size, GPUSLICE_LIMIT_COPIES="1")
    assert bare < 1.15 * bus  # the bus is the limit, or a machine that is busy with other things
    assert held / bare == pytest.approx(SHARE / 100, abs=POINTS)


@pytest.mark.parametrize("value", [None, "0", "false"])
def test_without_the_option_copies_are_free(make_sim, value):
    bare = rate(make_sim, "up", 1 << 20, bare=1)
    assert rate(make_sim, "up", 1 << 20, GPUSLICE_LIMIT_COPIES=value) == pytest.approx(bare, rel=0.1)


@pytest.mark.parametrize("value", ["", "yes", "2", "TRUE", "1 "])
def test_a_bad_value_closes(sim, value):
    log = sim.folder / "log"
    done = sim.run(sys.executable, "-c", "from cu import Cuda; Cuda()",
                   env=environment(sim, GPUSLICE_LIMIT_COPIES=value, GPUSLICE_LOG=log))
    assert "cuDevicePrimaryCtxRetain: 2" in done.stderr
    assert "GPUSLICE_LIMIT_COPIES" in log.read_text()


CASES = {
    # what was copied and filled is there, whichever call did it
    "results": """
for twin in ("", "_pt"):
    sync, on = (twin + "ds", twin + "sz") if twin else ("", "")
    s = stream()
    a, b, h, back = cu.alloc(4096), cu.alloc(4096), pinned(4096), pinned(4096)
    raw = (C.c_ubyte * 4096).from_address(h.value)
    got = (C.c_ubyte * 4096).from_address(back.value)
    for round in range(50):
        raw[:] = [(i * 7 + round) % 256 for i in range(4096)]
        n = C.c_size_t(4096)
        cu.call("cuMemcpyHtoDAsync_v2" + on, C.c_uint64(a), h, n, s)
        cu.call("cuMemcpyDtoDAsync_v2" + on, C.c_uint64(b), C.c_uint64(a), n, s)
        cu.call("cuMemcpyDtoHAsync_v2" + on, back, C.c_uint64(b), n, s)
        cu.call("cuStreamSynchronize", s)
        assert bytes(got) == bytes(raw)
        cu.call("cuMemsetD8_v2" + sync, C.c_uint64(b), round, n)
        cu.call("cuMemcpy" + sync, C.c_uint64(a), C.c_uint64(b), n)
        cu.call("cuMemcpyDtoH_v2" + sync, back, C.c_uint64(a), n)
        assert bytes(got) == bytes([round]) * 4096
        cu.call("cuMemsetD16_v2" + sync, C.c_uint64(a), 0x102, C.c_size_t(100))
        cu.call("cuMemsetD32Async" + on, C.c_uint64(a + 200), 0x3040506, C.c_size_t(10), s)
        cu.call("cuMemsetD2D8_v2" + sync, C.c_uint64(a + 1024), C.c_size_t(64), 9, C.c_size_t(3), C.c_size_t(2))
        cu.call("cuStreamSynchronize", s)
        cu.call("cuMemcpyDtoH_v2" + sync, back, C.c_uint64(a), n)
        want = bytearray([round]) * 4096
        want[:200], want[200:240] = bytes([2, 1]) * 100, bytes([6, 5, 4, 3]) * 10
        want[1024:1027] = want[1088:1091] = bytes([9]) * 3
        assert bytes(got) == bytes(want)
""",
    "boxes": """
class Copy2D(C.Structure):
    _fields_ = [("sx", C.c_size_t), ("sy", C.c_size_t), ("stype", C.c_int), ("shost", C.c_void_p), ("sdev", C.c_uint64),
                ("sarray", C.c_void_p), ("spitch", C.c_size_t), ("dx", C.c_size_t), ("dy", C.c_size_t), ("dtype", C.c_int),
                ("dhost", C.c_void_p), ("ddev", C.c_uint64), ("darray", C.c_void_p), ("dpitch", C.c_size_t),
                ("width", C.c_size_t), ("height", C.c_size_t)]
d, h, s = cu.alloc(N), pinned(N, 5), stream()
for name, more in (("cuMemcpy2D_v2", ()), ("cuMemcpy2DUnaligned_v2", ()), ("cuMemcpy2D_v2_ptds", ()),
                   ("cuMemcpy2DAsync_v2", (s,)), ("cuMemcpy2DAsync_v2_ptsz", (s,))):
    cu.call("cuMemsetD8_v2", C.c_uint64(d), 0, C.c_size_t(N))
    box = Copy2D(stype=1, shost=h, spitch=100, dtype=2, ddev=d, dpitch=1000, width=50, height=40)
    for _ in range(20):
        cu.call(name, C.byref(box), *more)
    cu.sync()
    got = (C.c_ubyte * 40000)()
    cu.call("cuMemcpyDtoH_v2", got, C.c_uint64(d), C.c_size_t(40000))
    assert bytes(got) == (b"\\x05" * 50 + b"\\0" * 950) * 40, name
    assert cu.code(name, None, *more) != 0
for name, more in (("cuMemcpy3D_v2", ()), ("cuMemcpy3DAsync_v2", (s,)), ("cuMemcpy3DPeer", ()), ("cuMemcpy3DPeerAsync", (s,))):
    assert cu.code(name, None, *more) != 0
""",
    # a graph of exactly what was captured: nothing of ours in it, and nobody waits
    "capture": """
d, h, s, graph, n = cu.alloc(N), pinned(N), stream(), C.c_void_p(), C.c_size_t()
for round in range(10):
    for _ in range(10):
        up(d, h, N, s)
    cu.call("cuStreamBeginCapture_v2", s, 0)
    for _ in range(300):
        up(d, h, N, s)
        cu.call("cuMemsetD8Async", C.c_uint64(d), 1, C.c_size_t(N), s)
    cu.call("cuStreamEndCapture", s, C.byref(graph))
    cu.call("cuGraphGetNodes", graph, None, C.byref(n))
    assert n.value == 600, n.value
    cu.call("cuGraphDestroy", graph)
# a copy that waits is not allowed meanwhile: the driver's answer, and the capture is broken as without us
for name in ("cuMemcpyHtoD_v2", "cuMemcpyHtoD_v2_ptds"):
    cu.call("cuStreamBeginCapture_v2", s, 0)
    assert cu.code(name, C.c_uint64(d), h, C.c_size_t(N)) == 900
    assert cu.code("cuStreamEndCapture", s, C.byref(graph)) == 901
up(d, h, N, s)
cu.sync()
""",
    "failing-copies": """
s, p = stream(), pinned(16)
for _ in range(300):
    assert cu.code("cuMemcpyHtoDAsync_v2", C.c_uint64(0x10), p, C.c_size_t(1 << 30), s) != 0
    assert cu.code("cuMemsetD8_v2", C.c_uint64(0x10), 0, C.c_size_t(1 << 30)) != 0
d = cu.alloc(16)
began = time.monotonic()
for _ in range(300):
    up(d, p, 0, s)
    up(d, p, 16, s)
cu.sync()
assert time.monotonic() - began < 1  # nothing was charged for them
""",
    "many-threads": """
def work(i):
    cu.call("cuCtxSetCurrent", cu.ctx)
    s, d, h = stream(), cu.alloc(N), pinned(N)
    for k in range(60):
        up(d, h, 1 << (6 + k % 12), s if i % 2 else None)
        if k % 7 == 0:
            cu.call("cuMemcpyDtoH_v2", h, C.c_uint64(d), C.c_size_t(100))
    cu.call("cuStreamSynchronize", s)
    cu.call("cuStreamDestroy_v2", s)
threads = [threading.Thread(target=work, args=(i,)) for i in range(16)]
[t.start() for t in threads]
[t.join() for t in threads]
""",
    "forks": """
import os
d, h, s = cu.alloc(N), pinned(N), stream()
for _ in range(20):
    up(d, h, N, s)
pid = os.fork()
if pid == 0:
    os._exit(0 if cu.code("cuMemcpyHtoDAsync_v2", C.c_uint64(d), h, C.c_size_t(N), s) == 3 else 1)
assert os.waitpid(pid, 0)[1] == 0
up(d, h, N, s)
cu.sync()
""",
}


@pytest.mark.parametrize("option", ["1", None])
@pytest.mark.parametrize("case", CASES)
def test_results_are_right(make_sim, case, option):
    sim = make_sim(cards=1, memory="8Gi")
    done = sim.run(sys.executable, "-c", SETUP + CASES[case], env=environment(sim, 40, GPUSLICE_LIMIT_COPIES=option),
                   timeout=60)
    assert done.returncode == 0, done.stderr[-2000:]
