#!/usr/bin/env bash
# Measure: ./dev bench [hook] [--json] [--raw FILE] [--rounds N]
set -euo pipefail
cd "$GS_ROOT"
. tools/lib.sh
what=hook
case "${1:-}" in hook) shift ;; limiter | scheduler | node) die "bench '$1' is not there yet" ;; esac
GS_WITH_TESTS=1 tools/build.sh release
exec python3 "bench/$what.py" "$@"
