"""Every function of every known driver has its row, and the table is one list in one order."""

from collections import Counter

import inputs
import pytest

ROWS = inputs.rows()
SYMBOLS = {row.symbol: row for row in ROWS}
NOT_LINUX = {"cuWGLGetDevice"}


def test_sorted_and_unique():
    for library in ("cuda", "nvml"):
        names = [row.symbol for row in ROWS if row.library == library]
        assert names == sorted(names)
        assert len(names) == len(set(names))


def test_reader_sees_every_row():
    text = (inputs.ABI / "api.def").read_text()
    assert len(ROWS) == sum(line.startswith(("CUDA_", "NVML_")) for line in text.splitlines())
    assert len(ROWS) > 1100


def test_passing_rows_give_a_reason():
    vague = [row.symbol for row in ROWS if row.kind != "HOOK" and len(row.reason.split()) < 2]
    assert not vague


def test_bodies_have_one_signature():
    """Rows that share a body share its parameters; a body is generated once from them."""
    import re

    text = (inputs.ABI / "api.def").read_text()
    seen = {}
    for symbol, group, body, rest in re.findall(r"^\w+_HOOK\((\w+), (\w+), (\w+), (.*)\)$", text, re.M):
        if group == "LAUNCH":
            continue
        assert seen.setdefault(body, rest) == rest, f"{symbol}: body {body} has two signatures"


@pytest.mark.parametrize("library", inputs.LIBRARIES)
def test_every_export_of_real_drivers_has_a_row(library):
    if not inputs.drivers():
        pytest.skip("no driver fetched: run tools/fetch_abi_inputs.py with a network")
    for version, folder in inputs.drivers().items():
        names = inputs.exports(folder / inputs.LIBRARIES[library])
        assert len(names) > 300, version
        missing = sorted(names - {row.symbol for row in ROWS if row.library == library})
        assert not missing, f"driver {version} exports without a row: {missing}"


@pytest.mark.parametrize(
    "package,headers",
    [
        ("nvidia-cuda-runtime", ("cuda.h", "cudaGL.h", "cudaEGL.h", "cudaVDPAU.h")),
        ("nvidia-cuda-runtime-cu12", ("cuda.h", "cudaGL.h", "cudaEGL.h", "cudaVDPAU.h")),
        ("nvidia-nvml-dev", ("nvml.h",)),
    ],
)
def test_every_declared_function_has_a_row(package, headers):
    names = inputs.declared(package, *headers)
    assert len(names) > 300
    missing = sorted(names - SYMBOLS.keys() - NOT_LINUX)
    assert not missing, f"{package} declares functions without a row: {missing}"


def test_rows_are_known_somewhere():
    """No row for a name that neither a driver nor a header has: a misspelt row would sit there for ever."""
    if not inputs.drivers():
        pytest.skip("no driver fetched: run tools/fetch_abi_inputs.py with a network")
    known = set()
    for folder in inputs.drivers().values():
        for name in inputs.LIBRARIES.values():
            known |= inputs.exports(folder / name)
    for package in ("nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12"):
        text = "".join(
            inputs.header_text(package, name)
            for name in ("cuda.h", "cudaGL.h", "cudaEGL.h", "cudaVDPAU.h", "cudaTypedefs.h")
        )
        known |= {symbol for symbol in SYMBOLS if symbol in text}
    text = inputs.header_text("nvidia-nvml-dev", "nvml.h")
    known |= {symbol for symbol in SYMBOLS if symbol in text}
    for row in ROWS:
        base = row.symbol.removesuffix("_ptsz").removesuffix("_ptds")
        assert row.symbol in known or base in known, row.symbol


def test_report(capsys):
    """The coverage report: what `./dev test abi` shows."""
    with capsys.disabled():
        print("\nrows of api.def")
        for library in ("cuda", "nvml"):
            kinds = Counter(row.kind for row in ROWS if row.library == library)
            groups = Counter(row.group for row in ROWS if row.library == library and row.kind == "HOOK")
            classes = ", ".join(f"{name} {count}" for name, count in sorted(groups.items()))
            print(f"  {library}: {sum(kinds.values())} rows; {kinds['HOOK']} effective ({classes});")
            print(f"        {kinds['CALL']} pass and are simulated, {kinds['PASS']} pass and are answered 'not supported'")
        for version, folder in inputs.drivers().items():
            for library, name in inputs.LIBRARIES.items():
                names = inputs.exports(folder / name)
                kinds = Counter(SYMBOLS[n].kind for n in names if n in SYMBOLS)
                print(f"  driver {version} {name}: {len(names)} exports, {sum(kinds.values())} with a row, "
                      f"{kinds['HOOK']} effective")
        print(f"  reasons: {len({row.reason for row in ROWS if row.reason})} different ones")
