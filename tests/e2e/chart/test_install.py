"""The chart on a real API server: objects, certificates, rights, and what pods meet there."""

import base64
import json
import os
import pathlib
import subprocess
import sys

import pytest
import yaml
from kit import daemon, objects, procs
from kit.api import Refused
from kit.cluster import ROOT

STAND_IN = [sys.executable, str(pathlib.Path(__file__).parents[1] / "kit" / "standin.py")]
GRANT = "hami.io/vgpu-devices-allocated"
HOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/"


@pytest.fixture(scope="module")
def release(cluster, api):
    """The chart with a stand-in for the daemon, and a real kube-scheduler of the chart's profile."""
    home = objects.create_namespace(api, "chart-system")
    # Each release's policy knows its own scheduler only, and others are installed beside this one.
    made = daemon.Release(cluster, cluster.folder, home, "chart", {"admissionPolicy": {"enabled": False}},
                          argv0=STAND_IN)
    made.install().start()
    yield made
    made.remove()


def secret(api, release, name) -> dict:
    return api.get(f"/api/v1/namespaces/{release.namespace}/secrets/{name}")["data"]


def test_a_slice_pod_goes_all_the_way(release, api, make_nodes, make_pod, wait_bound):
    """Webhook by the chart's certificate, kube-scheduler by its profile, Binding by its ServiceAccount's rights."""
    node, = make_nodes(1, cards=1, vendor="nvidia")
    pod = make_pod({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1000})
    assert pod["spec"]["schedulerName"] == release.scheduler_name
    bound = wait_bound(pod)
    assert bound["spec"]["nodeName"] == node
    assert objects.note(bound, GRANT) == "GPU-0,NVIDIA,1000,30:;"
    assert bound["metadata"]["labels"]["hami.io/vgpu-node"] == node  # kept by API servers from 1.35 on


def test_only_slices_reach_the_extender(release, plain_scheduler, make_nodes, make_pod, wait_bound):
    """A pod of the same scheduler that asks for no slice is placed by kube-scheduler alone."""
    make_nodes(1)
    bound = wait_bound(make_pod({"cpu": "1"}, scheduler=release.scheduler_name))
    assert objects.note(bound, GRANT) is None


@pytest.mark.parametrize("resource", ["cambricon.com/mlu.smlu.vmemory", "mthreads.com/sgpu-memory",
                                      "cambricon.com/vcore", "amd.com/gpumem-percentage"])
def test_resources_no_node_has_are_left_to_the_extender(release, api, make_nodes, make_pod, wait_bound, resource):
    make_nodes(1)
    assert objects.note(wait_bound(make_pod({resource: 5}, scheduler=release.scheduler_name)), GRANT)


@pytest.mark.timing
def test_a_refused_pod_is_tried_again_soon(release, api, make_nodes, make_pod, wait_bound):
    """After several refusals the profile still waits at most 3 s (10 s is kube-scheduler's default)."""
    node, = make_nodes(1, cards=1, vendor="nvidia", labels={"no-room": ""})
    pod = make_pod({"nvidia.com/gpu": 1})
    path = objects.path_of(pod)
    api.wait(path, objects.failed_scheduling)
    events = f"/api/v1/namespaces/{pod['metadata']['namespace']}/events"

    def times_refused(seen) -> bool:
        return sum((e.get("series") or {}).get("count", e.get("count") or 1) for e in seen.values()
                   if e["reason"] == "FailedScheduling") >= 2
    for i in range(3):  # every change of the node has kube-scheduler try again
        api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {"turn": str(i)}}})
    api.wait_list(events, times_refused, 30, "refused again")
    api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {"no-room": None}}})
    wait_bound(pod, timeout=5)


@pytest.fixture
def dead_daemon(release):
    """The daemon is gone, for this test."""
    release.daemon.kill()
    yield release
    release.start_daemon()


def test_without_extender_no_slice_is_placed(dead_daemon, api, make_nodes, make_pod, plain_scheduler, wait_bound):
    """ignorable: false. Plain pods go on, through the webhook's absence too."""
    make_nodes(1, cards=1, vendor="nvidia")
    pod = make_pod({"nvidia.com/gpu": 1}, scheduler=dead_daemon.scheduler_name)
    # before it has heard of the node kube-scheduler says that there is none
    api.wait(objects.path_of(pod), lambda p: "connection refused" in objects.failed_scheduling(p), 30, "refused")
    plain = make_pod({"cpu": "1"})
    assert plain["spec"]["schedulerName"] == "default-scheduler"
    wait_bound(plain)


def test_strict_webhook_never_blocks_the_system(install_chart, api, make_namespace, make_pod, namespace):
    """failurePolicy Fail and nobody there: users wait, kube-system and the release itself do not."""
    release = install_chart(values={"scheduler": {"admissionWebhook": {"failurePolicy": "Fail"}}})
    with pytest.raises(Refused, match="failed calling webhook"):
        make_pod({"cpu": "1"})
    objects.create_account(api, "kube-system", "default")
    for home in ("kube-system", release.namespace):
        pod = api.post(objects.PODS.format(home), objects.pod("needed", {"cpu": "1"}))
        api.delete(objects.path_of(pod))
    make_pod({"cpu": "1"}, labels={"hami.io/webhook": "ignore"})


def test_daemon_has_these_rights_and_no_more(install_chart, cluster, api):
    """Asked of the API server's authorizer, verb by verb. The kube-scheduler in the same pod has its own account."""
    release = install_chart(replicas=2)
    user = cluster.api(release.kubeconfig.stem)
    review = user.post("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", {
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": release.namespace}})
    rights = set()
    for rule in review["status"]["resourceRules"]:
        if set(rule["apiGroups"]) & {"authorization.k8s.io", "authentication.k8s.io"}:
            continue  # what every user may: ask about itself
        names = ",".join(rule.get("resourceNames", []))
        rights |= {(r, v, names) for r in rule["resources"] for v in rule["verbs"]}
    expected = {
        "nodes": "get list watch patch", "pods": "get list watch patch", "pods/binding": "create",
        "pods/eviction": "create", "pods/status": "patch", "poddisruptionbudgets": "list watch",
        "resourcequotas": "list watch", "events": "create patch"}
    lease = {("leases", verb, release.scheduler_name) for verb in ("get", "list", "watch")}
    assert rights == {(r, v, "") for r, verbs in expected.items() for v in verbs.split()} | lease


def test_values_that_nothing_reads_are_named(install_chart):
    """HAMi's values are to install unchanged: those of its other parts are told, and so are slips of the pen."""
    release = install_chart()
    assert "nothing here reads" not in release.notes
    release.upgrade({"schedular": {}, "mockDevicePlugin": {}, "scheduler": {
        "replica": 2, "kubeScheduler": {"extraArg": []}, "extender": {"images": {}}, "admissionWebhook": {"enable": True}}})
    (line,) = [line for line in release.notes.splitlines() if "nothing here reads" in line]
    assert line.partition("): ")[2].split(", ") == [
        "mockDevicePlugin", "schedular", "scheduler.replica", "scheduler.admissionWebhook.enable",
        "scheduler.extender.images", "scheduler.kubeScheduler.extraArg"]


def test_lease_rights_are_of_one_lease(install_chart, cluster):
    release = install_chart(replicas=2)
    user = cluster.api(release.kube_kubeconfig.stem)
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{release.namespace}/leases"
    body = {"metadata": {"name": release.scheduler_name}, "spec": {"holderIdentity": "me"}}
    made = user.post(leases, body)
    made["spec"]["holderIdentity"] = "you"
    user.put(f"{leases}/{release.scheduler_name}", made)
    for verb in (lambda: user.get(f"{leases}/other"), lambda: user.get(leases),
                 lambda: user.get("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager")):
        with pytest.raises(Refused) as refused:
            verb()
        assert refused.value.status == 403


def test_kube_scheduler_has_an_account_of_its_own(install_chart, cluster, api, controllers, make_pod):
    """Its token comes to its container by a Secret that the cluster fills in; it writes no grants, and the daemon's
    token is not in reach of it."""
    release = install_chart()
    path = f"/api/v1/namespaces/{release.namespace}/secrets/{release.name}-scheduler-kube-token"
    api.wait(path, lambda s: s and {"token", "ca.crt", "namespace"} <= set(s.get("data", {})), 60, "token filled in")
    token = base64.b64decode(api.get(path)["data"]["token"]).decode()
    user = cluster.api(cluster.write_kubeconfig("by-secret", {"token": token}).stem)
    me = user.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {
        "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})["status"]["userInfo"]["username"]
    assert me == f"system:serviceaccount:{release.namespace}:{release.name}-scheduler-kube"
    assert me not in json.dumps(api.get(
        f"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/{release.name}-grants"))
    assert release.pod_spec["automountServiceAccountToken"] is False
    for container in release.pod_spec["containers"]:
        (volume,) = [m["name"] for m in container["volumeMounts"] if m["mountPath"] == daemon.TOKEN]
        assert volume == ("kube-token" if container["name"] == "kube-scheduler" else "token")


def test_upgrade_keeps_keys(install_chart, api):
    """A second rendering makes no new certificate and no new grant key: running pods were granted under it."""
    release = install_chart()
    names = [f"{release.name}-scheduler-tls", f"{release.name}-grant-key"]
    before = [secret(api, release, n) for n in names]
    bundle = api.get(HOOKS + f"{release.name}-webhook")["webhooks"][0]["clientConfig"]["caBundle"]
    assert len(base64.b64decode(before[1]["key"])) >= 32
    release.upgrade({"legacyMetrics": True})
    assert [secret(api, release, n) for n in names] == before
    assert api.get(HOOKS + f"{release.name}-webhook")["webhooks"][0]["clientConfig"]["caBundle"] == bundle
    assert "--legacy-metrics=true" in release.container["args"]


def test_a_certificate_near_its_end_is_renewed(install_chart, api):
    """The authority before it stays trusted: pods see the new files later than the API server the bundle."""
    release = install_chart()
    name = f"{release.name}-scheduler-tls"
    path = f"/api/v1/namespaces/{release.namespace}/secrets/{name}"
    before = secret(api, release, name)
    api.patch(path, {"metadata": {"annotations": {"gpuslice.io/renew-after": "1000000000"}}})
    release.upgrade({})
    after = secret(api, release, name)
    assert after["tls.crt"] != before["tls.crt"]
    assert base64.b64decode(after["ca.crt"]).endswith(base64.b64decode(before["ca.crt"]))
    hook = api.get(HOOKS + f"{release.name}-webhook")["webhooks"][0]
    assert hook["clientConfig"]["caBundle"] == after["ca.crt"]


def test_heterogeneous_values_install_unchanged(install_chart):
    """The fragment of the public description (spec/examples.md)."""
    from test_template import HETEROGENEOUS
    release = install_chart(values=yaml.safe_load(HETEROGENEOUS))
    config = yaml.safe_load((release.mounts["/config"] / "config.yaml").read_text())
    assert "huawei.com/Ascend910B3-memory" in [r["name"] for r in config["extenders"][0]["managedResources"]]


@pytest.fixture
def hami(api, make_namespace):
    """A HAMi of which only the traces matter here: its Deployment, DaemonSet, webhook and NodePort Service."""
    home = make_namespace()
    labels = {"app.kubernetes.io/component": "hami-scheduler", "app.kubernetes.io/name": "hami"}

    def workload(kind, component, account):
        mine = dict(labels, **{"app.kubernetes.io/component": component})
        return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": component, "labels": mine}, "spec": {
            "selector": {"matchLabels": mine}, "template": {"metadata": {"labels": mine}, "spec": {
                "serviceAccountName": account, "containers": [objects.container("c")]}}}}
    base = f"/apis/apps/v1/namespaces/{home}"
    api.post(f"{base}/deployments", workload("Deployment", "hami-scheduler", "hami-scheduler"))
    api.post(f"{base}/daemonsets", workload("DaemonSet", "hami-device-plugin", "hami-device-plugin"))
    for account in ("hami-scheduler", "hami-device-plugin"):
        api.post(f"/api/v1/namespaces/{home}/serviceaccounts", {"metadata": {"name": account}})
    api.post(f"/api/v1/namespaces/{home}/services", {"metadata": {"name": "hami-scheduler"}, "spec": {
        "type": "NodePort", "selector": labels, "ports": [
            {"name": "http", "port": 443, "nodePort": 31998}, {"name": "monitor", "port": 31993, "nodePort": 31993}]}})
    api.post(HOOKS.rstrip("/"), {"metadata": {"name": "hami-webhook"}, "webhooks": [{
        "name": "vgpu.hami.io", "admissionReviewVersions": ["v1beta1"], "sideEffects": "None",
        "failurePolicy": "Ignore", "clientConfig": {"url": "https://127.0.0.1:1/webhook"},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]}]})
    yield home
    api.delete(HOOKS + "hami-webhook")
    api.delete(f"/api/v1/namespaces/{home}/services/hami-scheduler")
    for path in ("deployments/hami-scheduler", "daemonsets/hami-device-plugin"):
        api.delete(f"{base}/{path}")


def test_install_over_a_running_hami(hami, install_chart, cluster, api, make_pod):
    """Nothing collides; the notes say how to hand over; HAMi's plugin and scheduler may go on writing meanwhile."""
    release = install_chart()
    assert f"A HAMi scheduler runs: {hami}/hami-scheduler" in release.notes
    assert f"scheduler.leaderElectResourceNamespace={hami}" in release.notes
    release.upgrade({"scheduler": {"leaderElect": True, "leaderElectResourceNamespace": hami}})
    assert f"share the lease {hami}/" in release.notes
    policy = api.get(f"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/{release.name}-grants")
    writers = policy["spec"]["matchConditions"][0]["expression"]
    for account in ("hami-scheduler", "hami-device-plugin"):
        assert f'"system:serviceaccount:{hami}:{account}"' in writers
    assert "Grants that are not signed are believed" in release.notes
    user = cluster.api(release.kube_kubeconfig.stem)
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{hami}/leases"
    user.post(lease, {"metadata": {"name": release.scheduler_name}, "spec": {}})
    assert user.get(f"{lease}/{release.scheduler_name}")


def test_pods_of_hami_stay_in_the_books(hami, install_chart, api):
    """They outlive its scheduler: that they are believed is not to end by an upgrade after it is gone."""
    release = install_chart()
    assert "--interop=true" in release.container["args"]
    api.delete(f"/apis/apps/v1/namespaces/{hami}/deployments/hami-scheduler")
    api.wait(f"/apis/apps/v1/namespaces/{hami}/deployments/hami-scheduler", lambda d: d is None, 30, "gone")
    for _ in range(2):
        release.upgrade({"legacyMetrics": True})
        assert "--interop=true" in release.container["args"]
    release.upgrade({"grantSigning": {"interop": False}})
    assert "--interop=true" not in release.container["args"]
    assert "are given twice" in release.notes
    release.upgrade({"grantSigning": {"interop": "auto"}})
    assert "--interop=true" not in release.container["args"]


def test_plugins_of_hami_tell_of_its_pods(hami, install_chart, api):
    """Its scheduler was taken away before the first install, its plugins go on serving what it placed."""
    path = f"/apis/apps/v1/namespaces/{hami}/deployments/hami-scheduler"
    api.delete(path)
    api.wait(path, lambda d: d is None, 30, "gone")
    release = install_chart()
    assert "--interop=true" in release.container["args"]
    release.upgrade({"grantSigning": {"interop": False}})
    release.upgrade({"grantSigning": {"interop": "auto"}})  # once off it is not the plugins that turn it on
    assert "--interop=true" not in release.container["args"]


# -- who may write grants --

@pytest.fixture
def tenant(cluster, api, namespace):
    """A user of one namespace with all rights on its pods."""
    role = {"metadata": {"name": "tenant"}, "rules": [{"apiGroups": [""], "verbs": ["*"],
            "resources": ["pods", "pods/status", "pods/binding"]}]}
    base = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    api.post(f"{base}/roles", role)
    api.post(f"{base}/rolebindings", {
        "metadata": {"name": "tenant"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role",
                                                    "name": "tenant"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": namespace}]})
    return cluster.api(cluster.service_account(namespace, "default").stem)


def denies_grants(api, namespace) -> bool:
    try:
        api.post(objects.PODS.format(namespace), objects.pod("probe", annotations={GRANT: "x"}), dryRun="All")
    except Refused as e:
        return "the scheduler's to write" in str(e)
    return False


@pytest.fixture
def guarded(install_chart, api, namespace):
    """The chart's policy in force (the API server takes some seconds to take it up), and alone so: another release's
    is in force for some seconds after its end, and lets nobody of this one write either."""
    procs.until(lambda: not denies_grants(api, namespace), 60, "no policy in force")
    release = install_chart()
    procs.until(lambda: denies_grants(api, namespace), 30, "policy in force")
    return release


KEYS = [GRANT, "hami.io/vgpu-devices-to-allocate", "hami.io/amd-devices-allocated", "hami.io/BI-V150-devices-to-allocate",
        "hami.io/kunlun-allocated", "hami.io/vgpu-node", "hami.io/bind-phase", "hami.io/vgpu-mig-allocations",
        "AWS_NEURON_IDS", "metax-tech.com/gpu-devices-allocated", "gpuslice.io/grant-signature"]


def test_tenants_cannot_write_grants(guarded, api, tenant, namespace, make_pod):
    path = objects.PODS.format(namespace)
    pod = make_pod({"cpu": "1"}, annotations={"hami.io/gpu-scheduler-policy": "spread", "mine": "1"})
    mine = objects.path_of(pod)
    for user in (tenant, api):  # cluster admins too
        for key in KEYS:
            forged = {"metadata": {"annotations": {key: "forged"}}}
            attempts = [lambda k=key: user.post(path, objects.pod("forged", annotations={k: "x"}))]
            attempts += [lambda f=forged: user.patch(mine, f), lambda f=forged: user.patch(mine + "/status", f)]
            attempts += [lambda k=key: user.post(mine + "/binding", {
                "metadata": {"name": pod["metadata"]["name"], "annotations": {k: "x"}},
                "target": {"kind": "Node", "name": "n"}})]
            for attempt in attempts:
                with pytest.raises(Refused, match="the scheduler's to write"):
                    attempt()
    with pytest.raises(Refused, match="the scheduler's to write"):
        tenant.patch(mine, {"metadata": {"labels": {"hami.io/vgpu-node": "n"}}})
    assert "n" != api.get(mine)["spec"].get("nodeName")


def test_other_annotations_stay_free(guarded, tenant, namespace, make_pod, api):
    pod = make_pod({"cpu": "1"}, annotations={"hami.io/gpu-scheduler-policy": "spread"})
    mine = objects.path_of(pod)
    tenant.patch(mine, {"metadata": {"annotations": {
        "hami.io/gpu-scheduler-policy": "binpack", "nvidia.com/use-gputype": "A100", "x": "y"}}})
    tenant.patch(mine + "/status", {"status": {"message": "fine"}})
    assert objects.note(api.get(mine), "x") == "y"


def test_a_grant_stays_what_it_was(guarded, cluster, api, tenant, make_pod):
    """The scheduler writes it; then nobody else changes or removes it, and all else of the pod can change."""
    scheduler = cluster.api(guarded.kubeconfig.stem)
    pod = make_pod({"cpu": "1"})
    mine = objects.path_of(pod)
    scheduler.patch(mine, {"metadata": {"annotations": {GRANT: "GPU-0,NVIDIA,1,1:;"}}})
    for value in ("GPU-0,NVIDIA,9,9:;", None):
        with pytest.raises(Refused, match="the scheduler's to write"):
            tenant.patch(mine, {"metadata": {"annotations": {GRANT: value}}})
    tenant.patch(mine, {"metadata": {"annotations": {"mine": "1"}}})
    assert objects.note(api.get(mine), GRANT) == "GPU-0,NVIDIA,1,1:;"


def test_plugins_of_kube_system_may_hand_out(guarded, cluster, api, make_pod):
    """Vendors' plugins rewrite grants of existing pods; creating pods with grants they may not either, as the
    controllers that make tenants' pods are of the same group."""
    objects.create_account(api, "kube-system", "plugin")
    binding = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    api.post(binding, {"metadata": {"name": "plugin"}, "subjects": [
        {"kind": "ServiceAccount", "name": "plugin", "namespace": "kube-system"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}})
    try:
        plugin = cluster.api(cluster.service_account("kube-system", "plugin").stem)
        pod = make_pod({"cpu": "1"})
        plugin.patch(objects.path_of(pod), {"metadata": {"annotations": {"hami.io/bind-phase": "success"}}})
        assert objects.note(api.get(objects.path_of(pod)), "hami.io/bind-phase") == "success"
        with pytest.raises(Refused, match="the scheduler's to write"):
            plugin.post(objects.PODS.format(pod["metadata"]["namespace"]), objects.pod("forged", annotations={GRANT: "x"}))
    finally:
        api.delete(f"{binding}/plugin")


def test_plain_manifests_install(cluster, api, namespace):
    """kubectl and openssl alone, as deploy/manifests/README.md says."""
    env = dict(os.environ, KUBECONFIG=str(cluster.kubeconfig()), PATH=f"{cluster.bin}:{os.environ['PATH']}")
    folder = ROOT / "deploy" / "manifests"

    def sh(*argv):
        done = subprocess.run(argv, cwd=folder, env=env, text=True, capture_output=True, timeout=120)
        assert done.returncode == 0, done.stderr
    try:
        sh("kubectl", "apply", "-f", "scheduler.yaml")
        sh("./secrets.sh")
        client = api.get(HOOKS + "gpuslice-webhook")["webhooks"][0]["clientConfig"]
        path = "/api/v1/namespaces/gpuslice-system/secrets/"
        assert api.get(path + "gpuslice-scheduler-tls")["data"]["ca.crt"] == client["caBundle"]
        assert len(base64.b64decode(api.get(path + "gpuslice-grant-key")["data"]["key"])) == 48
        procs.until(lambda: denies_grants(api, namespace), 30, "policy in force")
    finally:
        sh("kubectl", "delete", "--wait=false", "-f", "scheduler.yaml")
    procs.until(lambda: not denies_grants(api, namespace), 30, "other tests' schedulers write grants again")
