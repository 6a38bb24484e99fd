"""Pods with slices are bound about as fast as pods without, by the same API server in the same run."""

import os
import pathlib
import re
import statistics
import time

import pytest
from kit import cards, objects

NODES, CARDS, PODS, ROUNDS = 100, 8, 60, 8
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


def bind_all(api, namespace: str, batch: str, limits) -> float:
    """Seconds from the first create until the last has a node."""
    path = objects.PODS.format(namespace)
    bodies = [objects.pod(f"{batch}-{i}", limits, labels={"batch": batch}) for i in range(PODS)]
    begin = time.monotonic()
    api.create_all(path, bodies)
    api.wait_list(path, lambda pods: len(pods) == PODS and all(map(objects.is_bound, pods.values())), 120,
                  f"{PODS} pods of {batch} bound", labelSelector=f"batch={batch}")
    return time.monotonic() - begin


def machine_seconds() -> float:
    """Processor time of everybody."""
    fields = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    idle, waits = int(fields[3]), int(fields[4])
    return (sum(map(int, fields[:8])) - idle - waits) / os.sysconf("SC_CLK_TCK")


@pytest.mark.timing
def test_slices_keep_pace_with_plain_pods(cluster, scheduler_daemon, plain_scheduler, make_nodes, api, namespace,
                                          record_property):
    """In turn and in either order, so that both see the same machine. By the clock where the machine has hardly other
    work; what all programs compute for a pod, and the requests, no load can blur."""
    release = scheduler_daemon()
    make_nodes(NODES, cards=CARDS, vendor="nvidia", annotations={"gpuslice.io/identity": "prestart"})
    for what, limits in (("warm-plain", None), ("warm-slice", SLICE)):
        bind_all(api, namespace, what, limits)
    programs = {**cluster.procs, "daemon": release.daemon, "its kube-scheduler": release.kube_scheduler}
    took, writes = {"plain": [], "slice": []}, {}
    cpu_ms = {what: dict.fromkeys(programs, 0.0) for what in took}  # a pod
    busy, own, begin = machine_seconds(), sum(os.times()[:2]), time.monotonic()
    for i in range(ROUNDS):
        for what in ("plain", "slice") if i % 2 else ("slice", "plain"):
            before, used = per_pod(api), {k: p.cpu_seconds() for k, p in programs.items()}
            took[what].append(bind_all(api, namespace, f"{what}{i}", SLICE if what == "slice" else None))
            for k, p in programs.items():
                cpu_ms[what][k] += (p.cpu_seconds() - used[k]) * 1e3 / (PODS * ROUNDS)
            for request, n in per_pod(api, before).items() if what == "slice" else ():
                writes[request] = writes.get(request, 0) + n / (PODS * ROUNDS)
    own = sum(os.times()[:2]) - own + sum(sum(of.values()) for of in cpu_ms.values()) * PODS * ROUNDS / 1e3
    others = (machine_seconds() - busy - own) / (time.monotonic() - begin) / os.cpu_count()
    pace = {what: PODS / statistics.median(took[what]) for what in took}
    by_clock = pace["slice"] / pace["plain"]
    by_cpu = sum(cpu_ms["plain"].values()) / sum(cpu_ms["slice"].values())
    record_property("slices_of_plain", by_clock)
    record_property("slices_of_plain_by_cpu", by_cpu)
    for what in took:
        print(f"{what}: {pace[what]:.0f} pods/s; CPU ms a pod: " + ", ".join(f"{k} {v:.1f}" for k, v in cpu_ms[what].items()))
    print(f"slices of plain: {by_clock:.2f} by the clock, {by_cpu:.2f} by CPU; other work took {others:.0%} of the machine; "
          f"requests a pod: {writes}")
    assert 1 <= writes.pop("POST pods binding") < 1.05
    handshakes = NODES / (PODS * ROUNDS)  # each node's is answered once, at some time
    assert sum(writes.values()) < 0.1 + handshakes, writes
    assert cpu_ms["slice"]["daemon"] < 0.5 * cpu_ms["slice"]["its kube-scheduler"]
    assert by_cpu >= 0.6
    if others < 0.1:
        assert by_clock >= 0.8
