#!/usr/bin/env bash
# Build and stage: release -> build/stage, asan -> build/stage-asan, tsan -> build/stage-tsan.
# `steps` is the release build with labelled kill points, for the crash matrix.
# With GS_WITH_TESTS=1 the test programs are built too; a second word SUITE builds only what the tests
# of that suite need, and stages nothing.
set -euo pipefail
cd "$GS_ROOT"
. tools/lib.sh

kind="${1:-release}"
opts=()
stage="$PWD/build/stage-$kind"
case "$kind" in
    release) stage="$PWD/build/stage" ;;
    asan) opts=(-Db_sanitize=address,undefined -Db_lundef=false --buildtype=debugoptimized -Doptimization=1) ;;
    tsan) opts=(-Db_sanitize=thread -Db_lundef=false --buildtype=debugoptimized -Doptimization=1) ;;
    steps) opts=(-Dsteps=true) ;;
    *) die "unknown build '$kind' (release, asan, tsan)" ;;
esac
tests=false
if [ -n "${GS_WITH_TESTS:-}" ] || [ -f "build/$kind/.tests" ]; then tests=true; fi
if [ "$tests" = true ]; then tools/deps.sh test; else tools/deps.sh build; fi
say "build $kind"
if [ ! -f "build/$kind/build.ninja" ]; then
    rm -rf "build/$kind"
    meson setup "build/$kind" --prefix="$stage" -Dtests=$tests "${opts[@]}" >&2
elif [ "$tests" = true ] && [ ! -f "build/$kind/.tests" ]; then
    meson configure "build/$kind" -Dtests=true >&2
fi
if [ "$tests" = true ]; then touch "build/$kind/.tests"; fi
if [ -n "${2:-}" ]; then
    ninja -C "build/$kind" build.ninja >&2 # first: the list of tests may have changed
    # shellcheck disable=SC2046
    ninja -C "build/$kind" $(python3 tools/suite_targets.py "build/$kind" "$2") >&2
    exit 0
fi
ninja -C "build/$kind" >&2
meson install -C "build/$kind" --no-rebuild --quiet >&2
ln -sfn "build/$kind/compile_commands.json" compile_commands.json
