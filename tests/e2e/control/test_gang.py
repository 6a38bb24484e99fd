"""Pods of a group on one node whose plugin needs HAMi's lock: in turn, without a storm of tries (HAMi issue 2589)."""

import re

GANG = 8


def patches_of_nodes(api) -> int:
    text = api._http.request("GET", api._host + "/metrics", headers=api._headers).data.decode()
    return sum(int(float(value)) for labels, value in re.findall(r"^apiserver_request_total\{([^}]*)\} (\S+)$", text, re.M)
               if 'resource="nodes"' in labels and 'verb="PATCH"' in labels)


def test_a_gang_of_eight_takes_the_lock_in_turn(scheduler_daemon, make_nodes, make_pod, make_agent, wait_bound, api):
    scheduler_daemon(values={"admissionPolicy": {"extraWriters": ["admin"]}})  # the agent is that user
    (node,) = make_nodes(1, cards=2, vendor="nvidia")
    agent = make_agent()
    before = patches_of_nodes(api)
    pods = [make_pod({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1000}, labels={"scheduling.x-k8s.io/pod-group": "gang"})
            for _ in range(GANG)]
    for pod in pods:
        assert wait_bound(pod, 30)["spec"]["nodeName"] == node
    api.wait("/api/v1/nodes/" + node, lambda n: "hami.io/mutex.lock" not in n["metadata"]["annotations"], 30)
    assert sorted(agent.served) == sorted(p["metadata"]["uid"] for p in pods)
    # One that takes the lock and one that gives it back for each pod; a few more where two met.
    assert patches_of_nodes(api) - before <= 3 * GANG
