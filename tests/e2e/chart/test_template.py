"""What the chart makes of its values, without a cluster."""

import base64
import json
import re
import subprocess

import pytest
import yaml
from cryptography import x509
from kit import helm
from kit.cluster import ROOT

# Names as HAMi v2.10's chart has them, none at its default: what a user brings along.
HAMI_VALUES = """
global: {imageRegistry: mirror.example, imageTag: v9, labels: {team: ml}, annotations: {note: x}, gpuHookPath: /usr/local,
         imagePullSecrets: [{name: pull}], managedNodeSelectorEnable: false}
fullnameOverride: hami
schedulerName: other-scheduler
resourceName: example.com/card
resourceMem: example.com/mem
resourceMemPercentage: example.com/pct
resourceCores: example.com/cores
resourcePriority: example.com/prio
mluResourceName: example.com/mlu
mluResourceMem: example.com/mlumem
mluResourceCores: example.com/mlucores
dcuResourceName: example.com/dcu
dcuResourceMem: example.com/dcumem
dcuResourceCores: example.com/dcucores
metaxResourceName: example.com/sgpu
metaxResourceCore: example.com/vcore
metaxResourceMem: example.com/vmem
metaxsGPUTopologyAware: "true"
enflameResourceNameVGCU: example.com/vgcu
kunlunResourceName: example.com/xpu
vastaiResourceName: example.com/va
birenResourceName: example.com/br
podSecurityPolicy: {enabled: false}
scheduler:
  nodeName: master
  nodeLabelSelector: {gpu: "on"}
  overwriteEnv: "true"
  defaultSchedulerPolicy: {nodeSchedulerPolicy: spread, gpuSchedulerPolicy: binpack}
  metricsBindAddress: ":9999"
  kubeQPS: 50
  kubeBurst: 100
  nodeLockExpire: 2m
  nodeLockRetryTimeout: 10s
  extenderHTTPTimeout: 40
  forceOverwriteDefaultScheduler: false
  livenessProbe: true
  leaderElect: true
  replicas: 2
  podDisruptionBudget: {minAvailable: 1}
  kubeScheduler:
    enabled: true
    image: {registry: r.example, repository: ks, tag: v1.2.3, pullPolicy: Always, pullSecrets: [a]}
    extraNewArgs: [--config=/config/config.yaml, -v=4]
    extraArgs: [--policy-config-file=/config/config.json, -v=4]
  extender: {image: {repository: x/y, pullPolicy: Always}, extraArgs: [--debug, -v=4]}
  podAnnotations: {a: b}
  tolerations: [{key: k, operator: Exists}]
  serviceAccountName: null
  admissionWebhook:
    enabled: true
    customURL: {enabled: false, host: 127.0.0.1, port: 31998, path: /webhook}
    whitelistNamespaces: [istio-system]
    manageNamespaceSelector: true
    namespaceSelector: {matchLabels: null, matchExpressions: [{key: env, operator: In, values: [dev]}]}
    objectSelector: {matchExpressions: []}
    reinvocationPolicy: Never
    failurePolicy: Ignore
  certManager: {enabled: false}
  patch: {enabled: true, image: {repository: jettech/kube-webhook-certgen}, runAsUser: 2000}
  service: {type: NodePort, httpPort: 443, schedulerPort: 31998, monitorPort: 31993, monitorTargetPort: metrics,
            httpTargetPort: 443, labels: {}, annotations: {}}
  networkPolicy: {enabled: true}
devicePlugin:
  enabled: true
  deviceSplitCount: 5
  deviceMemoryScaling: 1.5
  nodeConfiguration: {config: "{}", externalConfigName: ""}
  nvidiaDriverRoot: auto
  service: {type: NodePort, httpPort: 31992}
mockDevicePlugin: {enabled: false}
devices:
  mthreads: {enabled: true, customresources: [mthreads.com/vgpu], memoryPerCard: [96]}
  ascend: {enabled: true, image: "", extraArgs: [], nodeSelector: {ascend: "on"}, hamiVnpuCore: true}
  iluvatar: {enabled: true, customresources: [iluvatar.ai/BI-V100-vgpu]}
legacyMetrics: true
prometheus: {enabled: false}
"""

# The public description's heterogeneous fragment, as it stands there.
HETEROGENEOUS = """
devicePlugin:
  nvidiaNodeSelector: {gpu: "on"}
devices:
  ascend:
    enabled: true
    nodeSelector: {ascend: "on"}
    customresources:
      - huawei.com/Ascend910B3
      - huawei.com/Ascend910B3-memory
      - huawei.com/Ascend910B3-core
"""

# What HAMi's chart lists, and the two it forgets (MLU's and Moore Threads' memory and cores).
ALWAYS_MANAGED = {
    "nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpucores", "nvidia.com/gpumem-percentage", "nvidia.com/priority",
    "cambricon.com/vmlu", "cambricon.com/mlu.smlu.vmemory", "cambricon.com/mlu.smlu.vcore", "cambricon.com/vmemory",
    "cambricon.com/vcore", "hygon.com/dcunum", "hygon.com/dcumem", "hygon.com/dcucores", "metax-tech.com/gpu",
    "metax-tech.com/sgpu", "metax-tech.com/vcore", "metax-tech.com/vmemory", "mthreads.com/vgpu",
    "mthreads.com/sgpu-memory", "mthreads.com/sgpu-core", "enflame.com/gcu", "enflame.com/drs-gcu",
    "enflame.com/gcu-memory", "enflame.com/gcu-core", "kunlunxin.com/xpu", "kunlunxin.com/vxpu",
    "kunlunxin.com/vxpu-memory", "aws.amazon.com/neuron", "aws.amazon.com/neuroncore", "vastaitech.com/va",
    "birentech.com/gpu", "amd.com/gpu", "amd.com/gpumem", "amd.com/gpumem-percentage", "amd.com/gpucores"}


@pytest.fixture
def template(tmp_path):
    """template(values, ...) gives the chart's objects."""
    return lambda values=None, *args, **kw: helm.template(tmp_path, values, *args, **kw)


def kube_config(objects, name="gpuslice-scheduler") -> dict:
    return yaml.safe_load(helm.pick(objects, "ConfigMap", name)["data"]["config.yaml"])


def device_config(objects, name="gpuslice-scheduler-device") -> dict:
    return yaml.safe_load(helm.pick(objects, "ConfigMap", name)["data"]["device-config.yaml"])


def managed(objects, **kw) -> list[str]:
    resources = kube_config(objects, **kw)["extenders"][0]["managedResources"]
    assert all(r["ignoredByScheduler"] is True for r in resources)
    return [r["name"] for r in resources]


def daemon_args(objects) -> list[str]:
    containers = helm.pick(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    return next(c for c in containers if c["name"] == "gpuslice-scheduler")["args"]


def test_lint(tmp_path):
    assert "0 chart(s) failed" in helm.run(tmp_path, "lint", "--strict", helm.CHART)


def test_two_daemons_without_a_lease_never_live_at_once(template):
    """A rolling update starts the new pod before the old one has ended; without a lease both would lead."""
    def strategy(**values):
        deployment, = (o for o in template({"scheduler": values}) if o["kind"] == "Deployment")
        return deployment["spec"].get("strategy", {}).get("type")
    assert strategy(leaderElect=False) == "Recreate"
    assert strategy(leaderElect=True) is None


def test_kube_scheduler_profile(template):
    config = kube_config(template())
    assert config["apiVersion"] == "kubescheduler.config.k8s.io/v1"
    assert config["podMaxBackoffSeconds"] == 3
    assert config["profiles"] == [{"schedulerName": "hami-scheduler"}]
    assert config["leaderElection"] == {"leaderElect": True, "resourceLock": "leases",
                                        "resourceName": "hami-scheduler", "resourceNamespace": "gpuslice-system"}
    extender, = config["extenders"]
    assert extender["ignorable"] is False
    assert extender["nodeCacheCapable"] is True
    assert (extender["filterVerb"], extender["bindVerb"], extender["weight"]) == ("filter", "bind", 1)
    assert extender["httpTimeout"] == "30s"
    assert extender["urlPrefix"] == "http://127.0.0.1:9444" and "enableHTTPS" not in extender
    assert "prioritizeVerb" not in extender
    assert extender["preemptVerb"] == "preempt"


def test_managed_resources(template):
    names = managed(template())
    assert set(names) == ALWAYS_MANAGED
    assert len(names) == len(set(names))


def test_managed_resources_of_optional_vendors(template):
    names = set(managed(template({"devices": {"ascend": {"enabled": True}, "iluvatar": {"enabled": True}}})))
    chips = ("Ascend910A", "Ascend910B2", "Ascend910B3", "Ascend910B4-1", "Ascend910B4", "Ascend310P", "Ascend910C")
    assert {f"huawei.com/{c}{part}" for c in chips for part in ("", "-memory", "-core")} <= names
    assert {f"iluvatar.ai/{c}{part}" for c in ("MR-V100", "MR-V50", "BI-V150", "BI-V100")
            for part in ("-vgpu", ".vMem", ".vCore")} <= names


def test_vendor_switched_off(template):
    objects = template({"devices": {"kunlun": {"enabled": False}}})
    assert not [n for n in managed(objects) if n.startswith("kunlunxin")]
    assert "kunlun" not in device_config(objects)


def test_device_config_defaults(template):
    """control-plane.md 4.1, spot values of each section."""
    config = device_config(template())
    assert config["nvidia"]["deviceSplitCount"] == 10 and config["nvidia"]["overwriteEnv"] is False
    assert config["nvidia"]["migProfileAllowlist"][0] == {"models": ["A30"],
                                                          "profiles": ["1g.6gb", "2g.12gb", "4g.24gb"]}
    assert len(config["nvidia"]["migProfileAllowlist"]) == 9
    assert config["hygon"]["memoryFactor"] == 1
    assert config["awsneuron"] == {"resourceCountName": "aws.amazon.com/neuron",
                                   "resourceCoreName": "aws.amazon.com/neuroncore"}
    assert [c["commonWord"] for c in config["iluvatars"]] == ["MR-V100", "MR-V50", "BI-V150", "BI-V100"]
    chips = {c["commonWord"]: c for c in config["vnpus"]["configs"]}
    assert chips["Ascend310P"]["memoryAllocatable"] == 21527 and chips["Ascend310P"]["memoryCapacity"] == 24576
    assert chips["Ascend910C"]["superPod"] is True and "superPod" not in chips["Ascend910B3"]
    assert chips["Ascend910A"]["templates"][3] == {"name": "vir16", "memory": 17476, "aiCore": 16}
    assert chips["Ascend910B2"]["templates"][2] == {"name": "vir12_3c_32g", "memory": 32768, "aiCore": 12, "aiCPU": 3}
    assert set(config) == {"nvidia", "cambricon", "hygon", "metax", "enflame", "mthreads", "kunlun", "awsneuron", "amd",
                           "vastai", "biren", "iluvatars", "vnpus"}


def test_given_device_config_is_followed(template):
    """Its resource names go to kube-scheduler's list; what it leaves out, does not."""
    content = "nvidia:\n  resourceCountName: example.com/a\n  resourceMemoryName: example.com/b\n" \
              "vnpus:\n  - commonWord: X\n    resourceName: huawei.com/X\n"
    objects = template({"device-config": {"content": content}, "devices": {"ascend": {"enabled": True}}})
    names = managed(objects)
    assert {"example.com/a", "example.com/b", "huawei.com/X"} <= set(names)
    assert "nvidia.com/gpu" not in names
    assert device_config(objects) == yaml.safe_load(content)


@pytest.mark.parametrize("values,name", [
    ({"scheduler": {"defaultSchedulerPolicy": {"gpuSchedulePolicy": "binpack"}}}, "gpuSchedulePolicy"),
    ({"scheduler": {"defaultSchedulerPolicy": {"nodeSchedulerPolicy": "bestfit"}}}, "nodeSchedulerPolicy"),
    ({"scheduler": {"admissionWebhook": {"customURL": {"enable": True}}}}, "enable"),
    ({"scheduler": {"certManager": {"enable": True}}}, "enable"),
    ({"scheduler": {"networkPolicy": {"metricFrom": []}}}, "metricFrom"),
    ({"device-config": {"contents": "x"}}, "contents"),
    ({"resourceMem": "gpumem"}, "resourceMem")])
def test_mistyped_values_are_refused(template, values, name):
    """Where HAMi's chart has no more than this one reads."""
    with pytest.raises(helm.HelmError, match=name):
        template(values)


def test_every_value_of_the_schema_is_known():
    """What is told to be read by nothing is what the schema does not have."""
    schema = json.loads((helm.CHART / "values.schema.json").read_text())
    text = (helm.CHART / "templates" / "_values.tpl").read_text()
    told = {path: set(re.findall(r'"([^"]+)"', names)) for path, names in re.findall(r'"([^"]*)" \(list([^)]*)\)', text)}
    assert len(told) == 5
    for path, names in told.items():
        at = schema
        for word in filter(None, path.split(".")):
            at = at["properties"][word]
        assert names == set(at["properties"]), path


def test_broken_device_config_is_refused(template):
    with pytest.raises(helm.HelmError, match="is no YAML"):
        template({"device-config": {"content": "nvidia: [\n"}})


def test_hami_values_are_taken(template):
    objects = template(yaml.safe_load(HAMI_VALUES))
    names = managed(objects, name="hami-scheduler")
    assert {"example.com/card", "example.com/mlumem", "example.com/mlucores", "example.com/dcucores", "example.com/vcore",
            "example.com/vgcu", "example.com/xpu", "example.com/va", "example.com/br",
            "mthreads.com/sgpu-memory"} <= set(names)
    args = daemon_args(objects)
    for arg in ("--scheduler-name=other-scheduler", "--node-scheduler-policy=spread", "--gpu-scheduler-policy=binpack",
                "--metrics-bind-address=:9999", "--node-lock-timeout=2m", "--node-lock-retry-timeout=10s",
                "--kube-qps=50", "--kube-burst=100", "--node-label-selector=gpu=on", "--enable-ascend=true",
                "--enable-iluvatar=true", "--legacy-metrics=true", "--force-overwrite-default-scheduler=false",
                "--debug", "-v=4", "--http_bind=0.0.0.0:443"):
        assert arg in args
    spec = helm.pick(objects, "Deployment", "hami-scheduler")["spec"]
    assert spec["replicas"] == 2
    pod = spec["template"]["spec"]
    assert [c["image"] for c in pod["containers"]] == ["mirror.example/ks:v1.2.3", "mirror.example/x/y:v9"]
    assert pod["imagePullSecrets"] == [{"name": "pull"}, {"name": "a"}]
    assert pod["nodeName"] == "master"
    ports = {p["name"]: p for p in helm.pick(objects, "Service")["spec"]["ports"]}
    assert (ports["http"]["nodePort"], ports["monitor"]["nodePort"]) == (31998, 31993)
    config = device_config(objects, name="hami-scheduler-device")
    assert config["nvidia"]["deviceMemoryScaling"] == 1.5 and config["nvidia"]["overwriteEnv"] is True
    assert config["metax"]["sgpuTopologyAware"] is True and config["vnpus"]["hamiVnpuCore"] is True
    expressions = helm.pick(objects, "MutatingWebhookConfiguration")["webhooks"][0]["namespaceSelector"]["matchExpressions"]
    assert expressions == [
        {"key": "hami.io/webhook", "operator": "NotIn", "values": ["ignore"]},
        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["istio-system"]},
        {"key": "env", "operator": "In", "values": ["dev"]}]
    assert helm.pick(objects, "PodDisruptionBudget")["spec"]["minAvailable"] == 1
    assert helm.pick(objects, "NetworkPolicy")


def test_heterogeneous_fragment(template):
    objects = template(yaml.safe_load(HETEROGENEOUS))
    assert {"huawei.com/Ascend910B3", "huawei.com/Ascend910B3-memory", "huawei.com/Ascend910B3-core",
            "nvidia.com/gpu"} <= set(managed(objects))
    assert "--enable-ascend=true" in daemon_args(objects)


def test_command_line(template):
    """Flags of control-plane.md 4.3; what has no value is left to the program."""
    container = helm.pick(template(), "Deployment")["spec"]["template"]["spec"]["containers"][1]
    assert container["command"] == ["/usr/bin/gpuslice-scheduler"]
    assert container["args"] == [
        "--http_bind=0.0.0.0:9443", "--extender-bind=127.0.0.1:9444", "--cert_file=/tls/tls.crt", "--key_file=/tls/tls.key",
        "--scheduler-name=hami-scheduler", "--metrics-bind-address=:9395", "--node-scheduler-policy=binpack",
        "--gpu-scheduler-policy=spread", "--force-overwrite-default-scheduler=true",
        "--device-config-file=/device-config/device-config.yaml", "--node-lock-timeout=5m", "--leader-elect=true",
        "--leader-elect-resource-name=hami-scheduler", "--leader-elect-resource-namespace=gpuslice-system",
        "--node-choice=extender", "--grant-key-file=/grant-key/key"]


def test_pods_are_confined(template):
    pod = helm.pick(template(), "Deployment")["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    for container in pod["containers"]:
        assert container["securityContext"] == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                                                "capabilities": {"drop": ["ALL"]}}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)


def probe_of(objects, kind, name="gpuslice-scheduler"):
    containers = helm.pick(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    return next(c for c in containers if c["name"] == name).get(kind)


def test_a_daemon_that_hangs_is_restarted(template):
    """Its kube-scheduler goes on renewing the lease, so that no other replica takes over: the kubelet has to end it,
    and not by a signal that it does not hear."""
    probe = probe_of(template(), "livenessProbe")
    # not at the webhook's port: anybody may fill that with connections
    assert probe["httpGet"] == {"path": "/healthz", "port": "metrics", "scheme": "HTTP"}
    worst = probe["periodSeconds"] * probe["failureThreshold"] + probe["timeoutSeconds"]
    assert worst + probe["terminationGracePeriodSeconds"] <= 30  # no longer than one call of kube-scheduler waits
    assert probe_of(template({"scheduler": {"livenessProbe": False}}), "livenessProbe") is None
    elsewhere = template({"scheduler": {"metricsBindAddress": "127.0.0.1:9395"}})  # no kubelet gets there
    assert probe_of(elsewhere, "livenessProbe")["httpGet"] == {"path": "/healthz", "port": "http", "scheme": "HTTPS"}


def test_a_kube_scheduler_that_hangs_is_restarted(template):
    """Where the API server is reached but its work stands still, nobody else takes the lease; where it cannot renew it,
    it is to end. At the port that it listens at."""
    def probes(*args, **more):
        objects = template({"scheduler": {"kubeScheduler": {"extraNewArgs": ["--config=/config/config.yaml", *args]}, **more}})
        return [probe_of(objects, kind, "kube-scheduler") for kind in ("livenessProbe", "startupProbe")]
    live, start = probes()
    assert live["httpGet"] == start["httpGet"] == {"path": "/healthz", "port": 10259, "scheme": "HTTPS"}
    # as kubeadm's manifest: 80 s, and 240 s to start; but the first look is at once, since the pod is not ready before
    assert live["periodSeconds"] * live["failureThreshold"] == 80
    assert start["periodSeconds"] * start["failureThreshold"] == 240 and start["periodSeconds"] <= 2
    assert all(p["timeoutSeconds"] == 15 and "initialDelaySeconds" not in p for p in (live, start))
    assert all(p["httpGet"]["port"] == 10300 for p in probes("--secure-port=10300"))
    assert probes("--bind-address=127.0.0.1") == probes("--secure-port=0") == probes(livenessProbe=False) == [None, None]


def test_webhook_as_hami_registers_it(template):
    hook, = helm.pick(template(), "MutatingWebhookConfiguration", "gpuslice-webhook")["webhooks"]
    assert hook["name"] == "vgpu.hami.io"
    assert hook["failurePolicy"] == "Ignore" and hook["sideEffects"] == "None"
    assert hook["matchPolicy"] == "Equivalent" and hook["reinvocationPolicy"] == "Never"
    assert hook["timeoutSeconds"] == 3  # HAMi's 10: so long a hung webhook holds every pod's creation up
    assert hook["rules"] == [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                              "resources": ["pods"], "scope": "*"}]
    skip = [{"key": "hami.io/webhook", "operator": "NotIn", "values": ["ignore"]}]
    assert hook["namespaceSelector"]["matchExpressions"] == skip
    assert hook["objectSelector"]["matchExpressions"] == skip
    assert hook["clientConfig"]["service"] == {"name": "gpuslice-scheduler", "namespace": "gpuslice-system",
                                               "path": "/webhook", "port": 443}


def test_strict_webhook_spares_what_the_cluster_stands_on(template):
    objects = template({"scheduler": {"admissionWebhook": {"failurePolicy": "Fail"}}})
    expressions = helm.pick(objects, "MutatingWebhookConfiguration")["webhooks"][0]["namespaceSelector"]["matchExpressions"]
    spared = next(e for e in expressions if e["key"] == "kubernetes.io/metadata.name")
    assert spared == {"key": "kubernetes.io/metadata.name", "operator": "NotIn",
                      "values": ["kube-system", "gpuslice-system"]}


def test_own_certificate(template):
    objects = template({"scheduler": {"admissionWebhook": {"customURL": {"enabled": True, "host": "10.1.2.3"}}}})
    secret = helm.pick(objects, "Secret", "gpuslice-scheduler-tls")
    cert = x509.load_pem_x509_certificate(base64.b64decode(secret["data"]["tls.crt"]))
    names = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "gpuslice-scheduler.gpuslice-system.svc" in names.get_values_for_type(x509.DNSName)
    assert {str(a) for a in names.get_values_for_type(x509.IPAddress)} == {"127.0.0.1", "10.1.2.3"}
    client = helm.pick(objects, "MutatingWebhookConfiguration")["webhooks"][0]["clientConfig"]
    assert client["url"] == "https://10.1.2.3:31998/webhook"
    assert client["caBundle"] == secret["data"]["ca.crt"]
    authority = x509.load_pem_x509_certificate(base64.b64decode(client["caBundle"]))
    cert.verify_directly_issued_by(authority)


def test_certificate_of_cert_manager(template):
    objects = template({"scheduler": {"certManager": {"enabled": True}}})
    assert helm.pick(objects, "Certificate", "gpuslice-scheduler-serving-cert")["spec"]["secretName"] == \
        "gpuslice-scheduler-tls"
    assert helm.pick(objects, "Issuer", "gpuslice-scheduler-selfsigned-issuer")
    hook = helm.pick(objects, "MutatingWebhookConfiguration")
    assert hook["metadata"]["annotations"]["cert-manager.io/inject-ca-from"] == \
        "gpuslice-system/gpuslice-scheduler-serving-cert"
    assert "caBundle" not in hook["webhooks"][0]["clientConfig"]
    assert not [o for o in objects if o["kind"] == "Secret" and o["metadata"]["name"].endswith("-tls")]


def test_given_certificate(template):
    objects = template({"scheduler": {"tls": {"existingSecret": "mine", "caBundle": "PEM"}}})
    volumes = helm.pick(objects, "Deployment")["spec"]["template"]["spec"]["volumes"]
    assert next(v for v in volumes if v["name"] == "tls")["secret"]["secretName"] == "mine"
    client = helm.pick(objects, "MutatingWebhookConfiguration")["webhooks"][0]["clientConfig"]
    assert base64.b64decode(client["caBundle"]) == b"PEM"


def test_without_webhook_the_extender_is_plain(template):
    objects = template({"scheduler": {"admissionWebhook": {"enabled": False}}})
    assert kube_config(objects)["extenders"][0]["urlPrefix"] == "http://127.0.0.1:9443"
    assert not [a for a in daemon_args(objects) if a.startswith("--cert_file")]
    assert not [o for o in objects if o["kind"] == "MutatingWebhookConfiguration"]
    # nobody comes from outside: without TLS the port is for loopback alone, and the kubelet asks elsewhere
    assert "--http_bind=127.0.0.1:9443" in daemon_args(objects)
    assert probe_of(objects, "readinessProbe")["httpGet"] == {"path": "/readyz", "port": "metrics", "scheme": "HTTP"}
    assert probe_of(objects, "livenessProbe")["httpGet"] == {"path": "/healthz", "port": "metrics", "scheme": "HTTP"}
    assert [p["name"] for p in helm.pick(objects, "Service")["spec"]["ports"]] == ["monitor"]


def test_outside_kube_scheduler(template):
    objects = template({"scheduler": {"kubeScheduler": {"enabled": False}, "extender": {"clientCASecret": "ca"}}})
    containers = helm.pick(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert [c["name"] for c in containers] == ["gpuslice-scheduler"]
    assert "--client-ca-file=/client-ca/ca.crt" in daemon_args(objects)
    assert helm.pick(objects, "Service")["spec"]["sessionAffinity"] == "ClientIP"
    assert not [o for o in objects if o["kind"] == "ClusterRoleBinding" and o["roleRef"]["name"].startswith("system:")]


def test_node_choice_is_named_as_the_flag(template):
    """The chart's words are the daemon's, and the preset is the same."""
    flags = (ROOT / "src" / "apps" / "scheduler" / "flags.def").read_text()
    preset, words = re.search(r'X\("node-choice", ONE, \w+, "(\w+)", "(\S+)"', flags).groups()
    schema = json.loads((helm.CHART / "values.schema.json").read_text())
    assert schema["properties"]["scheduler"]["properties"]["nodeChoice"]["enum"] == words.split("|")
    assert f"--node-choice={preset}" in daemon_args(template())


def test_node_choice_of_the_scheduler(template):
    objects = template({"scheduler": {"nodeChoice": "scheduler"}})
    assert kube_config(objects)["extenders"][0]["prioritizeVerb"] == "prioritize"
    assert "--node-choice=scheduler" in daemon_args(objects)


@pytest.mark.parametrize("values, words", [
    ({"schedulerName": 5}, "schedulerName"),
    ({"schedulerName": ""}, "schedulerName"),
    ({"resourceName": "no slash"}, "resourceName"),
    ({"scheduler": {"nodeChoice": "both"}}, "nodeChoice"),
    ({"scheduler": {"replicas": "two"}}, "replicas"),
    ({"scheduler": {"nodeLockExpire": "five minutes"}}, "nodeLockExpire"),
    ({"scheduler": {"admissionWebhook": {"failurePolicy": "Maybe"}}}, "failurePolicy"),
    ({"scheduler": {"defaultSchedulerPolicy": {"gpuSchedulerPolicy": "binpak"}}}, "gpuSchedulerPolicy"),
    ({"scheduler": {"kubeScheduler": {"podMaxBackoffSeconds": 0}}}, "podMaxBackoffSeconds"),
    ({"scheduler": {"service": {"httpTargetPort": 70000}}}, "httpTargetPort"),
    ({"scheduler": {"tls": {"secret": "typo"}}}, "secret"),
    ({"grantSigning": {"on": True}}, "on"),
    ({"admissionPolicy": {"extraWriters": "one"}}, "extraWriters"),
    ({"devices": {"ascend": {"enabled": "yes"}}}, "enabled"),
    ({"devices": {"amd": {"customresources": ["amd"]}}}, "customresources"),
    ({"scheduler": {"replicas": 2, "leaderElect": False}}, "leaderElect"),
    ({"scheduler": {"admissionWebhook": {"enabled": False}, "metricsBindAddress": "127.0.0.1:1"}}, "metricsBindAddress"),
    ({"grantSigning": {"interop": "maybe"}}, "interop"),
    # without a cluster to keep it in a key would be another at each rendering
    ({"grantSigning": {"existingSecret": ""}}, "grantSigning.existingSecret"),
    # as HAMi's chart has them: its image is none of this scheduler's
    ({"global": {"imageTag": "v2.10.0"}, "scheduler": {"extender": {"image": {"repository": "projecthami/hami"}}}},
     "HAMi's image"),
    ({"scheduler": {"extender": {"image": {"repository": "mirror.example/projecthami/hami"}}}}, "HAMi's image"),
])
def test_bad_values_are_refused(template, values, words):
    with pytest.raises(helm.HelmError, match=words):
        template(values)


def test_interop_is_as_said(template):
    def said(value):
        values = {"grantSigning": {"existingSecret": "mine", "interop": value}}
        return "--interop=true" in daemon_args(template(values))
    assert (said(True), said(False), said("auto")) == (True, False, False)
    assert "--interop=true" not in daemon_args(template({"grantSigning": {"enabled": False, "interop": True}}))


@pytest.mark.parametrize("name", ["scheduler.yaml", "scheduler-cert-manager.yaml"])
def test_plain_manifests_hold_what_keeps_tenants_off(name):
    """As deploy/manifests/README.md says, by kind."""
    text = (ROOT / "deploy" / "manifests" / name).read_text()
    kinds = {o["kind"] for o in yaml.safe_load_all(text) if o}
    assert {"Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ConfigMap",
            "Service", "Deployment", "MutatingWebhookConfiguration", "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding"} <= kinds
    assert ("Certificate" in kinds) == ("cert-manager" in name)


def test_plain_manifests_are_those_of_the_chart(tmp_path):
    """deploy/manifests is made by one command, and is what it makes."""
    done = subprocess.run([ROOT / "dev", "manifests", tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for made in tmp_path.glob("*.yaml"):
        assert made.read_text() == (ROOT / "deploy" / "manifests" / made.name).read_text(), made.name
    assert list(tmp_path.glob("*.yaml"))
