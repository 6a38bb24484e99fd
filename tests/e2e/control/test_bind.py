"""A pod that asks for slices goes through webhook, filter and one Binding, all by real programs."""

GRANT = "hami.io/vgpu-devices-allocated"


def test_a_slice_pod_is_bound_with_its_grant(scheduler_daemon, make_nodes, make_pod, wait_bound):
    scheduler_daemon()
    (node,) = make_nodes(1, cards=2, vendor="nvidia")
    pod = make_pod({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000, "nvidia.com/gpucores": 30})
    bound = wait_bound(pod)
    notes = bound["metadata"]["annotations"]
    assert bound["spec"]["nodeName"] == node
    assert notes["hami.io/vgpu-node"] == node
    assert notes["hami.io/bind-phase"] == "allocating"
    uuid, word, mem, cores = notes[GRANT].rstrip(":;").split(",")
    assert (word, mem, cores) == ("NVIDIA", "3000", "30")
    assert notes["hami.io/vgpu-devices-to-allocate"] == notes[GRANT]
    assert bound["metadata"]["labels"]["hami.io/vgpu-node"] == node
