#!/usr/bin/env bash
# Plain manifests of the chart, into deploy/manifests (or the folder named), for clusters without helm.
set -euo pipefail
cd "$GS_ROOT"
. tools/lib.sh

out="${1:-deploy/manifests}"
case "$out" in /*) ;; *) [ $# -eq 0 ] || out="$GS_CALLER_DIR/$out" ;; esac
# nothing else of a cluster is needed, and where helm is installed not even that
if [ -z "${GS_K8S_BIN:-}" ]; then tools/cluster.sh build helm; fi
helm="${GS_K8S_BIN:-.cache/k8s/bin}/helm"
namespace=gpuslice-system
state="$(mktemp -d)"
trap 'rm -rf "$state"' EXIT
mkdir -p "$out"

# render FILE HELM-OPTION...: nothing random goes in, so that the same chart gives the same text. Keys and
# certificates come from the cluster's side (secrets.sh, or cert-manager).
render() {
    local file="$out/$1"
    shift
    {
        echo "# Made by ./dev manifests from deploy/helm/gpuslice. Do not edit."
        printf -- '---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: %s\n' "$namespace"
        KUBECONFIG=/dev/null HELM_CACHE_HOME="$state" HELM_CONFIG_HOME="$state" HELM_DATA_HOME="$state" \
            "$helm" template gpuslice deploy/helm/gpuslice -n "$namespace" --kube-version v1.36.3 \
            --api-versions admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy \
            --set grantSigning.existingSecret=gpuslice-grant-key "$@"
    } >"$file"
}

render scheduler.yaml --set scheduler.tls.existingSecret=gpuslice-scheduler-tls
render scheduler-cert-manager.yaml --set scheduler.certManager.enabled=true
