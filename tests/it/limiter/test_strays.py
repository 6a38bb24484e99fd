"""What leaves the usual way: launches of threads without a context, and waits that nobody keeps up."""

import os
import signal
import subprocess
import sys

import pytest
from side_by_side import scenario, seen  # noqa: F401, I001 (a fixture; and it makes bench importable)
from limiter_cards import STAGE, now
from load import Cards, begun, share_of

POINTS = 0.03

# Launches 20 ms at a time from a thread that has no context any more.
WITHOUT_CONTEXT = """
import ctypes as c, sys, time
way, cards, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
cu = c.CDLL("libcuda.so.1")
p = c.c_void_p
def ck(rc): assert rc == 0, rc
PTX = b".version 7.0\\n.target sm_70\\n.address_size 64\\n.visible .entry k20ms()\\n{\\n\\tret;\\n}\\n"
ck(cu.cuInit(0))
ctx, module, f, lib, kernel, graph, x = p(), p(), p(), p(), p(), p(), p()
ck(cu.cuDevicePrimaryCtxRetain(c.byref(ctx), cards - 1))
ck(cu.cuCtxSetCurrent(ctx))
s = p()
ck(cu.cuStreamCreate(c.byref(s), 1))
ck(cu.cuModuleLoadData(c.byref(module), PTX))
ck(cu.cuModuleGetFunction(c.byref(f), module, b"k20ms"))
ck(cu.cuLibraryLoadData(c.byref(lib), PTX, None, None, 0, None, None, 0))
ck(cu.cuLibraryGetKernel(c.byref(kernel), lib, b"k20ms"))
def kernel_on(what, name="cuLaunchKernel"):
    return getattr(cu, name)(what, 4096, 1, 1, 256, 1, 1, 0, s, None, None)
if way == "graph":
    ck(cu.cuStreamBeginCapture_v2(s, 0))
    ck(kernel_on(f))
    ck(cu.cuStreamEndCapture(s, c.byref(graph)))
    ck(cu.cuGraphInstantiateWithFlags(c.byref(x), graph, c.c_ulonglong(0)))
class Params(c.Structure):
    _fields_ = [("f", p)] + [(n, c.c_uint) for n in ("gx", "gy", "gz", "bx", "by", "bz", "shared")] + [("s", p), ("params", p)]
parts = Params(f, 4096, 1, 1, 256, 1, 1, 0, s, None)
launch = {"function": lambda: kernel_on(f), "library": lambda: kernel_on(kernel), "graph": lambda: cu.cuGraphLaunch(x, s),
          "cooperative": lambda: kernel_on(f, "cuLaunchCooperativeKernel"),
          "several": lambda: cu.cuLaunchCooperativeKernelMultiDevice(c.byref(parts), 1, 0)}[way]
ck(cu.cuCtxSetCurrent(None))
assert cu.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, None, None, None) != 0  # a default stream needs one
end = time.monotonic() + seconds
while time.monotonic() < end:
    ck(launch())
    ck(cu.cuStreamSynchronize(s))
"""


def without_context(way, cards_of_all):
    with Cards(cards=cards_of_all, memory="2Gi") as cards:
        watch, card = cards.watch(), cards_of_all - 1
        p = cards.start([STAGE / "bin" / "gpuslice", "run", "--name", "s", "--cores", ",".join(["20"] * cards_of_all), "--",
                         sys.executable, "-c", WITHOUT_CONTEXT, way, cards_of_all, "9"], "s",
                        GPUSLICE_SIM_KERNEL_NS="k20ms=20000000")
        start = begun(watch, "s", card=card)
        share = share_of(watch, "s", start + 1.0, 4.0, card)
        cards.cli("suspend", "s")
        suspended = share_of(watch, "s", now() + 0.4, 0.8, card)
        cards.cli("resume", "s")
        return share, suspended, p.wait(40), p.stderr.read()


@scenario(without_context)
@pytest.mark.parametrize("cards_of_all", [1, 2])
@pytest.mark.parametrize("way", ["function", "library", "graph", "cooperative", "several"])
def test_a_thread_without_a_context_is_held(seen, way, cards_of_all):
    share, suspended, rc, said = seen
    assert rc == 0, said
    assert share == pytest.approx(0.20, abs=POINTS)
    assert suspended == 0


# One kernel of 300 ms; then it ends as its first argument says.
ONE_KERNEL = """
import ctypes as c, os, sys, time
cu, p = c.CDLL("libcuda.so.1"), c.c_void_p
def ck(rc): assert rc == 0, rc
ctx, module, f = p(), p(), p()
ck(cu.cuInit(0))
ck(cu.cuDevicePrimaryCtxRetain(c.byref(ctx), 0))
ck(cu.cuCtxSetCurrent(ctx))
ck(cu.cuModuleLoadData(c.byref(module), b".version 7.0\\n.target sm_70\\n.address_size 64\\n.visible .entry k300ms()\\n{\\n\\tret;\\n}\\n"))
ck(cu.cuModuleGetFunction(c.byref(f), module, b"k300ms"))
ck(cu.cuLaunchKernel(f, 4096, 1, 1, 256, 1, 1, 0, None, None, None))
if sys.argv[1] == "waits":
    ck(cu.cuCtxSynchronize())
else:
    time.sleep(0.305)
    os.kill(os.getpid(), 9)
"""


def fresh_slices(how, between):
    """A new slice of 20 % for each kernel, for twelve seconds; what the card gave from the second one on."""
    with Cards() as cards:
        watch = cards.watch()
        run = [STAGE / "bin" / "gpuslice", "run", "--cores", "20", "--"]
        first = None
        n = 0
        while first is None or now() < first + 12:
            p = cards.start([*run, sys.executable, "-c", ONE_KERNEL, how], "s", GPUSLICE_SIM_KERNEL_NS="k300ms=300000000")
            assert p.wait(30) == (0 if how == "waits" else 137), p.stderr.read()
            first = first or begun(watch, "s")
            n += 1
            if between:
                assert cards.start([*run, *between], "t").wait(30) == 0
        return share_of(watch, "s", first + 0.4, now() - first - 0.6), n


@scenario(fresh_slices)
@pytest.mark.parametrize("how", ["waits", "killed"])
@pytest.mark.parametrize("between", [None, ["true"]], ids=["none", "idle"])
def test_fresh_slices_pay_what_former_ones_owe(seen, how, between):
    share, n = seen
    assert share == pytest.approx(0.20, abs=POINTS), n


def debts():
    """Who else pays: nobody on another card, nobody without a share, and nobody for ever."""
    with Cards(cards=2) as cards:
        watch = cards.watch()
        cli = STAGE / "bin" / "gpuslice"
        env = {"GPUSLICE_SIM_KERNEL_NS": "k300ms=300000000"}
        program = [sys.executable, "-c", ONE_KERNEL, "waits"]
        file = cards.folder / "run" / "gpuslice" / ".debt"
        took = {}
        for name, options in (("owes", ["--cores", "10", "--device", "0"]), ("other", ["--cores", "10", "--device", "1"]),
                              ("free", ["--device", "0"]), ("pays", ["--cores", "50", "--device", "0"])):
            start = now()
            p = cards.start([cli, "run", *options, "--", *program], name, **env)
            assert p.wait(30) == 0, p.stderr.read()
            took[name] = now() - start
            if name == "owes":
                owed = file.read_text()
        del watch
        return took, owed, file.read_text()


@scenario(debts)
def test_only_a_slice_with_a_share_of_that_card_pays(seen):
    took, owed, left = seen
    header, *lines = owed.splitlines()
    assert header == "gpuslice-debt 1" and len(lines) == 1
    uuid, ns, _, pct = lines[0].split()
    assert 0.1e9 < int(ns) < 0.3e9 and pct == "10"
    assert took["other"] < 1.5 and took["free"] < 1.5  # a kernel of 0.3 s, and starting Python


# Copies and fills inside the card; in a simulated one the call itself moves the bytes, for longer than the card takes.
INSIDE = """
import ctypes as c, sys, time
cu, p, z, u = c.CDLL("libcuda.so.1"), c.c_void_p, c.c_size_t, c.c_ulonglong
def ck(rc): assert rc == 0, rc
ctx, d = p(), u()
ck(cu.cuInit(0))
ck(cu.cuDevicePrimaryCtxRetain(c.byref(ctx), 0))
ck(cu.cuCtxSetCurrent(ctx))
ck(cu.cuMemAlloc_v2(c.byref(d), z(1 << 20)))
a, b, n = u(d.value), u(d.value + (1 << 19)), z(1 << 16)
one = {"fill": lambda f=cu.cuMemsetD8Async, v=c.c_ubyte(1), s=p(): f(a, v, n, s),
       "copy": lambda f=cu.cuMemcpyDtoDAsync_v2, s=p(): f(a, b, n, s), "any": lambda f=cu.cuMemcpy: f(a, b, n)}[sys.argv[1]]
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    for _ in range(8):
        one()
    ck(cu.cuStreamSynchronize(None))
"""


def inside(way):
    with Cards() as cards:
        watch = cards.watch()
        p = cards.start([STAGE / "bin" / "gpuslice", "run", "--name", "s", "--cores", "5", "--", sys.executable, "-c", INSIDE,
                         way, "7"], "s", GPUSLICE_LIMIT_COPIES="1")
        share = share_of(watch, "s", begun(watch, "s") + 1.0, 4.0)
        return share, p.wait(30), p.stderr.read()


@scenario(inside)
@pytest.mark.parametrize("way", ["fill", "copy", "any"])
def test_what_the_host_does_in_a_copy_is_not_charged(seen, way):
    share, rc, said = seen
    assert rc == 0, said
    assert share == pytest.approx(0.05, abs=0.012)  # 2 % where the host's time counted


def stopped():
    """A high slice is stopped while it waits; it owes card time, so it nearly always does."""
    with Cards() as cards:
        watch = cards.watch()
        load = ["--kernels", "k5ms", "--seconds", "60"]
        high = cards.slice("high", ["--cores", "30", "--priority", "high"], *load)
        cards.slice("low", ["--cores", "60", "--priority", "low"], *load)
        begun(watch, "high")
        begun(watch, "low")
        before = share_of(watch, "low", now() + 1.0, 2.0)
        group = subprocess.run(["pgrep", "-g", str(high.pid)], stdout=subprocess.PIPE, text=True).stdout.split()
        inner = [int(pid) for pid in group if int(pid) != high.pid]
        for pid in inner:
            os.kill(pid, signal.SIGSTOP)
        stopped_at = now()
        after = share_of(watch, "low", stopped_at + 1.6, 3.0)
        for pid in inner:
            os.kill(pid, signal.SIGCONT)
        again = share_of(watch, "low", now() + 1.0, 2.0)
        return before, after, again


@scenario(stopped)
def test_a_stopped_waiter_keeps_nobody_away(seen):
    before, after, again = seen
    assert before == pytest.approx(0.025, abs=0.02) == again
    assert after == pytest.approx(0.60, abs=POINTS)
