"""An API server that does what a test scripts, over real sockets: lists of pods, and watches that stall, break or flood."""

import json
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def pod(name: str, version: int, uid: str | None = None, **more) -> dict:
    return {"metadata": {"namespace": "n", "name": name, "uid": uid or f"u-{name}", "resourceVersion": str(version)},
            **more}


def frame(kind: str, obj: dict) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


def bookmark(version: int) -> bytes:
    return frame("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": str(version)}})


GONE = frame("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})


class Stream:
    """One watch as the script sees it: `send` bytes, then return to end it well, or `cut` it."""

    def __init__(self, handler, query):
        self.handler, self.query = handler, query

    def send(self, data: bytes) -> None:
        self.handler.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.handler.wfile.flush()

    def cut(self) -> None:
        self.handler.connection.shutdown(2)
        self.handler.close_connection = True
        raise ConnectionError


LAST = object()


class FakeApi:
    """`pods` is what a list shows, at `version`. Each watch takes the next of `scripts`; past the last one it stays
    silent until the end. `answers` holds (status, headers, body) to be given first, to anything; None: the connection
    is closed once the request is read, LAST: and the server with it."""

    def __init__(self):
        self.pods: list[dict] = []
        self.version = 10
        self.scripts: list = []
        self.answers: list[tuple] = []
        self.seen: list[tuple[str, dict]] = []
        self.written: list[tuple[str, bytes]] = []
        self.ending = threading.Event()
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def do_GET(self):
                try:
                    api.serve(self)
                except (ConnectionError, OSError):
                    self.close_connection = True

            do_POST = do_PATCH = do_GET

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def close(self) -> None:
        """Also a second time."""
        if self.ending.is_set():
            return
        self.ending.set()
        self.server.shutdown()
        self.server.server_close()

    def serve(self, handler) -> None:
        url = urllib.parse.urlsplit(handler.path)
        query = {k: v[0] for k, v in urllib.parse.parse_qs(url.query).items()}
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        self.seen.append((f"{handler.command} {url.path}", query))
        if body:
            self.written.append((f"{handler.command} {url.path}", body))
        if self.answers:
            answer = self.answers.pop(0)
            if answer is LAST:
                self.server.socket.close()
            if answer is None or answer is LAST:
                handler.connection.shutdown(2)
                raise ConnectionError
            self.reply(handler, *answer)
        elif query.get("watch"):
            self.watch(handler, query)
        else:
            self.list(handler, query)

    @staticmethod
    def reply(handler, status: int, headers: dict, body) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        handler.send_response(status)
        for key, value in headers.items():
            handler.send_header(key, value)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    def list(self, handler, query) -> None:
        limit, start = int(query.get("limit", 0)) or len(self.pods), int(query.get("continue", 0))
        more = str(start + limit) if start + limit < len(self.pods) else ""
        self.reply(handler, 200, {"Content-Type": "application/json"}, {
            "kind": "PodList", "metadata": {"resourceVersion": str(self.version), "continue": more},
            "items": self.pods[start:start + limit]})

    def watch(self, handler, query) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        stream = Stream(handler, query)
        if self.scripts:
            self.scripts.pop(0)(stream)
        else:
            self.ending.wait(60)
        handler.wfile.write(b"0\r\n\r\n")
