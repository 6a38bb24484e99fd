"""A pod that was refused for lack of room is tried again soon after room appears."""

import time

import pytest
from kit import daemon, objects

WHOLE = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 40000}


@pytest.mark.timing
def test_room_appears(scheduler_daemon, make_nodes, make_pod, wait_bound, api, record_property):
    name = scheduler_daemon().scheduler_name
    make_nodes(1, cards=1, vendor="nvidia", annotations={"gpuslice.io/identity": "prestart"})
    first = wait_bound(make_pod(WHOLE, scheduler=name))
    second = make_pod(WHOLE, scheduler=name)
    api.wait(objects.path_of(second), objects.failed_scheduling, 30, "refused")
    for _ in range(4):  # refused again and again: its back-off is at its longest
        spare = make_pod({"cpu": "1"}, schedulerName="nobody", nodeName="nowhere")
        api.delete(objects.path_of(spare))
        time.sleep(4)
    begin = time.monotonic()
    api.delete(objects.path_of(first))
    wait_bound(second, 30)
    took = time.monotonic() - begin
    record_property("seconds", took)
    print(f"bound {took:.1f} s after room appeared")
    assert took < 5


@pytest.mark.timing
def test_room_of_which_no_object_tells(scheduler_daemon, make_nodes, make_pod, wait_bound, api, record_property):
    """A promise ends by its lease: kube-scheduler, whose back-off is long here, hears of it by the pod itself."""
    lease = 6
    release = scheduler_daemon(values={"scheduler": {"kubeScheduler": {"podMaxBackoffSeconds": 60}}},
                               argv0=[daemon.program(), f"--reservation-lease={lease}s"])
    (node,) = make_nodes(1, cards=1, vendor="nvidia", annotations={"gpuslice.io/identity": "prestart"})
    release.promise(objects.pod("ghost", WHOLE), node)
    begin = time.monotonic()
    pod = make_pod(WHOLE, scheduler=release.scheduler_name)
    api.wait(objects.path_of(pod), objects.failed_scheduling, 30, "refused")
    pod = wait_bound(pod, 60)
    took = time.monotonic() - begin - lease
    record_property("seconds", took)
    print(f"bound {took:.1f} s after the promise ended")
    assert took < 5 + 1  # the lease is looked at once a second
    assert int(objects.note(pod, "gpuslice.io/room-seen")) > 0
