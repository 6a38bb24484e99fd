#!/usr/bin/env bash
# Rooms, sizes, symbols that nobody uses, format, headers that compile alone, static analysis.
# --deep: the path-sensitive analyzer too, which takes about ten seconds a file.
set -uo pipefail
cd "$GS_ROOT"
. tools/lib.sh
tools/deps.sh test || exit 1
GS_WITH_TESTS=1 tools/build.sh release || exit 1
deep=false
[ "${1:-}" != --deep ] || deep=true
rc=0
check() {
    say "lint: $1"
    shift
    "$@" >&2 || rc=1
}

format() { git ls-files 'src/*.c' 'src/*.h' 'tests/*.c' 'tests/*.h' 'bench/*.c' 'fuzz/*.c' | xargs .venv/bin/clang-format --dry-run -Werror; }
headers_alone() {
    local h bad=0
    for h in $(git ls-files 'src/*.h'); do
        printf '#include "%s"\nextern int gs_not_empty;\n' "${h#src/}" |
            gcc -std=c17 -D_GNU_SOURCE -Wall -Wextra -Wpedantic -Werror -Isrc -Ibuild/release/src -fsyntax-only -xc - || bad=1
    done
    return $bad
}
banned() { ! git grep -nE '\b(strcpy|strcat|sprintf|vsprintf|gets|strtok|alloca|localtime|gmtime|atoi|atol)\s*\(' -- 'src/*.c' 'src/*.h'; }
# A label of a documentation comment begins its line: the formatter used to fill them into the line before.
labels() { ! git grep -nE '[^ *] (Returns|Threads|Owner|Units|Shape|Source|Memory)(  |$)' -- 'src/*.c' 'src/*.h'; }
# The length that yyjson tells of a list is its number of entries: texts are read by gs_json_text() or gs_kube_json_text().
json_text() { ! git grep -nE '\byyjson_get_len\(' -- 'src/*.c' ':!src/model/json.c' ':!src/kube/json.c'; }
# What speaks gRPC is one decision: its words are known to three modules.
grpc_words() { ! git grep -nE '#include <grpc' -- src ':!src/net/grpc*'; }
unfinished() { ! git grep -nwE 'TODO|FIXME|XXX' -- src tests bench fuzz tools ':!tools/lint.sh'; }
# Formatter and analyzer are of one version, from tests/requirements.txt: what they say must not depend on the
# system. The analyzer's package lacks the compiler's own headers; own_string.c is built with a flag of gcc's own.
tidy() {
    local checks=(--checks=-clang-analyzer-*) found=build/tidy.txt ran=0
    [ "$deep" = false ] || checks=()
    git ls-files 'src/*.c' | grep -v '^src/hook/own_string.c$' |
        xargs -P 2 -n 8 .venv/bin/clang-tidy -p build/release --quiet "${checks[@]}" \
            --extra-arg=-resource-dir="$(clang -print-resource-dir)" >"$found" 2>/dev/null || ran=1
    if grep -E 'warning:|error:' "$found"; then return 1; fi
    return $ran
}

check rooms python3 tools/check_rooms.py
check sizes python3 tools/check_sizes.py
check "unused symbols" python3 tools/check_unused.py build/release
check format format
check "headers compile alone" headers_alone
check "banned functions" banned
check "texts of JSON" json_text
check "labels of comments" labels
check "words of gRPC core" grpc_words
check "marks of unfinished work" unfinished
check "hook binary" python3 tools/check_hook_binary.py build/stage/lib/gpuslice/libvgpu.so
check clang-tidy tidy
exit $rc
