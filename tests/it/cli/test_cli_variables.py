"""gpuslice top and programs that variables alone limit: the default ledger of their user is shown like a slice."""

import json
import os
import shutil
import subprocess

import pytest

from conftest import MIB

CLIENT = """
import ctypes as C, subprocess, sys
c, ctx, p = C.CDLL("libcuda.so.1"), C.c_void_p(), C.c_uint64()
assert c.cuInit(0) == 0
assert c.cuDevicePrimaryCtxRetain(C.byref(ctx), 0) == 0 and c.cuCtxSetCurrent(ctx) == 0
assert c.cuMemAlloc_v2(C.byref(p), C.c_size_t(64 << 20)) == 0
for command in (["top", "--json"], ["top", "--once"], ["ls", "--json"]):
    print(subprocess.run(["env", "-u", "LD_PRELOAD", "gpuslice", *command], stdout=subprocess.PIPE, check=True,
                         text=True).stdout, end="\\0")
"""


def own_folder():
    """A mount namespace, so that the user's default folder in /tmp, and with it the default ledger, are the test's own."""
    wrap = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "--map-root-user"]
    script = 'd=/tmp/gpuslice-$(id -u) && mkdir -p -m 0700 "$d" && mount -t tmpfs -o mode=0700 none "$d" && exec "$@"'
    wrap += ["sh", "-c", script, "sh"]
    if not shutil.which("unshare") or subprocess.run([*wrap, "true"], stderr=subprocess.DEVNULL).returncode != 0:
        pytest.skip("needs a mount namespace")
    return wrap


def test_top_shows_the_default_ledger_of_programs_that_variables_limit(sim):
    env = sim.hook_env("1g", CUDA_DEVICE_SM_LIMIT="30")
    del env["CUDA_DEVICE_MEMORY_SHARED_CACHE"]
    wrap = own_folder()
    out = sim.run(*wrap, "python3", "-c", CLIENT, env=env)
    assert out.returncode == 0, out.stderr
    top, text, ls, _ = out.stdout.split("\0")
    s, = json.loads(top)["slices"]
    d, = s["devices"]
    assert (s["name"], s["state"]) == ("(variables)", "running")
    assert (d["limit_bytes"], d["used_bytes"], d["core_limit_pct"], d["policy"]) == (1024 * MIB, 64 * MIB, 30, "fixed")
    assert [(p["used_bytes"], p["held"]) for p in s["processes"]] == [(64 * MIB, True)]
    assert "(variables)" in text and "Outside any slice" not in text
    assert json.loads(ls)["slices"] == []  # `ls` names what `rm` and `resize` take
