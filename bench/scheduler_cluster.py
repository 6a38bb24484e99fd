"""Pods bound per second by a real kube-scheduler on a real API server, for bench/scheduler.py: plain pods by the
cluster's own kube-scheduler, then pods that ask for slices through gpuslice-scheduler, in the same run.

Nodes are API objects; their agent is the best there could be: on nodes of our own plugin there is nothing to wait for,
on nodes of HAMi's it answers every Allocate at once."""

import pathlib
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

from kit import agent, daemon, objects, procs  # noqa: E402
from kit.cluster import ADMIN, Cluster  # noqa: E402

NODES, CARDS, ROUNDS = 100, 8, 3
TAKEOVERS = {"0": (0, False), "2000 refused": (2000, True), "500 new": (500, False)}
REFUSED = {"status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}}
BOUND, FAILED = (f'gpuslice_scheduler_answers_total{{call="bind",outcome="{word}"' for word in ("bound", "refused"))
SLICE = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1000, "nvidia.com/gpucores": 1}


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def create_nodes(api, prefix: str, n: int, prestart: bool, **card) -> list[str]:
    notes = {"gpuslice.io/identity": "prestart"} if prestart else {}
    bodies = [objects.node(f"{prefix}-{i}", CARDS, "nvidia", annotations=notes, **card) for i in range(n)]
    api.create_all("/api/v1/nodes", bodies)
    return [b["metadata"]["name"] for b in bodies]


def bound_per_s(api, namespace: str, prefix: str, n: int, limits=None, scheduler=None, **spec) -> float:
    """From the first create until the last of n pods has a node."""
    objects.create_namespace(api, namespace)
    bodies = [objects.pod(f"{prefix}-{i}", limits, scheduler=scheduler, **spec) for i in range(n)]
    began = time.monotonic()
    api.create_all(objects.PODS.format(namespace), bodies)
    try:
        api.wait_list(objects.PODS.format(namespace),
                      lambda seen: sum(objects.is_bound(p) for p in seen.values()) >= n, 120, f"{n} pods of {prefix}")
    except TimeoutError as e:
        waiting = [p for p in api.get(objects.PODS.format(namespace))["items"] if not objects.is_bound(p)]
        raise TimeoutError(f"{e}: {len(waiting)} wait: {[objects.failed_scheduling(p) for p in waiting[:3]]}") from None
    took = time.monotonic() - began
    say(f"  {n} pods of {namespace}/{prefix}: {took:.2f} s")
    api.delete_all([f"{objects.PODS.format(namespace)}/{b['metadata']['name']}" for b in bodies])
    return round(n / took, 1)


def metric(text: str, name: str) -> float:
    """Sum over the series of a counter."""
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name))


def measure(folder: pathlib.Path, pods: int) -> dict:
    procs.sweep()
    cluster = Cluster(procs.new_folder())
    say(f"real cluster: {NODES} nodes, {pods} pods")
    try:
        return on(cluster.start(), folder, pods)
    finally:
        cluster.stop()
        cluster.remove()


def on(cluster: Cluster, folder: pathlib.Path, pods: int) -> dict:
    api, result = cluster.api(), {"nodes": NODES, "pods": pods}
    cluster.start_scheduler()
    names = create_nodes(api, "own", NODES, prestart=True)
    objects.create_namespace(api, "gpuslice-system")
    # the agent speaks as the cluster's admin: the chart's admission policy must know it as a plugin
    writers = {"admissionPolicy": {"extraWriters": [ADMIN]}}
    with_release(cluster, folder, "bench", writers, lambda _: own_nodes(api, pods, result))
    with_release(cluster, folder, "choice", {**writers, "scheduler": {"nodeChoice": "scheduler"}},
                 lambda release: node_choice(release, names, pods, result))
    result["takeover"] = {name: takeover(cluster, folder, *of) for name, of in TAKEOVERS.items()}
    return result


def takeover(cluster: Cluster, folder: pathlib.Path, waiting: int, refused: bool) -> dict:
    """What it costs a daemon to begin to lead where so many pods wait: each that may be being bound is written to once
    (docs/adr/0010), those that a kube-scheduler has refused are not. Until it leads a bind is not answered."""
    api, name, server = cluster.api(), f"lead{waiting}", cluster.procs["kube-apiserver"]
    namespace = objects.create_namespace(api, name)
    api.create_all(objects.PODS.format(namespace), [objects.pod(f"w{i}", SLICE, scheduler="nobody") for i in range(waiting)])
    if refused:
        api.patch_all([f"{objects.PODS.format(namespace)}/w{i}/status" for i in range(waiting)], REFUSED)
    release = daemon.Release(cluster, folder, "gpuslice-system", name).install()
    try:
        used, began = server.cpu_seconds(), time.monotonic()
        release.start_daemon()
        ready = time.monotonic() - began
        nobody = {"PodName": "nobody", "PodNamespace": namespace, "PodUID": "nobody", "Node": "nowhere"}
        assert release.call("bind", nobody)["Error"]
        took = {"ready_s": round(ready, 2), "leads_s": round(time.monotonic() - began, 2),
                "written": metric(release.metrics(), "gpuslice_scheduler_fence_writes_total"),
                "daemon_cpu_s": release.daemon.cpu_seconds(), "apiserver_cpu_s": round(server.cpu_seconds() - used, 2)}
    finally:
        release.remove()
        api.delete_all([f"{objects.PODS.format(namespace)}/w{i}" for i in range(waiting)])
    say(f"  begins to lead, {waiting} {'refused' if refused else 'new'} pods wait: {took}")
    return took


def with_release(cluster: Cluster, folder: pathlib.Path, name: str, values: dict, use) -> None:
    """The chart's daemon beside a real kube-scheduler, for the time of use(release)."""
    release = daemon.Release(cluster, folder, "gpuslice-system", name, values=values).install().start()
    try:
        use(release)
    finally:
        release.remove()


def own_nodes(api, pods: int, result: dict) -> None:
    """Plain pods and slices in turn, so that both see the same machine."""
    bound_per_s(api, "plain", "warm", 30)
    bound_per_s(api, "slices", "warm", 30, SLICE)
    plain, slices = [], []
    for i in range(ROUNDS):
        plain.append(bound_per_s(api, "plain", f"p{i}", pods))
        slices.append(bound_per_s(api, "slices", f"s{i}", pods, SLICE))
    result |= {"plain_bound_per_s": statistics.median(plain), "bound_per_s": statistics.median(slices),
               "plain_rounds": plain, "slice_rounds": slices}
    # HAMi's lock, on one node that has room for all
    locked = create_nodes(api, "lock", 1, prestart=False, count=20)
    served = agent.Agent(api)
    served.start()
    try:
        rate = bound_per_s(api, "locked", "l", 100, SLICE, nodeSelector={"kubernetes.io/hostname": locked[0]})
        result["locked_100_pods_s"] = round(100 / rate, 2)
    finally:
        served.stop()
        api.delete_all([f"/api/v1/nodes/{name}" for name in locked])


def node_choice(release, names: list[str], pods: int, result: dict) -> None:
    """Every node that fits is answered, cards are chosen at bind: how often are they gone by then? The nodes are
    nearly full, and as many pods come as have room."""
    api = release.api
    few = names[:max(1, -(-pods // (CARDS * 2)))]
    label = {"metadata": {"labels": {"bench": "few"}}}
    for name in few:
        api.patch(f"/api/v1/nodes/{name}", label)
    result["node_choice_bound_per_s"] = bound_per_s(
        api, "choice", "c", pods, {**SLICE, "nvidia.com/gpumem": 20000}, nodeSelector={"bench": "few"})
    text = release.metrics()
    failed, bound = metric(text, FAILED), metric(text, BOUND)
    result["node_choice_conflicts"] = failed
    result["node_choice_conflict_rate"] = round(failed / (failed + bound), 4) if failed + bound else None
