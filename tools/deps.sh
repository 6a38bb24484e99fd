#!/usr/bin/env bash
# Install what a group of commands needs. Groups: build, test, clients, node, abi, frameworks, all.
set -euo pipefail
cd "$GS_ROOT"
. tools/lib.sh

deps_build() {
    apt_install gcc libc6-dev pkg-config meson ninja-build python3 libmicrohttpd-dev libcurl4-gnutls-dev libgnutls28-dev libcyaml-dev libyaml-dev \
        libgrpc-dev libprotobuf-c-dev protobuf-c-compiler # libcyaml-dev of Debian 13 names libyaml-dev's library and lacks it
    pkg-config --exists yyjson 2>/dev/null && return 0
    if ! apt-cache show libyyjson-dev >/dev/null 2>&1; then apt_refresh; fi
    if apt-cache show libyyjson-dev >/dev/null 2>&1; then
        apt_install libyyjson-dev
    else
        # Debian 12 lacks it; this one package comes from Debian 13.
        say "yyjson from Debian 13"
        debian_get trixie libyyjson0 libyyjson-dev >/dev/null
        as_root dpkg -i .cache/deb/trixie/libyyjson0_*.deb .cache/deb/trixie/libyyjson-dev_*.deb >&2
    fi
}

deps_test() {
    deps_build
    apt_install libcmocka-dev clang llvm binutils util-linux strace python3-venv musl-tools
    local major
    major="$(clang --version | sed -n 's/.*version \([0-9]*\).*/\1/p' | head -n 1)"
    apt_install "libclang-rt-$major-dev"
    venv_install tests/requirements.txt
}

deps_clients() {
    deps_test
    apt_install ffmpeg hashcat libncurses6 libncursesw6 libsystemd0 libudev1
    venv_install tests/clients/requirements.txt
    if (debian_mirror) >/dev/null 2>&1; then
        debian_unpack bookworm nvtop .cache/tools/nvtop
        debian_unpack trixie nvidia-smi .cache/tools/nvidia-smi
    else
        say "no Debian archive here: the tests of nvtop and nvidia-smi are skipped"
    fi
}

# containerd and runc for a real node in e2e: unpacked, not installed.
deps_node() {
    apt_install iproute2 util-linux
    if ! (debian_mirror) >/dev/null 2>&1; then
        say "no Debian archive here: the tests on a real node are skipped"
        return
    fi
    debian_unpack bookworm containerd .cache/tools/containerd
    debian_unpack bookworm runc .cache/tools/runc
    debian_unpack bookworm containernetworking-plugins .cache/tools/cni
}

deps_abi() {
    deps_test
    .venv/bin/python tools/fetch_abi_inputs.py >&2
}

deps_frameworks() {
    deps_clients
    tests/frameworks/install.sh >&2
}

[ $# -gt 0 ] || set -- build
for group in "$@"; do
    case "$group" in
        build | test | clients | node | abi | frameworks) "deps_$group" ;;
        all) deps_clients && deps_abi ;;
        *) die "unknown group '$group'" ;;
    esac
done
