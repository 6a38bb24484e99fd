"""Unmodified third-party programs on the simulated cards alone, without the hook: what they print is what the cards must be.

Expected values: each program's own messages on a card of that size; the CUDA and NVML references for codes.
"""

import importlib.util
import json
import re
import subprocess
import sys

import pytest

from conftest import GIB, MIB, stage_dir
from test_held import ffmpeg, module, need, unpacked


def lines(done):
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_nvidia_ml_py_reads_a_card(sim):
    module("pynvml")
    code = """
import pynvml as n
n.nvmlInit(); h = n.nvmlDeviceGetHandleByIndex(0)
m, v = n.nvmlDeviceGetMemoryInfo(h), n.nvmlDeviceGetMemoryInfo(h, version=n.nvmlMemory_v2)
print(n.nvmlDeviceGetCount(), m.total, m.used, m.free, v.total, v.used + v.free + v.reserved == v.total)
u = n.nvmlDeviceGetUUID(h)
print(u.startswith("GPU-"), len(u), n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByUUID(u)))
print(n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByPciBusId(n.nvmlDeviceGetPciInfo(h).busId)))
for f in (n.nvmlDeviceGetMigMode, n.nvmlDeviceGetFanSpeed):
    try:
        f(h)
    except n.NVMLError_NotSupported:
        print("not supported")
try:
    n.nvmlDeviceGetHandleByIndex(1)
except n.NVMLError_InvalidArgument:
    print("no second card")
"""
    assert lines(sim.python(code)) == [
        f"1 {8 * GIB} 0 {8 * GIB} {8 * GIB} True", "True 40 0", "0", "not supported", "not supported", "no second card"]


def test_nvml_names_processes_and_their_memory(sim):
    module("pynvml")
    module("cuda.bindings")
    code = """
import os
import pynvml as n
from cuda.bindings import driver as d
d.cuInit(0); d.cuCtxSetCurrent(d.cuDevicePrimaryCtxRetain(0)[1]); d.cuMemAlloc(256 << 20)
n.nvmlInit(); h = n.nvmlDeviceGetHandleByIndex(0)
print([(p.pid == os.getpid(), p.usedGpuMemory) for p in n.nvmlDeviceGetComputeRunningProcesses(h)])
print(n.nvmlDeviceGetGraphicsRunningProcesses(h))
"""
    assert lines(sim.python(code)) == [f"[(True, {256 * MIB})]", "[]"]


def test_xid_and_lost_card_reach_nvml_and_cuda(sim):
    module("pynvml")
    module("cuda.bindings")
    code = """
import subprocess
import pynvml as n
from cuda.bindings import driver as d
d.cuInit(0); d.cuCtxSetCurrent(d.cuDevicePrimaryCtxRetain(0)[1])
n.nvmlInit(); h = n.nvmlDeviceGetHandleByIndex(0)
s = n.nvmlEventSetCreate(); n.nvmlDeviceRegisterEvents(h, n.nvmlEventTypeXidCriticalError, s)
sim = lambda *a: subprocess.run(["gpuslice-sim", *a], check=True)
sim("xid", "0", "79"); e = n.nvmlEventSetWait_v2(s, 5000); print(e.eventType, e.eventData)
sim("fault", "cuMemAlloc_v2", "--nth", "2", "--error", "999")
print([d.cuMemAlloc(1 << 20)[0].name for _ in range(3)])
sim("lose", "0"); print(d.cuMemAlloc(1 << 20)[0].name)
try:
    n.nvmlDeviceGetMemoryInfo(h)
except n.NVMLError_GpuIsLost:
    print("lost")
sim("reset"); print(d.cuMemAlloc(1 << 20)[0].name)
"""
    assert lines(sim.python(code)) == [
        "8 79", "['CUDA_SUCCESS', 'CUDA_ERROR_UNKNOWN', 'CUDA_SUCCESS']", "CUDA_ERROR_DEVICE_UNAVAILABLE", "lost",
        "CUDA_SUCCESS"]


@pytest.mark.parametrize("visible, expected", [
    (None, [0, 1, 2]), ("2,0", [2, 0]), ("1,7,0", [1]), ("-1", []), ("", []), ("0,0", []), ("0,-1,1", [0]),
    ("MIG-x", []), ("none", []), ("GPU-{2}", [2]), ("GPU-{1:8},0", [1, 0]), (" 1 , 2", [1, 2])])
def test_visible_devices(make_sim, visible, expected):
    """CUDA C programming guide, environment variables: order as listed, the first bad entry ends the list; '0,0' shows none
    (nvitop documents that from real drivers)."""
    module("pynvml")
    module("cuda.bindings")
    sim = make_sim(cards=3, memory="1Gi")
    uuids = lines(sim.python("""
import pynvml as n
n.nvmlInit(); print(*[n.nvmlDeviceGetUUID(n.nvmlDeviceGetHandleByIndex(i)) for i in range(3)])"""))[0].split()
    if visible is not None:
        visible = re.sub(r"GPU-\{(\d)(?::(\d+))?\}",
                         lambda m: uuids[int(m[1])][:4 + int(m[2] or 36)], visible)
    code = """
from cuda.bindings import driver as d
r = d.cuInit(0)[0].name
n = d.cuDeviceGetCount()[1] if r == "CUDA_SUCCESS" else 0
print(r); print(*["GPU-" + __import__("uuid").UUID(bytes=bytes(d.cuDeviceGetUuid(i)[1].bytes)).__str__() for i in range(n)])
"""
    out = lines(sim.python(code, env=sim.env(CUDA_VISIBLE_DEVICES=visible)))
    assert out[0] == ("CUDA_SUCCESS" if expected else "CUDA_ERROR_NO_DEVICE")
    assert out[1].split() == [uuids[i] for i in expected]


def test_nvidia_smi_shows_the_card(sim):
    smi = unpacked("nvidia-smi")
    assert lines(sim.run(smi, "--query-gpu=memory.total,memory.used", "--format=csv,noheader,nounits")) == ["8192, 0"]
    assert re.fullmatch(r"GPU 0: .* \(UUID: GPU-[0-9a-f-]{36}\)", lines(sim.run(smi, "-L"))[0])
    for arguments in ([], ["-q"], ["dmon", "-c", "1"], ["topo", "-m"]):
        assert sim.run(smi, *arguments, timeout=30).returncode == 0


def test_gpustat_and_nvitop(sim):
    module("gpustat")
    module("nvitop")
    card = json.loads("\n".join(lines(sim.run(sys.executable, "-m", "gpustat", "--json"))))["gpus"][0]
    assert (card["memory.used"], card["memory.total"]) == (0, 8192)
    assert "8192MiB" in sim.run(sys.executable, "-m", "nvitop", "-1").stdout


def test_ffmpeg_filters_leave_the_picture_as_it_is(sim):
    need("ffmpeg")
    plain = sim.run("ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc=s=320x240:d=0.2", "-vf", "format=yuv420p",
                    "-f", "md5", "-")
    through = sim.run(*ffmpeg("320x240", "hwupload_cuda", "hwdownload", "format=yuv420p"))
    assert (through.returncode, through.stdout) == (0, plain.stdout), through.stderr
    scaled = sim.run(*ffmpeg("320x240", "hwupload_cuda", "scale_cuda=160:120", "hwdownload", "format=yuv420p"))
    assert scaled.returncode == 0, scaled.stderr


PTX = """
ptx = b\"\"\".version 7.0
.target sm_80
.address_size 64
.visible .global .align 4 .u32 counter[16];
.visible .entry k(.param .u64 p0, .param .u32 p1, .param .align 8 .b8 p2[24]) .maxntid 256, 1, 1 { ret; }
\"\"\"
"""

START = """
from cuda.bindings import driver as d
import ctypes, time
def ck(r):
    assert r[0] == 0, r
    return r[1] if len(r) == 2 else r[1:]
ck(d.cuInit(0)); ctx = ck(d.cuDevicePrimaryCtxRetain(0)); ck(d.cuCtxSetCurrent(ctx))
"""

LAUNCH = START + PTX + """
m = ck(d.cuModuleLoadData(ptx)); f = ck(d.cuModuleGetFunction(m, b"k"))
buf = ctypes.create_string_buffer(64)
args = (ctypes.c_void_p * 3)(*[ctypes.addressof(buf)] * 3)
def launch(s): ck(d.cuLaunchKernel(f, 100, 1, 1, 256, 1, 1, 0, s, ctypes.addressof(args), 0))
s = ck(d.cuStreamCreate(1)); a, b = ck(d.cuEventCreate(0)), ck(d.cuEventCreate(0))
"""


def test_code_is_read_for_kernels_and_variables(sim):
    module("cuda.bindings")
    code = LAUNCH + """
print([ck(d.cuFuncGetParamInfo(f, i)) for i in range(3)])
print(ck(d.cuFuncGetAttribute(d.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f)))
print(ck(d.cuModuleGetGlobal(m, b"counter"))[1])
print(d.cuModuleGetFunction(m, b"absent")[0].name, d.cuModuleLoadData(b"not an image")[0].name)
print(d.cuLaunchKernel(f, 1, 1, 1, 512, 1, 1, 0, s, ctypes.addressof(args), 0)[0].name)
"""
    assert lines(sim.python(code)) == [
        "[(0, 8), (8, 4), (16, 24)]", "256", "64", "CUDA_ERROR_NOT_FOUND CUDA_ERROR_INVALID_IMAGE",
        "CUDA_ERROR_INVALID_VALUE"]


def test_kernels_take_the_modelled_time(sim):
    """20 launches of 5 ms each: the events lie 100 ms apart, and the host waits that long."""
    module("cuda.bindings")
    code = LAUNCH + """
t = time.monotonic(); ck(d.cuEventRecord(a, s))
for _ in range(20): launch(s)
ck(d.cuEventRecord(b, s)); print(d.cuStreamQuery(s)[0].name, d.cuEventElapsedTime(a, b)[0].name)
ck(d.cuStreamSynchronize(s)); waited = time.monotonic() - t
print(ck(d.cuEventElapsedTime(a, b)), waited)
"""
    out = lines(sim.python(code, env=sim.env(GPUSLICE_SIM_KERNEL_NS="5000000")))
    assert out[0] == "CUDA_ERROR_NOT_READY CUDA_ERROR_NOT_READY"
    elapsed, waited = map(float, out[1].split())
    assert 99.9 <= elapsed <= 400 and waited >= 0.1


def test_two_processes_share_a_busy_card_evenly(sim):
    """Each has 0.5 s of work and both start together: neither is done before the card has done both."""
    module("cuda.bindings")
    code = LAUNCH + """
print("ready", flush=True); input(); t = time.monotonic()
for _ in range(100): launch(s)
ck(d.cuStreamSynchronize(s)); print(time.monotonic() - t)
"""
    env = sim.env(GPUSLICE_SIM_KERNEL_NS="5000000")
    both = [subprocess.Popen([sys.executable, "-c", code], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             text=True) for _ in range(2)]
    for p in both:
        assert p.stdout.readline() == "ready\n"
    for p in both:
        p.stdin.write("\n")
        p.stdin.flush()
    took = [float(p.communicate(timeout=60)[0]) for p in both]
    assert max(took) >= 0.95, took


def test_capture_becomes_a_graph_with_memory_of_its_own(sim):
    module("cuda.bindings")
    code = LAUNCH + """
mode = d.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
attr = d.CUgraphMem_attribute
used = lambda: [int(ck(d.cuDeviceGetGraphMemAttribute(0, k))) for k in (attr.CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, attr.CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT)]
before = ck(d.cuMemGetInfo())[0]
ck(d.cuStreamBeginCapture(s, mode)); p = ck(d.cuMemAllocAsync(64 << 20, s)); launch(s); ck(d.cuMemsetD8Async(p, 7, 64 << 20, s))
print(d.cuStreamSynchronize(s)[0].name if 0 else "recording", int(ck(d.cuStreamIsCapturing(s))))
g = ck(d.cuStreamEndCapture(s)); print(ck(d.cuGraphGetNodes(g))[1] if 0 else before - ck(d.cuMemGetInfo())[0], used())
x = ck(d.cuGraphInstantiate(g, 0)); ck(d.cuGraphLaunch(x, s)); ck(d.cuStreamSynchronize(s))
one = ctypes.create_string_buffer(4); ck(d.cuMemcpyDtoH(one, p, 4)); print(one.raw, used())
print(d.cuGraphLaunch(x, s)[0].name)
ck(d.cuMemFree(p)); print(used()); ck(d.cuDeviceGraphMemTrim(0)); print(used(), before - ck(d.cuMemGetInfo())[0])
"""
    size = 64 * MIB
    assert lines(sim.python(code)) == [
        "recording 1", "0 [0, 0]", f"{bytes([7] * 4)} [{size}, {size}]", "CUDA_ERROR_INVALID_VALUE", f"[0, {size}]",
        "[0, 0] 0"]


def test_look_up_gives_the_newest_form_not_newer_than_asked(sim):
    """CUDA driver API, cuGetProcAddress; symbols by the versions of cudaTypedefs.h."""
    code = """
import ctypes as C
L = C.CDLL("libcuda.so.1")
def at(name, version, flags=0):
    p, s = C.c_void_p(), C.c_int(-1)
    r = L.cuGetProcAddress_v2(name, C.byref(p), version, C.c_ulonglong(flags), C.byref(s))
    return r, s.value, p.value
where = lambda n: C.cast(getattr(L, n), C.c_void_p).value
print(at(b"cuMemAlloc", 12090)[2] == where("cuMemAlloc_v2"), at(b"cuMemAlloc", 2000)[2] == where("cuMemAlloc"))
print(at(b"cuCtxCreate", 13050)[2] == where("cuCtxCreate_v4"), at(b"cuCtxSynchronize", 12090)[2] == where("cuCtxSynchronize"))
print(at(b"cuMemcpyHtoD", 12000, 2)[2] == where("cuMemcpyHtoD_v2_ptds"), at(b"cuMemAlloc", 12000, 2)[2] == where("cuMemAlloc_v2"))
print(at(b"cuNoSuchThing", 12000), at(b"cuLibraryLoadData", 11000), at(b"cuInit", 99000)[0])
"""
    assert lines(sim.python(code)) == ["True True", "True True", "True True",
                                       "(0, 1, None) (0, 2, None) 1"]


def test_the_validity_table_is_refused(sim):
    code = """
import ctypes as C
L = C.CDLL("libcuda.so.1"); t = C.c_void_p()
ask = lambda h: L.cuGetExportTable(C.byref(t), bytes.fromhex(h))
print(ask("D4082055BDE6704B8D34BA123C66E1F2") != 0, ask("6BD5FB6C5BF4E74A8987D93912FD9DF9"))
"""
    assert lines(sim.python(code)) == ["True 0"]


def test_numba_and_cuda_core_run(sim):
    for name in ("numba_cuda", "cuda.core"):  # importing it would need a driver here
        if not importlib.util.find_spec(name):
            pytest.skip(f"python module {name} is not installed: ./dev deps clients")
    code = """
import numpy as np
from numba import cuda
a = cuda.to_device(np.arange(1000)); print(int(a.copy_to_host().sum()))
from cuda.core import Device
dev = Device(); dev.set_current(); s = dev.create_stream(); b = dev.allocate(1 << 20, stream=s); print(b.size); b.close(s)
e = s.record(); e.sync(); print("done")
"""
    assert lines(sim.python(code)) == ["499500", str(1 << 20), "done"]


def test_own_runtime_answers_as_the_driver(sim):
    """libcudart.so.12 and .13: symbol version nodes and sizes of cudaDeviceProp as in NVIDIA's headers."""
    for major, size in ((12, 1032), (13, 1008)):
        assert (stage_dir() / "lib" / "gpuslice" / "sim" / "nvidia" / f"libcudart.so.{major}").is_file()
        code = f"""
import ctypes as C
L = C.CDLL("libcudart.so.{major}"); v, n = C.c_int(), C.c_int(); free, total = C.c_size_t(), C.c_size_t()
print(L.cudaRuntimeGetVersion(C.byref(v)), v.value // 1000, L.cudaGetDeviceCount(C.byref(n)), n.value)
p = C.c_void_p(); print(L.cudaMalloc(C.byref(p), C.c_size_t(1 << 30)), L.cudaMemGetInfo(C.byref(free), C.byref(total)), total.value - free.value)
print(L.cudaMalloc(C.byref(p), C.c_size_t(1 << 40)), L.cudaGetLastError(), L.cudaGetLastError())
b = C.create_string_buffer({size} + 64); b[{size}:{size} + 64] = b"x" * 64
L.cudaGetDeviceProperties_v2(b, 0); print(b[{size}:{size} + 64] == b"x" * 64, b.value.startswith(b"NVIDIA"))
"""
        assert lines(sim.python(code)) == [f"0 {major} 0 1", f"0 0 {GIB}", "2 2 0", "True True"]


def test_driver_is_dead_in_a_forked_child(sim):
    """CUDA programming guide: a forked child cannot use the driver its parent initialised."""
    module("cuda.bindings")
    code = START + """
import os
pid = os.fork()
if pid == 0:
    os._exit(int(d.cuMemAlloc(1 << 20)[0]) * 10 + int(d.cuInit(0)[0]))
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), d.cuMemAlloc(1 << 20)[0].name)
"""
    assert lines(sim.python(code)) == ["33 CUDA_SUCCESS"]
