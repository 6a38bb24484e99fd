"""A proxy in front of the API server that holds a write back, as a server on a busy machine does: the client is long
gone when it is carried out."""

import http.client
import ssl
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import yaml


class Proxy:
    """Plain HTTP/1.1 towards the client, who shows his own token to the API server. `hold(text)`: the next POST with that in its
    path waits; `wait_held()` until there is one; `release()` carries it out and gives (status, body)."""

    def __init__(self, cluster, kubeconfig):
        self.cluster, self.config = cluster, yaml.safe_load(kubeconfig.read_text())
        self.text = None
        self.held = threading.Event()
        self.request = None
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def do_GET(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                headers = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "connection")}
                request = (self.command, self.path, body, headers)
                try:
                    if self.command == "POST" and proxy.text and proxy.text in self.path:
                        proxy.text, proxy.request = None, request
                        proxy.held.set()
                        self.connection.recv(1)  # until the client gives up
                        self.close_connection = True
                    else:
                        proxy.forward(self, request)
                except (OSError, http.client.HTTPException):
                    self.close_connection = True

            do_POST = do_PATCH = do_PUT = do_DELETE = do_GET

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def kubeconfig(self, folder):
        """Of the same user, by way of the proxy."""
        config = dict(self.config, clusters=[{"name": self.config["clusters"][0]["name"], "cluster": {
            "server": f"http://127.0.0.1:{self.server.server_address[1]}"}}])
        path = folder / "proxy.kubeconfig"
        path.write_text(yaml.safe_dump(config))
        return path

    def upstream(self) -> http.client.HTTPSConnection:
        url = urllib.parse.urlsplit(self.cluster.url)
        return http.client.HTTPSConnection(url.hostname, url.port, context=ssl.create_default_context(cafile=self.cluster.ca_file))

    def ask(self, request):
        connection = self.upstream()
        connection.request(request[0], request[1], request[2], request[3])
        return connection.getresponse()

    def forward(self, handler, request) -> None:
        reply = self.ask(request)
        handler.send_response(reply.status)
        for key, value in reply.getheaders():
            if key.lower() in ("content-type", "retry-after"):
                handler.send_header(key, value)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        while data := reply.read1(1 << 16):
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            handler.wfile.flush()
        handler.wfile.write(b"0\r\n\r\n")

    def hold(self, text: str) -> None:
        self.text, self.request = text, None
        self.held.clear()

    def wait_held(self, seconds: float = 30) -> None:
        assert self.held.wait(seconds), "no such write came"

    def release(self) -> tuple[int, bytes]:
        reply = self.ask(self.request)
        return reply.status, reply.read()
