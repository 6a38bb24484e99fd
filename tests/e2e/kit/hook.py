"""A webhook that thinks nothing: it answers every review with the answer it was given. What a call of any webhook costs
here is measured by it."""

import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from kit import pki


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *args):
        pass

    def do_POST(self):
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked += 1
        review["response"] = {**self.server.says, "uid": review.pop("request")["uid"]}
        data = json.dumps(review).encode()
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(data)
                         + data)


class Hook(ThreadingHTTPServer):
    """Runs from start() to stop(); `says` is the response without its uid, `asked` counts."""

    daemon_threads = True

    def __init__(self, authority: pki.Authority):
        super().__init__(("127.0.0.1", 0), Handler)
        self.says: dict = {"allowed": True}
        self.asked = 0
        pair = authority.issue("hook", "hook", sans=["127.0.0.1"])
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair.cert, pair.key)
        self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.server_address[1]}/webhook"

    def start(self) -> "Hook":
        threading.Thread(target=self.serve_forever, daemon=True, name="hook").start()
        return self

    def stop(self) -> None:
        self.shutdown()
        self.server_close()
