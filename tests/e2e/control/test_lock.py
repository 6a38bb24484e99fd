"""HAMi's node lock, with a node agent that plays HAMi's plugin."""

import os
import signal
import time

from kit import cards, objects
from kit.agent import LOCK

OPEN = {"admissionPolicy": {"enabled": False}}  # the agent writes as the admin, not as a plugin
SLICE = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1000}


def all_bound(api, namespace, n, timeout):
    def look(pods):
        return len(pods) == n and all(objects.is_bound(p) for p in pods.values()) and list(pods.values())
    return api.wait_list(objects.PODS.format(namespace), look, timeout, f"{n} pods bound")


def test_a_hundred_pods_on_one_node(scheduler_daemon, make_nodes, make_agent, api, namespace, record_property):
    release = scheduler_daemon(values=OPEN)
    (node,) = make_nodes(1, cards=8, vendor="nvidia", count=20)
    agent = make_agent()
    begin = time.monotonic()
    api.create_all(objects.PODS.format(namespace), [objects.pod(f"p{i}", SLICE) for i in range(100)])
    pods = all_bound(api, namespace, 100, 60)
    took = time.monotonic() - begin
    record_property("seconds", took)
    print(f"100 pods with locks on one node: {took:.1f} s")
    cards.check(pods, 40960, 20)
    api.wait(f"/api/v1/nodes/{node}", lambda n: LOCK not in n["metadata"]["annotations"], 10, "lock given back")
    assert len(agent.served) == 100
    assert "hami_" in release.metrics()
    assert took < 10 * max(1, os.getloadavg()[0] / os.cpu_count())  # a machine that others use, too


def test_kill_in_the_midst(scheduler_daemon, make_nodes, make_agent, api, namespace):
    release = scheduler_daemon(values=OPEN)
    make_nodes(2, cards=2, vendor="nvidia", count=20)
    make_agent()
    path = objects.PODS.format(namespace)
    api.create_all(path, [objects.pod(f"p{i}", SLICE) for i in range(40)])
    for least in (8, 20):
        api.wait_list(path, lambda pods, n=least: sum(objects.is_bound(p) for p in pods.values()) >= n, 60, f"{least}")
        release.restart_daemon(signal.SIGKILL)
    pods = all_bound(api, namespace, 40, 120)
    cards.check(pods, 40960, 20)
    assert cards.in_books(release.metrics()) == cards.granted(pods)


def test_pod_gone_while_it_holds_the_lock(scheduler_daemon, make_nodes, make_pod, wait_bound, api):
    scheduler_daemon(values=OPEN)
    (node,) = make_nodes(1, cards=1, vendor="nvidia")
    first = wait_bound(make_pod(SLICE))  # no agent: nobody gives its lock back
    assert objects.note(api.get(f"/api/v1/nodes/{node}"), LOCK).endswith("," + first["metadata"]["name"])
    second = make_pod(SLICE)
    time.sleep(1.5)  # it waits: nothing could be waited for
    assert not objects.is_bound(api.get(objects.path_of(second)))
    begin = time.monotonic()
    api.delete(objects.path_of(first))
    wait_bound(second, 10)
    assert time.monotonic() - begin < 2
    api.delete(objects.path_of(second))
    api.wait(f"/api/v1/nodes/{node}", lambda n: LOCK not in n["metadata"]["annotations"], 5, "lock swept")
