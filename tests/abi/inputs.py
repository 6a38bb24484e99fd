"""What the ABI tests compare: our table, the drivers and headers fetched below .cache/abi, the build.

`tools/fetch_abi_inputs.py` fetches; a test whose input is missing skips and says which."""

import pathlib
import re
import subprocess
from dataclasses import dataclass

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ABI = ROOT / "src" / "vendors" / "nvidia" / "abi"
CACHE = ROOT / ".cache" / "abi"
LIBRARIES = {"cuda": "libcuda.so.1", "nvml": "libnvidia-ml.so.1"}

# Stand-ins for headers of systems that NVIDIA's interoperability headers want; types only.
STUBS = {
    "GL/gl.h": "typedef unsigned int GLenum, GLuint;\n",
    "vdpau/vdpau.h": "typedef unsigned int VdpDevice, VdpFuncId, VdpVideoSurface, VdpOutputSurface, VdpStatus;\n"
    "typedef VdpStatus VdpGetProcAddress(VdpDevice, VdpFuncId, void **);\n",
    "EGL/egl.h": "typedef void *EGLImageKHR, *EGLSyncKHR, *EGLStreamKHR; typedef int EGLint;\n",
    "EGL/eglext.h": "\n",
}
# Only for reading headers with pycparser, which does not know GNU C.
FAKE_LIBC = {
    "stddef.h": "typedef unsigned long size_t;\n",
    "stdint.h": "typedef signed char int8_t; typedef unsigned char uint8_t; typedef short int16_t;\n"
    "typedef unsigned short uint16_t; typedef int int32_t; typedef unsigned int uint32_t;\n"
    "typedef long int64_t; typedef unsigned long uint64_t, uintptr_t;\n",
    "stdlib.h": '#include "stddef.h"\n',
    "stdbool.h": "\n",
}


@dataclass(frozen=True)
class Row:
    """One line of api.def."""

    library: str  # cuda or nvml
    kind: str  # HOOK, CALL or PASS
    symbol: str
    group: str = ""  # class of a HOOK row
    ret: str = ""
    params: str = ""
    reason: str = ""


def rows():
    """All rows, in the order of the file."""
    found = []
    text = (ABI / "api.def").read_text()
    for line in re.findall(r"^(?:CUDA|NVML)_.*$", text, re.M):
        head, rest = line.split("(", 1)
        library, kind = head.split("_")
        symbol, rest = re.match(r"(\w+), (.*)\)$", rest).groups()
        if kind == "HOOK":
            group, _, ret, params = re.match(r"(\w+), (\w+), ([^,(]+), (\(.*?\)), \(", rest).groups()
            found.append(Row(library.lower(), kind, symbol, group, ret, params))
        elif kind == "CALL":
            ret, params, reason = re.match(r'([^,(]+), (\(.*\)), "(.*)"$', rest).groups()
            found.append(Row(library.lower(), kind, symbol, ret=ret, params=params, reason=reason))
        else:
            found.append(Row(library.lower(), kind, symbol, reason=rest.strip('"')))
    return found


def drivers():
    """{version: folder} of the fetched drivers, oldest first."""
    found = {p.name.removeprefix("driver-"): p for p in CACHE.glob("driver-*")}
    return dict(sorted(found.items(), key=lambda item: [int(n) for n in item[0].split(".")]))


def include_dirs(package):
    """(version, [include folder]) of the newest fetched package of headers of exactly that name."""
    found = []
    for path in CACHE.glob(f"headers-{package}-[0-9]*"):
        version = path.name.removeprefix(f"headers-{package}-")
        found.append(([int(n) for n in version.split(".")], version, path))
    if not found:
        pytest.skip(f"{package} is not fetched: run tools/fetch_abi_inputs.py with a network")
    _, version, path = max(found)
    return version, sorted({p.parent for p in path.rglob("*.h") if p.parent.name == "include"})


def exports(library):
    """Defined dynamic symbols of a library, without their version."""
    out = subprocess.run(["nm", "-D", "--defined-only", str(library)], check=True, text=True, stdout=subprocess.PIPE)
    return {line.split()[-1].split("@")[0] for line in out.stdout.splitlines() if line}


def write_tree(folder, files):
    """Write {relative name: text} below a folder and return the folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def compile_c(folder, name, source, includes, *flags):
    """Compile one C text as strictly as our own; returns (exit status, diagnostics)."""
    path = folder / name
    path.write_text(source)
    command = ["gcc", "-std=c17", "-Wall", "-Werror", "-Wno-deprecated-declarations", *flags]
    for include in includes:
        command += ["-isystem", str(include)]
    done = subprocess.run([*command, f"-I{ROOT / 'src'}", str(path)], text=True, stderr=subprocess.PIPE, check=False)
    return done.returncode, done.stderr


# The two generations of NVIDIA's headers that rows must agree with, as one translation unit each.
CUDA_UNIT = (
    "#define __CUDA_API_VERSION_INTERNAL 1\n#define EGLAPIENTRY\n"
    "#include <cuda.h>\n#include <cudaGL.h>\n#include <vdpau/vdpau.h>\n#include <cudaVDPAU.h>\n"
)
# The first two forms of nvmlPciInfo_t are in no header any more; it declares their functions with the last.
NVML_UNIT = (
    "#define NVML_NO_UNVERSIONED_FUNC_DEFS 1\n#include <nvml.h>\n"
    "#define nvmlPciInfo_v1_t nvmlPciInfo_t\n#define nvmlPciInfo_v2_t nvmlPciInfo_t\n"
)
# Types that rows name and the older headers do not have; there they stand for nothing more than their names.
SINCE_13 = ("typedef struct CUstreamCigCaptureParams_st CUstreamCigCaptureParams;\n"
            "typedef CUresult (*CUgraphRecaptureCallback)(void);\n")
GENERATIONS = {
    "cuda13": ("cuda", "nvidia-cuda-runtime", CUDA_UNIT),
    "cuda12": ("cuda", "nvidia-cuda-runtime-cu12", CUDA_UNIT + SINCE_13),
    "nvml13": ("nvml", "nvidia-nvml-dev", NVML_UNIT),
}
NEWEST = ("cuda13", "nvml13")


def header_text(package, name):
    """Text of one fetched header."""
    _, folders = include_dirs(package)
    for folder in folders:
        if (folder / name).exists():
            return (folder / name).read_text(errors="replace")
    pytest.skip(f"{name} is not in {package}")
    return ""


def declared(package, *names):
    """Function names that headers of a package declare, as the symbols they become."""
    found = set()
    for name in names:
        text = header_text(package, name)
        found |= set(re.findall(r"\b(?:CUresult|nvmlReturn_t|const char\s*\*)\s+(?:CUDAAPI|DECLDIR)\s+(\w+)\s*\(", text))
    return found
