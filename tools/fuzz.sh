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
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(basename -s .c fuzz/*.c)
mkdir -p build/fuzz
for t in "${targets[@]}"; do
    [ -f "fuzz/$t.c" ] || die "no fuzz target '$t'"
    # Each target names the sources it needs in its first lines: /* sources: a.c b.c */
    sources="$(sed -n 's|^/\* sources: \(.*\) \*/|\1|p' "fuzz/$t.c")"
    say "fuzz $t, $seconds s"
    # shellcheck disable=SC2086
    clang -std=c17 -D_GNU_SOURCE -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -Isrc \
        -o "build/fuzz/$t" "fuzz/$t.c" $sources
    mkdir -p "build/fuzz/corpus-$t"
    seeds=()
    [ ! -d "fuzz/corpus/$t" ] || seeds=("fuzz/corpus/$t")
    "build/fuzz/$t" -max_total_time="$seconds" -timeout=5 -rss_limit_mb=2048 -artifact_prefix="build/fuzz/" \
        "build/fuzz/corpus-$t" "${seeds[@]}" >&2
done
