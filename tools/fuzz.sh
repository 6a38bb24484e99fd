#!/usr/bin/env bash
# Build and run libFuzzer targets: ./dev fuzz [TARGET] --seconds N. A target is fuzz/TARGET.c.
set -euo pipefail
cd "$GS_ROOT"
. tools/lib.sh
seconds=10 targets=()
while [ $# -gt 0 ]; do
    case "$1" in
        --seconds) seconds="${2:?--seconds needs a number}" && shift 2 ;;
        *) targets+=("$1") && shift ;;
    esac
done
tools/deps.sh test
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(basename -s .c fuzz/*.c | grep -vx replay)
build=build/fuzzers out=build/fuzz
mkdir -p "$out"
if [ ! -f "$build/build.ninja" ]; then
    rm -rf "$build"
    CC=clang meson setup "$build" -Dfuzz=true -Dtests=false -Db_sanitize=address,undefined -Db_lundef=false \
        --buildtype=debugoptimized -Doptimization=1 \
        -Dc_args='-fsanitize=fuzzer-no-link -fno-sanitize-recover=all' >&2
fi
for t in "${targets[@]}"; do
    [ -f "fuzz/$t.c" ] || die "no fuzz target '$t'"
done
ninja -C "$build" "${targets[@]/#/fuzz/}" >&2

# fuzz TARGET: what it found is at the end of its log.
fuzz() {
    local log="$out/$1.log" seeds=()
    mkdir -p "$out/corpus-$1"
    [ ! -d "fuzz/corpus/$1" ] || seeds=("fuzz/corpus/$1")
    if "$build/fuzz/$1" -max_total_time="$seconds" -timeout=15 -rss_limit_mb=2048 -artifact_prefix="$out/" \
        "$out/corpus-$1" "${seeds[@]}" >"$log" 2>&1; then
        echo "fuzz $1: clean, $(tail -n 1 "$log")" >&2
    else
        tail -n 60 "$log" >&2
        echo "fuzz $1: FAILED ($log)" >&2
        return 1
    fi
}
export -f fuzz
export build out seconds
say "fuzz ${#targets[@]} targets, $seconds s each"
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I{} bash -c 'fuzz "$1"' - {}
