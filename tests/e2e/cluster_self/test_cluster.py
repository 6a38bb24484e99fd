"""The test cluster itself: what every other end-to-end test takes for granted."""

import os
import signal
import subprocess
import sys

import pytest
from kit import agent as agents
from kit import objects, procs
from kit.api import Refused
from kit.cluster import Cluster


def test_plain_pods_are_bound_by_the_real_scheduler(plain_scheduler, make_nodes, make_pod, wait_bound):
    nodes = make_nodes(2)
    pods = [wait_bound(make_pod({"cpu": "100m"})) for _ in range(4)]
    assert {p["spec"]["nodeName"] for p in pods} <= set(nodes)


def test_a_pod_without_room_waits(plain_scheduler, api, make_nodes, make_pod):
    make_nodes(1)
    pod = make_pod({"cpu": 100})
    why = api.wait(objects.path_of(pod), objects.failed_scheduling)
    assert api.get(objects.path_of(pod))["spec"].get("nodeName") is None
    assert "Insufficient cpu" in objects.failed_scheduling(api.get(objects.path_of(pod))), why


def test_a_scheduler_ends_with_the_test_that_asked_for_it(cluster):
    """Nobody writes to the pods of the tests that follow but they themselves."""
    assert sorted(cluster.procs) == ["etcd", "kube-apiserver"]


def test_rights_are_enforced(cluster, api, namespace):
    """A ServiceAccount without a role may do nothing; its token is one the API server issued."""
    user = cluster.api(f"sa-{namespace}-default") if cluster.service_account(namespace, "default") else None
    with pytest.raises(Refused) as refused:
        user.get("/api/v1/nodes")
    assert refused.value.status == 403
    assert f"system:serviceaccount:{namespace}:default" in str(refused.value)


def test_agent_plays_the_plugin(api, make_agent, make_nodes, make_pod):
    node, = make_nodes(1, cards=2, vendor="nvidia")
    pod = make_pod({"nvidia.com/gpu": 1}, nodeName=node, annotations={
        "hami.io/bind-phase": "allocating", "hami.io/vgpu-devices-to-allocate": "GPU-x,NVIDIA,1000,30:;"})
    lock = f"2026-01-01T00:00:00Z,{pod['metadata']['namespace']},{pod['metadata']['name']}"
    api.patch(f"/api/v1/nodes/{node}", {"metadata": {"annotations": {agents.LOCK: lock}}})
    make_agent()
    api.wait(objects.path_of(pod), lambda p: p["status"].get("phase") == "Running")
    after = api.get(objects.path_of(pod))
    assert objects.note(after, "hami.io/bind-phase") == "success"
    assert objects.note(after, "hami.io/vgpu-devices-to-allocate") == ";"
    assert objects.note(api.get(f"/api/v1/nodes/{node}"), agents.LOCK) is None


def test_apiserver_survives_a_kill(cluster, api, make_nodes):
    node, = make_nodes(1)
    cluster.kill_apiserver()
    cluster.start_apiserver()
    assert api.get(f"/api/v1/nodes/{node}")["metadata"]["name"] == node


VICTIM = """
import sys
sys.path.insert(0, sys.argv[1])
from kit import procs
folder = procs.new_folder()
tied = procs.Process(folder, "tied", ["sleep", "600"]).start()
loose = procs.Process(folder, "loose", ["sleep", "600"], keep=True).start()
print(folder, tied.pid, loose.pid, flush=True)
sys.stdin.read()
"""


def victim(*before) -> tuple[subprocess.Popen, str, int, int]:
    """A run; its folder, and the ids of two processes of it."""
    run = subprocess.Popen([*before, sys.executable, "-c", VICTIM, str(procs.pathlib.Path(__file__).parents[1])],
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    folder, tied, loose = run.stdout.readline().split()
    return run, folder, int(tied), int(loose)


def test_nothing_survives_a_killed_run():
    """After kill -9 of a run: what is tied to it ends at once, the rest by the next run's sweep."""
    run, folder, tied, loose = victim()
    born = procs.start_time(loose)
    run.send_signal(signal.SIGKILL)
    run.wait()
    procs.until(lambda: not procs.start_time(tied), 10, "tied process ends")
    assert procs.start_time(loose) == born
    assert os.path.basename(folder) in procs.sweep()
    assert procs.start_time(loose) != born
    assert not os.path.exists(folder)


def test_a_run_that_lives_is_not_swept(cluster):
    """Nor one of another namespace of processes, whose ids say nothing here; nor this one."""
    runs = [victim(), victim("unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "--")]
    folders = [folder for _, folder, *_ in runs] + [str(cluster.folder)]
    assert not {os.path.basename(f) for f in folders} & set(procs.sweep())
    assert all(os.path.exists(os.path.join(f, "log")) for f in folders)
    for run, *_ in runs:
        run.communicate("")  # its end
    assert {os.path.basename(folder) for _, folder, *_ in runs} <= set(procs.sweep())


def test_clusters_stand_side_by_side(cluster):
    """Ports and folders are each cluster's own."""
    folder = procs.new_folder()
    other = Cluster(folder)
    try:
        other.start()
        assert other.api().get("/api/v1/namespaces/kube-system")["metadata"]["uid"] != \
            cluster.api().get("/api/v1/namespaces/kube-system")["metadata"]["uid"]
    finally:
        other.stop()
        other.remove()
