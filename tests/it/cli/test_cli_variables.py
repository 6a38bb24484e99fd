"""Programs that variables alone limit: the default ledger of their user is shown, and promised, like a slice."""

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
def gpuslice(*command):
    return subprocess.run(["env", "-u", "LD_PRELOAD", "gpuslice", *command], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)
for command in (["top", "--json"], ["top", "--once"], ["ls", "--json"], ["ls"], ["ls", "-q"]):
    print(gpuslice(*command).stdout, end="\\0")
for option in ("--memory=8Gi", "--cores=71"):
    print(gpuslice("run", "--device=0", option, "true").stderr, end="\\0")
for option in ("--memory=7Gi", "--cores=70"):
    print(gpuslice("run", "--device=0", option, "true").returncode, end="\\0")
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
    top, text, ls, table, names, whole, much, fits, cores, _ = out.stdout.split("\0")
    s, = json.loads(top)["slices"]
    d, = s["devices"]
    assert (s["name"], s["state"]) == ("(variables)", "running")
    assert (d["limit_bytes"], d["used_bytes"], d["core_limit_pct"], d["policy"]) == (1024 * MIB, 64 * MIB, 30, "fixed")
    assert [(p["used_bytes"], p["held"]) for p in s["processes"]] == [(64 * MIB, True)]
    assert "(variables)" in text and "Outside any slice" not in text
    assert [s["name"] for s in json.loads(ls)["slices"]] == ["(variables)"]
    row = table.splitlines()[1].split()
    assert row[0] == "(variables)" and row[-1] == "-" and names == ""  # what `rm` and `resize` take
    # 8 GiB, of which 1 GiB is promised by variables, and 30 % of the compute
    assert "are promised to 1 slice ('(variables)')" in whole and "(variables)' 30 %" in much, whole + much
    assert (fits, cores) == ("0", "0")
