#!/usr/bin/env python3
"""Check a built hook library: what it needs, imports, exports, weighs and does when loaded.

usage: check_hook_binary.py [--floor 2.17] [--max-kib 512] LIBRARY [API_DEF]
Prints one line per fault; exit status 1 when there is any. Works on any machine's ELF files (x86-64 and
aarch64), through readelf.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys

API_DEF = pathlib.Path(__file__).resolve().parent.parent / "src" / "vendors" / "nvidia" / "abi" / "api.def"
LOADER_FUNCTIONS = {"dlsym", "dlvsym", "dlopen", "dlmopen"}
# What the library may import: nothing of <string.h> (src/hook/own_string.c says why), no allocator, no stdio,
# no threads. __cxa_atexit may allocate, once, in a launch that goes the slow way (exit.h).
# Of these only _r_debug is used by the look-up functions, which run before a program is ready.
IMPORTS_ALLOWED = set("""__cxa_atexit __errno_location _r_debug access clock_gettime close getenv geteuid getpid getrlimit
    getrlimit64 madvise mmap mmap64 mprotect munmap open open64 pread pread64 process_vm_readv readlink sched_yield
    sigaction syscall sysconf""".split())
NEEDED_ALLOWED = re.compile(r"^(libc\.so\.6|ld-linux[-\w]*\.so\.\d+)$")


def readelf(*args):
    return subprocess.run(["readelf", "-W", *args], check=True, text=True, stdout=subprocess.PIPE).stdout


def table_symbols(api_def):
    """Symbols of the effective rows of api.def."""
    with open(api_def, encoding="utf-8") as f:
        return set(re.findall(r"^(?:CUDA|NVML|\w+)_HOOK\((\w+),", f.read(), re.M)) - {"symbol"}


def dynamic_symbols(lib):
    """(name, version or None, defined, bind, type, visibility) of each dynamic symbol."""
    for line in readelf("--dyn-syms", lib).splitlines():
        f = line.split()
        if len(f) < 8 or not f[0].rstrip(":").isdigit():
            continue
        name, _, version = f[7].partition("@")
        yield name, version.lstrip("@") or None, f[6] != "UND", f[4], f[3], f[5]


def check(args):
    faults = []
    dynamic = readelf("-d", args.library)
    for needed in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic):
        if not NEEDED_ALLOWED.match(needed):
            faults.append(f"needs {needed}")
    for tag in ("TEXTREL", "RPATH", "RUNPATH"):
        if f"({tag})" in dynamic:
            faults.append(f"has {tag}")
    if not re.search(r"BIND_NOW|FLAGS_1.*NOW", dynamic):
        faults.append("is not linked with -z now")

    floor = tuple(int(p) for p in args.floor.split("."))
    exports = set()
    for name, version, defined, bind, kind, visibility in dynamic_symbols(args.library):
        if defined and visibility == "DEFAULT" and bind in ("GLOBAL", "WEAK"):
            exports.add(name)
            if version is not None:
                faults.append(f"exports {name} with version {version}")
        elif not defined and name and version is not None:
            number = re.match(r"GLIBC_([\d.]+)$", version.split()[0])
            if not number:
                faults.append(f"imports {name}@{version}")
            elif tuple(int(p) for p in number[1].split(".")) > floor:
                faults.append(f"imports {name}@{version}, above GLIBC_{args.floor}")
        elif not defined and name:
            faults.append(f"imports {name} without a version")
        if not defined and name and name not in IMPORTS_ALLOWED:
            faults.append(f"imports {name}, which is not on the list")
        if not defined and kind == "TLS":
            faults.append(f"imports thread-local {name}")
        if not defined and name == "__tls_get_addr":
            faults.append("uses dynamic TLS")
    expected = table_symbols(args.api_def) | LOADER_FUNCTIONS
    faults += [f"does not export {name}" for name in sorted(expected - exports)]
    faults += [f"exports {name}, which is no row" for name in sorted(exports - expected)]

    for tag in ("INIT", "FINI", "INIT_ARRAY", "FINI_ARRAY", "PREINIT_ARRAY"):
        if f"({tag})" in dynamic:
            faults.append(f"runs code when it is loaded or unloaded ({tag})")

    size = os.path.getsize(args.library)
    if size > args.max_kib * 1024:
        faults.append(f"has {size} bytes, more than {args.max_kib} KiB")
    return faults, len(exports), size


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("api_def", nargs="?", default=API_DEF)
    parser.add_argument("--floor", default="2.17", help="newest GLIBC symbol version allowed")
    parser.add_argument("--max-kib", type=int, default=512)
    args = parser.parse_args()
    faults, n_exports, size = check(args)
    for fault in faults:
        print(f"{args.library}: {fault}")
    if not faults:
        print(f"{args.library}: {n_exports} exports, {size} bytes, libc only, nothing above GLIBC_{args.floor}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
