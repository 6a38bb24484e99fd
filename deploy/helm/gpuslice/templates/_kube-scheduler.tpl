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
