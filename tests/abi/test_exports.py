"""What our own libraries export is what the table says, no more and no less."""

import inputs
import pytest
from conftest import stage_dir

ROWS = inputs.rows()
# The dynamic loader's functions that the hook interposes.
LOADER = {"dlsym", "dlvsym", "dlopen", "dlmopen"}


def staged(*parts):
    path = stage_dir().joinpath("lib", "gpuslice", *parts)
    if not path.exists():
        pytest.fail(f"{path} is not built: run ./dev build")
    return path


@pytest.mark.parametrize("library", inputs.LIBRARIES)
def test_simulator_exports_every_row(library):
    names = inputs.exports(staged("sim", "nvidia", inputs.LIBRARIES[library]))
    rows = {row.symbol for row in ROWS if row.library == library}
    assert sorted(rows - names) == []
    assert sorted(names - rows) == []


def test_hook_exports_only_effective_rows():
    names = inputs.exports(staged("libvgpu.so"))
    effective = {row.symbol for row in ROWS if row.kind == "HOOK"}
    assert sorted(effective - names) == []
    assert sorted(names - effective - LOADER) == []
    assert {"dlsym", "dlvsym"} <= names
