"""`nodeChoice: scheduler`: every node with room is answered with a score, kube-scheduler takes one, and cards are
chosen at bind."""

import collections
import re
import time

import pytest
from kit import cards, objects, procs

CHOICE = {"scheduler": {"nodeChoice": "scheduler"}}
PRESTART = {"gpuslice.io/identity": "prestart"}
SLICE = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1000}


def spread_pods(api, namespace, n: int) -> collections.Counter:
    """n pods that would rather not share a node, one after the other; how many came to each node."""
    rather = [{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
               "labelSelector": {"matchLabels": {"app": "spread"}}}]
    found = collections.Counter()
    for i in range(n):
        body = objects.pod(f"s{i}", SLICE, labels={"app": "spread"}, topologySpreadConstraints=rather)
        path = objects.path_of(api.post(objects.PODS.format(namespace), body))
        api.wait(path, objects.is_bound, 30, f"{path} bound")
        found[api.get(path)["spec"]["nodeName"]] += 1
    return found


def test_spreading_of_kube_scheduler_takes_effect(scheduler_daemon, make_nodes, api, namespace):
    """A score plugin's wish, against which binpack's score stands."""
    scheduler_daemon(values=CHOICE)
    nodes = make_nodes(4, cards=2, vendor="nvidia", annotations=PRESTART)
    assert spread_pods(api, namespace, 4) == {node: 1 for node in nodes}


def test_spreading_is_not_heard_where_the_filter_chooses(scheduler_daemon, make_nodes, api, namespace):
    scheduler_daemon()
    make_nodes(4, cards=2, vendor="nvidia", annotations=PRESTART)
    assert list(spread_pods(api, namespace, 4).values()) == [4]


def test_preferred_nodes_are_taken(scheduler_daemon, make_nodes, make_pod, wait_bound):
    """Another score plugin: node affinity."""
    scheduler_daemon(values=CHOICE)
    nodes = make_nodes(4, cards=2, vendor="nvidia", annotations=PRESTART)
    for node in (nodes[2], nodes[0]):
        rather = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": {
            "matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}}]}}
        assert wait_bound(make_pod(SLICE, affinity=rather))["spec"]["nodeName"] == node


@pytest.mark.parametrize("n", [60, pytest.param(300, marks=pytest.mark.timing)])
def test_cards_gone_between_filter_and_bind(scheduler_daemon, make_nodes, api, namespace, record_property, n):
    """Pods that wait already, so that kube-scheduler takes them as fast as it can, into nodes that have room for just so
    many: how often is a card gone by its bind? All are bound in the end, and no card is given away twice."""
    release = scheduler_daemon(kube_scheduler=False, values=CHOICE)
    per_card = 2
    make_nodes(n // (8 * per_card), cards=8, vendor="nvidia", annotations=PRESTART)
    make_nodes(1, cards=n % (8 * per_card) // per_card, vendor="nvidia", annotations=PRESTART)
    path = objects.PODS.format(namespace)
    api.create_all(path, [objects.pod(f"c{i}", {**SLICE, "nvidia.com/gpumem": 20000}) for i in range(n)])
    release.start_kube_scheduler()
    procs.until(lambda: said(release, "filter"), 60, "the first is filtered")
    begin = time.monotonic()
    procs.until(lambda: said(release, "filter") > n / 2, 60, "half of them are filtered")
    pace = n / 2 / (time.monotonic() - begin)

    def look(pods):
        return len(pods) == n and all(map(objects.is_bound, pods.values())) and list(pods.values())
    pods = api.wait_list(path, look, 300, f"{n} pods bound")
    took = time.monotonic() - begin
    cards.check(pods, 40960, 10)
    # the watch shows a pod bound before the daemon has heard so
    procs.until(lambda: said(release, "bind", "bound") >= n, 30, "all binds answered")
    rate = said(release, "bind", "refused") / said(release, "bind")
    record_property("conflict_rate", rate)
    print(f"{pace:.0f} pods/s filtered, {n / took:.0f} pods/s bound, {rate:.4f} of binds found their cards gone")
    assert said(release, "bind", "bound") == n


def said(release, call: str, outcome: str = r"\w+") -> float:
    """Answers to those calls so far."""
    line = rf'^gpuslice_scheduler_answers_total{{call="{call}",outcome="{outcome}"}} (\S+)$'
    return sum(map(float, re.findall(line, release.metrics(), re.M)))
