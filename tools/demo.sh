#!/usr/bin/env bash
# The main job, shown: real programs held to a limit, two slices on one card, a refusal and its reason.
# Without a GPU the card is simulated; --real uses the one you have.
set -euo pipefail
cd "$GS_ROOT"
. tools/lib.sh

real=false
[ "${1:-}" != --real ] || real=true
tools/deps.sh build
apt_install ffmpeg python3-venv
venv_install tools/demo-requirements.txt
tools/build.sh release
export PATH="$PWD/build/stage/bin:$PATH"
python="$PWD/.venv/bin/python"

work="$(mktemp -d)"
export XDG_RUNTIME_DIR="$work/run"
mkdir -m 0700 "$XDG_RUNTIME_DIR"
name="demo-$$"
cleanup() {
    local s
    for s in alice bob carol dave; do gpuslice rm --force "$s" >/dev/null 2>&1 || true; done
    kill $(jobs -p) 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$work"
    $real || ./dev sim --stop "$name" 2>/dev/null || true # there are none before the first command
}
trap cleanup EXIT
on_card() { if $real; then "$@"; else ./dev sim --memory 8Gi --keep "$name" -- "$@"; fi; }
show() {
    echo
    say_bold 1 "$ $*"
}
expect() { # expect STATUS TEXT COMMAND...: run it, show it, insist; STATUS `fails`: any but 0
    local want="$1" text="$2" rc=0
    shift 2
    show "${@/#$python/python}"
    on_card "$@" >"$work/out" 2>&1 || rc=$?
    sed 's/^/    /' "$work/out"
    if [ "$want" = fails ] && [ "$rc" -ne 0 ]; then want="$rc"; fi # which one is ffmpeg's affair
    [ "$rc" = "$want" ] || die "demo: status $rc, expected $want"
    grep -q "$text" "$work/out" || die "demo: expected to read: $text"
}

say "1. a Python program sees a 2 GiB card, and gets no more"
expect 0 "refused: CUDA_ERROR_OUT_OF_MEMORY" gpuslice run --memory 2Gi -- "$python" tools/demo_client.py

say "2. ffmpeg's CUDA filters, unmodified: fits in 256 MiB, is refused under 8 MiB"
filter=(ffmpeg -v error -init_hw_device cuda=cu:0 -filter_hw_device cu -f lavfi -i)
tail=(-vf "format=yuv420p,hwupload_cuda,hwdownload,format=yuv420p" -f md5 -)
if ! $real; then
    expect 0 "MD5=" gpuslice run --memory 256Mi -- "${filter[@]}" testsrc=s=320x240:d=0.2 "${tail[@]}"
    expect fails "CUDA_ERROR_OUT_OF_MEMORY" gpuslice run --memory 8Mi -- "${filter[@]}" testsrc=s=3840x2160:d=0.2 "${tail[@]}"
fi

say "3. two slices share one card"
for s in alice:3Gi bob:4Gi; do
    show gpuslice run --name "${s%:*}" --memory "${s#*:}" -- python tools/demo_client.py --hold FILE '&'
    on_card gpuslice run --name "${s%:*}" --memory "${s#*:}" -- "$python" tools/demo_client.py --hold "$work/${s%:*}" \
        >"$work/${s%:*}.out" 2>&1 &
    until [ -s "$work/${s%:*}" ]; do
        kill -0 $! 2>/dev/null || die "demo: a slice ended early: $(cat "$work/${s%:*}.out")"
        sleep 0.1
    done
    sed 's/^/    /' "$work/${s%:*}.out"
done
expect 0 "alice" gpuslice top --once
$real || expect 125 "alice\|bob\|promised\|GiB" gpuslice run --memory 2Gi -- true

say "4. kill -9 leaks nothing"
show "kill -9 $(cat "$work/alice")    # alice's program"
kill -9 "$(cat "$work/alice")"
expect 0 "bob" gpuslice top --once
if grep -q alice "$work/out"; then
    sleep 0.5
    on_card gpuslice top --once >"$work/out" 2>&1
    ! grep -q alice "$work/out" || die "demo: a dead slice is still listed"
fi
expect 0 "cuMemAlloc" gpuslice log bob
say "5. two greedy programs share its compute, 30 and 60 percent of the card's time"
export GPUSLICE_SIM_KERNEL_NS=spin=1000000 # a simulated card takes the program's word for it
for s in carol:30 dave:60; do
    show gpuslice run --cores "${s#*:}" --name "${s%:*}" -- python tools/demo_load.py --seconds 8 '&'
    on_card gpuslice run --cores "${s#*:}" --name "${s%:*}" -- "$python" tools/demo_load.py --seconds 8 >"$work/${s%:*}" 2>&1 &
    loads+=($!)
done
sleep 4
expect 0 "of 30 % fixed" gpuslice top --once
expect 0 "30 % fixed -> 10 % fixed" gpuslice resize carol --cores 10
sleep 2
expect 0 "of 10 % fixed" gpuslice top --once
wait "${loads[@]}"
for s in carol dave; do sed "s/^/    $s: /" "$work/$s"; done
say "that is the main job; ./dev help for more"
