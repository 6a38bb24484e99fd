{{- /* kube-scheduler's configuration: a profile of our name, and the extender beside it. */ -}}
{{- define "gpuslice.kubeSchedulerConfig" -}}
{{- $s := .Values.scheduler -}}
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: {{ $s.leaderElect }}
  resourceLock: leases
  resourceName: {{ include "gpuslice.leaseName" . | quote }}
  resourceNamespace: {{ include "gpuslice.leaseNamespace" . | quote }}
clientConnection:
  qps: {{ $s.kubeScheduler.qps }}
  burst: {{ $s.kubeScheduler.burst }}
podInitialBackoffSeconds: 1
podMaxBackoffSeconds: {{ $s.kubeScheduler.podMaxBackoffSeconds }}
profiles:
  - schedulerName: {{ .Values.schedulerName | quote }}
extenders:
  # Loopback inside the pod, without TLS: kube-scheduler keeps so few connections that most calls would shake hands.
  - urlPrefix: "http://127.0.0.1:{{ eq (include "gpuslice.usesTLS" .) "true" | ternary $s.extender.localPort $s.service.httpTargetPort }}"
    filterVerb: filter
    {{- if eq $s.nodeChoice "scheduler" }}
    prioritizeVerb: prioritize
    {{- end }}
    bindVerb: bind
    preemptVerb: preempt
    nodeCacheCapable: true
    weight: 1
    httpTimeout: {{ $s.extenderHTTPTimeout }}s
    ignorable: false # without the extender no pod with a slice may be placed
    managedResources:
      {{- range splitList "\n" (include "gpuslice.resources" .) }}
      - name: {{ . | quote }}
        ignoredByScheduler: true
      {{- end }}
{{- end -}}

{{- /* kube-scheduler's probes, with kubeadm's patience: eight of 10 s that fail, and four minutes to start. But the first
       is asked at once, for the pod is not ready before. /healthz has been there in every version (/livez since 1.31), is
       open to all, and fails where the lease that it should hold was not renewed. None where it listens on some addresses
       alone: the kubelet asks the pod's. */ -}}
{{- define "gpuslice.kubeSchedulerProbes" -}}
{{- $args := join "\n" .Values.scheduler.kubeScheduler.extraNewArgs -}}
{{- $port := regexFind "--secure-port=[0-9]+" $args | trimPrefix "--secure-port=" | default "10259" -}}
{{- if not (or (contains "--bind-address" $args) (eq $port "0")) -}}
livenessProbe:
  httpGet: {path: /healthz, port: {{ $port }}, scheme: HTTPS}
  periodSeconds: 10
  failureThreshold: 8
  timeoutSeconds: 15
startupProbe:
  httpGet: {path: /healthz, port: {{ $port }}, scheme: HTTPS}
  periodSeconds: 2
  failureThreshold: 120
  timeoutSeconds: 15
{{- end -}}
{{- end -}}
