"""The chart's rights, taken away one verb at a time: each is used, and what is missing is said in words.

That both programs work with exactly the chart's verbs is what every other test here shows: the daemon and the
kube-scheduler beside it run as the chart's two accounts."""

import contextlib
import datetime
import itertools

import pytest
from kit import agent, daemon, objects, procs
from prometheus_client.parser import text_string_to_metric_families

READS = [(r, v) for r in ("nodes", "pods", "resourcequotas", "poddisruptionbudgets", "leases")
         for v in ("list", "watch")]
BINDING = [("pods/binding", "create"), ("nodes", "patch")]
LOCKED = [("nodes", "get"), ("pods", "get")]
NUDGE = ("pods", "patch")
OPEN = [NUDGE, ("leases", "get")]
EVENTS = [("events", "create"), ("events", "patch")]
PREEMPTION = [("pods/eviction", "create", "eviction refused"), ("pods/status", "patch", "nominated node not written")]
KUBE_LEASE = [("leases", "get"), ("leases", "update")]
LEASE = {"leaseDuration": "3s", "renewDeadline": "2s", "retryPeriod": "500ms"}
RBAC = "/apis/rbac.authorization.k8s.io/v1/"
PRESTART = {"gpuslice.io/identity": "prestart"}
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
_serial = itertools.count(1)


@pytest.fixture(scope="module")
def release(cluster, api):
    home = objects.create_namespace(api, "rights-system")
    made = daemon.Release(cluster, cluster.folder, home, "rights", lease=LEASE, values={
        "scheduler": {"nodeLockRetryTimeout": "2s", "leaderElect": True,
                      "extender": {"extraArgs": ["--reservation-lease=5s"]}}})
    made.install().start()
    yield made
    made.remove()


def role_path(release, resource, of_kube: bool = False) -> str:
    """Of the role that has the rights to a resource."""
    name = f"{release.name}-scheduler{'-kube' if of_kube else ''}"
    return RBAC + (f"namespaces/{release.namespace}/roles/{name}" if resource == "leases" else f"clusterroles/{name}")


def rights_in(role) -> list:
    return [(r, v) for rule in role["rules"] for r in rule["resources"] for v in rule["verbs"]]


def test_each_right_is_taken_away_below(release, api):
    """No verb of the chart is without its test; system:kube-scheduler is the cluster's own."""
    given = [right for resource in ("nodes", "leases") for right in rights_in(api.get(role_path(release, resource)))]
    assert sorted(given) == sorted([*READS, *BINDING, *LOCKED, *OPEN, *EVENTS, *(p[:2] for p in PREEMPTION)])
    assert sorted(rights_in(api.get(role_path(release, "leases", True)))) == sorted(KUBE_LEASE)


GROUPS = {"poddisruptionbudgets": "policy", "leases": "coordination.k8s.io"}


def is_allowed(user, release, resource, verb) -> bool:
    name, _, sub = resource.partition("/")
    asked = {"resource": name, "subresource": sub, "verb": verb, "group": GROUPS.get(name, "")}
    if name == "leases":
        asked |= {"namespace": release.namespace, "name": release.scheduler_name}
    answer = user.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked}})
    return answer["status"]["allowed"]


@pytest.fixture
def without(release, cluster, api):
    """without(resource, verb): a context in which the daemon (or, of_kube, the kube-scheduler) lacks that right."""

    @contextlib.contextmanager
    def lacking(resource, verb, of_kube: bool = False):
        user = cluster.api((release.kube_kubeconfig if of_kube else release.kubeconfig).stem)
        path = role_path(release, resource, of_kube)
        rules = api.get(path)["rules"]
        fewer = [{**r, "verbs": [v for v in r["verbs"] if v != verb or resource not in r["resources"]]} for r in rules]
        assert fewer != rules
        api.put(path, {**api.get(path), "rules": [r for r in fewer if r["verbs"]]})
        try:
            procs.until(lambda: not is_allowed(user, release, resource, verb), 30, "the right is gone")
            yield
        finally:
            api.put(path, {**api.get(path), "rules": rules})
            procs.until(lambda: is_allowed(user, release, resource, verb), 30, "the right is back")

    return lacking


class Log:
    """What the daemon (or another process) has logged since."""

    def __init__(self, release, process=None):
        self.path = (process or release.daemon).log
        self.start = self.path.stat().st_size

    def says(self, *words, timeout: float = 20):
        def look():
            lines = self.path.read_bytes()[self.start:].decode().splitlines()
            return [line for line in lines if all(w in line for w in words)]
        return procs.until(look, timeout, f"{self.path.stem} says {words}")


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
        if verb == "list" and resource not in ("poddisruptionbudgets", "leases"):
            assert not release.is_ready()
    # and by itself it is well again
    release.daemon.wait_ready(release.is_ready)


@pytest.mark.parametrize("resource,verb", BINDING)
def test_binding(release, without, api, make_nodes, make_pod, wait_bound, resource, verb):
    make_nodes(1, cards=1, vendor="nvidia")  # of a plugin that needs the lock
    with without(resource, verb):
        pod = make_pod({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 100})
        binding_failed(api, pod, "forbidden", f"cannot {verb} resource")
    wait_bound(pod)


@pytest.mark.parametrize("resource,verb", LOCKED)
def test_a_lock_of_somebody_else(release, without, api, make_nodes, make_pod, wait_bound, resource, verb):
    """The node is read again, and its lock's owner is looked for: there is none."""
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    make_nodes(1, cards=1, vendor="nvidia", annotations={"hami.io/mutex.lock": f"{now},default,ghost"})
    with without(resource, verb):
        pod = make_pod({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 100})
        binding_failed(api, pod, "forbidden", f"cannot {verb} resource")
    wait_bound(pod)


@pytest.mark.parametrize("resource,verb", OPEN)
def test_a_pod_that_was_refused_before(release, without, api, make_nodes, make_pod, wait_bound, resource, verb):
    """It is opened, and the API server is asked who leads, before its Binding is sent (docs/adr/0010)."""
    with without(resource, verb):
        pod = make_pod({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 100})
        api.wait(objects.path_of(pod), objects.failed_scheduling, 30, "refused")
        make_nodes(1, cards=1, vendor="nvidia", annotations=PRESTART)
        binding_failed(api, pod, "forbidden", f"cannot {verb} resource")
    assert objects.note(wait_bound(pod, 60), "gpuslice.io/fence").endswith("+")


def test_room_of_which_no_object_tells(release, without, api, make_nodes, make_pod, wait_bound):
    """A promise that nobody came for ends: the pod that waits is told by a patch of it."""
    (node,) = make_nodes(1, cards=1, vendor="nvidia", annotations=PRESTART)
    whole = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 40000}
    with without(*NUDGE):
        log = Log(release)
        release.promise(objects.pod("ghost", whole), node)
        pod = make_pod(whole)
        log.says("pod not nudged", "cannot patch resource", timeout=30)
    wait_bound(pod, 60)


@pytest.mark.parametrize("resource,verb", KUBE_LEASE)
def test_holding_the_lease(release, without, make_nodes, make_pod, wait_bound, resource, verb):
    release.kube_scheduler.stop()
    with without(resource, verb, of_kube=True):
        release.start_kube_scheduler(wait=False)
        Log(release, release.kube_scheduler).says("forbidden", f"cannot {verb} resource", resource)
        release.kube_scheduler.stop()
    release.start_kube_scheduler()
    make_nodes(1, cards=1, vendor="nvidia", annotations=PRESTART)
    wait_bound(make_pod({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 100}))


@pytest.mark.parametrize("resource,verb", EVENTS)
def test_events(release, without, api, make_nodes, make_pod, resource, verb):
    make_nodes(1, cards=1, vendor="nvidia")
    with without(resource, verb):
        before = failed_events(release)
        make_pod({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 90000})
        # a second refusal is counted up on the first one's event: nodes come, so that it is tried again
        procs.until(lambda: failed_events(release) > before or (make_nodes(1, cards=1, vendor="nvidia") and False), 30,
                    "an event is refused")


@pytest.mark.parametrize("resource,verb,words", PREEMPTION)
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
