"""TLS of the HTTP server: versions, client certificates, certificates exchanged under load, stopping."""

import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import subprocess
import threading

import pytest
from net_tools import read_reply, until, wait_closed


def s_client(server, pki, *args, text="GET /hello HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"):
    return subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", "-CAfile", str(pki.ca.cert), "-ign_eof",
                           *map(str, args)], input=text, capture_output=True, text=True, timeout=60)


def refused_by_server(done):
    """The client sent its hello, willing; the server closed without an answer to it."""
    assert "unexpected eof" in done.stderr and "Cipher is (NONE)" in done.stdout and "hello" not in done.stdout, done.stderr


def tls(serve, pki, *args, pair=None, **more):
    cert, key = pair or pki.server
    return serve("--cert", cert, "--key", key, *args, **more)


@pytest.mark.parametrize("kind", ["server", "rsa"])
def test_versions(serve, pki, kind):
    server = tls(serve, pki, pair=getattr(pki, kind))
    for version in ("1_2", "1_3"):
        done = s_client(server, pki, f"-tls{version}")
        assert "hello" in done.stdout and "Verify return code: 0 (ok)" in done.stdout, done.stdout
        assert f"TLSv{version.replace('_', '.')}" in done.stdout
    for version in ("1", "1_1"):
        done = s_client(server, pki, f"-tls{version}", "-cipher", "ALL:@SECLEVEL=0")
        refused_by_server(done)


@pytest.mark.parametrize("cipher", ["AES128-SHA", "AES128-GCM-SHA256", "ECDHE-RSA-AES128-SHA"])
def test_weak_ciphers(serve, pki, cipher):
    """No key exchange without forward secrecy, no CBC."""
    server = tls(serve, pki, pair=pki.rsa)
    refused_by_server(s_client(server, pki, "-tls1_2", "-cipher", f"{cipher}:@SECLEVEL=0"))


def test_client_certificate_required(serve, pki):
    server = tls(serve, pki, "--ca", pki.ca.cert, "--required")
    for bad in (None, pki.stranger, pki.wrong_use, pki.expired):
        with pytest.raises((ssl.SSLError, ConnectionError, http.client.HTTPException)):
            server.get("/hello", pki.context(bad))
    text = server.get("/who", pki.context(pki.client))[1].decode()
    assert text.startswith("verified=1 cn=kube-scheduler o=system:masters ")
    context = pki.context(pki.client)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    assert server.get("/cert", context)[0] == 200


def test_client_certificate_optional(serve, pki):
    server = tls(serve, pki, "--ca", pki.ca.cert)
    anyone, known = pki.context(), pki.context(pki.client)
    assert server.get("/who", anyone)[1].startswith(b"verified=0 cn= o= ")
    assert server.get("/cert", anyone)[0] == 403
    assert server.get("/cert", known)[0] == 200
    assert server.get("/local", anyone)[0] == 200  # by its address
    assert server.stats(anyone)["access"] == 1
    done = s_client(server, pki, "-cert", pki.stranger[0], "-key", pki.stranger[1])
    assert "alert bad certificate" in done.stderr and "hello" not in done.stdout
    for bad in (pki.stranger, pki.wrong_use, pki.expired):
        with pytest.raises((ssl.SSLError, ConnectionError, http.client.HTTPException)):
            server.get("/hello", pki.context(bad))


def test_access_without_tls(serve, pki):
    server = serve()
    assert server.get("/cert")[0] == 403 and server.get("/local")[0] == 200


def test_bad_handshakes_disturb_nobody(serve, pki):
    server = tls(serve, pki, "--header-ms", 1000)
    context = pki.context()
    good = server.http(context)
    junk = [b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x00\x05hello", b"\x16\x03\x03\xff\xff" + b"\0" * 65535,
            b"", b"\x80" * 100, b"\x15\x03\x03\x00\x02\x02\x28", b"\x17\x03\x03\x40\x00" + b"a" * 16384]
    for _ in range(5):
        for data in junk:
            s = server.connect()
            s.sendall(data)
            if data:
                s.close()
            good.request("GET", "/hello")
            assert good.getresponse().read() == b"hello\n"
    unverified = ssl.create_default_context()
    with pytest.raises(ssl.SSLError):  # the client refuses: an alert in the middle
        server.get("/hello", unverified)
    good.request("GET", "/hello")
    assert good.getresponse().read() == b"hello\n"
    server.until(lambda now: now["open"] == 2, context)


def test_large_bodies_over_tls(serve, pki):
    server = tls(serve, pki)
    context = pki.context()
    data = os.urandom(3_000_001)
    assert server.get("/echo", context, "POST", data)[1] == data
    c = server.http(context)
    for _ in range(50):
        c.request("POST", "/echo", data[:100_000])
        assert c.getresponse().read() == data[:100_000]


def test_peer_leaves_over_tls(serve, pki):
    server = tls(serve, pki)
    context = pki.context()
    c = server.http(context)
    c.request("GET", "/later?ms=60000")
    server.until(lambda now: now["pending"] == 1, context)
    c.sock.close()
    c.close()
    server.out.wait("gone")
    server.until(lambda now: now["pending"] == 0, context)


def test_two_hundred_connections(serve, pki):
    server = tls(serve, pki)
    context = pki.context()
    many = [server.http(context) for _ in range(200)]
    for c in many:
        c.request("GET", "/hello")
    for c in many:
        assert c.getresponse().read() == b"hello\n"
    assert server.stats(context)["open"] == 201


@pytest.mark.parametrize("what", ["no-cert", "no-key", "mismatch", "empty", "ca"])
def test_unusable_files_at_start(pki, tmp_path, what):
    from net_tools import program
    cert, key, more = pki.server[0], pki.server[1], []
    if what == "no-cert":
        cert = tmp_path / "absent"
    elif what == "no-key":
        key = pki.server[0]
    elif what == "mismatch":
        key = pki.rsa[1]
    elif what == "empty":
        cert = tmp_path / "empty"
        cert.write_text("")
    else:
        more = ["--ca", str(pki.server[1])]
    done = subprocess.run([program("net_server"), "--address", "127.0.0.1:0", "--cert", cert, "--key", key, *more], capture_output=True,
                          text=True, timeout=30)
    assert done.returncode == 1 and done.stdout.startswith("refused -")
    assert str(key if what in ("no-key", "mismatch") else more[-1] if more else cert) in done.stdout


# ---- exchanging certificates ----


class Secret:
    """A mounted secret as the kubelet keeps it: names lead through `..data`, which is swapped."""

    def __init__(self, folder: pathlib.Path, pair):
        self.folder, self.turn = folder, 0
        folder.mkdir()
        self.publish(pair)
        self.cert, self.key = folder / "tls.crt", folder / "tls.key"
        self.cert.symlink_to("..data/tls.crt")
        self.key.symlink_to("..data/tls.key")

    def publish(self, pair):
        self.turn += 1
        version = self.folder / f"..{self.turn}"
        version.mkdir()
        shutil.copy(pair[0], version / "tls.crt")
        shutil.copy(pair[1], version / "tls.key")
        (self.folder / "..tmp").symlink_to(version.name)
        (self.folder / "..tmp").rename(self.folder / "..data")


def serial(server, pki):
    """Serial number of the certificate a new connection is shown."""
    with socket.create_connection((server.host, server.port), 20) as raw, pki.context().wrap_socket(raw, server_hostname="localhost") as s:
        return int(s.getpeercert()["serialNumber"], 16)


def wait_serial(server, pki, want, timeout=20):
    until(lambda: serial(server, pki) == want, timeout)


class Load:
    """Threads that ask without end, on kept and on new connections; every failure is recorded."""

    def __init__(self, server, context, path="/later?ms=3", threads=4):
        self.server, self.context, self.path = server, context, path
        self.stop, self.failures, self.count, self.refused = threading.Event(), [], 0, 0
        self.threads = [threading.Thread(target=self._run, args=(i % 2 == 0,)) for i in range(threads)]
        for t in self.threads:
            t.start()

    def _run(self, keep):
        c = None
        while not self.stop.is_set():
            try:
                if c is None:
                    c = self.server.http(self.context)
                    try:
                        c.connect()
                    except ConnectionRefusedError:
                        self.refused += 1
                        self.stop.wait(0.01)
                        c = None
                        continue
                c.request("GET", self.path)
                reply = c.getresponse()
                body = reply.read()
                assert (reply.status, body) == (200, b"later\n")
                self.count += 1
                if not keep or reply.will_close:
                    c.close()
                    c = None
            except Exception as error:  # noqa: BLE001: whatever it is, it is a failed request
                self.failures.append(repr(error))
                c = None

    def end(self):
        self.stop.set()
        for t in self.threads:
            t.join(60)
        return self.failures


def test_certificates_change_under_load(serve, pki, tmp_path):
    """Row 11: no failed request. RSA and ECDSA in turn, four times, with the kubelet's swap."""
    pairs = [pki.server, pki.rsa, pki.ca.issue("third"), pki.ca.issue("fourth", rsa=True), pki.server]
    secret = Secret(tmp_path / "secret", pairs[0])
    server = tls(serve, pki, pair=(secret.cert, secret.key))
    kept = server.http(pki.context())
    kept.request("GET", "/hello")
    assert kept.getresponse().read() == b"hello\n"
    load = Load(server, pki.context())
    for pair in pairs[1:]:
        secret.publish(pair)
        text = subprocess.run(["openssl", "x509", "-in", pair[0], "-noout", "-serial"], capture_output=True, text=True).stdout
        wait_serial(server, pki, int(re.search(r"=([0-9A-F]+)", text).group(1), 16))
        done = load.count
        until(lambda: load.count >= done + 20 or load.failures)
    assert load.end() == [] and load.count > 80
    kept.request("GET", "/hello")  # greeted with the first pair, still served
    assert kept.getresponse().read() == b"hello\n"
    stats = server.stats(pki.context())
    assert stats["reloads"] == len(pairs) - 1 and stats["failures"] == 0


def test_bad_pairs_are_refused(serve, pki, tmp_path):
    """Files written in place, one after the other: the old pair stays until both fit."""
    cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    shutil.copy(pki.server[0], cert)
    shutil.copy(pki.server[1], key)
    server = tls(serve, pki, pair=(cert, key))
    first = serial(server, pki)
    context = pki.context()
    for step, (file, text) in enumerate([(cert, pki.rsa[0].read_text()[:300]), (cert, pki.rsa[0].read_text()), (key, ""),
                                         (key, pki.rsa[1].read_text()[:200])], 1):
        file.write_text(text)
        server.until(lambda now: now["failures"] == step, context)
        assert serial(server, pki) == first
    key.unlink()
    server.until(lambda now: now["failures"] == 5, context)
    assert serial(server, pki) == first
    key.write_text(pki.rsa[1].read_text())
    server.until(lambda now: now["reloads"] == 1, context)
    assert serial(server, pki) != first
    lines = server.log()
    assert [line["level"] for line in lines] == ["warning"] * 5 + ["info"]
    assert all(line["server"] == "test" and line["ts"].endswith("Z") for line in lines)
    assert str(key) in lines[1]["error"]
    assert not any("BEGIN" in json.dumps(line) for line in lines)


def test_reload_by_signal(serve, pki, tmp_path):
    secret = Secret(tmp_path / "secret", pki.server)
    server = tls(serve, pki, pair=(secret.cert, secret.key))
    first = serial(server, pki)
    server.process.send_signal(signal.SIGHUP)
    server.out.wait("reload 0")
    secret.publish(pki.rsa)
    server.process.send_signal(signal.SIGHUP)
    server.out.wait("reload")
    wait_serial(server, pki, 102)
    assert serial(server, pki) != first


def test_client_ca_changes(serve, pki, tmp_path):
    ca = tmp_path / "ca.crt"
    shutil.copy(pki.ca.cert, ca)
    server = tls(serve, pki, "--ca", ca)
    assert server.get("/cert", pki.context(pki.client))[0] == 200
    ca.write_text(pki.other.cert.read_text())
    server.until(lambda now: now["reloads"] == 1, pki.context())
    assert b"cn=stranger" in server.get("/cert", pki.context(pki.stranger))[1]
    with pytest.raises((ssl.SSLError, ConnectionError, http.client.HTTPException)):
        server.get("/cert", pki.context(pki.client))


# ---- stopping ----


@pytest.mark.parametrize("secure", [False, True])
def test_stop_under_load(serve, pki, secure):
    """No request that was taken or begun is lost; new connections are refused."""
    server = tls(serve, pki, "--stop-idle-ms", 2000) if secure else serve("--stop-idle-ms", 2000)
    load = Load(server, pki.context() if secure else None, threads=6)
    until(lambda: load.count >= 50 or load.failures)
    server.process.send_signal(signal.SIGTERM)
    server.out.wait("stopped 0")
    assert load.end() == []
    assert load.count >= 50 and load.refused > 0


def test_stop_waits_for_running_requests(serve):
    server = serve("--stop-idle-ms", 100)
    s, idle, body = server.connect(), server.connect(), server.connect()
    idle.sendall(b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n")
    read_reply(idle)
    s.sendall(b"GET /later?ms=1500 HTTP/1.1\r\nHost: x\r\n\r\n")
    body.sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nab")
    server.until(lambda now: now["pending"] == 1 and now["body"] == 2)
    server.process.send_signal(signal.SIGTERM)
    wait_closed(idle)
    with pytest.raises(ConnectionRefusedError):
        server.connect()
    body.sendall(b"cd")
    status, headers, text, _ = read_reply(body)
    assert text == b"abcd" and headers["connection"] == "close"
    status, headers, text, _ = read_reply(s)
    assert text == b"later\n" and headers["connection"] == "close"
    server.out.wait("stopped 0")


def test_stop_is_bounded(serve):
    server = serve("--stop-idle-ms", 50, "--stop-grace-ms", 500)
    s, blind, stuck = server.connect(), server.connect(), server.connect()
    s.sendall(b"GET /later?ms=60000 HTTP/1.1\r\nHost: x\r\n\r\n")
    blind.sendall(b"GET /later?ms=60000&blind=1 HTTP/1.1\r\nHost: x\r\n\r\n")
    stuck.sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nab")
    server.until(lambda now: now["pending"] == 2 and now["body"] == 2)
    server.process.send_signal(signal.SIGTERM)
    server.out.wait("gone")
    server.out.wait("stopped 0")
    for c in (s, blind, stuck):
        wait_closed(c)


def test_free_with_everything_running(serve):
    server = serve()
    socks = [server.connect() for _ in range(4)]
    socks[0].sendall(b"GET /later?ms=60000 HTTP/1.1\r\nHost: x\r\n\r\n")
    socks[1].sendall(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nab")
    socks[2].sendall(b"GET /hello")
    server.until(lambda now: now["pending"] == 1 and now["body"] == 2)
    server.process.send_signal(signal.SIGINT)
    server.out.wait("gone")
    assert server.process.wait(20) == 0
