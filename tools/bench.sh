#!/usr/bin/env bash
# Measure: ./dev bench [hook] [--json] [--raw FILE] [--rounds N]
#          ./dev bench limiter [--json] [--full] [--raw FILE]
set -euo pipefail
cd "$GS_ROOT"
. tools/lib.sh
what=hook
case "${1:-}" in
    hook | limiter) what="$1" && shift ;;
    scheduler | node) die "bench '$1' is not there yet" ;;
esac
GS_WITH_TESTS=1 tools/build.sh release
exec python3 "bench/$what.py" "$@"
