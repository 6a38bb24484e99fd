{{- /* Names of given values that nothing here reads: HAMi's for other parts, or slips of the pen. The names that are read, as
       values.schema.json has them; one with a _ is the templates' own. */ -}}
{{- define "gpuslice.unread" -}}
{{- $known := dict
    "" (list "admissionPolicy" "birenResourceName" "dcuResourceCores" "dcuResourceMem" "dcuResourceName"
       "device-config" "devicePlugin" "devices" "enflameResourceNameDRSGCU" "enflameResourceNameGCUCore"
       "enflameResourceNameGCUMemory" "enflameResourceNameVGCU" "fullnameOverride" "global" "grantSigning"
       "hcuResourceCores" "hcuResourceMem" "hcuResourceName" "kunlunResourceName" "kunlunResourceVCountName"
       "kunlunResourceVMemoryName" "legacyMetrics" "metaxResourceCore" "metaxResourceMem" "metaxResourceName"
       "metaxsGPUTopologyAware" "mluResourceCores" "mluResourceMem" "mluResourceName" "nameOverride"
       "namespaceOverride" "prometheus" "resourceCores" "resourceMem" "resourceMemPercentage" "resourceName"
       "resourcePriority" "scheduler" "schedulerName" "vastaiResourceName")
    "scheduler" (list "admissionWebhook" "affinity" "certManager" "defaultSchedulerPolicy" "extender"
       "extenderHTTPTimeout" "forceOverwriteDefaultScheduler" "kubeBurst" "kubeQPS" "kubeScheduler" "kubeTimeout"
       "leaderElect" "leaderElectResourceName" "leaderElectResourceNamespace" "livenessProbe" "metricsBindAddress"
       "networkPolicy" "nodeChoice" "nodeLabelSelector" "nodeLockExpire" "nodeLockRetryTimeout" "nodeName"
       "nodeSelector" "overwriteEnv" "patch" "podAnnotations" "podDisruptionBudget" "podLabels" "priorityClassName"
       "replicas" "service" "serviceAccountName" "tls" "tolerations")
    "scheduler.kubeScheduler" (list "burst" "enabled" "extraArgs" "extraNewArgs" "image" "podMaxBackoffSeconds" "qps"
       "resources" "serviceAccountName")
    "scheduler.extender" (list "clientCASecret" "extraArgs" "image" "localPort" "resources")
    "scheduler.admissionWebhook" (list "customURL" "enabled" "failurePolicy" "manageNamespaceSelector"
       "namespaceSelector" "objectSelector" "reinvocationPolicy" "timeoutSeconds" "whitelistNamespaces") -}}
{{- $root := . -}}
{{- $unread := list -}}
{{- range $path, $names := $known -}}
{{- $at := $root.Values -}}
{{- range without (splitList "." $path) "" }}{{ $at = default dict (index $at .) }}{{ end -}}
{{- range $name, $_ := $at -}}
{{- if not (or (hasPrefix "_" $name) (has $name $names)) }}{{ $unread = append $unread (printf "%s.%s" $path $name | trimPrefix ".") }}{{ end -}}
{{- end -}}
{{- end -}}
{{- join ", " $unread -}}
{{- end -}}
