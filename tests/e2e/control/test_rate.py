"""Pods with slices are bound about as fast as pods without, by the same API server in the same run."""

import re
import time

import pytest
from kit import cards, objects

NODES, CARDS, PODS, ROUNDS = 100, 8, 60, 4
SLICE = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1000, "nvidia.com/gpucores": 1}
COUNTED = re.compile(r"^apiserver_request_total\{(.*)\} (\S+)$", re.M)


def per_pod(api, before: dict | None = None) -> dict[str, float]:
    """Requests on single pods and nodes that the API server has answered since `before`, by what they are. Lists and
    watches are the tests' own, and creations are the same everywhere."""
    found = {}
    for labels, count in COUNTED.findall(api.text("/metrics")):
        of = dict(cards.LABEL.findall(labels))
        if of["resource"] in ("pods", "nodes") and of["verb"] not in ("WATCH", "LIST") and \
                (of["verb"], of["subresource"]) != ("POST", ""):
            key = " ".join(filter(None, (of["verb"], of["resource"], of["subresource"])))
            found[key] = found.get(key, 0) + float(count)
    return {k: n - before.get(k, 0) for k, n in found.items() if n > before.get(k, 0)} if before is not None else found


def bind_all(api, namespace: str, prefix: str, limits) -> float:
    """Seconds from the first create until the last has a node."""
    path = objects.PODS.format(namespace)
    begin = time.monotonic()
    api.create_all(path, [objects.pod(f"{prefix}-{i}", limits) for i in range(PODS)])

    def look(pods):
        mine = [p for key, p in pods.items() if key.startswith(f"{namespace}/{prefix}-")]
        return len(mine) == PODS and all(map(objects.is_bound, mine))
    api.wait_list(path, look, 120, f"{PODS} pods of {prefix} bound")
    return time.monotonic() - begin


@pytest.mark.timing
def test_slices_keep_pace_with_plain_pods(scheduler_daemon, plain_scheduler, make_nodes, api, namespace,
                                          record_property):
    """In turn, so that both see the same machine. Two things more, which no load can blur: for a pod nothing but one
    Binding goes to the API server, and the daemon computes less than the kube-scheduler beside it."""
    release = scheduler_daemon()
    make_nodes(NODES, cards=CARDS, vendor="nvidia", annotations={"gpuslice.io/identity": "prestart"})
    for what, limits in (("warm-plain", None), ("warm-slice", SLICE)):
        bind_all(api, namespace, what, limits)
    both, cpu = (release.daemon, release.kube_scheduler), [0.0, 0.0]
    plain, slices, writes = 0.0, 0.0, {}
    for i in range(ROUNDS):
        plain += bind_all(api, namespace, f"plain{i}", None)
        before, used = per_pod(api), [p.cpu_seconds() for p in both]
        slices += bind_all(api, namespace, f"slice{i}", SLICE)
        cpu = [sum_ + p.cpu_seconds() - u for sum_, p, u in zip(cpu, both, used)]
        for what, n in per_pod(api, before).items():
            writes[what] = writes.get(what, 0) + n / (PODS * ROUNDS)
    record_property("slices_of_plain", plain / slices)
    print(f"slices of plain: {plain / slices:.2f} ({PODS * ROUNDS / plain:.0f} plain pods/s); requests a pod: {writes}; "
          f"CPU of the daemon {cpu[0]:.2f} s, of its kube-scheduler {cpu[1]:.2f} s")
    assert 1 <= writes.pop("POST pods binding") < 1.05
    assert sum(writes.values()) < 0.1, writes
    assert cpu[0] < 0.5 * cpu[1]
    assert plain / slices > 0.5
