#!/usr/bin/env bash
# Measure: ./dev bench [hook] [--json] [--raw FILE] [--rounds N]
#          ./dev bench limiter [--json] [--full] [--raw FILE]
#          ./dev bench scheduler [--json] [--full] [--raw FILE] [--no-cluster]
#          ./dev bench grpc [--json] [--calls N] [--rounds N]
set -euo pipefail
cd "$GS_ROOT"
. tools/lib.sh
what=hook
case "${1:-}" in
    grpc | hook | limiter | scheduler) what="$1" && shift ;;
    node) die "bench '$1' is not there yet" ;;
esac
GS_WITH_TESTS=1 tools/build.sh release
python=python3
# The real cluster of the scheduler's bench is that of the end-to-end tests, the peers of grpc's are those of its tests.
[ "$what" != scheduler ] && [ "$what" != grpc ] || [ ! -x .venv/bin/python ] || python=.venv/bin/python
script="$what"
[ "$what" != grpc ] || script=grpc_calls # tests that import from bench/ mean grpcio by `grpc`
exec "$python" "bench/$script.py" "$@"
