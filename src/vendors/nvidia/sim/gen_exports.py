#!/usr/bin/env python3
"""Exports of a simulated driver from api.def.

usage: gen_exports.py cuda|nvml API_DEF CPU ret_ASM ret_VERSION_SCRIPT

Every row is exported. A row nobody implements answers "not supported" through a weak definition, so
that a strong function of that name in any file replaces it. `_ptsz` and `_ptds` twins are functions
of their own (the real driver gives them addresses of their own) that jump to the base function."""

import re
import sys

NOT_SUPPORTED = {"cuda": 801, "nvml": 3}
# Data in the real driver (sizes: drivers 535 to 555, `readelf --dyn-syms`); all else is code.
DATA_8 = {"cudbgReportedDriverApiErrorCode", "cudbgReportedDriverInternalErrorCode",
          "cudbgReportedDriverApiErrorFuncNameAddr", "cudbgReportedDriverApiErrorFuncNameSize"}
CODE = {"cudbgReportDriverApiError", "cudbgReportDriverInternalError", "cudbgGetAPI",
        "cudbgApiAttach", "cudbgApiInit", "cudbgGetAPIVersion", "cudbgApiDetach", "cudbgMain"}
STUB = {"x86_64": "endbr64\n\tmovl ${code}, %eax\n\tret",
        "aarch64": "bti c\n\tmov w0, #{code}\n\tret"}
JUMP = {"x86_64": "endbr64\n\tjmp {to}@PLT", "aarch64": "bti c\n\tb {to}"}


def rows(kind, path):
    prefix = kind.upper()
    pattern = re.compile(r"^%s_(?:HOOK|CALL|PASS)\((\w+)," % prefix, re.M)
    with open(path, encoding="utf-8") as f:
        return pattern.findall(f.read())


def data_size(name):
    if name == "cudbgInjectionPath":
        return 4096
    return 8 if name in DATA_8 else 4


def asm(kind, names, cpu):
    known = set(names)
    out = ["/* generated from api.def */", "\t.text"]
    data = []
    for name in names:
        if name.startswith("cudbg") and name not in CODE:
            data.append(name)
            continue
        base = re.sub(r"_pt[sd][sz]$", "", name)
        if base != name and base in known:
            body = JUMP[cpu].format(to=base)
        else:
            body = STUB[cpu].format(code=NOT_SUPPORTED[kind])
        out += ["\t.p2align 4", f"\t.weak {name}", f"\t.type {name}, %function", f"{name}:",
                f"\t{body}", f"\t.size {name}, . - {name}"]
    if data:
        out.append("\t.bss")
    for name in data:
        size = data_size(name)
        out += [f"\t.p2align {3 if size >= 8 else 2}", f"\t.weak {name}",
                f"\t.type {name}, %object", f"{name}:", f"\t.zero {size}",
                f"\t.size {name}, {size}"]
    out.append('\t.section .note.GNU-stack, "", %progbits')
    return "\n".join(out) + "\n"


def script(names):
    lines = "".join(f"    {name};\n" for name in names)
    return "/* generated from api.def */\n{\nglobal:\n" + lines + "local:\n    *;\n};\n"


def main():
    kind, path, cpu, ret_asm, ret_script = sys.argv[1:]
    names = rows(kind, path)
    if not names:
        sys.exit(f"{path}: no {kind} rows")
    with open(ret_asm, "w", encoding="utf-8") as f:
        f.write(asm(kind, names, cpu))
    with open(ret_script, "w", encoding="utf-8") as f:
        f.write(script(names))


main()
