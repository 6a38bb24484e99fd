"""Two replicas; the leading one ends while pods come."""

import signal
import threading
import time
import urllib.request

import pytest
from kit import cards, objects, procs

LEASE = {"leaseDuration": "3s", "renewDeadline": "2s", "retryPeriod": "500ms"}
# A kube-scheduler that loses its lease ends, and nobody starts it again here: not for a busy machine's sake.
SLOW = {"leaseDuration": "6s", "renewDeadline": "5s", "retryPeriod": "500ms"}
SLICE = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 20000}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_leader_ends(scheduler_daemon, make_nodes, api, namespace, number):
    release = scheduler_daemon(replicas=2, lease=LEASE)
    make_nodes(4, cards=4, vendor="nvidia", annotations={"gpuslice.io/identity": "prestart"})
    path = objects.PODS.format(namespace)
    api.post(path, objects.pod("first", SLICE))
    api.wait(f"{path}/first", objects.is_bound, 60, "first bound")
    leader = release.leader()
    name = release.scheduler_name  # a webhook call that is cut off leaves a pod to another scheduler
    pods = [objects.pod(f"p{i}", SLICE, scheduler=name) for i in range(20)]
    create = threading.Thread(target=api.create_all, args=(path, pods))
    create.start()
    api.wait_list(path, lambda pods: sum(objects.is_bound(p) for p in pods.values()) >= 4, 60, "some bound")
    if number == signal.SIGKILL:
        leader.kill()
    else:
        leader.stop()
    lease_path = f"/apis/coordination.k8s.io/v1/namespaces/{release.namespace}/leases/" + \
        release.held_lease()["metadata"]["name"]
    api.wait(lease_path, lambda x: x and x["spec"].get("holderIdentity", "").partition("_")[0] not in ("", leader.name),
             60, "lease moves")
    moved = time.monotonic()
    create.join()
    api.post(path, objects.pod("next", SLICE, scheduler=name))
    api.wait(f"{path}/next", objects.is_bound, 60, "next bound")
    took = time.monotonic() - moved
    print(f"next pod bound {took:.1f} s after the lease moved")
    pods = api.wait_list(path, lambda pods: len(pods) == 22 and all(map(objects.is_bound, pods.values())) and pods, 60)
    cards.check(pods.values(), 40960, 10)
    assert took < 5


def test_the_leader_ends_while_many_wait(scheduler_daemon, make_nodes, api, namespace):
    """Pods that kube-scheduler has refused cost the next leader nothing (docs/adr/0010): no Binding of theirs is under way,
    and each says so by itself. Then they are bound as others are."""
    release = scheduler_daemon(replicas=2, lease=LEASE)
    make_nodes(1, cards=1, vendor="nvidia", annotations={"gpuslice.io/identity": "prestart"})
    path, name = objects.PODS.format(namespace), release.scheduler_name
    api.post(path, objects.pod("first", SLICE, scheduler=name))
    api.wait(f"{path}/first", objects.is_bound, 60, "first bound")
    waiting = [objects.pod(f"w{i}", SLICE | {"nvidia.com/gpumem": 21000}, scheduler=name) for i in range(100)]
    api.create_all(path, waiting)
    api.wait_list(path, lambda pods: sum(bool(objects.failed_scheduling(p)) for p in pods.values()) == 100, 60, "all refused")
    leader = release.leader()
    other = next(r for r in release.replicas if r is not leader)
    leader.kill()
    api.post(path, objects.pod("next", SLICE, scheduler=name))
    api.wait(f"{path}/next", objects.is_bound, 60, "next bound")
    assert release.leader() is other
    written = [int(line.split()[1]) for line in other.metrics().splitlines()
               if line.startswith("gpuslice_scheduler_fence_writes_total ")]
    assert written[0] <= 1  # "next" alone may be new
    api.delete(f"{path}/first")
    api.delete(f"{path}/next")
    pods = api.wait_list(path, lambda pods: any(map(objects.is_bound, pods.values())) and pods, 60, "one that waited")
    cards.check(pods.values(), 40960, 10)
    (bound,) = [p for p in pods.values() if objects.is_bound(p)]
    assert objects.note(bound, "gpuslice.io/fence").endswith("+")


def test_a_leader_that_hangs_and_goes_on(scheduler_daemon, make_nodes, api, namespace):
    """All of it stops, as with its machine; another leads. When it goes on it does not act on what it knew."""
    release = scheduler_daemon(replicas=2, lease=SLOW)
    make_nodes(4, cards=4, vendor="nvidia", annotations={"gpuslice.io/identity": "prestart"})
    path, name = objects.PODS.format(namespace), release.scheduler_name
    api.post(path, objects.pod("first", SLICE, scheduler=name))
    api.wait(f"{path}/first", objects.is_bound, 60, "first bound")
    leader = release.leader()
    other = next(r for r in release.replicas if r is not leader)
    create = threading.Thread(target=api.create_all, args=(
        path, [objects.pod(f"p{i}", SLICE, scheduler=name) for i in range(20)]))
    create.start()
    api.wait_list(path, lambda pods: sum(objects.is_bound(p) for p in pods.values()) >= 4, 60, "some bound")
    for process in (leader.daemon, leader.kube_scheduler):
        process.send(signal.SIGSTOP)
    create.join()
    pods = api.wait_list(path, lambda pods: len(pods) == 21 and all(map(objects.is_bound, pods.values())) and pods, 90,
                         "all bound by the other")
    cards.check(pods.values(), 40960, 10)
    assert release.leader() is other
    for process in (leader.daemon, leader.kube_scheduler):
        process.send(signal.SIGCONT)
    api.create_all(path, [objects.pod(f"late{i}", SLICE, scheduler=name) for i in range(8)])
    pods = api.wait_list(path, lambda pods: len(pods) == 29 and all(map(objects.is_bound, pods.values())) and pods, 60,
                         "late ones bound")
    cards.check(pods.values(), 40960, 10)
    for replica in release.replicas:
        procs.until(lambda r=replica: cards.in_books(r.metrics()) == cards.granted(pods.values()), 30,
                    "books = sum of live grants")


def test_a_daemon_that_hangs_is_ended(scheduler_daemon, make_nodes, api, namespace):
    """Its kube-scheduler keeps the lease. What the chart's liveness probe has the kubelet do is enough."""
    release = scheduler_daemon()
    (replica,) = release.replicas
    make_nodes(1, cards=1, vendor="nvidia", annotations={"gpuslice.io/identity": "prestart"})
    path = objects.PODS.format(namespace)
    replica.daemon.send(signal.SIGSTOP)
    api.post(path, objects.pod("waits", SLICE, scheduler=release.scheduler_name))
    with pytest.raises(OSError):
        urllib.request.urlopen(f"{replica.url}/healthz", context=replica.tls(), timeout=5)  # the probe's
    assert replica.daemon.stop(signal.SIGTERM, timeout=2) == -signal.SIGKILL  # SIGTERM is not heard
    replica.start_daemon()
    api.wait(f"{path}/waits", objects.is_bound, 60, "bound")
