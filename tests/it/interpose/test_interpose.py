"""Every way in which a program can reach the driver, and what becomes of the slice's limit there.

A client asks for 256 MiB in a slice of 64 MiB. Verdicts: `enforced` (refused), `told` (granted, but
`gpuslice run` said before the start, or `gpuslice top` says while it runs, that the process is not held),
`escaped` (neither). docs/interposition.md is the table this test makes: GS_UPDATE=1 writes it."""

import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from conftest import ROOT, stage_dir

HERE = pathlib.Path(__file__).resolve().parent
DOC = ROOT / "docs" / "interposition.md"
CC = os.environ.get("CC", "cc")
LIMIT = "64m"
LAZY, NOW, DEEPBIND = 1, 2, 8
SANITIZERS = {"address": "ASan", "thread": "TSan", "undefined": "UBSan"}


def compile_client(out, *args, cc=CC):
    subprocess.run([cc, "-O2", "-D_GNU_SOURCE", "-o", str(out), *map(str, args)], check=True)


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """All clients, built once."""
    if not stage_dir().is_dir():
        pytest.fail(f"no staged tree at {stage_dir()}: run ./dev build first")
    out = tmp_path_factory.mktemp("interpose")
    sim = stage_dir() / "lib" / "gpuslice" / "sim" / "nvidia"
    cuda = sim / "libcuda.so.1"
    program, library = HERE / "client.c", HERE / "plugin.c"
    shared = ["-shared", "-fPIC"]
    compile_client(out / "client", program, "-ldl")
    compile_client(out / "rpath", program, "-ldl", f"-Wl,-rpath,{sim}")
    compile_client(out / "linked", "-DLINKED", program, "-ldl", cuda)
    compile_client(out / "noplt", "-DLINKED", "-fno-plt", program, "-ldl", cuda)
    compile_client(out / "plugin.so", *shared, "-Wl,-soname,plugin.so", library, "-ldl")
    compile_client(out / "plugin_lazy.so", *shared, "-DLINKED", "-Wl,-z,lazy", library, "-ldl", cuda)
    compile_client(out / "plugin_now.so", *shared, "-DLINKED", "-Wl,-z,now,-z,relro", library, "-ldl", cuda)
    compile_client(out / "plugin_noplt.so", *shared, "-DLINKED", "-fno-plt", library, "-ldl", cuda)
    # the library comes before the driver in the program's list, as RTLD_NEXT needs it
    compile_client(out / "second", program, "-ldl", "-Wl,--no-as-needed", "-Wl,-rpath,$ORIGIN",
                   out / "plugin.so", cuda)
    compile_client(out / "static", "-static-pie", program)
    for kind in SANITIZERS:
        compile_client(out / kind, "-g", f"-fsanitize={kind}", program, "-ldl", cc="clang")
    if shutil.which("musl-gcc"):
        compile_client(out / "musl", HERE / "hello.c", cc="musl-gcc")
    versioned = out / "versioned"
    versioned.mkdir()
    (out / "fake.map").write_text("FAKE_1.0 { global: cu*; local: *; };\n")
    compile_client(versioned / "libcuda.so.1", *shared, HERE / "fake_cuda.c",
                   "-Wl,-soname,libcuda.so.1", f"-Wl,--version-script={out / 'fake.map'}")
    compile_client(out / "libmock.so", *shared, HERE / "fake_cuda.c", "-Wl,-soname,libmock.so")
    script = out / "chain.sh"
    script.write_text('#!/bin/sh\nexec sh -c \'"$0" "$@"\' "$@"\n')
    script.chmod(0o755)
    return out


PYTHON = """
import ctypes
cu = ctypes.CDLL("libcuda.so.1")
device, ctx, ptr = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
assert cu.cuInit(0) == 0 and cu.cuDeviceGet(ctypes.byref(device), 0) == 0
assert cu.cuDevicePrimaryCtxRetain(ctypes.byref(ctx), device) == 0 and cu.cuCtxSetCurrent(ctx) == 0
alloc = cu.cuMemAlloc_v2
assert alloc(ctypes.byref(ptr), ctypes.c_size_t(16 << 20)) == 0
print({0: "escaped", 2: "held"}[alloc(ctypes.byref(ptr), ctypes.c_size_t(256 << 20))])
"""


@dataclasses.dataclass
class Case:
    """One row. `command` gets the folder of clients; `lib` names a folder in it that takes the place of
    the simulated driver's."""

    name: str
    command: object
    lib: str = ""


def client(mode, program="client"):
    return lambda d: [d / program, mode]


def plugin(file, flags, function):
    return lambda d: [d / "client", "plugin", d / file, flags, function]


ENFORCED = [
    Case("linked to the driver", client("linked", "linked")),
    Case("linked with `-fno-plt`", client("linked", "noplt")),
    Case("function pointers in static data", client("pointers", "linked")),
    Case("`dlopen` + `dlsym`", client("dlsym")),
    Case("`dlsym` of the C library's own handle", client("dlsym-of-libc")),
    Case("`dlsym(RTLD_NEXT, \"dlsym\")`", client("dlsym-next")),
    Case("`dlvsym` of `dlsym`", client("dlvsym-dlsym")),
    Case("`dlvsym` of a driver function with a version", client("dlvsym"), "versioned"),
    Case("`dlvsym(RTLD_DEFAULT)`", client("dlvsym-default"), "versioned"),
    Case("`dlsym(RTLD_DEFAULT)`", client("default")),
    Case("`dlsym` of the program's handle", client("main-handle")),
    Case("`dlsym(RTLD_NEXT)` from a second library",
         lambda d: [d / "second", "plugin", "plugin.so", NOW, "plugin_next"]),
    Case("`dlsym(RTLD_NEXT)` from a plugin", plugin("plugin_now.so", LAZY, "plugin_next")),
    Case("`cuGetProcAddress`", client("proc-address")),
    Case("`cuGetProcAddress_v2`", client("proc-address-v2")),
    Case("`cuGetProcAddress` of itself", client("proc-address-self")),
    Case("plugin, `RTLD_LOCAL`, linked to the driver", plugin("plugin_lazy.so", LAZY, "plugin_linked")),
    Case("`RTLD_DEEPBIND`, bound lazily", plugin("plugin_lazy.so", LAZY | DEEPBIND, "plugin_linked")),
    Case("`RTLD_DEEPBIND`, bound at once", plugin("plugin_now.so", NOW | DEEPBIND, "plugin_linked")),
    Case("`RTLD_DEEPBIND`, `-fno-plt`", plugin("plugin_noplt.so", LAZY | DEEPBIND, "plugin_linked")),
    Case("`RTLD_DEEPBIND`, function pointers in static data",
         plugin("plugin_now.so", NOW | DEEPBIND, "plugin_pointers")),
    Case("`RTLD_DEEPBIND`, the plugin's own `dlsym`, lazily",
         plugin("plugin_lazy.so", LAZY | DEEPBIND, "plugin_lookup")),
    Case("`RTLD_DEEPBIND`, the plugin's own `dlsym`, at once",
         plugin("plugin.so", NOW | DEEPBIND, "plugin_lookup")),
    Case("`fork` without `exec`", client("fork")),
    Case("`fork` after the hook has started", client("fork-started")),
    Case("`vfork` + `exec`", client("vfork")),
    Case("`posix_spawn`", client("spawn")),
    Case("shell script, shell, program", lambda d: [d / "chain.sh", d / "client", "dlsym"]),
    # clang links these runtimes into the program, where they interpose half of the C library and look up the rest
    *(Case(f"{name} linked into the program", client("dlsym", kind)) for kind, name in SANITIZERS.items()),
    Case("shell, Python, ctypes", lambda d: ["sh", "-c", '"$0" -c "$1"', sys.executable, PYTHON]),
]


def need_root():
    if os.geteuid() != 0:
        pytest.skip("needs root to make the case")


def setuid_copy(folder):
    """A setuid program of another user: for us the loader runs it in secure mode."""
    need_root()
    copy = folder / "setuid"
    shutil.copy(folder / "rpath", copy)
    os.chown(copy, 65534, 65534)
    copy.chmod(0o4755)
    return [copy, "dlsym"]


def musl_client(folder):
    if not (folder / "musl").exists():
        pytest.skip("musl-gcc is not installed")
    return [folder / "musl"]


def su(folder):
    need_root()
    return ["su", "-", "root", "-s", "/bin/sh", "-c",
            f"GPUSLICE_SIM_DIR='{os.environ['GS_TEST_CARDS']}' '{folder / 'rpath'}' dlsym"]


def cleared(folder):
    return ["env", "-i", f"GPUSLICE_SIM_DIR={os.environ['GS_TEST_CARDS']}", "GS_LINGER=1",
            folder / "rpath", "dlsym"]


# row, what `gpuslice run` must say before the start (None: only `top` can know)
TOLD = [
    (Case("`dlmopen`", client("dlmopen")), None),
    (Case("static-pie", client("dlsym", "static")), "statically linked"),
    (Case("musl", musl_client), "musl"),
    (Case("`env -i`", cleared), "clears the environment"),
    (Case("`su -`", su), "su"),
    (Case("setuid", setuid_copy), "setuid"),
]

table = {}


def verdict_of(text):
    words = text.split()
    return words[-1] if words else "nothing"


@pytest.mark.parametrize("case", ENFORCED, ids=lambda c: c.name)
def test_enforced(case, built, sim):
    """Also that the way is a real one: without the hook it leads to the driver."""
    command = case.command(built)
    libs = built / case.lib if case.lib else sim.lib
    bare = sim.run(*command, env=sim.env(LD_LIBRARY_PATH=libs))
    assert verdict_of(bare.stdout) == "escaped", bare.stdout + bare.stderr
    held = sim.run(*command, env=sim.hook_env(LIMIT, LD_LIBRARY_PATH=libs))
    table[case.name] = "enforced" if verdict_of(held.stdout) == "held" else verdict_of(held.stdout)
    assert table[case.name] == "enforced", held.stdout + held.stderr


@contextlib.contextmanager
def lingering(sim, command):
    """The client under `gpuslice run`, waiting after its verdict until its input ends. Gives what it
    printed."""
    run = subprocess.Popen(
        [str(stage_dir() / "bin" / "gpuslice"), "run", "--memory", "64Mi", "--", *map(str, command)],
        env=sim.env(GS_LINGER="1"), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield run.stdout.readline()
    finally:
        run.stdin.close()
        run.wait(timeout=30)
        run.stdout.close()


def top_tells(sim):
    """Does `gpuslice top` show a process of a slice that is not held?"""
    top = sim.run(stage_dir() / "bin" / "gpuslice", "top", "--once", "--json")
    assert top.returncode == 0, top.stderr
    return any(not p["held"] for s in json.loads(top.stdout)["slices"] for p in s["processes"])


@pytest.mark.parametrize("case,before", TOLD, ids=[c.name for c, _ in TOLD])
def test_told(case, before, built, sim, monkeypatch):
    monkeypatch.setenv("GS_TEST_CARDS", str(sim.cards))
    command = case.command(built)
    if before is not None:
        run = sim.run(stage_dir() / "bin" / "gpuslice", "run", "--memory", "64Mi", "--", *command,
                      stdin=subprocess.DEVNULL)
        assert before in run.stderr, run.stdout + run.stderr
        table[case.name] = "told before the start"
    if case.name in ("`dlmopen`", "`env -i`"):
        with lingering(sim, command) as line:
            assert verdict_of(line) == "escaped"
            assert top_tells(sim)
        table[case.name] = (table[case.name] + " and by `top`") if before else "told by `top`"


def test_absent_driver_stays_absent(built, sim):
    """Look-ups find no driver function where no driver is loaded, and say why."""
    for env in (sim.env(), sim.hook_env(LIMIT)):
        run = sim.run(built / "client", "absent", env=env)
        assert run.returncode == 0, run.stdout + run.stderr


def test_other_libraries_are_left_alone(built, sim):
    """A library with the driver's function names that is not the driver keeps its own."""
    code = f"""
import ctypes
mock = ctypes.CDLL({str(built / 'libmock.so')!r})
ptr = ctypes.c_uint64()
assert mock.cuInit(0) == 0
assert mock.cuMemAlloc_v2(ctypes.byref(ptr), ctypes.c_size_t(1 << 40)) == 0
assert ptr.value >> 40 == 0x7f, hex(ptr.value)
"""
    run = sim.python(code, env=sim.hook_env(LIMIT))
    assert run.returncode == 0, run.stderr


def test_runpath_of_a_deepbind_caller(built, sim, tmp_path):
    """dlopen with RTLD_DEEPBIND looks in the RUNPATH of the code that called it, not in ours."""
    folder = tmp_path / "lib"
    folder.mkdir()
    shutil.copy(built / "plugin_now.so", folder / "libinside.so")
    program = tmp_path / "caller"
    compile_client(program, HERE / "client.c", "-ldl", "-Wl,-rpath,$ORIGIN/lib", "-Wl,--enable-new-dtags")
    command = [program, "plugin", "libinside.so", NOW | DEEPBIND, "plugin_linked"]
    for env, verdict in ((sim.env(), "escaped"), (sim.hook_env(LIMIT), "held")):
        run = sim.run(*command, env=env)
        assert verdict_of(run.stdout) == verdict, run.stdout + run.stderr


def test_binary():
    """What the shipped library needs, imports, exports and runs."""
    hook = stage_dir() / "lib" / "gpuslice" / "libvgpu.so"
    check = subprocess.run(
        [sys.executable, ROOT / "tools" / "check_hook_binary.py", hook,
         ROOT / "src" / "vendors" / "nvidia" / "abi" / "api.def"], text=True, stdout=subprocess.PIPE)
    assert check.returncode == 0, check.stdout


def test_table_in_the_docs():
    """The published table is this run's. Runs last; needs the whole file to have run."""
    rows = [c.name for c in ENFORCED] + [c.name for c, _ in TOLD]
    missing = [name for name in rows if name not in table]
    if missing:
        pytest.skip(f"not all rows ran: {', '.join(missing)}")
    lines = [
        "# Ways to the driver",
        "",
        "Made by `tests/it/interpose/test_interpose.py`; `GS_UPDATE=1 ./dev test interpose` writes it anew.",
        "Each row is a program that asks for 256 MiB in a slice of 64 MiB.",
        "",
        "- **enforced**: refused with out-of-memory.",
        "- **told**: the hook is not in the way of that program; `gpuslice run` says so before the start, or",
        "  `gpuslice top` marks the process NOT HELD while it runs.",
        "",
        "| way | verdict |",
        "| --- | --- |",
        *(f"| {name} | {table[name]} |" for name in rows),
        "",
        "Limit of the `RTLD_DEEPBIND` rows: constructors of the opened library run before its slots are set,",
        "so what they allocate is not seen.",
        "",
    ]
    text = "\n".join(lines)
    if os.environ.get("GS_UPDATE"):
        DOC.write_text(text, encoding="utf-8")
    assert DOC.exists() and DOC.read_text(encoding="utf-8") == text, "run with GS_UPDATE=1 and review the change"
