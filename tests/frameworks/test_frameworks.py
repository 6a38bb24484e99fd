"""PyTorch and CuPy, unmodified, under a memory limit on simulated cards.

torch 1.12.1 runs over its own real CUDA runtime 10.2; newer ones and CuPy over the simulator's thin
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


@pytest.mark.parametrize("conf", ["", "expandable_segments:True"])
def test_torch_2(sim, conf):
    seen = run(sim, [need("torch2") / "bin" / "python"], "torch_client.py", cudart=12, PYTORCH_CUDA_ALLOC_CONF=conf)
    assert seen["available"] and seen["properties_total"] == LIMIT
    check_memory(seen, "CUDA out of memory")


def test_torch_2_malloc_async(sim):
    seen = run(sim, [need("torch2") / "bin" / "python"], "torch_client.py", cudart=12,
               PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync")
    check_memory(seen, "Allocation on device")


@pytest.mark.parametrize("pool", ["default", "async"])
def test_cupy(sim, pool):
    cupy = need("cupy")
    # CuPy's wheel expects cuBLAS and its kin on the path; PyTorch's wheels bring them. Never their cudart.
    kin = [str(p) for p in need("torch2").glob("lib/python*/site-packages/nvidia/*/lib") if p.parent.name != "cuda_runtime"]
    seen = run(sim, [cupy / "bin" / "python"], "cupy_client.py", pool, cudart=12,
               LD_LIBRARY_PATH=":".join([str(sim.lib), *kin]))
    check_memory(seen, "memory")
