"""What device plugins, kubelets and controllers would do, played on API objects: HAMi's lock protocol, pod phases,
disruption budgets."""

import threading
import time

import urllib3

from kit.api import Api, Refused
from kit.objects import note, path_of

LOCK, PHASE = "hami.io/mutex.lock", "hami.io/bind-phase"
TO_ALLOCATE = "-devices-to-allocate"
BUDGETS = "/apis/policy/v1/namespaces/{}/poddisruptionbudgets"


def set_phase(api: Api, pod: dict, phase: str, **status) -> dict:
    """The kubelet's word on a pod: Running, Succeeded, Failed."""
    return api.patch(path_of(pod) + "/status", {"status": {"phase": phase, **status}})


def set_budget(api: Api, namespace: str, name: str, allowed: int, create: bool = True) -> None:
    """The controller's work: a budget over pods of that app, with so much allowed."""
    path = BUDGETS.format(namespace)
    if create:
        api.post(path, {"metadata": {"name": name}, "spec": {
            "minAvailable": 1, "selector": {"matchLabels": {"app": name}}}})
    api.patch(f"{path}/{name}/status", {"status": {
        "observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": 1 + allowed, "desiredHealthy": 1,
        "expectedPods": 1 + allowed}})


def release_lock(api: Api, pod: dict) -> bool:
    """Drop the node's lock where it is this pod's."""
    path = "/api/v1/nodes/" + pod["spec"]["nodeName"]
    for _ in range(5):
        node = api.find(path)
        owner = f",{pod['metadata']['namespace']},{pod['metadata']['name']}"
        if not note(node, LOCK, "").endswith(owner):
            return False
        try:
            api.patch(path, {"metadata": {"annotations": {LOCK: None},
                                          "resourceVersion": node["metadata"]["resourceVersion"]}})
            return True
        except Refused as e:
            if e.status != 409:
                raise
    return False


def hand_out(api: Api, pod: dict, result: str = "success") -> None:
    """As HAMi's plugin ends an Allocate: slots emptied, phase written, lock dropped."""
    notes = {k: ";" * v.count(";") for k, v in pod["metadata"]["annotations"].items() if k.endswith(TO_ALLOCATE)}
    api.patch(path_of(pod), {"metadata": {"annotations": {**notes, PHASE: result}}})
    release_lock(api, pod)


class Agent(threading.Thread):
    """Serves every pod bound with phase `allocating`, as the plugins of all nodes would; then sets it Running.
    `serve(pod)` may say no (False): such a pod is left as it is."""

    def __init__(self, api: Api, serve=lambda pod: True, runs: bool = True):
        super().__init__(daemon=True, name="agent")
        self.api, self.serve, self.runs = api, serve, runs
        self.served: list[str] = []
        self.errors: list[str] = []
        self._ending = threading.Event()

    def run(self) -> None:
        while not self._ending.is_set():
            try:
                self.api.wait_list("/api/v1/pods", self._look, timeout=5)
            except TimeoutError:
                pass
            except (Refused, OSError, urllib3.exceptions.HTTPError) as e:
                self.errors.append(str(e))
                time.sleep(0.05)

    def stop(self) -> None:
        self._ending.set()
        self.join(15)

    def _look(self, pods: dict) -> bool:
        for pod in list(pods.values()):
            if note(pod, PHASE) == "allocating" and pod["spec"].get("nodeName") and \
                    pod["metadata"]["uid"] not in self.served and self.serve(pod):
                self._serve(pod)
        return self._ending.is_set()

    def _serve(self, pod: dict) -> None:
        self.served.append(pod["metadata"]["uid"])
        try:
            hand_out(self.api, pod)
            if self.runs:
                set_phase(self.api, pod, "Running")
        except Refused as e:
            if e.status != 404:  # the pod was deleted meanwhile
                self.errors.append(str(e))
