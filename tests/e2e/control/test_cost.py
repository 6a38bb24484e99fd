"""What the webhook adds to the creation of a pod, as a client of the API server sees it."""

import base64
import http.client
import json
import os
import ssl
import time

import pytest
from kit import objects, procs
from kit.hook import Hook

ROUNDS = int(os.environ.get("GS_ROUNDS", "400"))
METRIC = "apiserver_admission_webhook_admission_duration_seconds"
HOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
AWAY = {"hami.io/webhook": "ignore"}
PODS = {"plain": {"cpu": "100m"}, "slice": {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1000}}


class Creator:
    """Dry-run creations over one connection: admission and all, without etcd, whose noise is larger than what is
    measured."""

    def __init__(self, cluster):
        context = ssl.create_default_context(cafile=str(cluster.ca_file))
        pair = cluster.folder / "pki" / "admin"
        context.load_cert_chain(pair.with_suffix(".crt"), pair.with_suffix(".key"))
        self.connection = http.client.HTTPSConnection("127.0.0.1", cluster.ports["api"], context=context)

    def __call__(self, namespace: str, body: bytes) -> tuple[float, dict]:
        """Milliseconds, and the pod."""
        begin = time.perf_counter()
        self.connection.request("POST", objects.PODS.format(namespace) + "?dryRun=All", body,
                                {"Content-Type": "application/json"})
        reply = self.connection.getresponse()
        text = reply.read()
        took = (time.perf_counter() - begin) * 1e3
        assert reply.status == 201, text
        return took, json.loads(text)


@pytest.fixture
def bare_hook(cluster, api):
    """A webhook that thinks nothing, asked in namespaces labelled `hook: bare`; its own sort of round trip is what the
    API server's work for any webhook comes to."""
    hook = Hook(cluster.authority).start()
    ca = base64.b64encode(cluster.ca_file.read_bytes()).decode()
    api.post(HOOKS, {"metadata": {"name": "bare"}, "webhooks": [{
        "name": "bare.hook.test", "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail",
        "clientConfig": {"url": hook.url, "caBundle": ca},
        "namespaceSelector": {"matchLabels": {"hook": "bare"}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]}]})
    yield hook
    api.delete(f"{HOOKS}/bare")
    hook.stop()


def seen_by_apiserver(api, name: str) -> tuple[float, float]:
    """Sum in seconds and count of its calls of the webhook."""
    def of(what):
        return sum(float(line.rsplit(" ", 1)[1]) for line in api.text("/metrics").splitlines()
                   if line.startswith(f"{METRIC}_{what}{{") and f'name="{name}"' in line and 'operation="CREATE"' in line)
    return of("sum"), of("count")


def response_to(release, pod: dict) -> dict:
    """What our webhook says to a pod, as the API server asks it; without the uid."""
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u", "operation": "CREATE", "namespace": "default", "name": pod["metadata"]["name"],
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"}, "object": pod}}
    said = release.call("webhook", review)["response"]
    del said["uid"]
    return said


def at(times: list, part: float) -> float:
    return sorted(times)[min(len(times) - 1, int(len(times) * part))]


@pytest.mark.timing
def test_what_the_webhook_adds(scheduler_daemon, bare_hook, cluster, api, make_namespace, namespace, record_property):
    """The same pod in turn where our webhook is asked, where one is that says the same without any thought, and where
    none is: so all three see the same machine, and what ours adds is judged by what any webhook adds. A round trip to
    the daemon takes 0.1 ms (./dev bench scheduler); most of the rest is the API server's own work."""
    release = scheduler_daemon(kube_scheduler=False)
    spaces = {"ours": namespace, "bare": make_namespace(labels={**AWAY, "hook": "bare"}),
              "none": make_namespace(labels=AWAY)}
    create = Creator(cluster)
    for what, limits in PODS.items():
        pod = objects.pod("same", limits)
        body = json.dumps(pod).encode()
        bare_hook.says = response_to(release, {**pod, "kind": "Pod", "apiVersion": "v1"})
        procs.until(lambda b=body: create(spaces["bare"], b) and bare_hook.asked, 30, "the bare webhook is asked")
        base, asked = seen_by_apiserver(api, "vgpu.hami.io"), bare_hook.asked
        took = {key: [] for key in spaces}
        for i in range(ROUNDS + 20):
            for key, space in spaces.items():
                ms, made = create(space, body)
                if i >= 20:  # connections are open by then
                    took[key].append(ms)
                changed = what == "slice" and key != "none"
                assert made["spec"]["schedulerName"] == (release.scheduler_name if changed else "default-scheduler")
        now = seen_by_apiserver(api, "vgpu.hami.io")
        assert now[1] - base[1] == bare_hook.asked - asked == ROUNDS + 20  # each was asked in its own place, and only there
        mean = (now[0] - base[0]) / (now[1] - base[1]) * 1e3
        ours, bare = ({p: at(took[key], p) - at(took["none"], p) for p in (.5, .9, .99)} for key in ("ours", "bare"))
        record_property(f"{what}_p99_added_ms", ours[.99])
        record_property(f"{what}_of_bare", ours[.5] / bare[.5])
        print(f"{what}: p50 {at(took['ours'], .5):.2f} ms asked, {at(took['none'], .5):.2f} not: adds {ours[.5]:.2f} p50, "
              f"{ours[.9]:.2f} p90, {ours[.99]:.2f} p99; one that thinks nothing {bare[.5]:.2f}, {bare[.9]:.2f}, "
              f"{bare[.99]:.2f}; the API server counts {mean:.2f} ms a call on average")
        assert ours[.5] < 1.3 * bare[.5]
