"""Programs that compute on the CPU for long after their last kernel, and then end: who comes next does not wait for that."""

import sys

import pytest
from side_by_side import scenario, seen  # noqa: F401, I001 (a fixture; and it makes bench importable)
from limiter_cards import STAGE
from load import Cards

IDLE_S = 8
PATIENCE_S = 150

# Kernels of 20 us. The end of the last ones the program learns by a function of the host, an event, or not at all; then 8 s
# of CPU.
PROGRAM = """
import ctypes as c, os, signal, sys, threading, time
way, end, idle = sys.argv[1], sys.argv[2], float(sys.argv[3])
cu, p = c.CDLL("libcuda.so.1"), c.c_void_p
def ck(rc): assert rc == 0, rc
ctx, module, f, s, e = p(), p(), p(), p(), p()
ck(cu.cuInit(0))
ck(cu.cuDevicePrimaryCtxRetain(c.byref(ctx), 0))
ck(cu.cuCtxSetCurrent(ctx))
ck(cu.cuModuleLoadData(c.byref(module), b".version 7.0\\n.target sm_70\\n.address_size 64\\n.visible .entry k20us()\\n{\\n\\tret;\\n}\\n"))
ck(cu.cuModuleGetFunction(c.byref(f), module, b"k20us"))
ck(cu.cuStreamCreate(c.byref(s), 0 if way == "default" else 1))
ck(cu.cuEventCreate(c.byref(e), 2))
def burst(n):
    for _ in range(n):
        ck(cu.cuLaunchKernel(f, 4096, 1, 1, 256, 1, 1, 0, s, None, None))
start = time.monotonic()
burst(1)
ck(cu.cuStreamSynchronize(s))
print(time.monotonic() - start, flush=True)
if way == "unasked":
    os.kill(os.getppid(), signal.SIGSTOP)
for _ in range(150):
    burst(10)
    ck(cu.cuStreamSynchronize(s))
done = threading.Event()
tell = c.CFUNCTYPE(None, p)(lambda _: done.set())
told = c.CFUNCTYPE(None, p, c.c_int, p)(lambda *_: done.set())
for _ in range(13 if way not in ("nobody", "unasked") else 1):
    done.clear()
    burst(5)
    if way == "function":
        ck(cu.cuLaunchHostFunc(s, tell, None))
    elif way == "callback":
        ck(cu.cuStreamAddCallback(s, told, None, 0))
    if way in ("function", "callback"):
        assert done.wait(10)
    if way in ("event", "query"):
        ck(cu.cuEventRecord(e, s))
    if way == "default":
        ck(cu.cuStreamSynchronize(None))
    if way == "event":
        ck(cu.cuEventSynchronize(e))
    while way == "query" and cu.cuEventQuery(e):
        pass
if way == "stream":
    ck(cu.cuStreamDestroy_v2(s))
if way == "unasked":
    time.sleep(1.5)
    os.kill(os.getppid(), signal.SIGCONT)
time.sleep(idle)
if end == "waits":
    ck(cu.cuStreamSynchronize(s))
if end == "killed":
    os.kill(os.getpid(), 9)
elif end == "_exit":
    os._exit(0)
"""


def ends(way, end, where):
    """How long the first launch of the next one took: the next process of the slice, or the user's next slice."""
    with Cards() as cards:
        ours = [sys.executable, "-c", PROGRAM]
        run = [STAGE / "bin" / "gpuslice", "run", "--cores", "25", "--"]
        env = {"GPUSLICE_SIM_KERNEL_NS": "k20us=20000"}
        if where == "process":
            script = '"$0" -c "$1" "$2" "$3" "$4" >/dev/null; exec "$0" -c "$1" nobody exit 0'
            p = cards.start([*run, "sh", "-c", script, sys.executable, PROGRAM, way, end, IDLE_S], "s", **env)
        else:
            p = cards.start([*run, *ours, way, end, IDLE_S], "s", **env)
            assert p.wait(PATIENCE_S) == (137 if end == "killed" else 0), p.stderr.read()
            p = cards.start([*run, *ours, "nobody", "exit", 0], "t", **env)
        out, err = p.communicate(timeout=PATIENCE_S)
        assert p.returncode == 0, err
        return float(out.split()[-1])


@scenario(ends)
@pytest.mark.parametrize("where", ["process", "slice"])
@pytest.mark.parametrize("way,end", [("function", "exit"), ("callback", "exit"), ("stream", "exit"), ("event", "exit"),
                                     ("event", "waits"), ("query", "waits"), ("default", "waits")])
def test_an_orderly_end_is_charged_by_the_card(seen, way, end, where):
    assert seen < 1.5  # 8 s of CPU would be 32 of waiting


@scenario(ends)
@pytest.mark.parametrize("where", ["slice"])
@pytest.mark.parametrize("way", ["unasked"])
@pytest.mark.parametrize("end", ["exit", "killed"])
def test_the_driver_need_not_be_asked_while_it_works(seen, way, end, where):
    assert seen < 12  # `gpuslice run` stood still meanwhile; the driver lists the process afterwards as well


@scenario(ends)
@pytest.mark.parametrize("where", ["process", "slice"])
@pytest.mark.parametrize(("way", "end"), [("nobody", "exit"), ("nobody", "_exit"), ("stream", "killed"), ("function", "killed")])
def test_what_nobody_saw_is_charged_as_the_driver_saw_it(seen, way, end, where):
    assert seen < 12  # of 8 s those that the driver had not been asked about; it is asked twice a second
