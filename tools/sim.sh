#!/usr/bin/env bash
# Run a command with simulated cards in place of drivers.
set -euo pipefail
. "$GS_ROOT/tools/lib.sh"

usage() {
    cat <<'EOF'
usage: ./dev sim [OPTIONS] -- CMD...
  --vendor V        nvidia (default)
  --cards N         number of cards (1), at most 64
  --memory SIZE     memory of each card (8Gi)
  --model NAME      name the card reports
  --overhead SIZE   what a context costs (0)
  --granularity G   2Mi, or `random`
  --zero-cost       no modelled time, no system calls on hot paths
  --cudart 12|13    preload the simulator's CUDA runtime of that major version
  --keep NAME       name the cards; they stay as they were made until `./dev sim --stop NAME`; calls with one NAME share
                    them, and need not say again what they are like
  --stop NAME       end kept cards
Standard output and exit status are CMD's.
EOF
}

vendor=nvidia keep='' preload=''
declare -A given=() # of the options that the cards are made by
base="/dev/shm/gpuslice-sim-$(id -u)"
value() { [ $# -ge 2 ] || die "sim: $1 needs a value; see ./dev sim --help"; }
kept() { # names of those there are
    local one names=()
    for one in "$base"/kept-*; do [ ! -d "$one" ] || names+=("${one##*/kept-}"); done
    [ ${#names[@]} -eq 0 ] || printf '; there are: %s' "${names[*]}"
}
while [ $# -gt 0 ]; do
    case "$1" in
        --zero-cost) given[mode]=zero-cost && shift && continue ;;
        -h | --help) usage && exit 0 ;;
        --) shift && break ;;
        -*) value "$@" ;;
        *) break ;;
    esac
    case "$1" in
        --vendor) vendor="$2" ;;
        --cards | --memory | --model | --overhead | --granularity) given[${1#--}]="$2" ;;
        --cudart)
            [[ "$2" = 12 || "$2" = 13 ]] || die "sim: --cudart '$2': there is 12 and 13"
            preload="libcudart.so.$2"
            ;;
        --keep) keep="$2" ;;
        --stop)
            [[ "$2" != */* && -n "$2" ]] || die "sim: bad name '$2'"
            [ -d "$base/kept-$2" ] || die "sim: no cards are kept as '$2'$(kept)"
            rm -rf "$base/kept-$2"
            exit 0
            ;;
        *) die "sim: unknown option '$1'; ./dev sim --help lists them" ;;
    esac
    shift 2
done
[ $# -gt 0 ] || { usage >&2 && exit 2; }
[[ "$keep" != */* ]] || die "sim: bad name '$keep'"
stage="$GS_ROOT/build/stage"
lib="$stage/lib/gpuslice/sim/$vendor"
[ -d "$stage/lib/gpuslice/sim" ] || "$GS_ROOT/tools/build.sh" release
[ -d "$lib" ] || die "sim: no simulated cards for vendor '$vendor'"

# keep_as_made FILE: the first call with a name notes what its cards are like; a later one that wants others is told.
keep_as_made() {
    local one made
    for one in cards=1 memory=8Gi model= overhead= granularity= mode=; do
        printf '%s=%s\n' "${one%%=*}" "${given[${one%%=*}]-${one#*=}}"
    done >"$1.$$"
    ln "$1.$$" "$1" 2>/dev/null || true # of calls at the same moment one is the first
    rm "$1.$$"
    for one in "${!given[@]}"; do
        made="$(sed -n "s/^$one=//p" "$1")"
        [ "$made" = "${given[$one]}" ] ||
            die "sim: the cards '$keep' were made with $one '$made', not '${given[$one]}'; end them with ./dev sim --stop $keep"
    done
}

cd "$GS_CALLER_DIR"
install -d -m 0700 "$base"
if [ -n "$keep" ]; then
    export GPUSLICE_SIM_DIR="$base/kept-$keep"
    mkdir -p "$GPUSLICE_SIM_DIR"
    keep_as_made "$GPUSLICE_SIM_DIR/made"
else
    GPUSLICE_SIM_DIR="$(mktemp -d "$base/run-XXXXXX")"
    export GPUSLICE_SIM_DIR
    trap 'rm -rf "$GPUSLICE_SIM_DIR"' EXIT
fi
export GPUSLICE_SIM_CARDS=1 GPUSLICE_SIM_MEMORY=8Gi
for one in "${!given[@]}"; do export "GPUSLICE_SIM_${one^^}=${given[$one]}"; done
export PATH="$stage/bin:$PATH"
export LD_LIBRARY_PATH="$lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
# What is wrong with the cards is told here: CMD would have it from the driver as one of the driver's own errors.
if ! why="$("$stage/bin/gpuslice-sim" status --json 2>&1 >/dev/null)"; then
    [ -e "$GPUSLICE_SIM_DIR/cards" ] || rm -rf "$GPUSLICE_SIM_DIR"
    die "sim: $(sed 's/^gpuslice-sim: //; s/GPUSLICE_SIM_\([A-Z]*\)=/--\L\1 /' <<<"$why")"
fi
[ -z "$preload" ] || export LD_PRELOAD="$lib/$preload${LD_PRELOAD:+:$LD_PRELOAD}"
rc=0
"$@" || rc=$?
exit "$rc"
