#!/usr/bin/env bash
# The container image of the chart's gpuslice-scheduler, without docker: `./dev image [--tag NAME:TAG] [FILE]`.
# --root DIR makes its file tree alone, for deploy/Dockerfile.
set -euo pipefail
cd "$GS_ROOT"
. tools/lib.sh

usage="usage: ./dev image [--tag NAME:TAG] [FILE]"
tag="gpuslice/gpuslice-scheduler:$(sed -n 's/^appVersion: *//p' deploy/helm/gpuslice/Chart.yaml)"
out="$PWD/build/gpuslice-scheduler.tar" root=""
while [ $# -gt 0 ]; do
    case "$1" in
        --tag) tag="${2:?$usage}" && shift 2 ;;
        --root) root="${2:?$usage}" && shift 2 ;;
        -*) die "$usage" ;;
        *)
            out="$1" && shift
            case "$out" in /*) ;; *) out="$GS_CALLER_DIR/$out" ;; esac
            ;;
    esac
done
case "${tag##*/}" in *:?*) ;; *) die "--tag wants NAME:TAG" ;; esac
tools/build.sh release
apt_install binutils
if [ -n "$root" ]; then
    python3 tools/image.py root build/stage "$root"
    exit 0
fi
python3 tools/image.py root build/stage build/image
digest="$(python3 tools/image.py archive build/image "$tag" "$out")"
say "$tag, $(du -m "$out" | cut -f1) MiB, $digest"
printf '%s\n' "$out"
