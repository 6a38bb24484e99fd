"""A pod deleted by force while its container runs: its card is not free."""

import json

from kit import agent, objects

WHOLE = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 40000}
RUNS = {"name": "main", "image": "none", "imageID": "", "ready": True, "restartCount": 0,
        "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}


def test_the_card_stays_taken(scheduler_daemon, make_nodes, make_pod, wait_bound, api):
    name = scheduler_daemon().scheduler_name
    (node,) = make_nodes(1, cards=1, vendor="nvidia", annotations={"gpuslice.io/identity": "prestart"})
    first = wait_bound(make_pod(WHOLE, scheduler=name))
    agent.set_phase(api, first, "Running", containerStatuses=[RUNS])
    api.delete(objects.path_of(first))
    second = make_pod(WHOLE, scheduler=name)
    api.wait(objects.path_of(second), objects.failed_scheduling, 30, "refused")
    assert not objects.is_bound(api.get(objects.path_of(second)))
    # the plugin has the slots back
    held = json.dumps({first["metadata"]["uid"]: {}})
    api.patch(f"/api/v1/nodes/{node}", {"metadata": {"annotations": {"gpuslice.io/held": held}}})
    wait_bound(second, 30)
