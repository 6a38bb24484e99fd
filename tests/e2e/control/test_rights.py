"""The daemon's rights, taken away one verb at a time: each is used, and what is missing is said in words.

That it works with exactly the chart's verbs is what every other test here shows: the daemon runs as the chart's account.
Not here: `patch` of pods is for API servers before 1.35, which drop a Binding's labels, and for nudging a pod that
kube-scheduler overlooked; neither can be brought about on this one at will."""

import contextlib
import datetime
import itertools

import pytest
from kit import agent, daemon, objects, procs
from prometheus_client.parser import text_string_to_metric_families

READS = [(r, v) for r in ("nodes", "pods", "resourcequotas", "poddisruptionbudgets") for v in ("list", "watch")]
PRESTART = {"gpuslice.io/identity": "prestart"}
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
_serial = itertools.count(1)


@pytest.fixture(scope="module")
def release(cluster, api):
    home = objects.create_namespace(api, "rights-system")
    made = daemon.Release(cluster, cluster.folder, home, "rights", {"scheduler": {"nodeLockRetryTimeout": "2s"}})
    made.install()
    # kube-scheduler shares the account with roles of its own, which would hide what the daemon lacks.
    for role in ("kube", "volume"):
        api.delete(f"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{made.name}-scheduler-{role}")
    made.start_daemon()
    account, made.kubeconfig = made.kubeconfig, cluster.kubeconfig()
    made.start_kube_scheduler()
    made.kubeconfig = account
    yield made
    made.remove()


@pytest.fixture
def without(release, cluster, api):
    """without(resource, verb): a context in which the daemon lacks that right."""
    path = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{release.name}-scheduler"
    user = cluster.api(release.kubeconfig.stem)

    def allowed(resource, verb):
        name, _, sub = resource.partition("/")
        group = "policy" if name == "poddisruptionbudgets" else ""
        answer = user.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {"resource": name, "subresource": sub, "verb": verb, "group": group}}})
        return answer["status"]["allowed"]

    def put(rules):
        role = api.get(path)
        api.put(path, {**role, "rules": rules})

    @contextlib.contextmanager
    def lacking(resource, verb):
        rules = api.get(path)["rules"]
        fewer = [{**r, "verbs": [v for v in r["verbs"] if v != verb or resource not in r["resources"]]} for r in rules]
        assert fewer != rules
        put([r for r in fewer if r["verbs"]])
        try:
            procs.until(lambda: not allowed(resource, verb), 10, "the right is gone")
            yield
        finally:
            put(rules)
            procs.until(lambda: allowed(resource, verb), 10, "the right is back")

    return lacking


class Log:
    """What the daemon has logged since."""

    def __init__(self, release):
        self.path = release.daemon.log
        self.start = self.path.stat().st_size

    def says(self, *words, timeout: float = 20):
        def look():
            lines = self.path.read_bytes()[self.start:].decode().splitlines()
            return [line for line in lines if all(w in line for w in words)]
        return procs.until(look, timeout, f"the daemon says {words}")


def failed_events(release) -> float:
    return sum(s.value for f in text_string_to_metric_families(release.metrics()) for s in f.samples
               if s.name == "gpuslice_scheduler_events_total" and s.labels["outcome"] == "failed")


def binding_failed(api, pod, *words):
    def check(events):
        return any(e["reason"] == "BindingFailed" and all(w in e["message"] for w in words) for e in events.values())
    api.wait_list(f"/api/v1/namespaces/{pod['metadata']['namespace']}/events", check, 30, f"BindingFailed {words}",
                  fieldSelector=f"involvedObject.name={pod['metadata']['name']}")


@pytest.mark.parametrize("resource,verb", READS)
def test_reading(release, without, resource, verb):
    with without(resource, verb):
        release.daemon.stop()
        log = Log(release)
        release.start_daemon(wait=False)
        log.says("forbidden", f"cannot {verb} resource", resource)
        if verb == "list" and resource != "poddisruptionbudgets":
            assert not release.is_ready()
    # and by itself it is well again
    release.daemon.wait_ready(release.is_ready)


@pytest.mark.parametrize("resource,verb", [("pods/binding", "create"), ("nodes", "patch"), ("nodes", "get")])
def test_binding(release, without, api, make_nodes, make_pod, wait_bound, resource, verb):
    make_nodes(1, cards=1, vendor="nvidia")  # of a plugin that needs the lock
    with without(resource, verb):
        pod = make_pod({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 100})
        binding_failed(api, pod, "forbidden", f"cannot {verb} resource")
    wait_bound(pod)


def test_looking_for_the_owner_of_a_lock(release, without, api, make_nodes, make_pod, wait_bound):
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    make_nodes(1, cards=1, vendor="nvidia", annotations={"hami.io/mutex.lock": f"{now},default,ghost"})
    with without("pods", "get"):
        pod = make_pod({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 100})
        binding_failed(api, pod, "forbidden", "cannot get resource")
    wait_bound(pod)


@pytest.mark.parametrize("verb", ["create", "patch"])
def test_events(release, without, api, make_nodes, make_pod, verb):
    make_nodes(1, cards=1, vendor="nvidia")
    with without("events", verb):
        before = failed_events(release)
        make_pod({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 90000})
        # a second refusal is counted up on the first one's event: nodes come, so that it is tried again
        procs.until(lambda: failed_events(release) > before or (make_nodes(1, cards=1, vendor="nvidia") and False), 30,
                    "an event is refused")


@pytest.mark.parametrize("resource,verb,words", [
    ("pods/eviction", "create", "eviction refused"), ("pods/status", "patch", "nominated node not written")])
def test_preemption(release, without, api, make_nodes, make_pod, wait_bound, resource, verb, words):
    (node,) = make_nodes(1, cards=1, vendor="nvidia", annotations=PRESTART)
    names = {}
    for value in (0, 1000):
        names[value] = f"rights{next(_serial)}"
        api.post(CLASSES, {"metadata": {"name": names[value]}, "value": value})
    limits = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 40000}
    here = {"nvidia.com/use-gpuuuid": f"GPU-{node}-0"}
    try:
        low = wait_bound(make_pod(limits, annotations=here, priorityClassName=names[0]))
        agent.set_phase(api, low, "Running", conditions=[{"type": "Ready", "status": "True"}])
        with without(resource, verb):
            log = Log(release)
            make_pod(limits, annotations=here, priorityClassName=names[1000])
            log.says(words, "forbidden", timeout=40)
    finally:
        for name in names.values():
            api.delete(f"{CLASSES}/{name}")
