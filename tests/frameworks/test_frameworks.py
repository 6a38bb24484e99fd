"""PyTorch, CuPy and TensorFlow, unmodified, under a memory limit on simulated cards (docs/frameworks.md).

torch 1.12.1 runs over its own real CUDA runtime 10.2; newer ones, CuPy and TensorFlow over the simulator's thin
libcudart.so.12, since NVIDIA's runtime from 11.2 on checks that the driver is NVIDIA's.
"""

import json
import pathlib
import subprocess

import pytest

from conftest import ROOT, stage_dir

HERE = pathlib.Path(__file__).parent
BASE = ROOT / ".cache" / "frameworks"
LIMIT = 2 << 30


def run(sim, python, script, *args, cudart=None, **extra):
    env = sim.env(**extra)
    if cudart:
        env["LD_PRELOAD"] = str(sim.lib / f"libcudart.so.{cudart}")
    done = subprocess.run(
        [stage_dir() / "bin" / "gpuslice", "run", "--memory", str(LIMIT), "--", *python, HERE / script, str(LIMIT), *args],
        env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def need(name):
    if not (BASE / name / ".done").exists():
        pytest.skip(f"{name} is not installed: tests/frameworks/install.sh {name}")
    return BASE / name


def check_memory(seen, oom_text):
    assert seen["total"] == LIMIT
    assert seen["beyond"] and oom_text in seen["beyond"]
    assert seen["second_with_first_alive"] and oom_text in seen["second_with_first_alive"]
    assert seen["second_after_free"] >= LIMIT * 6 // 10
    assert seen["round_trip"]


def test_torch_1_12_over_real_cudart_10_2(sim):
    torch, py = need("torch1.12"), need("python3.9")
    lib = py / "usr" / "lib"
    seen = run(sim, [py / "usr" / "bin" / "python3.9"], "torch_client.py", PYTHONHOME=py / "usr", PYTHONPATH=torch,
               LD_LIBRARY_PATH=f"{sim.lib}:{lib / 'x86_64-linux-gnu'}:{py / 'lib' / 'x86_64-linux-gnu'}")
    assert seen["available"] and seen["properties_total"] == LIMIT
    check_memory(seen, "CUDA out of memory")
    # The real cuBLAS 10.2 opens, launches and reports no error; simulated cards run no kernel, so its values say nothing.
    assert seen["matmul"] == [64, 64]


@pytest.mark.parametrize("conf", ["", "expandable_segments:True"])
def test_torch_2(sim, conf):
    seen = run(sim, [need("torch2") / "bin" / "python"], "torch_client.py", cudart=12, PYTORCH_CUDA_ALLOC_CONF=conf)
    assert seen["available"] and seen["properties_total"] == LIMIT
    check_memory(seen, "CUDA out of memory")


def test_torch_2_malloc_async(sim):
    seen = run(sim, [need("torch2") / "bin" / "python"], "torch_client.py", cudart=12,
               PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync")
    check_memory(seen, "Allocation on device")


def kin():
    """cuBLAS, cuDNN and the like, as PyTorch's wheels bring them. Never their cudart."""
    return [str(p) for p in need("torch2").glob("lib/python*/site-packages/nvidia/*/lib") if p.parent.name != "cuda_runtime"]


def test_torch_2_stops_at_cublas(sim):
    seen = run(sim, [need("torch2") / "bin" / "python"], "torch_client.py", cudart=12)
    assert "CUBLAS_STATUS_NOT_INITIALIZED" in seen["matmul"] and "cublasCreate" in seen["matmul"]


@pytest.mark.parametrize("pool", ["default", "async"])
def test_cupy(sim, pool):
    seen = run(sim, [need("cupy") / "bin" / "python"], "cupy_client.py", pool, cudart=12,
               LD_LIBRARY_PATH=":".join([str(sim.lib), *kin()]))
    check_memory(seen, "memory")
    assert seen["array_host"] and seen["array_device"] and seen["array_image"] and seen["objects"]
    assert seen["channel"] == {"x": 32, "y": 0, "z": 0, "w": 0, "f": 2}
    told = seen["texture"]
    assert told["addressMode"] == [3, 3, 3] and told["filterMode"] == 1 and told["readMode"] == 1
    assert told["borderColor"] == [0.25, 0.5, 0.75, 1.0] and told["normalizedCoords"] == 1 and told["maxAnisotropy"] == 4


def tensorflow(sim, mode, first=None, **extra):
    # TensorFlow opens libcudart.so.12 by name: the first in the search path serves it.
    first = first or [sim.lib]
    seen = run(sim, [need("tensorflow") / "bin" / "python"], "tensorflow_client.py", mode,
               LD_LIBRARY_PATH=":".join([*map(str, first), *kin()]), **extra)
    assert seen["gpus"] == ["/physical_device:GPU:0"]
    assert seen["cudart"] == [str((first[-1] / "libcudart.so.12").resolve())]
    return seen


@pytest.mark.parametrize("allocator,name", [("", "GPU_0_bfc"), ("cuda_malloc_async", "gpu_async_0")])
def test_tensorflow_memory(sim, allocator, name):
    seen = tensorflow(sim, "memory", TF_GPU_ALLOCATOR=allocator, TF_FORCE_GPU_ALLOW_GROWTH="true")
    for refused in ("beyond", "second_with_first_alive"):
        assert seen[refused].startswith("ResourceExhaustedError") and name in seen[refused]
    assert LIMIT * 6 // 10 - 4 <= seen["first"] < LIMIT * 6 // 10 + (2 << 20)
    free, total = seen["driver_free"]
    assert total == LIMIT and free <= LIMIT - seen["first"]
    assert seen["second_after_free"] == LIMIT * 6 // 10 // 4 * 4
    assert seen["device"].endswith("GPU:0") and seen["round_trip"]


def test_tensorflow_plans_with_the_slice_not_the_card(sim):
    # It leaves 1536 MiB of a card of compute capability 8.0 and takes the rest: gpu_device.cc, MinSystemMemory.
    assert tensorflow(sim, "default")["memory_limit"] == [LIMIT - (1536 << 20)]


def test_tensorflow_stops_at_cublas(sim):
    assert "No blas support for stream" in tensorflow(sim, "matmul")["matmul"]


def test_tensorflow_over_real_cudart_stops_at_the_first_runtime_call(sim, tmp_path):
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        (tmp_path / name).symlink_to(sim.lib / name)
    real = next(need("torch2").glob("lib/python*/site-packages/nvidia/cuda_runtime/lib"))
    seen = tensorflow(sim, "default", first=[tmp_path, real])
    assert seen["error"] == "cudaGetDevice() failed. Status: named symbol not found"
