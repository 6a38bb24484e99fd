"""Hard limits of STYLE.md: 80 lines a function, 6 parameters, 900 lines a source. Tables excepted.

Bodies that a driver's table declares (gs_nv_*, exported driver functions) keep the driver's parameters."""

import pathlib
import re
import sys

MAX_FUNCTION, MAX_PARAMS, MAX_FILE = 80, 6, 900
ROOT = pathlib.Path(__file__).resolve().parent.parent
DRIVER_ABI = re.compile(r"\b(gs_nv_\w+|cu[A-Z]\w*|cuda[A-Z]\w*|__cuda\w+|nvml[A-Z]\w*)\s*[(,]")
# Handed to libmicrohttpd, which prescribes their parameters.
CALLBACKS = re.compile(r"\bgs_http_conn_(handle|retrieve)\s*\(")


def functions(lines):
    """(first line number, header text, length) of each function in our brace style."""
    start = 0
    for i, line in enumerate(lines):
        if line == "{":
            start = i
        elif line.startswith("}") and start is not None and line.rstrip(";") == "}":
            j = start - 1
            header = []
            while j >= 0 and lines[j].strip() and not lines[j].startswith(("}", "#", "/*", " *")):
                header.insert(0, lines[j])
                j -= 1
            text = " ".join(header)
            if "(" in text and "=" not in text.split("(")[0]:
                yield start, text, i - start + 1
            start = None
        if line == "{":
            start = i


def count_params(header):
    inside = header[header.index("(") + 1:header.rindex(")")] if ")" in header else ""
    depth, n = 0, 1
    for c in inside:
        depth += (c == "(") - (c == ")")
        n += c == "," and depth == 0
    return 0 if inside.strip() in ("", "void") else n


def main() -> int:
    bad = 0
    for file in sorted((ROOT / "src").rglob("*.[ch]")):
        lines = file.read_text().splitlines()
        rel = file.relative_to(ROOT)
        if len(lines) > MAX_FILE and file.suffix == ".c":
            print(f"{rel}: {len(lines)} lines, {MAX_FILE} at most")
            bad += 1
        for number, header, length in functions(lines):
            if length > MAX_FUNCTION:
                print(f"{rel}:{number}: function of {length} lines, {MAX_FUNCTION} at most")
                bad += 1
            if not (DRIVER_ABI.search(header) or CALLBACKS.search(header)) and count_params(header) > MAX_PARAMS:
                print(f"{rel}:{number}: {count_params(header)} parameters, {MAX_PARAMS} at most")
                bad += 1
    return 1 if bad else 0


sys.exit(main())
