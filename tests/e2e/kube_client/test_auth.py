"""Every way to say who we are, towards kube-apiserver; and configurations as kubectl reads them."""

import base64
import datetime
import json
import os
import pathlib
import subprocess

import pytest
import yaml
from kit.cluster import bin_dir
from kube_probe import Probe


class Files:
    """Kubeconfigs in a folder of the test's own, for the cluster's server."""

    def __init__(self, folder: pathlib.Path, cluster):
        self.folder, self.cluster = folder, cluster
        self.ca = str(cluster.folder / "pki" / "ca.crt")

    def write(self, user: dict, name="config", **server) -> pathlib.Path:
        entry = {"server": self.cluster.url, "certificate-authority": self.ca, **server}
        doc = {"apiVersion": "v1", "kind": "Config", "current-context": "x",
               "clusters": [{"name": "c", "cluster": {k: v for k, v in entry.items() if v is not None}}],
               "users": [{"name": "u", "user": user}],
               "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}]}
        path = self.folder / name
        path.write_text(yaml.safe_dump(doc))
        return path

    def script(self, text: str) -> str:
        path = self.folder / "plugin"
        path.write_text("#!/bin/sh\necho run >> $0.runs\n" + text)
        path.chmod(0o755)
        return str(path)

    def runs(self) -> int:
        path = self.folder / "plugin.runs"
        return len(path.read_text().split()) if path.exists() else 0


@pytest.fixture
def files(tmp_path, cluster) -> Files:
    return Files(tmp_path, cluster)


@pytest.fixture
def token(api, namespace) -> str:
    """Of a service account that may do nothing but say who it is."""
    body = {"spec": {"expirationSeconds": 3600}}
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default/token"
    return api.post(path, body)["status"]["token"]


def who(probe: Probe) -> str:
    """The server's word on who asks; empty where it does not know."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    got = probe.ask("review", body)
    return got["root"]["status"]["userInfo"]["username"] if got["rc"] == 0 else ""


def pem(path: str) -> str:
    return base64.b64encode(pathlib.Path(path).read_bytes()).decode()


def test_client_certificate(make_probe, files, cluster):
    pair = cluster.authority.issue("auth-user", "alice", "team")
    as_files = make_probe(files.write({"client-certificate": str(pair.cert), "client-key": str(pair.key)}, "files"))
    assert who(as_files) == "alice"
    data = {"client-certificate-data": pem(pair.cert), "client-key-data": pem(pair.key)}
    as_data = make_probe(files.write(data, "data", **{"certificate-authority": None,
                                                     "certificate-authority-data": pem(files.ca)}))
    assert who(as_data) == "alice"


def test_token_and_impersonation(make_probe, files, token, namespace, cluster):
    account = f"system:serviceaccount:{namespace}:default"
    assert who(make_probe(files.write({"token": token}, "token"))) == account
    admin = yaml.safe_load(cluster.kubeconfig("admin").read_text())["users"][0]["user"]
    acting = make_probe(files.write({**admin, "as": "bob", "as-groups": ["a", "system:authenticated"]}, "as"))
    assert who(acting) == "bob"


def test_token_file_is_read_again(make_probe, files, token, namespace):
    path = files.folder / "token"
    path.write_text("not-a-token\n")
    probe = make_probe(files.write({"tokenFile": "token"}))
    refused = probe.ask("get", "/api/v1/nodes")
    assert (refused["errno"], refused["status"], refused["reason"]) == ("EACCES", 401, "Unauthorized")
    fresh = files.folder / "fresh"  # as the kubelet does: renamed into place
    fresh.write_text(token + "\n")
    fresh.rename(path)
    assert who(probe) == f"system:serviceaccount:{namespace}:default"


def test_server_name_and_trust(make_probe, files, token):
    wrong = {"token": token}
    assert who(make_probe(files.write(wrong, "name", **{"tls-server-name": "kubernetes.default.svc"})))
    other = make_probe(files.write(wrong, "other", **{"tls-server-name": "elsewhere.example"}), timeout_ms=1000)
    assert other.ask("get", "/version")["errno"] == "EKEYREJECTED"
    unknown = make_probe(files.write(wrong, "unknown", **{"certificate-authority": None}), timeout_ms=1000)
    assert unknown.ask("get", "/version")["errno"] == "EKEYREJECTED"
    trusting = files.write(wrong, "trusting", **{"certificate-authority": None, "insecure-skip-tls-verify": True})
    assert who(make_probe(trusting))


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_exec_plugin_with_token(make_probe, files, token, namespace, version):
    api_version = f"client.authentication.k8s.io/{version}"
    end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
    answer = {"apiVersion": api_version, "kind": "ExecCredential",
              "status": {"token": token, "expirationTimestamp": end.strftime("%Y-%m-%dT%H:%M:%SZ")}}
    command = files.script(f'[ "$1" = go ] && [ "$SAY" = yes ] && cat <<EOF\n{json.dumps(answer)}\nEOF\n')
    exec_ = {"command": command, "apiVersion": api_version, "args": ["go"], "env": [{"name": "SAY", "value": "yes"}],
             "interactiveMode": "Never", "provideClusterInfo": True}
    probe = make_probe(files.write({"exec": exec_}))
    for _ in range(3):
        assert who(probe) == f"system:serviceaccount:{namespace}:default"
    assert files.runs() == 1


def test_exec_plugin_with_certificate(make_probe, files, cluster):
    pair = cluster.authority.issue("exec-user", "carol")
    version = "client.authentication.k8s.io/v1"
    answer = {"apiVersion": version, "kind": "ExecCredential", "status": {
        "clientCertificateData": pathlib.Path(pair.cert).read_text(),
        "clientKeyData": pathlib.Path(pair.key).read_text()}}
    (files.folder / "answer").write_text(json.dumps(answer))
    command = files.script(f"cat {files.folder}/answer\n")
    probe = make_probe(files.write({"exec": {"command": command, "apiVersion": version, "interactiveMode": "Never"}}))
    assert who(probe) == "carol"


def test_exec_plugin_that_fails(make_probe, files):
    command = files.script("echo no >&2; exit 4\n")
    version = "client.authentication.k8s.io/v1"
    probe = make_probe(files.write({"exec": {"command": command, "apiVersion": version, "interactiveMode": "Never"}}))
    got = probe.ask("get", "/version")
    assert (got["errno"], got["status"]) == ("EACCES", 0) and "exit status 4" in got["err"]


def test_in_a_pod(make_probe, files, cluster, token, namespace):
    """The account's folder is at its fixed place, so this is where tests run as root in a container of their own."""
    folder = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount")
    if folder.exists() or os.geteuid() != 0:
        pytest.skip("needs the folder of a service account to itself")
    folder.mkdir(parents=True)
    try:
        (folder / "token").write_text(token)
        (folder / "ca.crt").write_text(pathlib.Path(files.ca).read_text())
        (folder / "namespace").write_text(namespace)
        host, port = cluster.url.removeprefix("https://").split(":")
        env = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port, "KUBECONFIG": "",
               "HOME": str(files.folder)}
        probe = Probe(env=env)
        assert who(probe) == f"system:serviceaccount:{namespace}:default"
        assert probe.said("config")[0]["namespace"] == namespace
        assert probe.close() == 0
    finally:
        for path in folder.iterdir():
            path.unlink()
        for path in (folder, folder.parent, folder.parent.parent):
            if not any(path.iterdir()):
                path.rmdir()


def test_lists_of_files_as_kubectl(files, cluster):
    """What kubectl makes of $KUBECONFIG is what we make of it."""
    (files.folder / "sub").mkdir()
    one, two = files.folder / "one", files.folder / "sub" / "two"
    one.write_text(yaml.safe_dump({
        "current-context": "x", "users": [{"name": "u", "user": {"tokenFile": "t1"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "n1"}}]}))
    two.write_text(json.dumps({
        "current-context": "y", "users": [{"name": "u", "user": {"as": "b"}},
                                          {"name": "v", "user": {"client-certificate": "k.crt", "client-key": "k.key"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://s:1", "certificate-authority": "ca",
                                               "tls-server-name": "n"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "v"}},
                     {"name": "y", "context": {"cluster": "c", "user": "v"}}]}))
    (files.folder / "t1").write_text("t")
    for name in ("ca", "k.crt", "k.key"):
        (files.folder / "sub" / name).write_text("")
    env = {"KUBECONFIG": f"{files.folder}/none:{one}:{two}", "HOME": str(files.folder)}
    for context in (None, "y"):
        view = json.loads(subprocess.run(
            [bin_dir() / "kubectl", "config", "view", "--raw", "--minify", "-o", "json", *(
                ["--context", context] if context else [])],
            env={**os.environ, **env}, capture_output=True, check=True).stdout)
        probe = Probe(None, context, env=env)
        got = probe.wait("config")
        probe.close()
        want = {**view["clusters"][0]["cluster"], **view["users"][0]["user"],
                "namespace": view["contexts"][0]["context"].get("namespace", "default"),
                "context": view["current-context"]}
        for key, origin in (("certificate-authority", two), ("client-certificate", two), ("client-key", two),
                            ("tokenFile", one)):  # kubectl prints paths relative to the file that has them
            if key in want:
                want[key] = str(origin.parent / want[key])
        assert {k: v for k, v in got.items() if k != "what"} == want
