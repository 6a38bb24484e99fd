"""Lengths, pitches and boxes that no memory has: the simulated driver refuses them, at once, as CUDA Driver API 12.9 words it
for cuMemcpy2D and cuMemcpy3D (srcPitch >= WidthInBytes + srcXInBytes, srcHeight >= Height + srcY) and for cuMemsetD2D8 ("pitch
unused if height is 1"). A call that moves nothing succeeds."""

import subprocess
import sys
import textwrap

import pytest

PRELUDE = """
import ctypes as c
cu = c.CDLL("libcuda.so.1")
z, p, u = c.c_size_t, c.c_void_p, c.c_ulonglong
MOST = 2**64 - 1
def ck(rc): assert rc == 0, rc
ck(cu.cuInit(0))
ctx, d, e, arr = p(), u(), u(), p()
ck(cu.cuCtxCreate_v2(c.byref(ctx), 0, 0))
ck(cu.cuMemAlloc_v2(c.byref(d), z(1 << 20)))
ck(cu.cuMemAlloc_v2(c.byref(e), z(1 << 20)))
d, e = d.value, e.value
class Copy2(c.Structure):
    _fields_ = [(n, t) for side in ("src", "dst") for n, t in ((side + "X", z), (side + "Y", z), (side + "Type", c.c_uint),
                (side + "Host", p), (side + "Device", u), (side + "Array", p), (side + "Pitch", z))] + [("w", z), ("h", z)]
class Copy3(c.Structure):
    _fields_ = [(n, t) for side in ("src", "dst") for n, t in ((side + "X", z), (side + "Y", z), (side + "Z", z),
                (side + "Lod", z), (side + "Type", c.c_uint), (side + "Host", p), (side + "Device", u), (side + "Array", p),
                (side + "Reserved", p), (side + "Pitch", z), (side + "Height", z))] + [("w", z), ("h", z), ("depth", z)]
"""


@pytest.fixture
def said(make_sim):
    """said(code): runs it on a fresh card; a call that hangs fails the test."""
    sim = make_sim(memory="64Mi", mode="zero")

    def run(code):
        done = subprocess.run([sys.executable, "-c", PRELUDE + textwrap.dedent(code)], env=sim.env(), timeout=60,
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    return run


def test_linear_copies_do_not_wrap(said):
    said("""
        sync = ["cuMemcpy", "cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2", "cuMemcpyDtoD_v2"]
        for name in sync + ["cuMemcpyAsync", "cuMemcpyDtoDAsync_v2", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2"]:
            for n in (MOST, MOST - d + 1, 2**63, (1 << 20) + 1):
                assert getattr(cu, name)(u(d), u(e), z(n), p(0)) == 1, (name, n)
        for name in ("cuMemcpyPeer", "cuMemcpyPeerAsync"):
            assert getattr(cu, name)(u(d), ctx, u(e), ctx, z(MOST), p(0)) == 1, name
        host = p(); ck(cu.cuMemHostAlloc(c.byref(host), z(4096), 0))
        assert cu.cuMemcpy(host, u(d), z(MOST)) == 1
        assert cu.cuMemcpyDtoD_v2(u(d), u(e), z(1 << 20)) == 0
        assert cu.cuMemcpyDtoD_v2(u(d), u(e), z(0)) == 0
    """)


def test_fills_do_not_wrap(said):
    said("""
        for bits, value in ((8, c.c_ubyte(1)), (16, c.c_ushort(1)), (32, c.c_uint(1))):
            size = bits // 8
            one, two = getattr(cu, f"cuMemsetD{bits}_v2"), getattr(cu, f"cuMemsetD2D{bits}_v2")
            one_async, two_async = getattr(cu, f"cuMemsetD{bits}Async"), getattr(cu, f"cuMemsetD2D{bits}Async")
            for n in (MOST, MOST // size, MOST // size - d // size, 2**62 + 1, (1 << 20) // size + 1):
                assert one(u(d), value, z(n)) == one_async(u(d), value, z(n), p(0)) == 1, (bits, n)
            for pitch, w, h in ((4, 8, 2), (0, 8, 2), (2**63, 8, 3), (2**32, 1, 2**32 + 1), (64, 1, 2**58 + 1), (MOST, 4, 2),
                                (1024, MOST // size, 1), (1024, 1, 1 << 20)):
                assert two(u(d), z(pitch), value, z(w), z(h)) == 1, (bits, pitch, w, h)
                assert two_async(u(d), z(pitch), value, z(w), z(h), p(0)) == 1, (bits, pitch, w, h)
            for pitch, w, h in ((1024, 0, MOST), (0, 0, 2**40), (0, MOST, 0), (4, 8, 1), (1024, 4, 1024)):
                assert two(u(d), z(pitch), value, z(w), z(h)) == 0, (bits, pitch, w, h)
                assert two_async(u(d), z(pitch), value, z(w), z(h), p(0)) == 0, (bits, pitch, w, h)
    """)


def test_boxes_do_not_wrap(said):
    said("""
        HOST, DEVICE, UNIFIED = 1, 2, 4
        def two(kind=DEVICE, **more):
            c2 = Copy2(srcType=kind, dstType=kind, srcDevice=d, dstDevice=e, srcPitch=1024, dstPitch=1024, w=8, h=2)
            for k, v in more.items(): setattr(c2, k, v)
            rcs = {f(c.byref(c2), p(0)) for f in (cu.cuMemcpy2D_v2, cu.cuMemcpy2DUnaligned_v2, cu.cuMemcpy2DAsync_v2)}
            assert len(rcs) == 1, (rcs, more)
            return rcs.pop()
        def three(kind=DEVICE, **more):
            c3 = Copy3(srcType=kind, dstType=kind, srcDevice=d, dstDevice=e, srcPitch=1024, dstPitch=1024, srcHeight=4,
                       dstHeight=4, w=8, h=2, depth=2)
            for k, v in more.items(): setattr(c3, k, v)
            rcs = {f(c.byref(c3), p(0)) for f in (cu.cuMemcpy3D_v2, cu.cuMemcpy3DAsync_v2)}
            assert len(rcs) == 1, (rcs, more)
            return rcs.pop()
        for kind in (DEVICE, UNIFIED):
            for call in (two, three):
                assert call(kind) == 0
                for bad in (dict(srcPitch=4), dict(dstPitch=7), dict(srcX=MOST), dict(dstY=2**60), dict(h=2**54 + 1),
                            dict(w=MOST), dict(w=MOST, h=MOST), dict(srcPitch=2**63, h=3), dict(srcX=MOST - 7, w=8),
                            dict(w=2**32, h=2**32, srcPitch=2**32, dstPitch=2**32)):
                    assert call(kind, **bad) == 1, (kind, call, bad)
                for nothing in (dict(w=0, h=MOST), dict(h=0, w=MOST)):
                    assert call(kind, **nothing) == 0, (kind, call, nothing)
            for bad in (dict(depth=MOST), dict(srcZ=MOST), dict(srcHeight=1), dict(dstHeight=2**63), dict(depth=2**60 + 1),
                        dict(h=1, depth=2, srcPitch=4)):
                assert three(kind, **bad) == 1, (kind, bad)
            assert three(kind, depth=0, w=MOST, h=MOST) == 0
    """)
