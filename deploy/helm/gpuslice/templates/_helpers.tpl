{{- define "gpuslice.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- /* Release name where it names the chart already, else "<release>-<chart>". */ -}}
{{- define "gpuslice.fullname" -}}
{{- $name := include "gpuslice.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "gpuslice.scheduler" -}}
{{- printf "%s-scheduler" (include "gpuslice.fullname" .) -}}
{{- end -}}

{{- define "gpuslice.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride -}}
{{- end -}}

{{- define "gpuslice.account" -}}
{{- default (include "gpuslice.scheduler" .) .Values.scheduler.serviceAccountName -}}
{{- end -}}

{{- /* kube-scheduler's own account: a pod has one, so this one's token comes from a Secret. */ -}}
{{- define "gpuslice.kubeAccount" -}}
{{- default (printf "%s-kube" (include "gpuslice.scheduler" .)) .Values.scheduler.kubeScheduler.serviceAccountName -}}
{{- end -}}

{{- define "gpuslice.selector" -}}
app.kubernetes.io/name: {{ include "gpuslice.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: gpuslice-scheduler
{{- end -}}

{{- define "gpuslice.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{ include "gpuslice.selector" . }}
{{- with .Values.global.labels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* metadata of an object of the release's namespace: dict "root" . "name" NAME, and "annotations" where it has some */ -}}
{{- define "gpuslice.meta" -}}
name: {{ .name }}
{{- if not .cluster }}
namespace: {{ include "gpuslice.namespace" .root }}
{{- end }}
labels:
  {{- include "gpuslice.labels" .root | nindent 2 }}
{{- with .labels }}
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with merge (dict) (.annotations | default dict) .root.Values.global.annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* dict "root" . "image" VALUES "tag" TAG */ -}}
{{- define "gpuslice.image" -}}
{{- $registry := default .image.registry .root.Values.global.imageRegistry -}}
{{- with $registry }}{{ . }}/{{ end }}{{ .image.repository }}:{{ .tag }}
{{- end -}}

{{- define "gpuslice.leaseName" -}}
{{- default .Values.schedulerName .Values.scheduler.leaderElectResourceName -}}
{{- end -}}

{{- define "gpuslice.leaseNamespace" -}}
{{- default (include "gpuslice.namespace" .) .Values.scheduler.leaderElectResourceNamespace -}}
{{- end -}}

{{- define "gpuslice.replicas" -}}
{{- if .Values.scheduler.leaderElect }}{{ .Values.scheduler.replicas }}{{ else }}1{{ end -}}
{{- end -}}

{{- /* "true": the webhook's port speaks TLS. Without webhook and with a kube-scheduler beside it nobody comes from outside. */ -}}
{{- define "gpuslice.usesTLS" -}}
{{- or .Values.scheduler.admissionWebhook.enabled (not .Values.scheduler.kubeScheduler.enabled) -}}
{{- end -}}

{{- /* "true": the kubelet reaches the metrics' port. */ -}}
{{- define "gpuslice.servesMetrics" -}}
{{- regexMatch "^(0\\.0\\.0\\.0|\\[::\\])?:[0-9]+$" .Values.scheduler.metricsBindAddress -}}
{{- end -}}

{{- define "gpuslice.tlsSecret" -}}
{{- default (printf "%s-tls" (include "gpuslice.scheduler" .)) .Values.scheduler.tls.existingSecret -}}
{{- end -}}

{{- define "gpuslice.grantSecret" -}}
{{- default (printf "%s-grant-key" (include "gpuslice.fullname" .)) .Values.grantSigning.existingSecret -}}
{{- end -}}

{{- /* A running HAMi, as JSON: {"scheduler": "NS/NAME" or "", "accounts": [users that write grants]}. */ -}}
{{- define "gpuslice.hami" -}}
{{- $found := dict "scheduler" "" "accounts" (list) -}}
{{- range $kind := list "Deployment" "DaemonSet" -}}
{{- range (lookup "apps/v1" $kind "" "").items -}}
{{- $component := index (.metadata.labels | default dict) "app.kubernetes.io/component" | default "" -}}
{{- if or (eq $component "hami-scheduler") (eq $component "hami-device-plugin") -}}
{{- $account := .spec.template.spec.serviceAccountName | default "default" -}}
{{- $user := printf "system:serviceaccount:%s:%s" .metadata.namespace $account -}}
{{- $_ := set $found "accounts" (append $found.accounts $user | uniq) -}}
{{- if eq $component "hami-scheduler" -}}
{{- $_ := set $found "scheduler" (printf "%s/%s" .metadata.namespace .metadata.name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $found -}}
{{- end -}}

{{- /* "true": grants that are not signed are believed. On by itself where HAMi's scheduler is found, or at
       the first install its device plugin; then it stays: HAMi's pods outlive its scheduler. */ -}}
{{- define "gpuslice.interop" -}}
{{- $want := toString .Values.grantSigning.interop -}}
{{- $on := eq $want "true" -}}
{{- if eq $want "auto" -}}
{{- $hami := include "gpuslice.hami" . | fromJson -}}
{{- $ours := lookup "apps/v1" "Deployment" (include "gpuslice.namespace" .) (include "gpuslice.scheduler" .) -}}
{{- $on = or (ne $hami.scheduler "") (and (not $ours) (gt (len $hami.accounts) 0)) -}}
{{- if $ours -}}
{{- range $ours.spec.template.spec.containers -}}
{{- if has "--interop=true" (.args | default list) }}{{ $on = true }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $on -}}
{{- end -}}

{{- define "gpuslice.confined" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end -}}
