#!/usr/bin/env bash
# End-to-end tests on a real control plane. A suite is a folder of tests/e2e; all of them by default.
# Words after `--` go to pytest (-k NAME, -x, ...).
set -euo pipefail
cd "$GS_ROOT"
. tools/lib.sh

suites=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    [ -n "$(find "tests/e2e/$1" -name 'test_*.py' 2>/dev/null)" ] || die "unknown suite '$1'"
    suites+=("tests/e2e/$1")
    shift
done
[ "${1:-}" != -- ] || shift
[ ${#suites[@]} -gt 0 ] || suites=(tests/e2e)
case " ${suites[*]} " in *" tests/e2e "* | *" tests/e2e/image "*) tools/deps.sh node ;; esac
tools/cluster.sh build
GS_WITH_TESTS=1 tools/build.sh release # kube_client drives a test program
export GS_STAGE="$PWD/build/stage"
reports="$PWD/build/reports"
mkdir -p "$reports"
rc=0
.venv/bin/python -m pytest -q -rs -p no:cacheprovider -o junit_family=xunit1 -o junit_logging=system-out \
    --junitxml="$reports/e2e.xml" "${suites[@]}" "$@" >&2 || rc=$?
read -r passed failed skipped < <(.venv/bin/python tools/junit_counts.py "$reports/e2e.xml" || echo "0 1 0")
echo "$passed passed, $failed failed, $skipped skipped"
exit $rc
