"""Certificates made by openssl, and the two programs on src/net: net_server and net_client."""

import http.client
import json
import os
import pathlib
import select
import socket
import ssl
import subprocess
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]


def program(name):
    """A test program: in $GS_BUILD, else build/release."""
    return pathlib.Path(os.environ.get("GS_BUILD", ROOT / "build" / "release")) / "tests" / "it" / "net" / name


def openssl(*args, **more):
    subprocess.run(["openssl", *map(str, args)], check=True, capture_output=True, **more)


class Authority:
    """A CA in a folder of its own."""

    def __init__(self, folder: pathlib.Path, name: str):
        self.folder = folder
        folder.mkdir(parents=True)
        self.cert, self.key = folder / "ca.crt", folder / "ca.key"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", self.key,
                "-out", self.cert, "-days", "2", "-subj", f"/CN={name}")
        self.serial = 100

    def issue(self, name, subject="/CN=localhost", use="serverAuth", rsa=False, days=2, names="DNS:localhost,IP:127.0.0.1,IP:::1"):
        """(certificate, key) files of a leaf."""
        self.serial += 1
        cert, key, request = (self.folder / f"{name}.{end}" for end in ("crt", "key", "csr"))
        algorithm = ["rsa:2048"] if rsa else ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
        openssl("req", "-newkey", *algorithm, "-nodes", "-keyout", key, "-out", request, "-subj", subject)
        extra = self.folder / f"{name}.ext"
        extra.write_text(f"extendedKeyUsage={use}\nsubjectAltName={names}\n")
        openssl("x509", "-req", "-in", request, "-CA", self.cert, "-CAkey", self.key, "-set_serial", self.serial,
                "-days", days, "-extfile", extra, "-out", cert)
        return cert, key


class Pki:
    def __init__(self, folder):
        self.ca = Authority(folder / "ours", "test CA")
        self.other = Authority(folder / "other", "another CA")
        self.server = self.ca.issue("server")
        self.rsa = self.ca.issue("rsa", rsa=True)
        self.client = self.ca.issue("client", "/O=system:masters/CN=kube-scheduler", "clientAuth")
        self.stranger = self.other.issue("stranger", "/CN=stranger", "clientAuth")
        self.wrong_use = self.ca.issue("wrong-use", "/CN=a server", "serverAuth")
        self.expired = self.ca.issue("expired", "/CN=late", "clientAuth", days=-1)

    def context(self, client=None):
        context = ssl.create_default_context(cafile=str(self.ca.cert))
        if client:
            context.load_cert_chain(*map(str, client))
        return context


class Lines:
    """Lines of a pipe, read by a thread, waited for by content."""

    def __init__(self, pipe):
        self.lines, self.changed, self.ended = [], threading.Condition(), False
        self.pipe = pipe
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.pipe:
            with self.changed:
                self.lines.append(line.rstrip("\n"))
                self.changed.notify_all()
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def wait(self, what, timeout=20, after=0):
        """First line at or after index `after` that begins with `what`."""
        end = time.monotonic() + timeout
        with self.changed:
            while True:
                for line in self.lines[after:]:
                    if line.startswith(what):
                        return line
                left = end - time.monotonic()
                if self.ended or left <= 0:
                    raise AssertionError(f"no line '{what}' in {self.lines[-20:]}")
                self.changed.wait(left)


class Server:
    def __init__(self, *args, address="127.0.0.1:0", listeners=1):
        self.process = subprocess.Popen([program("net_server"), "--address", address, *map(str, args)], text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.out, self.err = Lines(self.process.stdout), Lines(self.process.stderr)
        self.addresses = []
        for _ in range(listeners):
            line = self.out.wait("listening ", after=len(self.addresses))
            host, port = line.split(" ", 1)[1].rsplit(":", 1)
            self.addresses.append((host.strip("[]"), int(port)))
        self.host, self.port = self.addresses[0]

    def connect(self, timeout=20):
        s = socket.create_connection((self.host, self.port), timeout)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s

    def http(self, context=None, timeout=30):
        if context:
            return http.client.HTTPSConnection("localhost" if self.host == "127.0.0.1" else self.host, self.port,
                                               timeout=timeout, context=context)
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout)

    def get(self, path, context=None, method="GET", body=None, headers=None):
        c = self.http(context)
        try:
            c.request(method, path, body, headers or {})
            r = c.getresponse()
            return r.status, r.read(), r
        finally:
            c.close()

    def stats(self, context=None):
        return json.loads(self.get("/stats", context)[1])

    def until(self, what, context=None, timeout=20):
        """Statistics once `what` of them holds."""
        end = time.monotonic() + timeout
        while True:
            stats = self.stats(context)
            if what(stats) or time.monotonic() > end:
                assert what(stats), stats
                return stats
            time.sleep(0.02)  # polls a condition; the timeout decides

    def log(self):
        return [json.loads(line) for line in self.err.lines]

    def rss_mib(self):
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024

    def close(self):
        """Ends it; anything but a clean exit (a sanitizer's complaint, say) fails the test."""
        ends = any(line.startswith("stopped") for line in self.out.lines)  # signals would kill it from there on
        if self.process.poll() is None and not ends:
            self.process.send_signal(2)
        try:
            rc = self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        assert rc == 0, (rc, self.err.lines[-40:])


class Client:
    """net_client with lines in both directions."""

    def __init__(self, *args):
        env = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
        self.process = subprocess.Popen([program("net_client"), *map(str, args)], text=True, stdin=subprocess.PIPE, env=env,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.out, self.err = Lines(self.process.stdout), Lines(self.process.stderr)

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def wait(self, what, **more):
        return self.out.wait(what, **more)

    def end(self, timeout=60):
        rc = self.process.wait(timeout)
        self.out.wait("stats ")
        assert rc == 0, (rc, self.err.lines[-40:])
        return [fields(line) for line in self.out.lines if line.startswith("done ")]


def fields(line):
    """{'rc': '0', ...} of a line `word N key=value ... last=rest of line`."""
    out = {}
    words = line.split(" ")
    for i, word in enumerate(words):
        key, eq, value = word.partition("=")
        if eq and key == "error":
            out[key] = " ".join(words[i:])[6:]
            break
        if eq:
            out[key] = value
    return out


def until(what, timeout=20):
    """Wait for a condition that nothing announces."""
    end = time.monotonic() + timeout
    while not what():
        assert time.monotonic() < end
        time.sleep(0.01)  # polls; the timeout decides


def read_reply(s):
    """(status line, headers, body) of one answer on a raw socket, with what followed it."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = s.recv(65536)
        assert more, data
        data += more
    head, _, rest = data.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    headers = {k.lower(): v.strip() for k, v in (line.split(":", 1) for line in lines[1:])}
    n = int(headers.get("content-length", 0))
    while len(rest) < n:
        more = s.recv(65536)
        assert more
        rest += more
    return lines[0], headers, rest[:n], rest[n:]


def wait_closed(s, timeout=20):
    """Seconds until the peer closed (or reset) the connection."""
    start = time.monotonic()
    s.settimeout(timeout)
    try:
        while s.recv(65536):
            pass
    except (ConnectionResetError, BrokenPipeError):
        pass
    return time.monotonic() - start


def readable(s):
    return bool(select.select([s], [], [], 0)[0])
