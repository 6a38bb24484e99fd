"""Servers for the client's tests: HTTP/1.1 by hand and HTTP/2 by the h2 package, over TLS or not."""

import socket
import ssl
import threading

import h2.config
import h2.connection
import h2.events
import h2.exceptions


class Peer:
    """Accepts in a thread; each connection is served by `serve` in a thread of its own."""

    def __init__(self, pair=None, client_ca=None, alpn=()):
        self.context = None
        if pair:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(*map(str, pair))
            if alpn:
                self.context.set_alpn_protocols(list(alpn))
            if client_ca:
                self.context.load_verify_locations(str(client_ca))
                self.context.verify_mode = ssl.CERT_REQUIRED
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.url = f"http{'s' if pair else ''}://localhost:{self.port}"
        self.connections, self.requests, self.errors = 0, [], []
        self.socks, self.peer_names = [], []
        self.closed = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                raw, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._run, args=(raw,), daemon=True).start()

    def _run(self, raw):
        try:
            s = self.context.wrap_socket(raw, server_side=True) if self.context else raw
            if self.context and (cert := s.getpeercert()):
                self.peer_names.append(dict(pair[0] for pair in cert["subject"])["commonName"])
            self.socks.append(s)
            self.serve(s)
            s.close()
        except (OSError, ssl.SSLError, h2.exceptions.ProtocolError) as error:
            self.errors.append(repr(error))
            raw.close()

    def close(self):
        self.listener.close()
        for s in self.socks:
            s.close()
        self.closed.set()


class Http1(Peer):
    """`answer(method, path, headers, body, sock)` returns bytes to send, or None to close."""

    def __init__(self, answer, *args, **more):
        self.answer = answer
        super().__init__(*args, **more)

    def serve(self, s):
        data = b""
        while True:
            while b"\r\n\r\n" not in data:
                more = s.recv(65536)
                if not more:
                    return
                data += more
            head, _, data = data.partition(b"\r\n\r\n")
            lines = head.decode().split("\r\n")
            method, path, _ = lines[0].split(" ")
            headers = {k.lower(): v.strip() for k, v in (line.split(":", 1) for line in lines[1:])}
            n = int(headers.get("content-length", 0))
            while len(data) < n:
                data += s.recv(65536)
            body, data = data[:n], data[n:]
            self.requests.append((method, path, headers, body))
            reply = self.answer(method, path, headers, body, s)
            if reply is None:
                return
            s.sendall(reply)


def reply(body=b"ok", status="200 OK", *headers):
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class Http2(Peer):
    """`answer(stream, headers, body)` is called at each request's end and sends by the methods below."""

    def __init__(self, answer, pair, **more):
        self.answer = answer
        super().__init__(pair, alpn=("h2", "http/1.1"), **more)

    def serve(self, s):
        assert s.selected_alpn_protocol() == "h2"
        link = Link(s)
        while True:
            data = s.recv(65536)
            if not data:
                return
            with link.lock:
                for event in link.h2.receive_data(data):
                    link.on(event)
                link.flush()
            while link.complete:
                stream = link.complete.pop(0)
                headers, body = link.heads[stream], bytes(link.bodies[stream])
                self.requests.append((headers[":method"], headers[":path"], headers, body))
                self.answer(link, stream, headers, body)
                with link.lock:
                    link.flush()


class Link:
    """One HTTP/2 connection."""

    def __init__(self, s):
        self.sock, self.lock = s, threading.RLock()
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        self.h2.initiate_connection()
        self.heads, self.bodies, self.complete, self.gone = {}, {}, [], set()
        self.flush()

    def flush(self):
        if data := self.h2.data_to_send():
            self.sock.sendall(data)

    def on(self, event):
        if isinstance(event, h2.events.RequestReceived):
            self.heads[event.stream_id] = {k.decode(): v.decode() for k, v in event.headers}
            self.bodies[event.stream_id] = bytearray()
        elif isinstance(event, h2.events.DataReceived):
            self.bodies[event.stream_id] += event.data
            self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            self.complete.append(event.stream_id)
        elif isinstance(event, h2.events.StreamReset):
            self.gone.add(event.stream_id)

    def head(self, stream, status=200, end=False, **headers):
        with self.lock:
            self.h2.send_headers(stream, [(":status", str(status)), *((k.replace("_", "-"), v) for k, v in headers.items())], end_stream=end)
            self.flush()

    def data(self, stream, data, end=False):
        with self.lock:
            self.h2.send_data(stream, data, end_stream=end)
            self.flush()

    def reset(self, stream):
        with self.lock:
            self.h2.reset_stream(stream, 2)
            self.flush()

    def goaway(self):
        with self.lock:
            self.h2.close_connection()
            self.flush()
