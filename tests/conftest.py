"""Fixtures every Python test shares: the staged tree, and simulated cards of the test's own."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
MIB = 1 << 20
GIB = 1 << 30


def stage_dir() -> pathlib.Path:
    """The install tree under test: $GS_STAGE, else build/stage."""
    return pathlib.Path(os.environ.get("GS_STAGE", ROOT / "build" / "stage"))


def build_dir() -> pathlib.Path:
    """The Meson build folder with the test programs: $GS_BUILD, else build/release."""
    return pathlib.Path(os.environ.get("GS_BUILD", ROOT / "build" / "release"))


class Sim:
    """One set of simulated cards. `run` starts a program on them, `held` under a slice's limit too."""

    def __init__(self, folder: pathlib.Path, **config):
        self.folder = folder
        self.lib = stage_dir() / "lib" / "gpuslice" / "sim" / "nvidia"
        self.hook = stage_dir() / "lib" / "gpuslice" / "libvgpu.so"
        self.config = {f"GPUSLICE_SIM_{k.upper()}": str(v) for k, v in config.items()}
        self.cards = folder / "cards-of-test"
        self.cards.mkdir(parents=True)
        self.runtime = folder / "run"
        self.runtime.mkdir(mode=0o700)

    def env(self, **extra) -> dict:
        """Environment with the simulated drivers in place of real ones; no hook."""
        env = {k: v for k, v in os.environ.items() if not k.startswith(("GPUSLICE_", "CUDA_", "HAMI_"))}
        env.pop("LD_PRELOAD", None)
        env["GPUSLICE_SIM_DIR"] = str(self.cards)
        env["LD_LIBRARY_PATH"] = str(self.lib)
        env["XDG_RUNTIME_DIR"] = str(self.runtime)
        env["PATH"] = f"{stage_dir() / 'bin'}:{env['PATH']}"
        env.update(self.config)
        env.update({k: str(v) for k, v in extra.items() if v is not None})
        return env

    def hook_env(self, limit, ledger="slice.cache", **extra) -> dict:
        """Environment of a slice as HAMi's device plugin would set it: limit as bytes or text."""
        return self.env(
            LD_PRELOAD=str(self.hook),
            CUDA_DEVICE_MEMORY_LIMIT=limit,
            CUDA_DEVICE_MEMORY_SHARED_CACHE=str(self.folder / ledger),
            GPUSLICE_SIM_GROUP=ledger,
            **extra,
        )

    def run(self, *cmd, env=None, timeout=120, **kw) -> subprocess.CompletedProcess:
        return subprocess.run(
            [str(c) for c in cmd], env=env or self.env(), timeout=timeout, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kw)

    def python(self, code, env=None, timeout=120) -> subprocess.CompletedProcess:
        return self.run(sys.executable, "-c", code, env=env, timeout=timeout)

    def held(self, options, *cmd, timeout=120, **extra) -> subprocess.CompletedProcess:
        """`gpuslice run OPTIONS -- CMD` on these cards."""
        return self.run(stage_dir() / "bin" / "gpuslice", "run", *options, "--", *cmd,
                        env=self.env(**extra), timeout=timeout)

    def status(self) -> dict:
        """What the cards themselves say: the independent witness."""
        out = self.run(stage_dir() / "bin" / "gpuslice-sim", "status", "--json")
        assert out.returncode == 0, out.stderr
        return json.loads(out.stdout)


@pytest.fixture
def make_sim():
    """Factory: make_sim(cards=2, memory='8Gi', mode='zero-cost', ...)."""
    if not stage_dir().is_dir():
        pytest.fail(f"no staged tree at {stage_dir()}: run ./dev build first")
    base = pathlib.Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else pathlib.Path(tempfile.gettempdir())
    made = []

    def make(**config):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="gpuslice-test-", dir=base))
        made.append(folder)
        return Sim(folder, **config)

    yield make
    for folder in made:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def sim(make_sim):
    """One 8 GiB card."""
    return make_sim(cards=1, memory="8Gi")
