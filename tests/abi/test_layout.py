"""Our types and prototypes are NVIDIA's: compared by the compiler, row by row and member by member."""

import functools
import pathlib
import re
import subprocess
import tempfile

import inputs
import pycparser
import pytest

REDECLARE = """
#define {lib}_HOOK(symbol, class, body, ret, params, args) ret symbol params;
#define {lib}_CALL(symbol, ret, params, reason) ret symbol params;
#include "vendors/nvidia/abi/api.def"
"""
OURS = {
    "cuda": '#include "vendors/nvidia/abi/cuda_types.h"\n',
    "nvml": '#include "vendors/nvidia/abi/nvml_types.h"\n',
}


def unit(generation, folder):
    """(library, source, include folders) of one generation of NVIDIA's headers."""
    library, package, source = inputs.GENERATIONS[generation]
    _, includes = inputs.include_dirs(package)
    return library, source, [inputs.write_tree(folder / "stubs", inputs.STUBS), *includes]


@pytest.mark.parametrize("generation", inputs.GENERATIONS)
def test_prototypes_equal_nvidias(generation, tmp_path):
    """A row that disagrees with the header's declaration is a conflicting redeclaration."""
    library, source, includes = unit(generation, tmp_path)
    redeclare = REDECLARE.format(lib=library.upper())
    status, errors = inputs.compile_c(tmp_path, "rows.c", source + redeclare, includes, "-fsyntax-only")
    assert status == 0, errors
    # The check itself: one parameter changed must be an error.
    table = (inputs.ABI / "api.def").read_text()
    right, wrong = {
        "cuda": ("(CUdeviceptr *dptr, size_t bytesize), (dptr", "(CUdeviceptr *dptr, int bytesize), (dptr"),
        "nvml": ("(nvmlDevice_t device, nvmlMemory_t *", "(nvmlDevice_t device, nvmlMemory_v2_t *"),
    }[library]
    assert right in table
    folder = inputs.write_tree(tmp_path / "bent", {"vendors/nvidia/abi/api.def": table.replace(right, wrong)})
    status, _ = inputs.compile_c(tmp_path, "bent.c", source + redeclare, [*includes], "-fsyntax-only", f"-I{folder}")
    assert status != 0


def preprocess(source, includes, folder):
    """Text of a unit after the preprocessor, with line marks."""
    fake = inputs.write_tree(folder / "fake", inputs.FAKE_LIBC)
    path = folder / "unit.c"
    path.write_text(source)
    command = ["gcc", "-E", "-nostdinc", "-D__attribute__(x)=", "-D__inline__=", "-D__extension__="]
    for include in (fake, *includes, inputs.ROOT / "src"):
        command += ["-I", str(include)]
    return subprocess.run([*command, str(path)], check=True, text=True, stdout=subprocess.PIPE).stdout


@pytest.mark.parametrize("library", inputs.LIBRARIES)
def test_most_rows_are_declared_by_a_header(library, tmp_path):
    """A redeclaration proves nothing where no header declares: such rows are named, and few."""
    names = set()
    for generation, (of, _, _) in inputs.GENERATIONS.items():
        if of == library:
            _, source, includes = unit(generation, tmp_path)
            names |= set(re.findall(r"\b(?:cu|nvml)[A-Z]\w+(?=\s*\()", preprocess(source, includes, tmp_path)))
    typed = [row.symbol for row in inputs.rows() if row.library == library and row.kind != "PASS"]
    loose = [symbol for symbol in typed if symbol not in names]
    print(f"\n{library}: {len(typed) - len(loose)} of {len(typed)} prototypes compared; "
          f"in no header: {', '.join(loose) or 'none'}")
    assert len(loose) <= 10


def parse(source, includes, folder):
    """Syntax tree of a unit."""
    return pycparser.CParser().parse(preprocess(source, includes, folder))


def members(decl, prefix=""):
    """Names of all members, nested ones dotted; those of anonymous unions as if they stood outside."""
    for child in decl.decls or ():
        kind = child.type
        while isinstance(kind, (pycparser.c_ast.ArrayDecl, pycparser.c_ast.TypeDecl)):
            kind = kind.type
        nested = isinstance(kind, (pycparser.c_ast.Struct, pycparser.c_ast.Union)) and kind.decls
        if child.name:
            yield prefix + child.name
            if nested and not isinstance(child.type, pycparser.c_ast.ArrayDecl):
                yield from members(kind, f"{prefix}{child.name}.")
        elif nested:
            yield from members(kind, prefix)


def shapes(tree):
    """({type: members or None}, [enumerators]) of a unit."""
    types, constants, bodies = {}, [], {}
    for node in tree.ext:
        holder = node.type.type if isinstance(node, (pycparser.c_ast.Typedef, pycparser.c_ast.Decl)) and hasattr(
            node.type, "type") else getattr(node, "type", None)
        if isinstance(holder, (pycparser.c_ast.Struct, pycparser.c_ast.Union)):
            if holder.decls:
                bodies[holder.name] = holder
            holder = bodies.get(holder.name, holder) if holder.name else holder
            if isinstance(node, pycparser.c_ast.Typedef) and isinstance(node.type, pycparser.c_ast.TypeDecl):
                if holder.decls:
                    types[node.name] = list(members(holder))
        elif isinstance(node, pycparser.c_ast.Typedef):
            types[node.name] = None
            if isinstance(node.type, pycparser.c_ast.TypeDecl) and isinstance(holder, pycparser.c_ast.IdentifierType):
                alias = holder.names[0]
                types[node.name] = types.get(alias)
        enum = holder if isinstance(holder, pycparser.c_ast.Enum) else node.type if isinstance(
            getattr(node, "type", None), pycparser.c_ast.Enum) else None
        if enum is not None and enum.values:
            constants += [e.name for e in enum.values.enumerators]
    return types, constants


@functools.cache
def nvidias(generation):
    """shapes() of one generation of NVIDIA's headers; seconds of work, wanted by several tests."""
    with tempfile.TemporaryDirectory() as folder:
        _, source, includes = unit(generation, pathlib.Path(folder))
        return shapes(parse(source, includes, pathlib.Path(folder)))


PRIVATE = {"size_t", "int8_t", "uint8_t", "int16_t", "uint16_t", "int32_t", "uint32_t", "int64_t", "uint64_t",
           "uintptr_t"}
# What grew at its end between CUDA 12.9 and 13.5. The node parameters lie in a union of fixed size, the pool's
# member came out of its reserved bytes; our forms are the newer ones.
GREW = {
    "CU_DEVICE_ATTRIBUTE_MAX",
    "CUmemPoolProps.reserved",
    "CUmemPoolProps_v1.reserved",
    "sizeof CUDA_EVENT_RECORD_NODE_PARAMS",
    "sizeof CUDA_HOST_NODE_PARAMS_v2",
    "sizeof CUdevSmResource",
}
# Forms that nvml.h does not show any more.
GONE = {"nvmlPciInfo_v1_t", "nvmlPciInfo_v2_t"}


def measure(folder, name, source, includes, types, constants):
    """Let the compiler print sizes, offsets and values."""
    lines = ["#include <stdio.h>", "#include <stddef.h>", "int main(void)", "{"]
    for kind, fields in types:
        lines.append(f'    printf("sizeof {kind} %zu\\n", sizeof({kind}));')
        for field in fields:
            lines.append(f'    printf("{kind}.{field} %zu\\n", offsetof({kind}, {field}));')
    for constant in constants:
        lines.append(f'    printf("{constant} %lld\\n", (long long){constant});')
    lines += ["    return 0;", "}", ""]
    program = folder / f"{name}.out"
    status, errors = inputs.compile_c(folder, f"{name}.c", source + "\n".join(lines), includes, "-o", str(program))
    assert status == 0, errors
    out = subprocess.run([str(program)], check=True, text=True, stdout=subprocess.PIPE).stdout
    return dict(line.rsplit(" ", 1) for line in out.splitlines())


@pytest.mark.parametrize("generation", inputs.GENERATIONS)
def test_layouts_and_values_equal_nvidias(generation, tmp_path):
    library, source, includes = unit(generation, tmp_path)
    ours, constants = shapes(parse(OURS[library], [], tmp_path))
    theirs, _ = nvidias(generation)
    ours = {name: fields for name, fields in ours.items() if name not in PRIVATE | GONE}
    assert len(ours) > 40 and sum(bool(f) for f in ours.values()) > 20
    newest = generation in inputs.NEWEST
    absent = sorted(ours.keys() - theirs.keys())
    assert not newest or not absent, f"types NVIDIA's header does not have: {absent}"
    pairs = []
    for name in sorted(ours.keys() & theirs.keys()):
        fields, known = ours[name] or [], set(theirs[name] or [])
        assert not newest or set(fields) <= known, f"{name}: {set(fields) - known} are not members of NVIDIA's"
        pairs.append((name, [field for field in fields if field in known]))
    text = "".join(p.read_text(errors="replace") for folder in includes for p in folder.glob("*.h"))
    words = set(re.findall(r"\b\w+\b", text))
    values = [c for c in constants if c in words]
    assert not newest or len(values) == len(constants), set(constants) - set(values)
    mine = measure(tmp_path, "ours", OURS[library], [], pairs, values)
    real = measure(tmp_path, "theirs", source, includes, pairs, values)
    differ = {key for key in mine if mine[key] != real[key]}
    assert differ == (set() if newest else GREW), {key: (mine[key], real[key]) for key in differ}
    print(f"\n{generation}: {len(pairs)} types, {sum(len(f) for _, f in pairs)} members, {len(values)} values agree")


@pytest.mark.parametrize(
    "generation,enum,table",
    [
        ("cuda13", "CUDA_ERROR_", "cuda_results.def"),
        ("cuda13", "CU_DEVICE_ATTRIBUTE_", "cuda_attributes.def"),
        ("cuda13", "CU_AD_FORMAT_", "cuda_formats.def"),
        ("nvml13", "NVML_ERROR_", "nvml_results.def"),
    ],
)
def test_value_lists_are_complete(generation, enum, table):
    _, theirs = nvidias(generation)
    listed = (inputs.ABI / table).read_text()
    missing = [c for c in theirs if c.startswith(enum) and not c.endswith("_MAX") and f"({c}," not in listed]
    assert not missing
