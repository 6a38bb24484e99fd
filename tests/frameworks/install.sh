#!/usr/bin/env bash
# Large downloads, each framework in a virtual environment of its own below .cache/frameworks. About 9 GB.
# torch 1.12.1 (CUDA 10.2) needs Python 3.9: taken from Debian 11's packages, unpacked, not installed.
set -euo pipefail
cd "$GS_ROOT"
. tools/lib.sh
base="$PWD/.cache/frameworks"
mkdir -p "$base"

venv() { # venv NAME REQUIREMENT...
    local dir="$base/$1"
    shift
    [ -f "$dir/.done" ] && return 0
    say "frameworks: $*"
    python3 -m venv "$dir"
    "$dir/bin/python" -m pip install -q --disable-pip-version-check "$@"
    touch "$dir/.done"
}

python39() {
    local dir="$base/python3.9" p
    [ -f "$dir/.done" ] && return 0
    for p in python3.9-minimal libpython3.9-minimal libpython3.9-stdlib python3.9 libffi7 libssl1.1 libmpdec3 libtinfo6 libreadline8; do
        dpkg -x "$(debian_get bullseye $p)" "$dir"
    done
    touch "$dir/.done"
}

torch_old() {
    local dir="$base/torch1.12"
    [ -f "$dir/.done" ] && return 0
    say "frameworks: torch 1.12.1 with its own CUDA 10.2"
    python39
    python3 -m pip download -q --disable-pip-version-check --python-version 3.9 --only-binary=:all: --no-deps \
        -d "$base/wheels" torch==1.12.1 numpy==1.26.4 typing_extensions==4.12.2
    mkdir -p "$dir"
    for w in "$base"/wheels/{torch-1.12.1,numpy-1.26.4,typing_extensions-4.12.2}*.whl; do
        python3 -m zipfile -e "$w" "$dir"
    done
    touch "$dir/.done"
}

[ $# -gt 0 ] || set -- torch1.12 torch2 cupy tensorflow
for f in "$@"; do
    case "$f" in
        torch1.12) torch_old ;;
        torch2) venv torch2 torch==2.7.1 numpy ;;
        cupy) venv cupy cupy-cuda12x==12.3.0 "numpy<2" setuptools ;;
        tensorflow) venv tensorflow tensorflow==2.19.0 ;;
        *) die "unknown framework '$f'" ;;
    esac
done
