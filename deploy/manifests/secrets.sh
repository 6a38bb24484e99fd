#!/bin/sh
# Makes what scheduler.yaml leaves to the cluster's side: the webhook's certificate (and tells the API server to
# trust it) and the key that grants are signed with. Needs kubectl and openssl; run once, after scheduler.yaml.
# With --grant-key it makes the key alone, for scheduler-cert-manager.yaml.
set -eu
case "${1:-}" in
    '' | --grant-key) ;;
    *)
        echo "usage: ${0##*/} [--grant-key]   writes to the cluster that kubectl is set to" >&2
        exit 2
        ;;
esac
namespace=gpuslice-system
host=gpuslice-scheduler.$namespace.svc
days=3650
umask 077
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

openssl rand -out "$dir/key" 48
kubectl -n $namespace get secret gpuslice-grant-key >/dev/null 2>&1 ||
    kubectl -n $namespace create secret generic gpuslice-grant-key --from-file=key="$dir/key"
[ "${1:-}" != --grant-key ] || exit 0

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days $days -subj "/CN=gpuslice-scheduler-ca" \
    -keyout "$dir/ca.key" -out "$dir/ca.crt" 2>/dev/null
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$host" \
    -keyout "$dir/tls.key" -out "$dir/tls.csr" 2>/dev/null
printf 'subjectAltName=DNS:%s,DNS:%s.cluster.local,IP:127.0.0.1\n' "$host" "$host" >"$dir/ext"
openssl x509 -req -in "$dir/tls.csr" -CA "$dir/ca.crt" -CAkey "$dir/ca.key" -CAcreateserial -days $days \
    -extfile "$dir/ext" -out "$dir/tls.crt" 2>/dev/null
kubectl -n $namespace create secret generic gpuslice-scheduler-tls --type=kubernetes.io/tls --dry-run=client -o yaml \
    --from-file=tls.crt="$dir/tls.crt" --from-file=tls.key="$dir/tls.key" --from-file=ca.crt="$dir/ca.crt" |
    kubectl apply -f -
kubectl patch mutatingwebhookconfiguration gpuslice-webhook --type=json -p \
    "[{\"op\":\"add\",\"path\":\"/webhooks/0/clientConfig/caBundle\",\"value\":\"$(base64 <"$dir/ca.crt" | tr -d '\n')\"}]"
