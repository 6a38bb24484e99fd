"""Programs limited by HAMi's variables alone: no `gpuslice run`, no quota file."""

import os
import shutil
import subprocess
import sys

import pytest

CLIENT = """
import ctypes as C
import sys
cuda = C.CDLL("libcuda.so.1")
assert cuda.cuInit(0) == 0
n, ctx, p = C.c_int(), C.c_void_p(), C.c_uint64()
assert cuda.cuDeviceGetCount(C.byref(n)) == 0
codes = [n.value, cuda.cuDevicePrimaryCtxRetain(C.byref(ctx), 0)]
if codes[1] == 0:
    assert cuda.cuCtxSetCurrent(ctx) == 0
    codes += [cuda.cuMemAlloc_v2(C.byref(p), C.c_size_t(m << 20)) for m in (16, 64)]
print(*codes, flush=True)
sys.stdin.read()
"""
HELD = "1 0 0 2\n"  # one card; a context; 16 MiB are given, 64 MiB more are not
CLOSED = "1 2\n"    # the card is there, and there is no context on it


def on_other_cards(make_sim, sim, **extra):
    """The same variables on cards of another machine."""
    other = make_sim(cards=1, memory="8Gi")
    return other.env(**{k: v for k, v in sim.hook_env("64m", **extra).items()
                        if k.startswith(("CUDA_", "LD_PRELOAD"))})


def start(env):
    return subprocess.Popen([sys.executable, "-c", CLIENT], env=env, text=True, stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE)


def test_a_ledger_of_other_cards_is_made_anew(make_sim, sim):
    """What an earlier run on other cards left does not close the next one, which is held in full."""
    other = on_other_cards(make_sim, sim)
    first, second = sim.python(CLIENT, env=sim.hook_env("64m")), sim.python(CLIENT, env=other)
    assert (first.stdout, second.stdout) == (HELD, HELD), first.stderr + second.stderr
    assert [p.name for p in sim.folder.iterdir() if p.name.startswith("slice.cache")] == ["slice.cache"]


def test_a_ledger_of_other_cards_in_use_is_refused(make_sim, sim):
    log = sim.folder / "log"
    other = on_other_cards(make_sim, sim)
    first = start(sim.hook_env("64m"))
    assert first.stdout.readline() == HELD
    assert sim.python(CLIENT, env={**other, "GPUSLICE_LOG": str(log)}).stdout.split()[-1] == "2"
    assert "was made for other devices" in log.read_text()
    first.communicate()
    assert sim.python(CLIENT, env=other).stdout == HELD


def without(env, *names, **more):
    """The environment with some variables gone and some added."""
    return {**{k: v for k, v in env.items() if k not in names}, **more}


@pytest.mark.parametrize("variable,value", [
    ("CUDA_DEVICE_SM_LIMIT", "300"), ("CUDA_DEVICE_MEMORY_LIMIT", "1x"),
    ("CUDA_DEVICE_MEMORY_SHARED_CACHE", "/nowhere/x.cache"), ("CUDA_DEVICE_MEMORY_SHARED_CACHE", "relative.cache"),
])
def test_closed_gives_no_context_though_cards_are_listed(sim, variable, value):
    """On these cards a context costs nothing: without a context no kernel runs, whatever it costs."""
    log = sim.folder / "log"
    env = {**sim.hook_env("64m", GPUSLICE_LOG=log), variable: value}
    assert sim.python(CLIENT, env=env).stdout == CLOSED
    lines = log.read_text().splitlines()
    assert variable in lines[0] or value in lines[0], lines
    assert "cuDevicePrimaryCtxRetain: refused, because a context takes memory" in lines[-1], lines


CREATE = """
import ctypes as C
cuda = C.CDLL("libcuda.so.1")
assert cuda.cuInit(0) == 0
ctx, desc, resource = C.c_void_p(), C.c_void_p(), (C.c_ubyte * 512)()
print(cuda.cuCtxCreate_v2(C.byref(ctx), 0, 0), cuda.cuCtxCreate_v3(C.byref(ctx), None, 0, 0, 0),
      cuda.cuCtxCreate_v4(C.byref(ctx), None, 0, 0))
assert cuda.cuDeviceGetDevResource(0, resource, 1) == 0
assert cuda.cuDevResourceGenerateDesc(C.byref(desc), resource, 1) == 0
print(cuda.cuGreenCtxCreate(C.byref(ctx), desc, 0, 1))
"""


def test_closed_gives_no_context_of_any_kind(sim):
    assert sim.python(CREATE, env=sim.hook_env("64m")).stdout.split() == ["0"] * 4
    assert sim.python(CREATE, env=sim.hook_env("1x")).stdout.split() == ["2"] * 4


def test_fail_open_and_a_card_outside_the_grant_have_contexts(make_sim):
    """Neither is the closed state."""
    sim = make_sim(cards=2, memory="8Gi")
    quota = sim.folder / "quota"
    quota.write_text("gpuslice-quota 1\ngeneration 1\nfail open\nnonsense\n")
    env = sim.env(LD_PRELOAD=sim.hook, GPUSLICE_QUOTA_DIR=sim.folder)
    assert sim.python(CLIENT, env=env).stdout == "2 0 0 0\n"
    env = without(sim.hook_env("64m", CUDA_DEVICE_MEMORY_LIMIT_1="64m"), "CUDA_DEVICE_MEMORY_LIMIT")
    assert sim.python(CLIENT, env=env).stdout == "2 0 2 2\n"


def test_a_share_alone_limits_no_memory(sim):
    env = without(sim.hook_env("64m", CUDA_DEVICE_SM_LIMIT="30"), "CUDA_DEVICE_MEMORY_LIMIT")
    assert sim.python(CLIENT, env=env).stdout == "1 0 0 0\n"


def test_without_a_slice_standard_error_says_why(sim):
    """`gpuslice log` has nothing to read there; GPUSLICE_LOG=2 is for that."""
    env = without(sim.hook_env("64m", GPUSLICE_LOG="2"), "CUDA_DEVICE_MEMORY_LIMIT")
    done = sim.python(CLIENT, env=env)
    assert done.stdout == CLOSED
    first = done.stderr.splitlines()[0]
    assert first.startswith("gpuslice[") and "no quota file and no limit variable" in first


def test_the_default_ledger_binds_only_while_somebody_lives_in_it(sim):
    """A user who asks for more the next time gets it; beside a live program the smaller limit counts."""
    wrap = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "--map-root-user"]
    if not shutil.which("unshare") or subprocess.run([*wrap, "true"], stderr=subprocess.DEVNULL).returncode != 0:
        pytest.skip("needs a mount namespace, for a default folder of its own")
    script = """
        d=/tmp/gpuslice-$(id -u); mkdir -p -m 0700 "$d"; mount -t tmpfs -o mode=0700 none "$d"; mkfifo "$2/ready" "$2/end"
        CUDA_DEVICE_MEMORY_LIMIT=32m python3 -c "$1" <"$2/end" >"$2/ready" &
        exec 3>"$2/end"; head -n 1 "$2/ready"
        CUDA_DEVICE_MEMORY_LIMIT=1g python3 -c "$1" </dev/null
        exec 3>&-; wait
        CUDA_DEVICE_MEMORY_LIMIT=1g python3 -c "$1" </dev/null
    """
    env = without(sim.hook_env(None), "CUDA_DEVICE_MEMORY_SHARED_CACHE")
    out = sim.run(*wrap, "sh", "-c", script, "sh", CLIENT, sim.folder, env=env)
    assert out.stdout.splitlines() == ["1 0 0 2", "1 0 0 2", "1 0 0 0"], out.stdout + out.stderr
