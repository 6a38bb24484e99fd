#!/usr/bin/env bash
# Run test suites and end with one line: `N passed, N failed, N skipped`.
set -euo pipefail
cd "$GS_ROOT"
. tools/lib.sh

default=(lint unit model abi interpose it net grpc limiter cli clients crash sanitize fuzz)
[ $# -gt 0 ] || set -- "${default[@]}"
reports="$PWD/build/reports"
rm -rf "$reports"
mkdir -p "$reports"
export GS_WITH_TESTS=1
tools/build.sh release
export GS_STAGE="$PWD/build/stage" GS_BUILD="$PWD/build/release"
passed=0 failed=0 skipped=0 broken=()

# tally SUITE PASSED FAILED SKIPPED EXIT: a suite that died without a count is a failure too.
tally() {
    passed=$((passed + $2)) failed=$((failed + $3)) skipped=$((skipped + $4))
    if [ "$3" -eq 0 ] && [ "$5" -ne 0 ]; then failed=$((failed + 1)); fi
    if [ "$3" -ne 0 ] || [ "$5" -ne 0 ]; then broken+=("$1"); fi
    printf -- '-- %s: %s passed, %s failed, %s skipped\n' "$1" "$2" "$3" "$4" >&2
}

# run_meson NAME SUITE [BUILD]: programs registered in meson.build under that suite.
run_meson() {
    local build="${3:-build/release}" rc=0 log
    log="$reports/$1.txt"
    meson test -C "$build" --no-rebuild --suite "$2" --print-errorlogs >"$log" 2>&1 || rc=$?
    grep -E '^ *[0-9]+/[0-9]+ ' "$log" >&2 || true
    [ $rc -eq 0 ] || sed -n '/Summary of Failures/,$p' "$log" >&2
    count() { sed -n "s/^$1: *\([0-9]*\).*/\1/p" "$log" | tail -n 1; }
    local ok fail timeout skip
    ok="$(count Ok)" fail="$(count Fail)" timeout="$(count Timeout)" skip="$(count Skipped)"
    tally "$1" "${ok:-0}" "$((${fail:-0} + ${timeout:-0}))" "${skip:-0}" "$rc"
}

# run_pytest NAME PATH...: counts come from the JUnit report, not from the text.
run_pytest() {
    local name="$1" rc=0
    shift
    .venv/bin/python -m pytest -q -rs -p no:cacheprovider --junitxml="$reports/$name.xml" "$@" >&2 || rc=$?
    local counts
    counts="$(.venv/bin/python tools/junit_counts.py "$reports/$name.xml")" || counts="0 0 0"
    # shellcheck disable=SC2086
    tally "$name" $counts "$rc"
}

suite_lint() {
    local rc=0
    tools/lint.sh || rc=$?
    if [ $rc -eq 0 ]; then tally lint 1 0 0 0; else tally lint 0 1 0 $rc; fi
}
suite_unit() { run_meson unit unit; }
suite_model() { run_meson model model; }
suite_abi() {
    tools/deps.sh abi
    run_pytest abi tests/abi -s
}
suite_interpose() { run_pytest interpose tests/it/interpose; }
# Folders with fixtures of their own go by themselves: two conftest.py do not mix in one run.
suite_it() {
    run_pytest it tests/it --ignore tests/it/interpose --ignore tests/it/cli --ignore tests/it/limiter \
        --ignore tests/it/net --ignore tests/it/grpc --ignore tests/it/kube
    run_pytest it-kube tests/it/kube
}
suite_limiter() { run_pytest limiter tests/it/limiter; }
# Both ends again under the address sanitizer: peers that leave at any moment are what it is for.
suite_net() {
    run_pytest net tests/it/net
    tools/build.sh asan unit
    ninja -C build/asan tests/it/net/net_server tests/it/net/net_client >&2
    GS_BUILD="$PWD/build/asan" run_pytest net-asan tests/it/net
}
# gRPC core is not built for the thread sanitizer, which therefore looks at our own code alone.
suite_grpc() {
    local kind
    run_pytest grpc tests/it/grpc
    for kind in asan tsan; do
        tools/build.sh $kind unit
        ninja -C build/$kind tests/it/grpc/grpc_tool >&2
        GS_BUILD="$PWD/build/$kind" TSAN_OPTIONS=ignore_noninstrumented_modules=1 run_pytest grpc-$kind tests/it/grpc
    done
}
suite_cli() { run_pytest cli tests/it/cli; }
suite_clients() {
    tools/deps.sh clients
    run_pytest clients tests/clients
}
suite_crash() {
    tools/build.sh steps crash
    run_meson crash crash build/steps
}
suite_sanitize() {
    local kind
    for kind in asan tsan; do
        tools/build.sh $kind unit
        run_meson "$kind" unit "build/$kind"
    done
}
# One test a target: it ran so long and found nothing.
suite_fuzz() {
    local rc=0 log="$reports/fuzz.txt"
    tools/fuzz.sh --seconds 20 2>"$log" || rc=$?
    [ $rc -eq 0 ] || grep -B 60 '^fuzz .*: FAILED' "$log" >&2 || tail -n 40 "$log" >&2
    grep '^fuzz .*: clean' "$log" >&2 || true
    tally fuzz "$(grep -c '^fuzz .*: clean' "$log" || true)" "$(grep -c '^fuzz .*: FAILED' "$log" || true)" 0 "$rc"
}
suite_frameworks() {
    tools/deps.sh frameworks
    run_pytest frameworks tests/frameworks
}

for suite in "$@"; do
    declare -F "suite_$suite" >/dev/null || die "unknown suite '$suite'"
    say "suite $suite"
    "suite_$suite"
done
[ ${#broken[@]} -eq 0 ] || echo "failed suites: ${broken[*]}" >&2
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
