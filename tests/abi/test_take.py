"""Every function that can take device memory is refused beyond the limit, or excepted by name with a reason."""

import re
import subprocess

import derive
import inputs
import pytest

LIMIT = 64 << 20
TAKE = 512 << 20
OUT_OF_MEMORY = "2"
# Charged when asked for, although a card gives it away later (when a kernel that allocates is loaded).
PROMISES = {"cuCtxSetLimit"}
HEADERS = ("cuda.h", "cudaGL.h", "cudaEGL.h", "cudaVDPAU.h")


def derived():
    """{symbol: witnesses} from NVIDIA's headers and the exports of real drivers; our table has no say."""
    text = "".join(inputs.header_text("nvidia-cuda-runtime", name) for name in HEADERS)
    names = derive.symbols(text)
    names |= derive.symbols("".join(inputs.header_text("nvidia-cuda-runtime-cu12", name) for name in HEADERS))
    for folder in inputs.drivers().values():
        names |= {n for n in inputs.exports(folder / "libcuda.so.1") if n.startswith("cu") and n[2].isupper()}
    return derive.derive(text, sorted(names))


def excepted():
    """{symbol: reason} of docs/exceptions.md, first part."""
    text = (inputs.ROOT / "docs" / "exceptions.md").read_text()
    part = text.split("## Functions excepted from the trial")[1].split("\n## ")[0]
    found = {}
    for names, reason in re.findall(r"^\| (`.*?) \| (.*?) \|$", part, re.M):
        for name in re.findall(r"`(cu\w+)`", names):
            assert name not in found, f"{name} is excepted twice"
            found[name] = reason
    return found


def build(folder):
    version, includes = inputs.include_dirs("nvidia-cuda-runtime")
    program = folder / "take"
    source = (inputs.ROOT / "tests" / "abi" / "take.c").read_text()
    status, errors = inputs.compile_c(folder, "take.c", source, includes, "-O1", "-Wextra", "-o", str(program))
    assert status == 0, f"against {version}:\n{errors}"
    return program


@pytest.fixture(scope="module", name="take")
def take_program(tmp_path_factory):
    return build(tmp_path_factory.mktemp("take"))


def attempts(program):
    out = subprocess.run([str(program), "--list"], check=True, text=True, stdout=subprocess.PIPE).stdout
    return dict(line.split() for line in out.splitlines())


def test_derivation_finds_what_everyone_knows():
    """The derivation itself: if a header's form changed, an empty list must not pass for success."""
    found = derived()
    assert len(found) > 150
    for name in ("cuMemAlloc_v2", "cuMemCreate", "cuMemAllocAsync_ptsz", "cuArray3DCreate_v2", "cuCtxCreate_v4",
                 "cuGraphAddMemAllocNode", "cuGraphLaunch", "cuModuleLoadData", "cuMemPoolImportPointer",
                 "cuGreenCtxCreate", "cuMulticastCreate", "cuImportExternalMemory"):
        assert name in found
    for name in ("cuMemFree_v2", "cuMemGetInfo_v2", "cuStreamSynchronize", "cuMemcpyHtoD_v2", "cuDeviceGetName"):
        assert name not in found


def test_each_is_tried_or_excepted(take):
    found, exceptions, tried = set(derived()), set(excepted()), set(attempts(take))
    assert sorted(found - exceptions - tried) == [], "neither tried nor excepted"
    assert sorted(exceptions - found) == [], "excepted, but cannot take device memory"
    assert sorted(exceptions & tried) == [], "excepted and tried"
    print(f"\n{len(found)} functions can take device memory by NVIDIA's headers: {len(tried)} tried, "
          f"{len(exceptions)} excepted with a reason (docs/exceptions.md)")


def outcome(done):
    """([(call, result)], bytes used) of one attempt."""
    calls, used = [], None
    for line in done.stdout.splitlines():
        name, value = line.split()
        if name == "used":
            used = int(value)
        else:
            calls.append((name, value))
    return calls, used


def pytest_generate_tests(metafunc):
    if "symbol" in metafunc.fixturenames:
        source = (inputs.ROOT / "tests" / "abi" / "take.c").read_text().split("harmless[] = {")[0]
        metafunc.parametrize("symbol,kind", [
            (symbol, "context" if own == "1" else "memory")
            for symbol, own in re.findall(r'^    \{"(cu\w+)", \w+, ([01])\},$', source, re.M)])


def test_refused_beyond_the_limit(symbol, kind, take, make_sim):
    """512 MiB succeed on the bare card (so the attempt is one), and end in out-of-memory under 64 MiB."""
    config = {"cards": 1, "memory": "4Gi", "overhead": "512Mi" if kind == "context" else "0"}
    sim = make_sim(**config)
    done = sim.run(take, symbol)
    calls, used = outcome(done)
    assert done.returncode == 0 and calls, done.stdout + done.stderr
    assert f"{symbol}*" in [name for name, _ in calls]
    assert all(result == "0" for _, result in calls), f"on the bare card: {calls}"
    assert used >= TAKE or symbol in PROMISES, f"the attempt takes only {used} bytes of the bare card"

    sim = make_sim(**config)
    done = sim.run(take, symbol, env=sim.hook_env("64Mi"))
    calls, _ = outcome(done)
    assert calls, done.stdout + done.stderr
    assert calls[-1][1] == OUT_OF_MEMORY, f"under the limit: {calls}"
    assert all(result == "0" for _, result in calls[:-1])


@pytest.mark.parametrize("name", ["cuMemAddressReserve", "cuMemAllocHost_v2", "cuMemHostAlloc", "cuMemHostRegister_v2",
                                  "cuStreamCreate"])
def test_what_is_not_device_memory_is_not_refused(name, take, make_sim):
    assert name in excepted()
    sim = make_sim(cards=1, memory="4Gi")
    done = sim.run(take, name, env=sim.hook_env("64Mi"))
    calls, used = outcome(done)
    assert calls and all(result == "0" for _, result in calls), done.stdout + done.stderr
    assert used == 0
