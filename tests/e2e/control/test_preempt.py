"""A pod of higher priority gets its card: exactly those leave without whom it fits, by the real Eviction API."""

import pytest
from kit import agent, objects
from kit.objects import is_going, path_of

CARD = 40960
GRANT = "hami.io/vgpu-devices-allocated"
PRESTART = {"gpuslice.io/identity": "prestart"}
EVENTS = "/api/v1/namespaces/{}/events"


@pytest.fixture
def put(api, make_pod, wait_bound):
    """put(node, card, mem, cls): a running pod on that card."""

    def put(node: str, card: int, mem: int, cls: str, **more) -> dict:
        notes = {"nvidia.com/use-gpuuuid": f"GPU-{node}-{card}"}
        pod = wait_bound(ask(make_pod, mem, cls, annotations=notes, **more))
        assert f"GPU-{node}-{card}," in pod["metadata"]["annotations"][GRANT]
        return agent.set_phase(api, pod, "Running", conditions=[{"type": "Ready", "status": "True"}])

    return put


def ask(make_pod, mem: int, cls: str, **more) -> dict:
    return make_pod({"nvidia.com/gpu": 1, "nvidia.com/gpumem": mem}, priorityClassName=cls, **more)


def card_of(pod: dict) -> str:
    return pod["metadata"]["annotations"][GRANT].partition(",")[0]


def going(api, namespace: str) -> set[str]:
    return {p["metadata"]["name"] for p in api.get(objects.PODS.format(namespace))["items"] if is_going(p)}


def name_of(pod: dict) -> str:
    return pod["metadata"]["name"]


def wait_going(api, pod: dict) -> None:
    api.wait(path_of(pod), is_going, 30, "victim asked to go")


def wait_nominated(api, pod: dict, node: str) -> None:
    api.wait(path_of(pod), lambda p: p["status"].get("nominatedNodeName") == node, 30, "nominated")


def wait_refused(api, pod: dict, times: int) -> None:
    """The filter said no to it so many times."""

    def look(events: dict) -> bool:
        return sum(max(e.get("count") or 0, (e.get("series") or {}).get("count") or 0, 1) for e in events.values()
                   if e["involvedObject"]["uid"] == pod["metadata"]["uid"] and e["reason"] == "FilteringFailed") >= times

    api.wait_list(EVENTS.format(pod["metadata"]["namespace"]), look, 60, f"refused {times} times")


def end(api, *pods: dict) -> None:
    """As the kubelet ends them at last."""
    for pod in pods:
        api.delete(path_of(pod))


def test_exactly_the_victim_that_frees_the_right_card_goes(scheduler_daemon, make_nodes, make_pod, wait_bound, api,
                                                           namespace, priority, put):
    scheduler_daemon()
    low, high = priority(10), priority(1000)
    (node,) = make_nodes(1, cards=2, vendor="nvidia", annotations=PRESTART)
    big = put(node, 0, 30000, low)
    put(node, 1, 15000, low)
    put(node, 1, 15000, low)
    pod = ask(make_pod, 30000, high)
    wait_going(api, big)
    why = [c["reason"] for c in api.get(path_of(big))["status"]["conditions"] if c["type"] == "DisruptionTarget"]
    assert why == ["EvictionByEvictionAPI"]
    wait_nominated(api, pod, node)
    wait_refused(api, pod, 2)  # asked again while the victim goes: nobody else is evicted
    assert not objects.is_bound(api.get(path_of(pod)))
    assert going(api, namespace) == {name_of(big)}
    end(api, big)
    assert card_of(wait_bound(pod)) == f"GPU-{node}-0"
    assert going(api, namespace) == set()
    assert len(api.get(objects.PODS.format(namespace))["items"]) == 3


def test_nobody_goes_where_nothing_helps(scheduler_daemon, make_nodes, make_pod, api, namespace, priority, put):
    scheduler_daemon()
    low, high, never = priority(10), priority(1000), priority(1000, "Never")
    (node,) = make_nodes(1, cards=2, vendor="nvidia", annotations=PRESTART)
    put(node, 0, 20000, low)
    put(node, 0, 20000, high)
    put(node, 1, 40000, low)
    for pod in (ask(make_pod, CARD, low), ask(make_pod, CARD + 1, high), ask(make_pod, CARD, never)):
        wait_refused(api, pod, 2)
        assert going(api, namespace) == set()
        end(api, pod)


def test_disruption_budgets_are_kept(scheduler_daemon, make_nodes, make_pod, wait_bound, api, namespace, priority, put):
    scheduler_daemon()
    low, middle, high = priority(10), priority(20), priority(1000)
    (node,) = make_nodes(1, cards=2, vendor="nvidia", annotations=PRESTART)
    agent.set_budget(api, namespace, "guarded", 0)
    guarded = put(node, 0, CARD, low, labels={"app": "guarded"})
    other = put(node, 1, CARD, middle)
    first = ask(make_pod, CARD, high)
    wait_going(api, other)  # dearer by priority, but nobody guards it
    end(api, other)
    assert card_of(wait_bound(first)) == f"GPU-{node}-1"
    assert going(api, namespace) == set()
    # Only the guarded one is left: it stays as long as its budget says so, and goes soon after.
    second = ask(make_pod, CARD, high)
    wait_refused(api, second, 3)
    assert going(api, namespace) == set()
    agent.set_budget(api, namespace, "guarded", 1, create=False)
    wait_going(api, guarded)
    end(api, guarded)
    assert card_of(wait_bound(second)) == f"GPU-{node}-0"


def test_a_budget_on_one_node_sends_it_to_the_next(scheduler_daemon, make_nodes, make_pod, wait_bound, api, namespace,
                                                   priority, put):
    scheduler_daemon()
    low, high = priority(10), priority(1000)
    one, two = make_nodes(2, cards=1, vendor="nvidia", annotations=PRESTART)
    agent.set_budget(api, namespace, "guarded", 0)
    put(one, 0, CARD, low, labels={"app": "guarded"})
    free = put(two, 0, CARD, low)
    pod = ask(make_pod, CARD, high)
    wait_going(api, free)
    end(api, free)
    assert wait_bound(pod)["spec"]["nodeName"] == two
    assert going(api, namespace) == set()


def test_two_at_once_share_one_victim(scheduler_daemon, make_nodes, make_pod, wait_bound, api, namespace, priority, put):
    scheduler_daemon()
    low, high = priority(10), priority(1000)
    (node,) = make_nodes(1, cards=2, vendor="nvidia", annotations=PRESTART)
    young = put(node, 0, CARD, low)
    old = put(node, 1, CARD, low)
    pods = [ask(make_pod, 20000, high) for _ in range(2)]
    for pod in pods:
        wait_refused(api, pod, 2)
    (name,) = going(api, namespace)  # room for both behind one of them
    victim, other = (young, old) if name == name_of(young) else (old, young)
    end(api, victim)
    for pod in pods:
        wait_bound(pod)
    assert not is_going(api.get(path_of(other)))


def test_two_at_once_take_a_victim_each(scheduler_daemon, make_nodes, make_pod, wait_bound, api, namespace, priority,
                                        put):
    scheduler_daemon()
    low, high = priority(10), priority(1000)
    (node,) = make_nodes(1, cards=3, vendor="nvidia", annotations=PRESTART)
    victims = [put(node, card, CARD, low) for card in range(3)]
    pods = [ask(make_pod, CARD, high) for _ in range(2)]
    for pod in pods:
        wait_refused(api, pod, 2)
    api.wait_list(objects.PODS.format(namespace), lambda pods: sum(map(is_going, pods.values())) >= 2, 30, "two go")
    gone = [v for v in victims if name_of(v) in going(api, namespace)]
    assert len(gone) == 2
    end(api, *gone)
    assert len({card_of(wait_bound(pod)) for pod in pods}) == 2
    assert going(api, namespace) == set()


def test_freed_room_is_held_against_lower_priority(scheduler_daemon, make_nodes, make_pod, wait_bound, api, namespace,
                                                   priority, put):
    scheduler_daemon()
    low, high = priority(10), priority(1000)
    (node,) = make_nodes(1, cards=1, vendor="nvidia", annotations=PRESTART)
    victim = put(node, 0, CARD, low)
    thief = ask(make_pod, 1000, low)  # waits for any room
    wait_refused(api, thief, 1)
    pod = ask(make_pod, CARD, high)
    wait_going(api, victim)
    wait_nominated(api, pod, node)
    end(api, victim)
    wait_bound(pod)
    assert not objects.is_bound(api.get(path_of(thief)))


def test_what_kube_scheduler_chooses_for_the_processor_must_help_the_card(scheduler_daemon, make_nodes, make_pod,
                                                                           wait_bound, api, namespace, priority, put):
    """/preempt: kube-scheduler would take any of the three nodes, for it sees no cards."""
    scheduler_daemon()
    low, high = priority(10), priority(1000)
    full, free, both = make_nodes(3, cards=1, vendor="nvidia", annotations=PRESTART)
    put(full, 0, CARD, high)
    slice_pod = put(both, 0, CARD, low)
    plain = {n: make_pod({"cpu": 60}, priorityClassName=low, nodeName=n) for n in (full, free, both)}
    limits = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": CARD, "cpu": 60}
    first = make_pod(limits, priorityClassName=high)
    wait_going(api, plain[free])
    end(api, plain[free])
    assert wait_bound(first)["spec"]["nodeName"] == free
    assert going(api, namespace) == set()
    second = make_pod(limits, priorityClassName=high)
    wait_going(api, plain[both])
    wait_going(api, slice_pod)
    end(api, plain[both], slice_pod)
    assert wait_bound(second)["spec"]["nodeName"] == both
    assert going(api, namespace) == set()


def test_the_preemptor_is_deleted_in_between(scheduler_daemon, make_nodes, make_pod, wait_bound, api, namespace,
                                             priority, put):
    scheduler_daemon()
    low, high = priority(10), priority(1000)
    (node,) = make_nodes(1, cards=1, vendor="nvidia", annotations=PRESTART)
    victim = put(node, 0, CARD, low)
    waiting = ask(make_pod, CARD, low)
    wait_refused(api, waiting, 1)
    pod = ask(make_pod, CARD, high)
    wait_going(api, victim)
    end(api, pod)
    end(api, victim)
    wait_bound(waiting)  # nothing is held for a pod that is gone
