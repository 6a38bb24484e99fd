{{- define "gpuslice.dnsNames" -}}
{{- $name := include "gpuslice.scheduler" . -}}
{{- $ns := include "gpuslice.namespace" . -}}
{{- $hosts := list (printf "%s.%s.svc" $name $ns) (printf "%s.%s.svc.cluster.local" $name $ns) (printf "%s.%s" $name $ns) "localhost" -}}
{{- $custom := .Values.scheduler.admissionWebhook.customURL -}}
{{- if and $custom.enabled (not (regexMatch "^[0-9.]+$|:" $custom.host)) }}{{ $hosts = append $hosts $custom.host }}{{ end -}}
{{- join "\n" $hosts -}}
{{- end -}}

{{- /* Certificates made by the chart, as JSON of base64 texts: ca (what clients are to trust), cert, key, renewAfter.
       Those of the cluster's Secret are kept until the last third of their life; of a renewal the old authority
       stays trusted, as the daemon's pods see the new files later than the API server. Made once a rendering. */ -}}
{{- define "gpuslice.certificates" -}}
{{- if not (hasKey .Values "_certificates") -}}
{{- $tls := .Values.scheduler.tls -}}
{{- $old := lookup "v1" "Secret" (include "gpuslice.namespace" .) (include "gpuslice.tlsSecret" .) -}}
{{- $data := ($old).data | default dict -}}
{{- $now := now | unixEpoch | int64 -}}
{{- $renewAfter := index ((($old).metadata).annotations | default dict) "gpuslice.io/renew-after" | default "0" | int64 -}}
{{- $hosts := concat (list) (splitList "\n" (include "gpuslice.dnsNames" .)) -}}
{{- if and (index $data "tls.crt") (index $data "tls.key") (index $data "ca.crt") (lt $now $renewAfter) -}}
{{- $_ := set .Values "_certificates" (dict "ca" (index $data "ca.crt") "cert" (index $data "tls.crt") "key" (index $data "tls.key") "renewAfter" (toString $renewAfter)) -}}
{{- else -}}
{{- $ips := list "127.0.0.1" -}}
{{- $custom := .Values.scheduler.admissionWebhook.customURL -}}
{{- if and $custom.enabled (regexMatch "^[0-9.]+$|:" $custom.host) }}{{ $ips = append $ips $custom.host | uniq }}{{ end -}}
{{- $days := int $tls.validityDays -}}
{{- $ca := genCA (printf "%s-ca" (include "gpuslice.scheduler" .)) $days -}}
{{- $cert := genSignedCert (first $hosts) $ips $hosts $days $ca -}}
{{- $trusted := $ca.Cert -}}
{{- with index $data "ca.crt" }}{{ $trusted = printf "%s%s" $ca.Cert (b64dec .) }}{{ end -}}
{{- $_ := set .Values "_certificates" (dict "ca" (b64enc $trusted) "cert" (b64enc $cert.Cert) "key" (b64enc $cert.Key) "renewAfter" (add $now (div (mul $days 86400 2) 3) | toString)) -}}
{{- end -}}
{{- end -}}
{{- toJson .Values._certificates -}}
{{- end -}}

{{- /* What API servers are to trust, base64; empty: nothing of ours (cert-manager fills it in, or a public authority signed). */ -}}
{{- define "gpuslice.caBundle" -}}
{{- $s := .Values.scheduler -}}
{{- if $s.tls.existingSecret -}}
{{- with $s.tls.caBundle }}{{ b64enc . }}{{ end -}}
{{- else if not $s.certManager.enabled -}}
{{- (include "gpuslice.certificates" . | fromJson).ca -}}
{{- end -}}
{{- end -}}
