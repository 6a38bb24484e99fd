"""The API server as a test sees it: the official Python client, and plain JSON where that is in the way."""

import base64
import json
import pathlib
import re
import time
import urllib.parse
from concurrent.futures import ThreadPoolExecutor

import kubernetes
import urllib3
import yaml

LONG = re.compile(r"(?<=\w{200})\w+")  # in what a failure shows
MERGE, JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"


class Refused(Exception):
    """The API server's answer where it is no success."""

    def __init__(self, status: int, body: dict):
        self.status, self.body = status, body
        super().__init__(f"{status} {body.get('reason', '')}: {body.get('message', body)}")


class Api:
    """One user's view. `core` and its neighbours are the official client; the verbs below speak dicts."""

    def __init__(self, kubeconfig: pathlib.Path):
        self.kubeconfig = kubeconfig
        self.client = kubernetes.config.new_client_from_config(str(kubeconfig))
        self.core = kubernetes.client.CoreV1Api(self.client)
        self.apps = kubernetes.client.AppsV1Api(self.client)
        self.admission = kubernetes.client.AdmissionregistrationV1Api(self.client)
        self.coordination = kubernetes.client.CoordinationV1Api(self.client)
        self.rbac = kubernetes.client.RbacAuthorizationV1Api(self.client)
        self._http, self._host, self._headers = connect(kubeconfig)

    # -- plain verbs: path as in the API reference, bodies and answers as dicts --

    def request(self, method: str, path: str, body=None, content_type: str = "application/json", timeout: float = 60,
                **query) -> dict:
        if query:
            path += "?" + urllib.parse.urlencode(query)
        reply = self._http.request(
            method, self._host + path, body=None if body is None else json.dumps(body).encode(), retries=False,
            headers=dict(self._headers, **{"Content-Type": content_type}), timeout=timeout)
        answer = json.loads(reply.data) if reply.data else {}
        if reply.status >= 300:
            raise Refused(reply.status, answer if isinstance(answer, dict) else {"message": str(answer)})
        return answer

    def get(self, path: str, **query) -> dict:
        return self.request("GET", path, **query)

    def text(self, path: str) -> str:
        """What is no JSON: the API server's own metrics."""
        reply = self._http.request("GET", self._host + path, headers=self._headers, timeout=60)
        if reply.status >= 300:
            raise Refused(reply.status, {"message": reply.data.decode(errors="replace")})
        return reply.data.decode()

    def find(self, path: str) -> dict | None:
        """As get; None where there is no such object."""
        try:
            return self.get(path)
        except Refused as e:
            if e.status == 404:
                return None
            raise

    def post(self, path: str, body: dict, **query) -> dict:
        return self.request("POST", path, body, **query)

    def put(self, path: str, body: dict) -> dict:
        return self.request("PUT", path, body)

    def patch(self, path: str, body, content_type: str = MERGE) -> dict:
        return self.request("PATCH", path, body, content_type)

    def delete(self, path: str, grace: int | None = 0) -> None:
        """Gone or never there: both fine. Grace 0 removes a bound pod at once, which no kubelet is there to end."""
        body = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if grace is not None:
            body["gracePeriodSeconds"] = grace
        try:
            self.request("DELETE", path, body)
        except Refused as e:
            if e.status != 404:
                raise

    def create_all(self, path: str, bodies: list[dict], workers: int = 8) -> list[dict]:
        """Many objects of one kind, several at a time."""
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(lambda b: self.post(path, b), bodies))

    def patch_all(self, paths: list[str], body: dict, workers: int = 8) -> None:
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(lambda path: self.patch(path, body), paths))

    def delete_all(self, paths: list[str], workers: int = 8) -> None:
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(self.delete, paths))

    # -- waiting: list, then watch; no polling --

    def wait_list(self, path: str, check, timeout: float = 30, what: str = "", **query):
        """Until `check(objects by namespace/name)` gives something true; that value."""
        end = time.monotonic() + timeout
        seen: dict[str, dict] = {}
        while True:
            try:
                answer = self.get(path, **query)
            except urllib3.exceptions.HTTPError:  # the API server restarts
                if time.monotonic() >= end:
                    raise
                time.sleep(0.05)
                continue
            seen = {key_of(o): o for o in answer["items"]}
            value = check(seen)
            if value:
                return value
            for event in self._watch(path, answer["metadata"]["resourceVersion"], end, query):
                apply(seen, event)
                value = check(seen)
                if value:
                    return value
            if time.monotonic() >= end:
                raise TimeoutError(f"{what or path}: not within {timeout:g} s; {len(seen)} objects")

    def wait(self, path: str, check, timeout: float = 30, what: str = ""):
        """As wait_list for one object: `check(object or None)`."""
        folder, _, name = path.rpartition("/")

        def one(seen):
            return check(next(iter(seen.values()), None))
        try:
            return self.wait_list(folder, one, timeout, what or path, fieldSelector=f"metadata.name={name}")
        except TimeoutError as e:
            raise TimeoutError(f"{e}\n{LONG.sub('...', json.dumps(self.find(path), indent=1))[:4000]}") from None

    def _watch(self, path: str, version: str, end: float, query: dict):
        left = end - time.monotonic()
        if left <= 0:
            return
        reply = self._http.request(
            "GET", self._host + path, headers=self._headers, preload_content=False, retries=False,
            fields=dict(query, watch="1", resourceVersion=version, timeoutSeconds=str(max(1, int(left) + 1))),
            timeout=urllib3.Timeout(connect=5, read=left))
        try:
            rest = b""
            for chunk in reply.stream(None, decode_content=True):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    event = json.loads(line)
                    if event["type"] == "ERROR":  # expired: list again
                        return
                    yield event
                if time.monotonic() >= end:
                    return
        except urllib3.exceptions.HTTPError:  # deadline, or the API server went away
            return
        finally:
            reply.close()


def connect(kubeconfig: pathlib.Path):
    config = yaml.safe_load(kubeconfig.read_text())
    user = config["users"][0]["user"]
    cluster = config["clusters"][0]["cluster"]
    ca = base64.b64decode(cluster["certificate-authority-data"]).decode()
    pool = urllib3.PoolManager(num_pools=1, maxsize=16, ca_cert_data=ca, cert_file=user.get("client-certificate"),
                               key_file=user.get("client-key"))
    headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
    return pool, cluster["server"], headers


def key_of(obj: dict) -> str:
    meta = obj["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if "namespace" in meta else meta["name"]


def apply(seen: dict, event: dict) -> None:
    if event["type"] in ("ADDED", "MODIFIED"):
        seen[key_of(event["object"])] = event["object"]
    elif event["type"] == "DELETED":
        seen.pop(key_of(event["object"]), None)
