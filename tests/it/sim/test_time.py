"""The simulated card's time through an independent client: what overlaps, what waits, what the witness counts.
Times come from kernels of forced length; what the card itself counted is compared, not how fast this machine was."""

import json
import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("cuda.bindings.driver")

MS = 1_000_000
PRELUDE = r'''
import ctypes, sys, threading, time
from cuda.bindings import driver as d
def ck(r):
    assert r[0] == 0, r
    return r[1] if len(r) == 2 else r[1:]
ck(d.cuInit(0)); ctx = ck(d.cuDevicePrimaryCtxRetain(0)); ck(d.cuCtxSetCurrent(ctx))
ptx = b".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n.visible .entry l() { ret; }\n"
m = ck(d.cuModuleLoadData(ptx)); k, l = ck(d.cuModuleGetFunction(m, b"k")), ck(d.cuModuleGetFunction(m, b"l"))
def launch(s, f=k): ck(d.cuLaunchKernel(f, 100, 1, 1, 256, 1, 1, 0, s, 0, 0))
def stream(): return ck(d.cuStreamCreate(1))
def event(flags=0): return ck(d.cuEventCreate(flags))
def elapsed(a, b): return ck(d.cuEventElapsedTime(a, b))
M = d.CUstreamCaptureMode
def mode(v): return ck(d.cuThreadExchangeStreamCaptureMode(v))
def other(fn):
    out = []
    def body():
        ck(d.cuCtxSetCurrent(ctx)); out.append(fn())
    t = threading.Thread(target=body); t.start(); t.join()
    return out[0]
'''


def run(sim, code, group="", **env):
    done = subprocess.run([sys.executable, "-c", PRELUDE + textwrap.dedent(code)],
                          env=sim.env(GPUSLICE_SIM_GROUP=group, **env), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.split()


def used(sim, group=""):
    card = next(g for g in sim.status()["groups"] if g["name"] == group)["cards"][0]
    return card["busy_ns"], card["kernels"]


def test_groups_keep_what_their_processes_had(sim):
    """Exact to the nanosecond, after the processes are gone."""
    for _ in range(2):
        run(sim, "s = stream()\nfor i in range(40): launch(s)\nck(d.cuCtxSynchronize())", "a", GPUSLICE_SIM_KERNEL_NS=MS)
    run(sim, "launch(stream()); ck(d.cuCtxSynchronize())", "b", GPUSLICE_SIM_KERNEL_NS=3 * MS)
    assert used(sim, "a") == (80 * MS, 80) and used(sim, "b") == (3 * MS, 1)
    assert sim.status()["cards"][0]["busy_ns"] == 83 * MS


def test_usage_prints_samples(sim):
    run(sim, "launch(stream()); ck(d.cuCtxSynchronize())", "a", GPUSLICE_SIM_KERNEL_NS=7 * MS)
    out = sim.run("gpuslice-sim", "usage", "--json", "--every", "10", "--duration-s", "0.05").stdout.splitlines()
    rows = [json.loads(line) for line in out]
    assert len(rows) >= 2 and rows[-1]["now_ns"] > rows[0]["now_ns"]
    assert {g["name"]: g["cards"][0]["busy_ns"] for g in rows[-1]["groups"]}["a"] == 7 * MS


def test_streams_overlap_where_kernels_fit(sim):
    code = """
        a, b = stream(), stream()
        launch(a); launch(a); launch(b); launch(b)
        ck(d.cuCtxSynchronize())"""
    run(sim, code, "half", GPUSLICE_SIM_KERNEL_NS=5 * MS, GPUSLICE_SIM_KERNEL_OCC=50)
    run(sim, code, "full", GPUSLICE_SIM_KERNEL_NS=5 * MS)
    busy, kernels = used(sim, "half")  # the second stream's kernels start as late as the host launched them
    assert 10 * MS <= busy <= 15 * MS and kernels == 4
    assert used(sim, "full") == (20 * MS, 4)


def test_the_legacy_stream_waits_for_blocking_streams(sim):
    run(sim, """
        a, n = ck(d.cuStreamCreate(0)), stream()
        launch(a); launch(0); launch(a); launch(n)
        ck(d.cuCtxSynchronize())""", GPUSLICE_SIM_KERNEL_NS=4 * MS, GPUSLICE_SIM_KERNEL_OCC=10)
    assert used(sim) == (12 * MS, 4)


def test_copies_are_not_card_time(sim):
    """16 MiB each way take longer than the kernel, and none of it counts."""
    run(sim, """
        p = ck(d.cuMemAlloc(16 << 20)); h = ctypes.create_string_buffer(16 << 20); s, t = stream(), stream()
        launch(s)
        ck(d.cuMemcpyHtoDAsync(p, ctypes.addressof(h), 16 << 20, t)); ck(d.cuMemcpyDtoHAsync(ctypes.addressof(h), p, 16 << 20, t))
        ck(d.cuStreamSynchronize(t)); ck(d.cuStreamSynchronize(s))""", GPUSLICE_SIM_KERNEL_NS=200_000)
    assert used(sim) == (200_000, 1)


def test_events_measure_the_card_not_the_host(sim):
    """On an idle stream, long after they passed, and around a graph whose branches overlap."""
    a, b, c, g = map(float, run(sim, """
        s, t = stream(), stream()
        a, b, c, e, f = (event() for _ in range(5))
        ck(d.cuEventRecord(a, s)); launch(s); ck(d.cuEventRecord(b, s)); launch(s); ck(d.cuEventRecord(c, s))
        ck(d.cuStreamSynchronize(s)); time.sleep(0.3)
        print(elapsed(a, b), elapsed(b, c))
        for _ in range(2000): launch(t, l); ck(d.cuStreamSynchronize(t))
        ck(d.cuStreamBeginCapture(s, M.CU_STREAM_CAPTURE_MODE_GLOBAL))
        fork, join = event(2), event(2)
        ck(d.cuEventRecord(fork, s)); ck(d.cuStreamWaitEvent(t, fork, 0))
        launch(s); launch(t); ck(d.cuEventRecord(join, t)); ck(d.cuStreamWaitEvent(s, join, 0))
        x = ck(d.cuGraphInstantiate(ck(d.cuStreamEndCapture(s)), 0))
        ck(d.cuEventRecord(e, s)); ck(d.cuGraphLaunch(x, s)); ck(d.cuEventRecord(f, s)); ck(d.cuEventSynchronize(f))
        print(elapsed(b, c), elapsed(e, f))""", GPUSLICE_SIM_KERNEL_NS=f"k={20 * MS},l=1000", GPUSLICE_SIM_KERNEL_OCC=50))
    assert abs(a - 20) < 1 and b == 20 and c == 20 and abs(g - 20) < 1


def test_a_full_queue_holds_the_launch_up(sim):
    assert run(sim, """
        s = stream(); t = time.monotonic()
        launch(s, l)
        for i in range(1023): launch(s)
        assert time.monotonic() - t < 0.5
        launch(s); print(time.monotonic() - t >= 0.5)
        ck(d.cuStreamSynchronize(s))""", GPUSLICE_SIM_KERNEL_NS=f"l={500 * MS},k=1000") == ["True"]


UNSAFE = {
    "event query": "d.cuEventQuery(ev)[0].name",
    "stream query": "d.cuStreamQuery(t)[0].name",
    "alloc": "d.cuMemAlloc(1024)[0].name",
    "free": "d.cuMemFree(p)[0].name",
    "stream wait": "d.cuStreamSynchronize(t)[0].name",
}


@pytest.mark.parametrize("capture", ["GLOBAL", "THREAD_LOCAL", "RELAXED"])
def test_unsafe_calls_of_another_thread_spoil_global_captures(sim, capture):
    """cuThreadExchangeStreamCaptureMode: only a thread in GLOBAL mode minds others, and only GLOBAL captures."""
    answers = iter(run(sim, f"""
        s, t, ev = stream(), stream(), event()
        for thread in (M.CU_STREAM_CAPTURE_MODE_GLOBAL, M.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, M.CU_STREAM_CAPTURE_MODE_RELAXED):
            for call in {list(UNSAFE.values())}:
                p = ck(d.cuMemAlloc(1024)); ck(d.cuEventRecord(ev, t))
                ck(d.cuStreamBeginCapture(s, M.CU_STREAM_CAPTURE_MODE_{capture}))
                launch(s)
                def unsafe():
                    mode(thread)
                    return eval(call)
                print(other(unsafe), d.cuStreamEndCapture(s)[0].name)"""))
    for thread in ("GLOBAL", "THREAD_LOCAL", "RELAXED"):
        spoiled = thread == capture == "GLOBAL"
        for what in UNSAFE:
            assert next(answers) == ("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED" if spoiled else "CUDA_SUCCESS"), (thread, what)
            assert next(answers) == ("CUDA_ERROR_STREAM_CAPTURE_INVALIDATED" if spoiled else "CUDA_SUCCESS"), (thread, what)


def test_own_thread_may_be_relaxed_for_a_while(sim):
    assert run(sim, """
        s = stream()
        ck(d.cuStreamBeginCapture(s, M.CU_STREAM_CAPTURE_MODE_GLOBAL)); launch(s)
        old = mode(M.CU_STREAM_CAPTURE_MODE_RELAXED); p = ck(d.cuMemAlloc(1024)); mode(old)
        ev = event(); ck(d.cuEventRecord(ev, s)); print(d.cuEventQuery(ev)[0].name)
        print(d.cuStreamEndCapture(s)[0].name)
        ck(d.cuStreamBeginCapture(s, M.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)); launch(s)
        print(d.cuMemAlloc(1024)[0].name, d.cuStreamEndCapture(s)[0].name)
        b = ck(d.cuStreamCreate(0)); ck(d.cuStreamBeginCapture(b, M.CU_STREAM_CAPTURE_MODE_RELAXED))
        print(d.cuLaunchKernel(k, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0)[0].name, d.cuStreamEndCapture(b)[0].name)
        ck(d.cuStreamBeginCapture(s, M.CU_STREAM_CAPTURE_MODE_RELAXED))
        print(d.cuCtxSynchronize()[0].name, d.cuStreamEndCapture(s)[0].name)""") == [
        "CUDA_ERROR_CAPTURED_EVENT", "CUDA_SUCCESS",
        "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
        "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
        "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"]


def test_a_capture_ends_in_the_thread_that_began_it(sim):
    assert run(sim, """
        s = stream()
        for m in (M.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, M.CU_STREAM_CAPTURE_MODE_RELAXED):
            ck(d.cuStreamBeginCapture(s, m)); launch(s)
            print(other(lambda: d.cuStreamEndCapture(s)[0].name))
            if m == M.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL: print(d.cuStreamEndCapture(s)[0].name)""") == [
        "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "CUDA_SUCCESS", "CUDA_SUCCESS"]


NVML = r'''
import pynvml as n
def samples(since=0):
    try: return n.nvmlDeviceGetProcessUtilization(h, since)
    except n.NVMLError_NotFound: return []
n.nvmlInit(); h = n.nvmlDeviceGetHandleByIndex(0)
'''


def test_nvml_samples_come_late_and_whole(sim):
    """A sixth of a second each, newer than asked for, one per process that did something."""
    pytest.importorskip("pynvml")
    out = run(sim, NVML + r'''
import os
print(len(samples()), end=" ")
s = stream()
for _ in range(30): launch(s)
got = []
while not any(x.smUtil >= 99 for x in got): time.sleep(0.02); got = samples()
ck(d.cuStreamSynchronize(s)); (x,) = samples()
print(x.pid == os.getpid(), len(samples(x.timeStamp)) == 0 or samples(x.timeStamp)[0].timeStamp >= x.timeStamp + 166666)
''', GPUSLICE_SIM_KERNEL_NS=20 * MS)
    assert out == ["0", "True", "True"]


def test_nvml_may_lie_or_be_absent(sim):
    pytest.importorskip("pynvml")
    assert sim.run("gpuslice-sim", "fault", "nvml-lies=77").returncode == 0
    assert run(sim, NVML + "print(n.nvmlDeviceGetUtilizationRates(h).gpu)") == ["77"]
    assert sim.run("gpuslice-sim", "fault", "nvml-absent").returncode == 0
    assert run(sim, "import pynvml as n\ntry: n.nvmlInit()\nexcept n.NVMLError_DriverNotLoaded: print('absent')") == ["absent"]
    assert sim.run("gpuslice-sim", "reset").returncode == 0
    assert run(sim, NVML + "print(n.nvmlDeviceGetUtilizationRates(h).gpu)") == ["0"]


def test_events_may_be_missing(sim):
    assert sim.run("gpuslice-sim", "fault", "events-unavailable").returncode == 0
    assert run(sim, "print(d.cuEventCreate(0)[0].name); launch(0); ck(d.cuCtxSynchronize())") == ["CUDA_ERROR_NOT_SUPPORTED"]
