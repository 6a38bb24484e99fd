"""Unmodified third-party programs under `gpuslice run --memory`, on simulated cards.

Expected texts and statuses are what these programs say on a card of that size or when it is full
(each program's own messages, measured without us).
"""

import hashlib
import json
import os
import pathlib
import pty
import re
import shutil
import subprocess
import sys
import time

import pytest

from conftest import GIB, ROOT, stage_dir

TOOLS = ROOT / ".cache" / "tools"


def need(program):
    path = shutil.which(str(program))
    if not path:
        pytest.skip(f"{program} is not installed: ./dev deps clients")
    return path


def unpacked(name):
    found = [p for p in (TOOLS / name).rglob(name) if p.is_file() and os.access(p, os.X_OK)]
    if not found:
        pytest.skip(f"{name} is not unpacked: ./dev deps clients")
    return found[0]


def module(name):
    return pytest.importorskip(name, reason=f"python module {name} is not installed: ./dev deps clients")


def ffmpeg(size, *filters):
    chain = ",".join(["format=yuv420p", *filters])
    return ["ffmpeg", "-v", "error", "-init_hw_device", "cuda=cu:0", "-filter_hw_device", "cu", "-f", "lavfi",
            "-i", f"testsrc=s={size}:d=0.2", "-vf", chain, "-f", "md5", "-"]


def test_ffmpeg_result_is_what_it_is_without_cuda(sim):
    need("ffmpeg")
    plain = sim.run("ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc=s=320x240:d=0.2", "-vf", "format=yuv420p",
                    "-f", "md5", "-")
    held = sim.held(["--memory", "256Mi"], *ffmpeg("320x240", "hwupload_cuda", "hwdownload", "format=yuv420p"))
    assert held.returncode == 0, held.stderr
    assert held.stdout == plain.stdout


def test_ffmpeg_is_refused_beyond_its_limit(sim):
    need("ffmpeg")
    held = sim.held(["--memory", "8Mi"], *ffmpeg("3840x2160", "hwupload_cuda", "hwdownload", "format=yuv420p"))
    assert held.returncode == 1
    assert re.search(r"cuMemAlloc\(&data, size\) failed -> CUDA_ERROR_OUT_OF_MEMORY", held.stderr)


def test_ffmpeg_scales_on_the_card(sim):
    need("ffmpeg")
    held = sim.held(["--memory", "256Mi"],
                    *ffmpeg("320x240", "hwupload_cuda", "scale_cuda=160:120", "hwdownload", "format=yuv420p"))
    assert held.returncode == 0, held.stderr


def test_nvidia_ml_py_sees_the_limit(sim):
    module("pynvml")
    code = """
import pynvml as n
n.nvmlInit()
h = n.nvmlDeviceGetHandleByIndex(0)
a, b = n.nvmlDeviceGetMemoryInfo(h), n.nvmlDeviceGetMemoryInfo(h, version=n.nvmlMemory_v2)
print(a.total, a.used + a.free == a.total, b.total, b.used + b.free == b.total, b.reserved)
"""
    held = sim.held(["--memory", "2Gi"], sys.executable, "-c", code)
    assert held.stdout.split() == [str(2 * GIB), "True", str(2 * GIB), "True", "0"], held.stderr


HOLD = """
import os, sys, time
from cuda.bindings import driver as d
d.cuInit(0); d.cuCtxSetCurrent(d.cuDevicePrimaryCtxRetain(0)[1])
assert d.cuMemAlloc(512 << 20)[0] == 0
"""


def test_nvidia_smi_shows_limit_and_use_of_the_slice(sim):
    module("cuda.bindings")
    smi = unpacked("nvidia-smi")
    code = HOLD + f"""
import subprocess
subprocess.run([{str(smi)!r}, "--query-gpu=memory.total,memory.used", "--format=csv,noheader,nounits"], check=True)
"""
    held = sim.held(["--memory", "2Gi"], sys.executable, "-c", code)
    assert held.stdout.strip() == "2048, 512", held.stderr


def test_gpustat_lists_only_the_slice(sim):
    module("gpustat")
    module("cuda.bindings")
    outside = subprocess.Popen([sys.executable, "-c", HOLD + "print('up', flush=True); input()"], env=sim.env(),
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert outside.stdout.readline() == "up\n"
        code = HOLD + "import subprocess; subprocess.run([sys.executable, '-m', 'gpustat', '--json'], check=True)"
        held = sim.held(["--memory", "2Gi"], sys.executable, "-c", code)
        assert held.returncode == 0, held.stderr
        card = json.loads(held.stdout)["gpus"][0]
        assert (card["memory.total"], card["memory.used"]) == (2048, 512)
        assert [p["gpu_memory_usage"] for p in card["processes"]] == [512]
        assert outside.pid not in [p["pid"] for p in card["processes"]]
    finally:
        outside.communicate("\n", timeout=30)


def test_nvitop_shows_limit(sim):
    module("nvitop")
    module("cuda.bindings")
    code = HOLD + "import subprocess; subprocess.run([sys.executable, '-m', 'nvitop', '-1'], check=True)"
    held = sim.held(["--memory", "2Gi"], sys.executable, "-c", code)
    assert held.returncode == 0, held.stderr
    text = re.sub(r"\x1b\[[0-9;]*m", "", held.stdout)
    assert re.search(r"512(\.0)?MiB / 2(\.00|048)(GiB|MiB)|512(\.0)?MiB / 2048MiB|512(\.0)?MiB / 2\.00GiB", text), text


def test_nvtop_shows_limit(sim):
    nvtop = unpacked("nvtop")
    pid, fd = pty.fork()
    if pid == 0:
        os.execve(stage_dir() / "bin" / "gpuslice",
                  ["gpuslice", "run", "--memory", "2Gi", "--", str(nvtop), "-d", "1"],
                  sim.env(TERM="xterm", LINES=40, COLUMNS=120))
    text = b""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and b"2.000Gi" not in text:
        try:
            text += os.read(fd, 65536)
        except OSError:
            break
    try:
        os.write(fd, b"q")
    except OSError:
        pass
    status = os.waitpid(pid, 0)[1]
    assert b"/2.000Gi" in text, text[-2000:]
    assert os.waitstatus_to_exitcode(status) == 0


def test_cuda_bindings_out_of_memory_is_the_drivers_own(sim):
    module("cuda.bindings")
    code = """
from cuda.bindings import driver as d
d.cuInit(0); d.cuCtxSetCurrent(d.cuDevicePrimaryCtxRetain(0)[1])
print(d.cuMemAlloc(1 << 40)[0].name, d.cuMemGetInfo()[2], d.cuDeviceTotalMem(0)[1])
err, p = d.cuMemAlloc(1 << 30); print(err.name, d.cuMemGetInfo()[1])
print(d.cuMemAlloc((1 << 30) + 1)[0].name, d.cuMemAlloc(1 << 30)[0].name, d.cuMemAlloc(1)[0].name)
"""
    held = sim.held(["--memory", "2Gi"], sys.executable, "-c", code)
    assert held.stdout.splitlines() == [
        f"CUDA_ERROR_OUT_OF_MEMORY {2 * GIB} {2 * GIB}",
        f"CUDA_SUCCESS {GIB}",
        "CUDA_ERROR_OUT_OF_MEMORY CUDA_SUCCESS CUDA_ERROR_OUT_OF_MEMORY"], held.stderr


def test_cuda_core_pools_vmm_and_graphs_are_held(sim):
    module("cuda.core")
    code = """
from cuda.core import Device
dev = Device(); dev.set_current(); s = dev.create_stream()
def attempt(n):
    try:
        b = dev.allocate(n, stream=s); b.close(s); s.sync(); return "granted"
    except Exception as e:
        return str(e).split(":")[0]
print(attempt(1 << 30), attempt(3 << 30), attempt(1 << 42))
"""
    held = sim.held(["--memory", "2Gi"], sys.executable, "-c", code)
    assert held.returncode == 0, held.stderr
    assert held.stdout.split() == ["granted", "CUDA_ERROR_OUT_OF_MEMORY", "CUDA_ERROR_OUT_OF_MEMORY"]


def hashcat_files(folder):
    (folder / "hash").write_text(hashlib.md5(b"not in the list").hexdigest() + "\n")
    (folder / "words").write_text("".join(f"word{i}\n" for i in range(100)))
    return folder / "hash", folder / "words"


def nvrtc_folder(folder):
    nvidia = module("nvidia.cuda_nvrtc")
    lib = next(pathlib.Path(nvidia.__path__[0]).glob("lib/libnvrtc.so.1*"))
    # hashcat opens the unversioned name only, and leaves CUDA out silently where it is missing.
    (folder / "libnvrtc.so").symlink_to(lib)
    return f"{folder}:{lib.parent}"


@pytest.mark.parametrize("limit", ["512Mi", "2Gi"])
def test_hashcat_sizes_itself_to_the_limit(sim, tmp_path, limit):
    need("hashcat")
    hashes, words = hashcat_files(tmp_path)
    path = f"{sim.lib}:{nvrtc_folder(tmp_path)}"
    home = tmp_path / "home"
    home.mkdir()
    held = sim.held(["--memory", limit], "hashcat", "-m", "0", "-a", "0", "--backend-ignore-hip",
                    "--backend-ignore-opencl", "--potfile-disable", "--self-test-disable", "-w", "1", hashes, words,
                    LD_LIBRARY_PATH=path, HOME=home, XDG_CACHE_HOME=home, XDG_DATA_HOME=home, timeout=240)
    assert "Exhausted" in held.stdout, held.stdout + held.stderr
    assert held.returncode == 1
    megabytes = {"512Mi": 512, "2Gi": 2048}[limit]
    assert re.search(rf"\d+/{megabytes} MB", held.stdout), held.stdout


def test_numba_is_refused_beyond_its_limit(sim):
    module("numba.cuda")
    code = """
from numba import cuda
import numpy as np
print(cuda.current_context().get_memory_info().total)
a = cuda.to_device(np.arange(1000)); print(int(a.copy_to_host().sum()))
try:
    cuda.device_array(3 << 30, dtype=np.uint8)
except Exception as e:
    print("OUT_OF_MEMORY" in str(e))
"""
    held = sim.held(["--memory", "2Gi"], sys.executable, "-c", code)
    assert held.stdout.split() == [str(2 * GIB), "499500", "True"], held.stderr


def test_a_limit_holds_over_all_processes_of_a_slice(sim):
    module("cuda.bindings")
    code = HOLD + """
import subprocess
if len(sys.argv) < 5:
    print(subprocess.run([sys.executable, "-c", os.environ["CODE"], *sys.argv[1:], "x"], text=True,
                         stdout=subprocess.PIPE).stdout.strip(), d.cuMemGetInfo()[1] // (1 << 20))
else:
    print(d.cuMemAlloc(1 << 20)[0].name)
"""
    held = sim.held(["--memory", "2Gi"], sys.executable, "-c", code, "a", CODE=code)
    # Four processes take 512 MiB each and fill 2 GiB exactly; the last one's extra MiB is refused. As they
    # end one after the other, each parent sees one share more free.
    assert held.stdout.split() == ["CUDA_ERROR_OUT_OF_MEMORY", "512", "1024", "1536"], held.stdout + held.stderr
