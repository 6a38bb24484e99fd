{{- /* Pod annotations that say what was granted, of every vendor; those with a name of their own. */ -}}
{{- define "gpuslice.guardedKeys" -}}
["hami.io/vgpu-node","hami.io/vgpu-time","hami.io/bind-time","hami.io/bind-phase","hami.io/vgpu-mig-allocations",
"hami.io/kunlun-allocated","hami.io/amd-cu-allocated","CAMBRICON_DSMLU_ASSIGNED","CAMBRICON_DSMLU_ASSIGHED",
"CAMBRICON_DSMLU_PROFILE","BAIDU_COM_DEVICE_IDX","AWS_NEURON_IDS","NEURON_ALLOC_TIME","NEURON_ALLOCATED",
"NEURON_RESOURCE_TYPE","aws.amazon.com/predicate-node","mthreads.com/gpu-index","mthreads.com/predicate-node",
"mthreads.com/predicate-time","metax-tech.com/gpu-devices-allocated","metax-tech.com/predicate-time",
"enflame.com/gcu-assigned","enflame.com/gcu-assigned-time","enflame.com/gcu-assigned-index",
"enflame.com/gcu-assigned-id","enflame.com/gcu-assigned-minor","enflame.com/gcu-request-size","assigned-containers"]
{{- end -}}

{{- /* CEL over a key `k`: is it one of those, or of a family (a word per chip stands in the name)?
       Ascend's own key is another scheduler's too, where ours has no Ascend cards. */ -}}
{{- define "gpuslice.isGuarded" -}}
(k in variables.guarded || k.startsWith("gpuslice.io/grant") || {{ if .Values.devices.ascend.enabled }}k.startsWith("huawei.com/Ascend") || {{ end }}(k.startsWith("hami.io/") && (k.endsWith("-devices-allocated") || k.endsWith("-devices-to-allocate"))))
{{- end -}}
