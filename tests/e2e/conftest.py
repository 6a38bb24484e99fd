"""Fixtures of the end-to-end tests: one real control plane for all, objects of one test each."""

import itertools
import os
import shutil

import pytest
from kit import agent as agents
from kit import daemon, objects, procs
from kit.api import Api
from kit.cluster import Cluster

_serial = itertools.count(1)


def pytest_configure(config):
    config.addinivalue_line("markers", "timing: holds a figure or a pace, for which the machine must have time")


@pytest.fixture(scope="session")
def cluster():
    """etcd and kube-apiserver, for the whole run. GS_E2E_KEEP=1 leaves the folder with the logs."""
    procs.sweep()
    folder = procs.new_folder()
    made = Cluster(folder)
    try:
        yield made.start()
        made.check()
    finally:
        made.stop()
        if not os.environ.get("GS_E2E_KEEP"):
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def api(cluster) -> Api:
    """The API server as a cluster admin sees it."""
    return cluster.api()


@pytest.fixture
def plain_scheduler(cluster):
    """The cluster's own kube-scheduler runs, for this test only: it writes to, and binds, everybody's plain pods."""
    cluster.start_scheduler()
    yield cluster
    cluster.stop_program("kube-scheduler")


@pytest.fixture
def controllers(cluster):
    """kube-controller-manager runs, for this test only."""
    cluster.start_controller_manager()
    yield cluster
    cluster.stop_program("kube-controller-manager")


@pytest.fixture
def make_namespace(api):
    """Factory of namespaces with their default ServiceAccount; pods in them go with the test."""
    made = []

    def make(name: str | None = None, labels=None) -> str:
        name = name or f"t{next(_serial)}"
        made.append(name)
        return objects.create_namespace(api, name, labels)

    yield make
    for name in made:
        drop_pods(api, name)
        api.delete(f"/api/v1/namespaces/{name}")


def drop_pods(api: Api, namespace: str) -> None:
    pods = api.get(objects.PODS.format(namespace))["items"]
    api.delete_all([objects.path_of(p) for p in pods])


@pytest.fixture
def namespace(make_namespace) -> str:
    """A namespace of this test's own."""
    return make_namespace()


@pytest.fixture
def make_nodes(api):
    """Factory: make_nodes(3, cards=8, vendor='nvidia', ...) gives the names; see kit.objects.node."""
    made = []

    def make(n: int, cards: int = 0, vendor="none", prefix: str | None = None, **more) -> list[str]:
        prefix = prefix or f"n{next(_serial)}"
        bodies = [objects.node(f"{prefix}-{i}", cards, vendor, **more) for i in range(n)]
        made.extend(b["metadata"]["name"] for b in bodies)
        api.create_all("/api/v1/nodes", bodies)
        return [b["metadata"]["name"] for b in bodies]

    yield make
    api.delete_all([f"/api/v1/nodes/{name}" for name in made])


@pytest.fixture
def priority(api):
    """priority(value, policy) names a PriorityClass of that value."""
    made, path = [], "/apis/scheduling.k8s.io/v1/priorityclasses"

    def make(value: int, policy: str = "PreemptLowerPriority") -> str:
        name = f"class{next(_serial)}"
        made.append(name)
        api.post(path, {"metadata": {"name": name}, "value": value, "preemptionPolicy": policy})
        return name

    yield make
    for name in made:
        api.delete(f"{path}/{name}")


@pytest.fixture
def make_pod(api, namespace):
    """Factory: make_pod({'nvidia.com/gpu': 1}, ...) gives the pod as the API server has it."""

    def make(limits=None, name: str | None = None, in_namespace: str | None = None, **more) -> dict:
        body = objects.pod(name or f"p{next(_serial)}", limits, **more)
        return api.post(objects.PODS.format(in_namespace or namespace), body)

    return make


@pytest.fixture
def wait_bound(api):
    """wait_bound(pod, timeout=30): the pod once it has a node."""

    def wait(pod: dict, timeout: float = 30) -> dict:
        path = objects.path_of(pod)
        api.wait(path, objects.is_bound, timeout, f"{path} bound")
        return api.get(path)

    return wait


@pytest.fixture
def make_agent(cluster):
    """Factory of node agents (kit.agent.Agent), running; ended with the test, whose failure their errors are."""
    made = []

    def make(**options) -> agents.Agent:
        made.append(agents.Agent(cluster.api(), **options))
        made[-1].start()
        return made[-1]

    yield make
    for one in made:
        one.stop()
    errors = [e for one in made for e in one.errors]
    assert not errors, errors


@pytest.fixture
def install_chart(cluster, make_namespace):
    """Factory: the chart installed by helm in a namespace of its own, nothing started; see kit.daemon.Release."""
    made = []

    def install(namespace: str | None = None, **options) -> daemon.Release:
        name = f"gs{next(_serial)}"
        release = daemon.Release(cluster, cluster.folder, namespace or make_namespace(f"{name}-system"), name, **options)
        made.append(release)
        return release.install()

    yield install
    for release in reversed(made):
        release.remove()


@pytest.fixture
def scheduler_daemon(install_chart):
    """Factory: the chart's daemon with a real kube-scheduler beside it, ready. scheduler_daemon(values={...},
    replicas=2, lease={'leaseDuration': '3s', ...})."""
    if not daemon.program().exists():
        pytest.skip(f"no {daemon.program()} yet")

    def start(kube_scheduler: bool = True, **options) -> daemon.Release:
        return install_chart(**options).start(kube_scheduler)

    return start
