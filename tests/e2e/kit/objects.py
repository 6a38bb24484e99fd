"""Nodes and pods as JSON objects."""

from kit import vendors

PODS = "/api/v1/namespaces/{}/pods"


def node(name: str, cards: int = 0, vendor="none", labels=None, annotations=None, capacity=None, **card) -> dict:
    """A ready node; `vendor` (or a list of them) puts `cards` cards of it there, `card` goes to the vendor's shape."""
    notes, amounts = {}, {"cpu": "64", "memory": "512Gi", "pods": "1000", "ephemeral-storage": "1Ti"}
    for word in [vendor] if isinstance(vendor, str) else vendor:
        more_notes, more_amounts = vendors.VENDORS[word](name, cards, **card)
        notes.update(more_notes)
        amounts.update({k: str(v) for k, v in more_amounts.items()})
    amounts.update(capacity or {})
    notes.update(annotations or {})
    return {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "annotations": notes,
                     "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **(labels or {})}},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [
            {"type": "Ready", "status": "True", "reason": "Simulated", "message": "an API object only"}]}}


def container(name: str, limits=None, requests=None, env=None, privileged: bool = False) -> dict:
    """A container; limits as {resource: amount}."""
    c = {"name": name, "image": "gpuslice.invalid/none", "imagePullPolicy": "Never", "resources": {}}
    if limits:
        c["resources"]["limits"] = {k: str(v) for k, v in limits.items()}
    if requests:
        c["resources"]["requests"] = {k: str(v) for k, v in requests.items()}
    if env:
        c["env"] = [{"name": k, "value": v} for k, v in env.items()]
    if privileged:
        c["securityContext"] = {"privileged": True}
    return c


def pod(name: str, limits=None, containers=None, inits=None, annotations=None, labels=None, scheduler=None,
        **spec) -> dict:
    """A pod of one container with `limits`, or of `containers` after `inits`; `spec` goes into its spec."""
    body = {"containers": containers or [container("main", limits)], "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False, **spec}
    if inits:
        body["initContainers"] = inits
    if scheduler:
        body["schedulerName"] = scheduler
    return {"apiVersion": "v1", "kind": "Pod", "spec": body,
            "metadata": {"name": name, "annotations": annotations or {}, "labels": labels or {}}}


def create_namespace(api, name: str, labels=None) -> str:
    """A namespace with its default ServiceAccount, which controllers make elsewhere: pods need it."""
    if not api.find("/api/v1/namespaces/" + name):
        api.post("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels or {}}})
    create_account(api, name, "default")
    return name


def create_account(api, namespace: str, name: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    if not api.find(f"{path}/{name}"):
        api.post(path, {"metadata": {"name": name}})


def path_of(obj: dict) -> str:
    """Path of a pod or node object."""
    meta = obj["metadata"]
    if "namespace" in meta:
        return PODS.format(meta["namespace"]) + "/" + meta["name"]
    return "/api/v1/nodes/" + meta["name"]


def note(obj: dict | None, key: str, default=None):
    """An annotation."""
    return ((obj or {}).get("metadata", {}).get("annotations") or {}).get(key, default)


def is_bound(obj: dict | None) -> bool:
    return bool(obj and obj["spec"].get("nodeName"))


def is_going(obj: dict | None) -> bool:
    return bool(obj and "deletionTimestamp" in obj["metadata"])


def failed_scheduling(obj: dict | None) -> str:
    """Why kube-scheduler says the pod waits; empty: it does not say so."""
    for condition in (obj or {}).get("status", {}).get("conditions", []):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return condition.get("message", "")
    return ""
