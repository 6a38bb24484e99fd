#!/usr/bin/env python3
"""Fetch what tests/abi compares with: NVIDIA's drivers from Debian, NVIDIA's headers from PyPI.

They are test inputs: unpacked below .cache/abi, never installed, never committed, never linked into
anything that is shipped. What cannot be fetched (no network) is named on stderr and left out; the tests
that need it say so and skip.

  .cache/abi/driver-<version>/{libcuda.so.1,libnvidia-ml.so.1}
  .cache/abi/headers-<package>-<version>/          the package as it unpacks
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache" / "abi"

# Suites whose drivers differ: the oldest supported branch, the 550 branch, the newest Debian has.
SUITES = ("bookworm", "trixie", "experimental")
PACKAGES = ("libcuda1", "libnvidia-ml1")

# Newest headers and the last of the line before (rows must agree with both).
WHEELS = (
    "nvidia-cuda-runtime==13.5.37",
    "nvidia-cuda-runtime-cu12==12.9.79",
    "nvidia-cuda-crt==13.5.37",
    "nvidia-nvml-dev==13.5.37",
)


def say(*words):
    print("abi:", *words, file=sys.stderr)


def run(command, **kw):
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, cwd=ROOT, **kw).stdout


def fetch_driver(suite):
    """Unpack one suite's driver libraries; nothing to do where a stamp says it was done."""
    stamp = CACHE / f"suite-{suite}"
    if stamp.exists():
        return
    debs = run(["bash", "-euc", '. tools/lib.sh; debian_get "$@"', "debian_get", suite, *PACKAGES]).split()
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        for deb in debs:
            run(["dpkg-deb", "-x", deb, scratch])
        library = next(pathlib.Path(scratch).rglob("libcuda.so.[0-9]*.*"))
        version = library.name.removeprefix("libcuda.so.")
        target = CACHE / f"driver-{version}"
        target.mkdir(exist_ok=True)
        for soname in ("libcuda.so", "libnvidia-ml.so"):
            source = next(pathlib.Path(scratch).rglob(f"{soname}.{version}"))
            shutil.move(source, target / f"{soname}.1")
    stamp.write_text(version + "\n")
    say(f"driver {version} from Debian {suite}")


def fetch_wheel(requirement):
    """Unpack one package of headers."""
    name, version = requirement.split("==")
    target = CACHE / f"headers-{name}-{version}"
    if target.exists():
        return
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        run([sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps",
             "--only-binary=:all:", "--platform", "manylinux_2_17_x86_64", "--platform", "manylinux2014_x86_64",
             "-d", scratch, requirement])
        wheel = next(pathlib.Path(scratch).glob("*.whl"))
        unpacked = pathlib.Path(scratch) / "unpacked"
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(unpacked, [m for m in archive.namelist() if m.endswith((".h", ".hpp"))])
        unpacked.rename(target)
    say(f"headers {name} {version}")


def main():
    CACHE.mkdir(parents=True, exist_ok=True)
    missing = 0
    for fetch, items in ((fetch_driver, SUITES), (fetch_wheel, WHEELS)):
        for item in items:
            try:
                fetch(item)
            except (subprocess.CalledProcessError, OSError, StopIteration) as error:
                say(f"left out {item}: {error}")
                missing += 1
    if missing:
        say(f"{missing} inputs missing; the tests that need them will skip")


main()
