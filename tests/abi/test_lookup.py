"""Under the real driver: look-ups give the wrapper of exactly what the driver gave, and nothing else changes.

No card is needed: the driver's look-up works before cuInit, and cuInit says that there is no device."""

import os
import re
import subprocess

import inputs
import pytest
from conftest import stage_dir

ROWS = {row.symbol: row for row in inputs.rows()}
HOOKED = {row.symbol for row in ROWS.values() if row.kind == "HOOK"}
# Look-ups by name and version work in these; the test needs both libraries of a driver.
DRIVERS = list(inputs.drivers()) or [None]
CALLS = (
    "cuDriverGetVersion", "cuInit", "cuDeviceGetCount", "cuGetErrorName", "cuGetErrorString", "cuMemAlloc_v2",
    "cuMemGetInfo_v2", "cuCtxSynchronize", "nvmlErrorString", "nvmlDeviceGetCount_v2", "nvmlInit_v2",
    "nvmlDeviceGetCount_v2", "nvmlSystemGetCudaDriverVersion", "nvmlShutdown", "cuInit",
)


@pytest.fixture(scope="module", name="asker")
def build_asker(tmp_path_factory):
    program = tmp_path_factory.mktemp("lookup") / "lookup"
    source = inputs.ROOT / "tests" / "abi" / "lookup.c"
    subprocess.run(["gcc", "-std=c17", "-O1", "-Wall", "-Werror", "-o", program, source], check=True)
    return program


def typedefs():
    """(names, versions) of NVIDIA's typedef lists, both generations."""
    names, versions = {"cuNoSuchFunction", "cuGetProcAddress"}, {0, 99990}
    for package in ("nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12"):
        for header in ("cudaTypedefs.h", "cudaGLTypedefs.h", "cudaEGLTypedefs.h", "cudaVDPAUTypedefs.h",
                       "cudaProfilerTypedefs.h"):
            for name, version in re.findall(r"\*PFN_(cu\w+?)_v(\d+)(?:_pt[ds][sz])?\)", inputs.header_text(package, header)):
                names.add(name)
                versions.add(int(version))
    assert len(names) > 400 and len(versions) > 20
    return sorted(names), sorted(versions)


def ask(program, folder, questions, hook=None):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("GPUSLICE", "CUDA_", "HAMI", "LD_"))}
    env["LD_LIBRARY_PATH"] = str(folder)
    if hook:
        env["LD_PRELOAD"] = str(hook)
        env["CUDA_DEVICE_MEMORY_LIMIT"] = "64Mi"
        env["CUDA_DEVICE_MEMORY_SHARED_CACHE"] = str(program.parent / "lookup.cache")
    done = subprocess.run([str(program)], input="\n".join(questions) + "\n", env=env, check=False, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
    assert done.returncode == 0, done.stderr
    answers = done.stdout.splitlines()
    assert len(answers) == len(questions)
    return answers


def symbols_at(library):
    """{offset: {symbol, ...}} of the code a library exports."""
    out = subprocess.run(["nm", "-D", "--defined-only", str(library)], check=True, text=True, stdout=subprocess.PIPE)
    table = {}
    for line in out.stdout.splitlines():
        address, _, name = line.split()
        table.setdefault(int(address, 16), set()).add(name.split("@")[0])
    return table


class Names:
    """What an answer's address is called in the object it lies in."""

    def __init__(self, folder, hook):
        self.hook = hook.name
        self.tables = {hook.name: symbols_at(hook)}
        for name in inputs.LIBRARIES.values():
            self.tables[name] = symbols_at(folder / name)

    def of(self, address):
        """(object name, symbols there) of one answered address."""
        path, offset = address.rsplit("+", 1)
        name = path.rsplit("/", 1)[-1]
        return name, self.tables.get(name, {}).get(int(offset, 16), set())


def compare(question, bare, held, names):
    """None, or what is wrong with the answer under the hook."""
    *bare_rest, bare_address = bare.split(" ")
    *held_rest, held_address = held.split(" ")
    if bare_rest != held_rest:
        return f"{question}: status {bare_rest} became {held_rest}"
    if "+" not in bare_address or "+" not in held_address:
        return None if bare_address == held_address else f"{question}: {bare_address} became {held_address}"
    _, given = names.of(bare_address)
    where, got = names.of(held_address)
    if not given:
        return f"{question}: the driver gave an address that is no export: {bare_address}"
    if where == names.hook:
        # Symbols of one address are one function to the driver; one of them must be the wrapper's name.
        return None if got & given & HOOKED else f"{question}: driver gave {given}, we gave the wrapper of {got}"
    if given & HOOKED:
        return f"{question}: {given & HOOKED} is effective but came back unwrapped"
    return None if held_address == bare_address else f"{question}: {bare_address} became {held_address}"


@pytest.fixture(name="hook")
def hook_library():
    hook = stage_dir() / "lib" / "gpuslice" / "libvgpu.so"
    if not hook.exists():
        pytest.fail(f"{hook} is not built: run ./dev build")
    return hook


@pytest.fixture(name="folder", params=DRIVERS)
def driver_folder(request):
    if request.param is None:
        pytest.skip("no driver fetched: run tools/fetch_abi_inputs.py with a network")
    return inputs.drivers()[request.param]


def check(asker, folder, hook, questions):
    bare = ask(asker, folder, questions)
    held = ask(asker, folder, questions, hook)
    names = Names(folder, hook)
    found = [compare(*triple, names) for triple in zip(questions, bare, held)]
    wrong = [text for text in found if text]
    assert not wrong, f"{len(wrong)} of {len(questions)}:\n" + "\n".join(wrong[:40])
    wrapped = sum(f"/{hook.name}+" in answer for answer in held)
    return len(questions), wrapped


def test_get_proc_address(asker, folder, hook):
    """Every name of the typedef list with every version any of them has, flags 0, 1 and 2, both forms."""
    names, versions = typedefs()
    questions = [f"{form} {name} {version} {flags}" for form in ("proc1", "proc2") for name in names
                 for version in versions for flags in (0, 1, 2)]
    total, wrapped = check(asker, folder, hook, questions)
    assert wrapped > 1000
    print(f"\n{folder.name}: {total} look-ups agree, {wrapped} of them gave a wrapper")


def test_dlsym_of_every_row(asker, folder, hook):
    questions = [f"sym {inputs.LIBRARIES[row.library]} {symbol}" for symbol, row in ROWS.items()]
    _, wrapped = check(asker, folder, hook, questions)
    assert wrapped > 90


def test_answers_without_a_card_are_unchanged(asker, folder, hook):
    questions = [f"call {name}" for name in CALLS]
    bare = ask(asker, folder, questions)
    assert bare[CALLS.index("cuInit")] != "0", "this machine has a card: the comparison needs one without"
    assert ask(asker, folder, questions, hook) == bare
