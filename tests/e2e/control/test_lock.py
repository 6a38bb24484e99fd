"""HAMi's node lock, with a node agent that plays HAMi's plugin."""

import datetime
import signal
import time

import pytest
from kit import cards, objects, procs
from kit.agent import LOCK, PHASE

OPEN = {"admissionPolicy": {"enabled": False}}  # the agent writes as the admin, not as a plugin
SLICE = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1000}
BY_HAND = 16


def all_bound(api, namespace, n, timeout):
    def look(pods):
        return len(pods) == n and all(objects.is_bound(p) for p in pods.values()) and list(pods.values())
    return api.wait_list(objects.PODS.format(namespace), look, timeout, f"{n} pods bound")


def by_hand(api, namespace: str, node: str, prefix: str, n: int) -> float:
    """Seconds for the same protocol and nothing else: lock, Binding, until the agent gave the lock back."""
    path, node_path = objects.PODS.format(namespace), f"/api/v1/nodes/{node}"
    api.create_all(path, [objects.pod(f"{prefix}{i}", scheduler="nobody") for i in range(n)])
    begin = time.monotonic()
    for name in (f"{prefix}{i}" for i in range(n)):
        version = api.get(node_path)["metadata"]["resourceVersion"]
        owner = f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%dT%H:%M:%SZ},{namespace},{name}"
        api.patch(node_path, {"metadata": {"annotations": {LOCK: owner}, "resourceVersion": version}})
        api.post(f"{path}/{name}/binding", {
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "annotations": {PHASE: "allocating"}},
            "target": {"kind": "Node", "name": node}})
        api.wait(node_path, lambda n: not objects.note(n, LOCK), 30, "lock given back")
    return time.monotonic() - begin


@pytest.mark.timing
def test_a_hundred_pods_on_one_node(scheduler_daemon, make_nodes, make_agent, api, namespace, record_property):
    """Hardly longer than what the protocol itself takes; in turn, so that both see the same machine."""
    release = scheduler_daemon(values=OPEN)
    (node,) = make_nodes(1, cards=8, vendor="nvidia", count=20)
    (bare,) = make_nodes(1)
    agent = make_agent()
    release.until_it_leads(node)
    took, least = 0.0, by_hand(api, namespace, bare, "first", BY_HAND)
    for half in (1, 2):
        begin = time.monotonic()
        api.create_all(objects.PODS.format(namespace), [objects.pod(f"p{half}-{i}", SLICE) for i in range(50)])
        pods = all_bound(api, namespace, half * (BY_HAND + 50), 60)
        took += time.monotonic() - begin
        api.wait(f"/api/v1/nodes/{node}", lambda n: LOCK not in n["metadata"]["annotations"], 30, "lock given back")
        least += by_hand(api, namespace, bare, f"then{half}", BY_HAND)
    ratio = took / 100 / (least / (3 * BY_HAND))
    record_property("seconds", took)
    record_property("of_by_hand", ratio)
    print(f"100 pods with locks on one node: {took:.1f} s, {ratio:.2f} of the protocol by hand")
    cards.check(pods, 40960, 20)
    assert len(agent.served) == 100 + 3 * BY_HAND
    assert "hami_" in release.metrics()
    assert ratio < 1.6


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
    procs.until(lambda: cards.in_books(release.metrics()) == cards.granted(pods), 30, "books = sum of live grants")


def test_pod_gone_while_it_holds_the_lock(scheduler_daemon, make_nodes, make_pod, wait_bound, api):
    scheduler_daemon(values=OPEN)
    (node,) = make_nodes(1, cards=1, vendor="nvidia")
    first = wait_bound(make_pod(SLICE))  # no agent: nobody gives its lock back
    assert objects.note(api.get(f"/api/v1/nodes/{node}"), LOCK).endswith("," + first["metadata"]["name"])
    second = make_pod(SLICE)
    time.sleep(1.5)  # it waits: nothing could be waited for
    assert not objects.is_bound(api.get(objects.path_of(second)))
    api.delete(objects.path_of(first))
    wait_bound(second, 10)  # a third of the time that it would wait for a living owner
    api.delete(objects.path_of(second))
    api.wait(f"/api/v1/nodes/{node}", lambda n: LOCK not in n["metadata"]["annotations"], 30, "lock swept")
