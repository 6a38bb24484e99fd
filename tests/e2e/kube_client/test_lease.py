"""Leader election of src/kube on real leases, and against a holder the official client plays."""

import datetime

import kubernetes

FAST = (3, 2, 1)  # duration, renew, retry: seconds
LONG = (60, 40, 1)


def lease_of(api, namespace, name="l"):
    return api.coordination.read_namespaced_lease(name, namespace)


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc)


def test_looks_on(probe, api, namespace):
    probe.send("lead", namespace, "l", "-")
    assert not probe.wait("lease", is_known=True)["is_there"]
    spec = kubernetes.client.V1LeaseSpec(holder_identity="other_1", lease_duration_seconds=15, renew_time=now())
    body = kubernetes.client.V1Lease(metadata={"name": "l"}, spec=spec)
    api.coordination.create_namespaced_lease(namespace, body)
    seen = probe.wait("lease", holder="other_1")
    assert (seen["is_there"], seen["is_ours"], seen["duration_s"]) == (True, False, 15)
    api.coordination.delete_namespaced_lease("l", namespace)
    assert not probe.wait("lease", holder="")["is_there"]


def test_takes_renews_and_hands_over(make_probe, api, namespace):
    first, second = make_probe(), make_probe()
    first.send("lead", namespace, "l", "a", *LONG)
    first.wait("lease", is_ours=True)
    taken = lease_of(api, namespace).spec
    assert (taken.holder_identity, taken.lease_duration_seconds) == ("a", LONG[0])
    second.send("lead", namespace, "l", "b", *LONG)
    assert not second.wait("lease", holder="a")["is_ours"]
    api.wait(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/l",
             lambda l: l["spec"]["renewTime"] > l["spec"]["acquireTime"], 10, "renewed")
    first.send("resign")
    second.wait("lease", timeout=LONG[0] / 3, is_ours=True)  # handed over: long before it would run out
    assert lease_of(api, namespace).spec.lease_transitions == 1
    first.send("lease")
    assert not first.wait("lease", holder="b")["is_ours"]


def test_takes_over_from_the_dead(make_probe, api, namespace):
    """A holder that no longer renews is followed once its time is over, whatever its clock said."""
    spec = kubernetes.client.V1LeaseSpec(holder_identity="dead", lease_duration_seconds=2,
                                         renew_time=now() + datetime.timedelta(days=300))
    api.coordination.create_namespaced_lease(namespace, kubernetes.client.V1Lease(metadata={"name": "l"}, spec=spec))
    probe = make_probe()
    probe.send("lead", namespace, "l", "a", *FAST)
    assert not probe.wait("lease", holder="dead")["is_ours"]
    probe.wait("lease", is_ours=True)
    assert lease_of(api, namespace).spec.holder_identity == "a"


def test_gives_up_without_the_server(make_probe, cluster, api, namespace):
    probe = make_probe()
    probe.send("lead", namespace, "l", "a", *FAST)
    probe.wait("lease", is_ours=True)
    cluster.procs.pop("kube-apiserver").kill()
    try:
        probe.wait("lease", timeout=10, is_ours=False)
    finally:
        cluster.start_apiserver()
    probe.wait("lease", timeout=60, is_ours=True)
