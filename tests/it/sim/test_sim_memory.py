"""The simulated card's memory through an independent client (cuda-bindings, unmodified)."""

import os
import signal
import socket
import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("cuda.bindings.driver")

MiB = 1 << 20
PRELUDE = """
import ctypes, os, sys, socket, array
from cuda.bindings import driver as d
MiB = 1 << 20
def ck(r):
    assert r[0] == 0, r
    return r[1] if len(r) == 2 else r[1:]
ck(d.cuInit(0))
dev = ck(d.cuDeviceGet(0))
def ctx(): return ck(d.cuCtxCreate(None, 0, dev)) if d.CUDA_VERSION >= 13000 else ck(d.cuCtxCreate(0, dev))
def used():
    free, total = ck(d.cuMemGetInfo())
    return total - free
def pinned(handle=0):
    p = d.CUmemAllocationProp()
    p.type = d.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    p.location.type = d.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    p.location.id = 0
    if handle:
        p.requestedHandleTypes = d.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
    return p
"""


@pytest.fixture
def card(make_sim):
    """card(memory="64Mi", ...) makes a fresh card."""
    return make_sim


def run(sim, code, **kw):
    done = subprocess.run([sys.executable, "-c", PRELUDE + textwrap.dedent(code)], env=sim.env(),
                          capture_output=True, text=True, timeout=60, **kw)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def start(sim, code, **kw):
    return subprocess.Popen([sys.executable, "-c", PRELUDE + textwrap.dedent(code)], env=sim.env(),
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **kw)


def test_small_from_granules(card):
    run(card(memory="64Mi"), """
        c = ctx()
        ptrs = []
        for i in range(64):
            ptrs.append(ck(d.cuMemAlloc(MiB)))
            assert used() == (i // 2 + 1) * 2 * MiB, i
        assert d.cuMemAlloc(1)[0] == 2
        assert d.cuMemAlloc(MiB)[0] == 2
        ck(d.cuMemFree(ptrs.pop()))
        p = ck(d.cuMemAlloc(512)); q = ck(d.cuMemAlloc(MiB - 512))
        assert int(q) == int(p) + 512
        assert d.cuMemAlloc(1)[0] == 2
        for p in ptrs + [p, q]: ck(d.cuMemFree(p))
        assert used() == 0
    """)


def test_large_to_the_byte(card):
    run(card(memory="64Mi"), """
        c = ctx()
        p = ck(d.cuMemAlloc(64 * MiB))
        assert used() == 64 * MiB
        assert d.cuMemAlloc(1)[0] == 2
        ck(d.cuMemFree(p))
        assert d.cuMemAlloc(64 * MiB + 1)[0] == 2
        assert used() == 0
        p = ck(d.cuMemAlloc(MiB + 1)); assert used() == 2 * MiB
        q = ck(d.cuMemAlloc(2 * MiB + 1)); assert used() == 6 * MiB
        base, size = ck(d.cuMemGetAddressRange(d.CUdeviceptr(int(q) + 5)))
        assert int(base) == int(q) and size == 2 * MiB + 1
        assert d.cuMemFree(d.CUdeviceptr(int(p) + 512))[0] == 1
        ck(d.cuMemFree(p)); assert d.cuMemFree(p)[0] == 1
        ck(d.cuMemFree(q)); assert used() == 0
    """)


def test_random_granularity(card):
    run(card(memory="1Gi", granularity="random"), """
        c = ctx()
        g = ck(d.cuMemGetAllocationGranularity(pinned(), d.CUmemAllocationGranularity_flags(0)))
        assert g & (g - 1) == 0 and 65536 <= g <= 32 * MiB
        p = ck(d.cuMemAlloc(g // 2)); assert used() == g
        q = ck(d.cuMemAlloc(g // 2)); assert used() == g
        r = ck(d.cuMemAlloc(g // 2 + 1)); assert used() == 2 * g
        for x in (p, q, r): ck(d.cuMemFree(x))
        assert used() == 0
    """)


def test_context_overhead(card):
    run(card(memory="1Gi", overhead="300000000"), """
        a = ctx(); assert used() == 300000000
        b = ctx(); assert used() == 600000000
        p = ck(d.cuMemAlloc(4 * MiB))
        c = ctx(); assert used() == 900000000 + 4 * MiB
        assert d.cuCtxCreate(None, 0, dev)[0] == 2
        ck(d.cuCtxDestroy(b)); assert used() == 600000000
        ck(d.cuCtxDestroy(c)); ck(d.cuCtxSetCurrent(a)); assert used() == 300000000
        ck(d.cuDevicePrimaryCtxRetain(dev)); assert used() == 600000000
        ck(d.cuDevicePrimaryCtxRetain(dev)); assert used() == 600000000
        ck(d.cuDevicePrimaryCtxRelease(dev)); assert used() == 600000000
        ck(d.cuDevicePrimaryCtxRelease(dev)); assert used() == 300000000
    """)


def test_copies_and_fills(card):
    run(card(), """
        import numpy as np
        c = ctx()
        a = np.arange(1 << 20, dtype=np.uint32); b = np.zeros_like(a)
        p = ck(d.cuMemAlloc(a.nbytes)); q = ck(d.cuMemAlloc(a.nbytes))
        ck(d.cuMemcpyHtoD(p, a.ctypes.data, a.nbytes))
        ck(d.cuMemcpyDtoD(q, p, a.nbytes))
        ck(d.cuMemcpyDtoH(b.ctypes.data, q, a.nbytes))
        assert (a == b).all()
        ck(d.cuMemsetD32(q, 7, 100)); ck(d.cuMemsetD16(d.CUdeviceptr(int(q) + 400), 9, 2)); ck(d.cuMemsetD8(d.CUdeviceptr(int(q) + 404), 3, 4))
        ck(d.cuMemcpyDtoH(b.ctypes.data, q, a.nbytes))
        assert (b[:100] == 7).all() and b[100] == 0x90009 and b[101] == 0x03030303 and (b[102:] == a[102:]).all()
        assert d.cuMemcpyHtoD(d.CUdeviceptr(int(q) + 1), a.ctypes.data, a.nbytes)[0] == 1
        assert d.cuMemcpyDtoH(b.ctypes.data, d.CUdeviceptr(4096), 16)[0] == 1
        ptr, pitch = ck(d.cuMemAllocPitch(100, 10, 4)); assert pitch == 512
        m = d.CUDA_MEMCPY2D(); src = np.arange(1000, dtype=np.uint8); dst = np.zeros(1000, dtype=np.uint8)
        m.srcMemoryType = d.CUmemorytype.CU_MEMORYTYPE_HOST; m.srcHost = src.ctypes.data; m.srcPitch = 100
        m.dstMemoryType = d.CUmemorytype.CU_MEMORYTYPE_DEVICE; m.dstDevice = ptr; m.dstPitch = pitch
        m.WidthInBytes = 100; m.Height = 10
        ck(d.cuMemcpy2D(m))
        desc = d.CUDA_ARRAY_DESCRIPTOR(); desc.Width = 100; desc.Height = 10; desc.NumChannels = 1
        desc.Format = d.CUarray_format.CU_AD_FORMAT_UNSIGNED_INT8
        before = used(); arr = ck(d.cuArrayCreate(desc)); assert used() - before == 2 * MiB
        m = d.CUDA_MEMCPY2D(); m.srcMemoryType = d.CUmemorytype.CU_MEMORYTYPE_DEVICE; m.srcDevice = ptr; m.srcPitch = pitch
        m.dstMemoryType = d.CUmemorytype.CU_MEMORYTYPE_ARRAY; m.dstArray = arr; m.WidthInBytes = 100; m.Height = 10
        ck(d.cuMemcpy2D(m))
        ck(d.cuMemcpyAtoH(dst.ctypes.data, arr, 0, 1000)); assert (dst == src).all()
        ck(d.cuArrayDestroy(arr)); assert used() == before
    """)


def test_pools(card):
    run(card(memory="256Mi"), """
        c = ctx()
        s = ck(d.cuStreamCreate(0))
        pool = ck(d.cuDeviceGetDefaultMemPool(dev))
        A = d.CUmemPool_attribute
        def attr(a): return int(ck(d.cuMemPoolGetAttribute(pool, a)))
        p = ck(d.cuMemAllocAsync(1000, s))
        assert attr(A.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 32 * MiB == used()
        assert attr(A.CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 1024
        q = ck(d.cuMemAllocAsync(33 * MiB + 1, s)); assert used() == 66 * MiB
        ck(d.cuMemFreeAsync(q, s)); assert used() == 66 * MiB
        ck(d.cuStreamSynchronize(s)); assert used() == 32 * MiB
        assert attr(A.CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) == 66 * MiB
        ck(d.cuMemPoolSetAttribute(pool, A.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, d.cuuint64_t((1 << 64) - 1)))
        ck(d.cuMemFree(p)); ck(d.cuStreamSynchronize(s)); assert used() == 32 * MiB
        ck(d.cuMemPoolTrimTo(pool, 32 * MiB)); assert used() == 32 * MiB
        ck(d.cuMemPoolTrimTo(pool, 0)); assert used() == 0
        assert d.cuMemAllocAsync(257 * MiB, s)[0] == 2
        # a full card: idle chunks go before an allocation is refused
        ps = [ck(d.cuMemAllocAsync(32 * MiB, s)) for i in range(8)]
        for p in ps: ck(d.cuMemFreeAsync(p, s))
        p = ck(d.cuMemAllocAsync(200 * MiB, s)); assert used() == 200 * MiB
    """)


def test_virtual_memory(card):
    run(card(memory="64Mi"), """
        import numpy as np
        c = ctx()
        h = ck(d.cuMemCreate(4 * MiB, pinned(), 0)); assert used() == 4 * MiB
        assert d.cuMemCreate(4 * MiB + 1, pinned(), 0)[0] == 1
        assert d.cuMemCreate(62 * MiB, pinned(), 0)[0] == 2
        va = ck(d.cuMemAddressReserve(8 * MiB, 0, d.CUdeviceptr(0), 0))
        ck(d.cuMemMap(va, 4 * MiB, 0, h, 0))
        assert d.cuMemMap(va, 4 * MiB, 0, h, 0)[0] == 1
        assert d.cuMemsetD8(va, 1, 4)[0] == 1
        acc = d.CUmemAccessDesc(); acc.location.type = d.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE; acc.location.id = 0
        acc.flags = d.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        ck(d.cuMemSetAccess(va, 4 * MiB, [acc], 1))
        ck(d.cuMemMap(d.CUdeviceptr(int(va) + 4 * MiB), 4 * MiB, 0, h, 0))
        ck(d.cuMemSetAccess(d.CUdeviceptr(int(va) + 4 * MiB), 4 * MiB, [acc], 1))
        ck(d.cuMemsetD8(va, 42, 4 * MiB))
        b = np.zeros(16, dtype=np.uint8)
        ck(d.cuMemcpyDtoH(b.ctypes.data, d.CUdeviceptr(int(va) + 8 * MiB - 16), 16)); assert (b == 42).all()
        ck(d.cuMemRelease(h)); assert used() == 4 * MiB
        assert d.cuMemAddressFree(va, 8 * MiB)[0] == 1
        ck(d.cuMemUnmap(va, 8 * MiB)); assert used() == 0
        ck(d.cuMemAddressFree(va, 8 * MiB))
    """)


def test_forked_child(card):
    run(card(), """
        c = ctx(); p = ck(d.cuMemAlloc(MiB))
        pid = os.fork()
        if pid == 0:
            ok = d.cuInit(0)[0] == 3 and d.cuMemAlloc(MiB)[0] == 3 and d.cuMemGetInfo()[0] == 3
            os._exit(0 if ok else 1)
        assert os.waitpid(pid, 0)[1] == 0
        assert used() == 2 * MiB
        ck(d.cuMemFree(p))
    """)


def test_80_gib_card(card):
    run(card(memory="80Gi"), """
        import numpy as np
        c = ctx()
        p = ck(d.cuMemAlloc(80 << 30)); assert used() == 80 << 30
        assert d.cuMemAlloc(1)[0] == 2
        a = np.arange(1 << 20, dtype=np.uint8); b = np.zeros_like(a)
        far = d.CUdeviceptr(int(p) + (79 << 30))
        ck(d.cuMemcpyHtoD(far, a.ctypes.data, a.nbytes)); ck(d.cuMemcpyDtoH(b.ctypes.data, far, a.nbytes))
        assert (a == b).all()
    """)


def test_ipc(card):
    sim = card(memory="64Mi")
    export = start(sim, """
        c = ctx(); a = ck(d.cuMemAlloc(MiB)); p = ck(d.cuMemAlloc(MiB // 2)); ck(d.cuMemsetD8(p, 77, MiB // 2))
        h = ck(d.cuIpcGetMemHandle(p)); sys.stdout.buffer.write(ctypes.string_at(h.getPtr(), 64)); sys.stdout.flush()
        assert d.cuIpcOpenMemHandle(h, 1)[0] == 201
        sys.stdin.readline()
        ck(d.cuMemFree(p)); ck(d.cuMemFree(a)); print("freed", flush=True)
        sys.stdin.readline()
    """)
    handle = os.read(export.stdout.fileno(), 64)
    take = start(sim, f"""
        import numpy as np
        c = ctx(); h = d.CUipcMemHandle(); ctypes.memmove(h.getPtr(), {handle!r}, 64)
        p = ck(d.cuIpcOpenMemHandle(h, 1)); q = ck(d.cuIpcOpenMemHandle(h, 1)); assert int(p) == int(q)
        b = np.zeros(MiB // 2, dtype=np.uint8); ck(d.cuMemcpyDtoH(b.ctypes.data, p, b.nbytes)); assert (b == 77).all()
        print(used(), flush=True); sys.stdin.readline()
        b[:] = 0; ck(d.cuMemcpyDtoH(b.ctypes.data, p, b.nbytes)); assert (b == 77).all()
        print(used(), flush=True)
        ck(d.cuIpcCloseMemHandle(p)); print(used(), flush=True); ck(d.cuIpcCloseMemHandle(q)); print(used(), flush=True)
        assert d.cuIpcCloseMemHandle(q)[0] == 1
    """)
    assert take.stdout.readline() == f"{2 * MiB}\n"  # counted once
    export.stdin.write("\n"); export.stdin.flush()
    assert export.stdout.readline() == "freed\n"
    take.stdin.write("\n"); take.stdin.flush()
    assert [take.stdout.readline() for _ in range(3)] == [f"{2 * MiB}\n", f"{2 * MiB}\n", "0\n"]
    assert take.wait(20) == 0
    export.stdin.write("\n"); export.stdin.flush()
    assert export.wait(20) == 0


def test_descriptor_keeps_memory(card):
    """Export, exporter killed, importer and then only the descriptor hold the memory."""
    sim = card(memory="64Mi", group="a")
    ours, theirs = socket.socketpair()
    export = start(sim, f"""
        c = ctx(); h = ck(d.cuMemCreate(8 * MiB, pinned(1), 0))
        va = ck(d.cuMemAddressReserve(8 * MiB, 0, d.CUdeviceptr(0), 0)); ck(d.cuMemMap(va, 8 * MiB, 0, h, 0))
        acc = d.CUmemAccessDesc(); acc.location.type = d.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        acc.flags = d.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        ck(d.cuMemSetAccess(va, 8 * MiB, [acc], 1)); ck(d.cuMemsetD8(va, 5, 8 * MiB))
        fd = int(ck(d.cuMemExportToShareableHandle(h, d.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0)))
        s = socket.socket(fileno={theirs.fileno()}); socket.send_fds(s, [b"x"], [fd]); sys.stdin.readline()
    """, pass_fds=[theirs.fileno()])
    fd = socket.recv_fds(ours, 1, 1)[1][0]
    export.kill(); export.wait()
    state = sim.status()
    assert state["cards"][0]["used_bytes"] == 8 * MiB
    run(sim, f"""
        import numpy as np
        c = ctx(); h = ck(d.cuMemImportFromShareableHandle({fd}, d.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
        assert used() == 8 * MiB
        va = ck(d.cuMemAddressReserve(8 * MiB, 0, d.CUdeviceptr(0), 0)); ck(d.cuMemMap(va, 8 * MiB, 0, h, 0))
        acc = d.CUmemAccessDesc(); acc.location.type = d.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        acc.flags = d.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        ck(d.cuMemSetAccess(va, 8 * MiB, [acc], 1))
        b = np.zeros(16, dtype=np.uint8); ck(d.cuMemcpyDtoH(b.ctypes.data, va, 16)); assert (b == 5).all()
        os._exit(0)
    """, pass_fds=[fd])
    assert sim.status()["cards"][0]["used_bytes"] == 8 * MiB
    os.close(fd)
    state = sim.status()
    assert state["cards"][0]["used_bytes"] == 0
    peaks = {g["name"]: g["cards"][0]["peak_bytes"] for g in state["groups"]}
    assert peaks["a"] == 8 * MiB


def test_killed_processes_leave_nothing(card):
    sim = card(memory="64Mi", group="g")
    code = """
        import random
        c = ctx(); live = []
        print("up", flush=True)
        while True:
            if live and random.random() < 0.5: ck(d.cuMemFree(live.pop(random.randrange(len(live)))))
            else:
                r = d.cuMemAlloc(random.choice([512, 70000, MiB, 3 * MiB]))
                if r[0] == 0: live.append(r[1])
                elif live: ck(d.cuMemFree(live.pop()))
    """
    procs = [start(sim, code) for _ in range(8)]
    for p in procs:
        assert p.stdout.readline() == "up\n"
    for p in procs:
        p.send_signal(signal.SIGKILL)
    for p in procs:
        p.wait()
    state = sim.status()
    assert state["cards"][0]["used_bytes"] == 0
    assert state["processes"] == []
    group = next(g for g in state["groups"] if g["name"] == "g")
    assert 0 < group["cards"][0]["peak_bytes"] <= 64 * MiB
    assert group["cards"][0]["used_bytes"] == 0
