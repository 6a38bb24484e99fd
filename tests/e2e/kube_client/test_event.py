"""Events of src/kube as the official client reads them."""

import time

from kit import procs


def events_of(api, namespace: str, reason: str) -> list:
    return api.core.list_namespaced_event(namespace, field_selector=f"reason={reason}").items


def settle(probe, total: int) -> dict:
    """Until so many events were given to the server or not."""
    last: dict = {}

    def done() -> bool:
        probe.send("events")
        last.update(probe.wait("events"))
        return last["waiting"] == 0 and last["posted"] + last["counted"] + last["failed"] >= total

    procs.until(done, 20, "events sent")
    return last


def post(probe, pod, message="hello_world", reason="Tried", kind="Warning"):
    meta = pod["metadata"]
    probe.send("event", "pods", meta["namespace"], meta["name"], meta["uid"], kind, reason, message)


def test_repeats_are_counted(probe, api, make_pod, namespace):
    pod = make_pod()
    post(probe, pod)
    settle(probe, 1)
    for _ in range(4):
        post(probe, pod)
    settle(probe, 2)
    procs.until(lambda: events_of(api, namespace, "Tried")[0].count == 5, 30, "counted")
    [event] = events_of(api, namespace, "Tried")
    assert (event.type, event.message, event.source.component) == ("Warning", "hello world", "probe")
    about = event.involved_object
    assert (about.kind, about.name, about.namespace, about.uid) == (
        "Pod", pod["metadata"]["name"], namespace, pod["metadata"]["uid"])
    assert event.first_timestamp <= event.last_timestamp


def test_similar_ones_are_folded(probe, api, make_pod, namespace):
    pod = make_pod()
    for i in range(14):
        post(probe, pod, f"attempt_{i}", "Folded")
    settle(probe, 11)
    procs.until(lambda: sum(e.count for e in events_of(api, namespace, "Folded")) == 14, 30, "all told")
    found = events_of(api, namespace, "Folded")
    assert len(found) == 11
    [last] = [e for e in found if e.message.startswith("(combined from similar events): ")]
    assert last.message.endswith("attempt 13")


def test_an_object_is_held_to_a_rate(probe, api, make_pod, namespace):
    pod, other = make_pod(), make_pod()
    for i in range(40):
        post(probe, pod, "same", "Burst")
    post(probe, other, "same", "Burst")
    stats = settle(probe, 2)
    assert stats["dropped"] == 40 - 25
    procs.until(lambda: {e.count for e in events_of(api, namespace, "Burst")} == {25, 1}, 30, "told")


def test_of_a_node(probe, api, make_nodes):
    [node] = make_nodes(1)
    uid = api.get(f"/api/v1/nodes/{node}")["metadata"]["uid"]
    probe.send("event", "nodes", "-", node, uid, "Normal", "OfNode", "x")
    assert settle(probe, 1)["failed"] == 0
    [event] = events_of(api, "default", "OfNode")
    assert (event.involved_object.kind, event.involved_object.name) == ("Node", node)


def test_forgotten_by_the_server(probe, api, make_pod, namespace):
    pod = make_pod()
    post(probe, pod, reason="Gone")
    settle(probe, 1)
    [event] = events_of(api, namespace, "Gone")
    api.core.delete_namespaced_event(event.metadata.name, namespace)
    post(probe, pod, reason="Gone")
    procs.until(lambda: len(events_of(api, namespace, "Gone")) == 1, 30, "told anew")


def test_good_news_is_paced_and_trouble_goes_first(probe, namespace, api):
    """Fifty at once, then twenty a second; a warning does not stand behind them."""
    begin = time.monotonic()
    for i in range(100):
        probe.send("event", "pods", namespace, f"p{i}", "u", "Normal", "Paced", "fine")
    probe.send("event", "pods", namespace, "p0", "u", "Warning", "Trouble", "bad")
    settle(probe, 101)
    assert time.monotonic() - begin > 2  # 50 more than the burst, at 20 a second: 2.5 s
    good = [int(e.metadata.resource_version) for e in events_of(api, namespace, "Paced")]
    (bad,) = [int(e.metadata.resource_version) for e in events_of(api, namespace, "Trouble")]
    assert len(good) == 100
    assert sum(v > bad for v in good) >= 40
