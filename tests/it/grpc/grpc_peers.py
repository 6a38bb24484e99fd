"""grpc_tool, the program on net/grpc_* and node/kubelet_pb, and grpcio as the other end."""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

import grpc

ROOT = pathlib.Path(__file__).resolve().parents[3]
MIB = 1 << 20
BUILD = pathlib.Path(os.environ.get("GS_BUILD", ROOT / "build" / "release"))
# Sanitizers keep freed memory for a while: figures of memory mean nothing there.
IS_SANITIZED = BUILD.name != "release"


class Lines:
    """Lines of a pipe, read by a thread, waited for by content; each is given once."""

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

    def take(self, what, timeout=30):
        """The first line that begins with `what`; it is gone then."""
        end = time.monotonic() + timeout
        with self.changed:
            while True:
                for i, line in enumerate(self.lines):
                    if line.startswith(what):
                        return self.lines.pop(i)
                left = end - time.monotonic()
                if self.ended or left <= 0:
                    raise AssertionError(f"no line '{what}' in {self.lines[-20:]}")
                self.changed.wait(left)


class Tool:
    def __init__(self, *args):
        self.process = subprocess.Popen([BUILD / "tests" / "it" / "grpc" / "grpc_tool", *map(str, args)], text=True, bufsize=1,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.out, self.err = Lines(self.process.stdout), Lines(self.process.stderr)
        if "--serve" in args:
            self.out.take("serving")

    def say(self, line, answer=None):
        """Give it a line; with `answer`, the first line back that begins so, without that word."""
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.out.take(answer)[len(answer):].strip() if answer else None

    def stats(self):
        return json.loads(self.say("stats", "stats"))

    def until(self, what, timeout=30):
        """Statistics once `what` of them holds."""
        end = time.monotonic() + timeout
        while True:
            stats = self.stats()
            if what(stats):
                return stats
            assert time.monotonic() < end, stats
            time.sleep(0.01)

    def done(self, number):
        """{"rc", "status", "bytes", "error"} of a call."""
        rest = self.out.take(f"done {number} ").split(" ", 2)[2]
        fields, _, error = rest.partition(" error=")
        return {**{k: int(v) for k, v in (f.split("=") for f in fields.split())}, "error": error}

    def memory(self, key):
        """A line of /proc/PID/status, in bytes."""
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(key + ":"):
                return int(line.split()[1]) * (1024 if line.endswith("kB") else 1)
        raise AssertionError(key)

    def quit(self):
        """Ends by itself, whatever runs; a sanitizer's findings are in the status."""
        self.say("quit", "quit")
        assert self.process.wait(30) == 0, self.err.lines
        assert not self.err.lines, self.err.lines

    def kill(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def channel(path, **options):
    """One connection of its own to a server at `path`."""
    pairs = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", 64 * MIB)]
    with grpc.insecure_channel(f"unix:{path}", [*pairs, *((f"grpc.{k}", v) for k, v in options.items())]) as c:
        yield c


def unary(c, method):
    return c.unary_unary(method, request_serializer=None, response_deserializer=None)


def watch(c, method="/test.Watch/Watch", message=b"", **more):
    return c.unary_stream(method, request_serializer=None, response_deserializer=None)(message, **more)


class Peer:
    """A grpcio server whose methods are functions (message, context) -> bytes."""

    def __init__(self, path, methods, **options):
        self.path, self.methods = path, methods
        self.contexts = []
        pool = concurrent.futures.ThreadPoolExecutor(256)
        self.server = grpc.server(pool, options=[(f"grpc.{k}", v) for k, v in options.items()])
        self.server.add_generic_rpc_handlers((self,))
        self.server.add_insecure_port(f"unix:{path}")
        self.server.start()

    def service(self, details):
        answer = self.methods.get(details.method)
        return answer and grpc.unary_unary_rpc_method_handler(answer)

    def close(self):
        self.server.stop(None).wait()


def child(code, *args):
    """Another Python that can be killed; `code` prints a line when it is ready."""
    process = subprocess.Popen([sys.executable, "-c", f"import sys\nsys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})\n{code}",
                                *map(str, args)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline(), "the child ended"
    return process
