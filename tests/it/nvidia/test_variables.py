"""Programs limited by HAMi's variables alone: no `gpuslice run`, no quota file."""

import subprocess
import sys

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
