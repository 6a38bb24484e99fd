#!/usr/bin/env bash
# Build libvgpu.so for the other architecture and for the oldest supported C library, and check the result.
# usage: tools/build_aarch64.sh [OUTPUT_FOLDER]   (ARCH=x86_64 builds for this architecture's old libc)
# Uses zig's C compiler, a PyPI package (ziglang), which carries the libc stubs of every glibc version.
set -euo pipefail
root="$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)"
arch="${ARCH:-aarch64}"
out="${1:-$root/build/$arch}"
venv="${GS_ZIG_VENV:-$root/build/zig}"

if [ ! -x "$venv/bin/python" ]; then
    python3 -m venv "$venv" >&2
fi
"$venv/bin/python" -c 'import ziglang' 2>/dev/null || "$venv/bin/pip" install -q ziglang==0.17.1 >&2

mkdir -p "$out"
# meson wants single programs; -Wl,... options that zig's driver does not know are dropped here
cat >"$out/cc" <<EOT
#!/bin/sh
case "\$*" in
    *-Wl,--version) echo "LLD 19.0.0 (compatible with GNU linkers)"; exit ;; # meson asks who links
esac
target=$arch-linux-gnu.2.17
for arg; do
    shift
    case "\$arg" in
        -E) target=$arch-linux-gnu; set -- "\$@" "\$arg" ;; # the preprocessor knows no libc versions
        -Wl,--no-undefined | -Wl,-z,noexecstack | -pie) ;;
        *) set -- "\$@" "\$arg" ;;
    esac
done
exec "$venv/bin/python" -m ziglang cc -g0 -s -target "\$target" "\$@"
EOT
cat >"$out/ar" <<EOT
#!/bin/sh
exec "$venv/bin/python" -m ziglang ar "\$@"
EOT
chmod +x "$out/cc" "$out/ar"
cat >"$out/cross.ini" <<EOT
[binaries]
c = '$out/cc'
ar = '$out/ar'
[host_machine]
system = 'linux'
cpu_family = '$arch'
cpu = '$arch'
endian = 'little'
EOT
if [ ! -f "$out/meson/build.ninja" ]; then
    meson setup --cross-file "$out/cross.ini" -Dtests=false -Dhook_only=true "$out/meson" "$root" >&2
fi
ninja -C "$out/meson" src/vendors/nvidia/hook/libvgpu.so >&2
"$root/tools/check_hook_binary.py" "$out/meson/src/vendors/nvidia/hook/libvgpu.so" \
    "$root/src/vendors/nvidia/abi/api.def"
