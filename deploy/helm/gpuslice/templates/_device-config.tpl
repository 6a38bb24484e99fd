{{- /* The device configuration (YAML): what was given, or what the values make. */ -}}
{{- define "gpuslice.deviceConfig" -}}
{{- $given := (index .Values "device-config").content -}}
{{- if $given -}}
{{- $given -}}
{{- else -}}
{{- $v := .Values -}}
{{- $p := $v.devicePlugin -}}
nvidia:
  resourceCountName: {{ $v.resourceName | quote }}
  resourceMemoryName: {{ $v.resourceMem | quote }}
  resourceMemoryPercentageName: {{ $v.resourceMemPercentage | quote }}
  resourceCoreName: {{ $v.resourceCores | quote }}
  resourcePriorityName: {{ $v.resourcePriority | quote }}
  overwriteEnv: {{ $v.scheduler.overwriteEnv | toString | eq "true" }}
  defaultMemory: 0
  defaultCores: 0
  defaultGPUNum: 1
  memoryFactor: 1
  deviceSplitCount: {{ $p.deviceSplitCount }}
  deviceMemoryScaling: {{ $p.deviceMemoryScaling }}
  deviceCoreScaling: {{ $p.deviceCoreScaling }}
  gpuCorePolicy: {{ $v.devices.nvidia.gpuCorePolicy | quote }}
  libCudaLogLevel: {{ $v.devices.nvidia.libCudaLogLevel }}
  enableNumaTopology: {{ $p.enableNumaTopology }}
  preConfiguredDeviceMemory: {{ $p.preConfiguredDeviceMemory }}
  runtimeClassName: {{ $p.runtimeClassName | quote }}
  migProfileAllowlist:
    {{- range include "gpuslice.migProfiles" . | fromJsonArray }}
    - models: {{ .models | toJson }}
      profiles: {{ .profiles | toJson }}
    {{- end }}
cambricon:
  resourceCountName: {{ $v.mluResourceName | quote }}
  resourceMemoryName: {{ $v.mluResourceMem | quote }}
  resourceCoreName: {{ $v.mluResourceCores | quote }}
hygon:
  resourceCountName: {{ default $v.dcuResourceName $v.hcuResourceName | quote }}
  resourceMemoryName: {{ default $v.dcuResourceMem $v.hcuResourceMem | quote }}
  resourceCoreName: {{ default $v.dcuResourceCores $v.hcuResourceCores | quote }}
  memoryFactor: 1
metax:
  resourceCountName: "metax-tech.com/gpu"
  resourceVCountName: {{ $v.metaxResourceName | quote }}
  resourceVMemoryName: {{ $v.metaxResourceMem | quote }}
  resourceVCoreName: {{ $v.metaxResourceCore | quote }}
  sgpuTopologyAware: {{ $v.metaxsGPUTopologyAware | toString | eq "true" }}
{{- if $v.devices.enflame.enabled }}
enflame:
  resourceNameGCU: "enflame.com/gcu"
  resourceNameDRSGCU: {{ default $v.enflameResourceNameDRSGCU $v.enflameResourceNameVGCU | quote }}
  resourceNameGCUMemory: {{ $v.enflameResourceNameGCUMemory | quote }}
  resourceNameGCUCore: {{ $v.enflameResourceNameGCUCore | quote }}
{{- end }}
{{- if $v.devices.mthreads.enabled }}
mthreads:
  resourceCountName: "mthreads.com/vgpu"
  resourceMemoryName: "mthreads.com/sgpu-memory"
  resourceCoreName: "mthreads.com/sgpu-core"
{{- end }}
{{- if $v.devices.kunlun.enabled }}
kunlun:
  resourceCountName: {{ $v.kunlunResourceName | quote }}
  resourceVCountName: {{ $v.kunlunResourceVCountName | quote }}
  resourceVMemoryName: {{ $v.kunlunResourceVMemoryName | quote }}
{{- end }}
awsneuron:
  resourceCountName: "aws.amazon.com/neuron"
  resourceCoreName: "aws.amazon.com/neuroncore"
amd:
  resourceCountName: "amd.com/gpu"
  resourceMemoryName: "amd.com/gpumem"
  resourceMemoryPercentageName: "amd.com/gpumem-percentage"
  resourceCoreName: "amd.com/gpucores"
{{- if $v.devices.vastai.enabled }}
vastai:
  resourceCountName: {{ $v.vastaiResourceName | quote }}
{{- end }}
{{- if $v.devices.biren.enabled }}
biren:
  resourceCountName: {{ $v.birenResourceName | quote }}
{{- end }}
iluvatars:
{{- range list "MR-V100" "MR-V50" "BI-V150" "BI-V100" }}
  - chipName: {{ . }}
    commonWord: {{ . }}
    resourceCountName: "iluvatar.ai/{{ . }}-vgpu"
    resourceMemoryName: "iluvatar.ai/{{ . }}.vMem"
    resourceCoreName: "iluvatar.ai/{{ . }}.vCore"
{{- end }}
vnpus:
  hamiVnpuCore: {{ $v.devices.ascend.hamiVnpuCore }}
  configs:
{{- range include "gpuslice.ascendChips" . | fromJsonArray }}
    - chipName: {{ .chip | quote }}
      commonWord: {{ .word | quote }}
      resourceName: "huawei.com/{{ .word }}"
      resourceMemoryName: "huawei.com/{{ .word }}-memory"
      resourceCoreName: "huawei.com/{{ .word }}-core"
      memoryAllocatable: {{ .allocatable | int }}
      memoryCapacity: {{ .capacity | int }}
      memoryFactor: 1
      aiCore: {{ .aiCore | int }}
      {{- with .aiCPU }}
      aiCPU: {{ . | int }}
      {{- end }}
      {{- with $v.devices.ascend.runtimeClassName }}
      runtimeClassName: {{ . | quote }}
      {{- end }}
      {{- if .superPod }}
      superPod: true
      {{- end }}
      templates:
      {{- range .templates }}
        - name: {{ index . 0 | quote }}
          memory: {{ index . 1 | int }}
          aiCore: {{ index . 2 | int }}
          {{- if gt (len .) 3 }}
          aiCPU: {{ index . 3 | int }}
          {{- end }}
      {{- end }}
{{- end }}
{{- end -}}
{{- end -}}

{{- /* MIG profiles offered per model: substrings of the model's name, and names of profiles. */ -}}
{{- define "gpuslice.migProfiles" -}}
[
{"models":["A30"],"profiles":["1g.6gb","2g.12gb","4g.24gb"]},
{"models":["A100-SXM4-40GB","A100-40GB-PCIe","A100-PCIE-40GB"],"profiles":["1g.5gb","2g.10gb","3g.20gb","7g.40gb"]},
{"models":["A100-SXM4-80GB","A100-80GB-PCIe","A100-PCIE-80GB"],"profiles":["1g.10gb","2g.20gb","3g.40gb","7g.79gb"]},
{"models":["H100-PCIE-80GB","H100-SXM5-80GB"],"profiles":["1g.10gb","2g.20gb","3g.40gb","7g.80gb"]},
{"models":["H100-PCIE-94GB","H100-SXM5-94GB"],"profiles":["1g.12gb","2g.24gb","3g.47gb","7g.94gb"]},
{"models":["H20","H100 on GH200"],"profiles":["1g.12gb","2g.24gb","3g.48gb","7g.96gb"]},
{"models":["H200 NVL","H200-SXM5"],"profiles":["1g.18gb","2g.35gb","3g.71gb","7g.141gb"]},
{"models":["B200"],"profiles":["1g.23gb","2g.45gb","3g.90gb","7g.180gb"]},
{"models":["RTX PRO 6000 Blackwell Server Edition"],"profiles":["1g.24gb","2g.48gb","4g.96gb"]}
]
{{- end -}}

{{- /* Ascend chips: memory in MiB; templates as [name, memory, AI cores, AI CPUs]. */ -}}
{{- define "gpuslice.ascendChips" -}}
[
{"chip":"910A","word":"Ascend910A","allocatable":32768,"capacity":32768,"aiCore":30,
 "templates":[["vir02",2184,2],["vir04",4369,4],["vir08",8738,8],["vir16",17476,16]]},
{"chip":"910B2","word":"Ascend910B2","allocatable":65536,"capacity":65536,"aiCore":24,"aiCPU":6,
 "templates":[["vir03_1c_8g",8192,3,1],["vir06_1c_16g",16384,6,1],["vir12_3c_32g",32768,12,3]]},
{"chip":"910B3","word":"Ascend910B3","allocatable":65536,"capacity":65536,"aiCore":20,"aiCPU":7,
 "templates":[["vir05_1c_16g",16384,5,1],["vir10_3c_32g",32768,10,3]]},
{"chip":"910B4-1","word":"Ascend910B4-1","allocatable":65536,"capacity":65536,"aiCore":20,"aiCPU":7,
 "templates":[["vir05_1c_16g",16384,5,1],["vir10_3c_32g",32768,10,3]]},
{"chip":"910B4","word":"Ascend910B4","allocatable":32768,"capacity":32768,"aiCore":20,"aiCPU":7,
 "templates":[["vir05_1c_8g",8192,5,1],["vir10_3c_16g",16384,10,3]]},
{"chip":"310P3","word":"Ascend310P","allocatable":21527,"capacity":24576,"aiCore":8,"aiCPU":7,
 "templates":[["vir01",3072,1,1],["vir02",6144,2,2],["vir04",12288,4,4]]},
{"chip":"Ascend910","word":"Ascend910C","allocatable":65536,"capacity":65536,"aiCore":20,"aiCPU":7,"superPod":true,
 "templates":[["vir05_1c_16g",16384,5,1],["vir10_3c_32g",32768,10,3]]}
]
{{- end -}}

{{- /* Every resource name that the configuration and the values know, one a line: what kube-scheduler leaves to
       the extender. Names come from the configuration's own keys (resource...), so that a given one is followed. */ -}}
{{- define "gpuslice.resources" -}}
{{- $config := fromYaml (include "gpuslice.deviceConfig" .) -}}
{{- if $config.Error }}{{ fail (printf "the device configuration is no YAML: %s" $config.Error) }}{{ end -}}
{{- if not $config }}{{ fail "the device configuration is empty" }}{{ end -}}
{{- $names := list -}}
{{- range $section, $body := $config -}}
{{- $on := true -}}
{{- if eq $section "vnpus" }}{{ $on = $.Values.devices.ascend.enabled }}{{ end -}}
{{- if eq $section "iluvatars" }}{{ $on = $.Values.devices.iluvatar.enabled }}{{ end -}}
{{- if $on -}}
{{- $maps := list -}}
{{- if kindIs "slice" $body }}{{ $maps = $body }}{{ else if kindIs "map" $body }}{{ $maps = concat (list $body) ($body.configs | default list) }}{{ end -}}
{{- range $map := $maps -}}
{{- range $key, $value := $map -}}
{{- if and (hasPrefix "resource" $key) (kindIs "string" $value) (contains "/" (toString $value)) }}{{ $names = append $names $value }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if has "cambricon.com/vmlu" $names }}{{ $names = concat $names (list "cambricon.com/vmemory" "cambricon.com/vcore") }}{{ end -}}
{{- if $config.amd }}{{ $names = append $names "amd.com/gpumem-percentage" }}{{ end -}}
{{- range $vendor, $body := .Values.devices -}}
{{- $default := not (has $vendor (list "ascend" "iluvatar")) -}}
{{- if (hasKey $body "enabled") | ternary $body.enabled $default }}{{ $names = concat $names ($body.customresources | default list) }}{{ end -}}
{{- end -}}
{{- $names | uniq | join "\n" -}}
{{- end -}}
