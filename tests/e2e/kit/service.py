"""A Service of one port: forwards connections to endpoints that accept them, in turn."""

import itertools
import socket
import threading
import weakref


class Service(threading.Thread):
    """Listens on a loopback port, or at `address`; `endpoints` are ports, changed at will."""

    def __init__(self, endpoints: list[int], address: tuple[str, int] = ("127.0.0.1", 0)):
        super().__init__(daemon=True, name="service")
        self.endpoints = list(endpoints)
        self._turn = itertools.count()
        self._guard, self._streams = threading.Lock(), weakref.WeakSet()
        self._listener = socket.create_server(address)
        self.port = self._listener.getsockname()[1]

    def run(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # stopped
                return
            with self._guard:
                server = self._connect()
                if server is None:
                    client.close()
                    continue
                self._streams.update((client, server))
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=forward, args=(source, sink), daemon=True).start()

    def cut(self) -> None:
        """End every connection there is, in the midst of what it carries; new ones are served."""
        with self._guard:
            streams = list(self._streams)
        for stream in streams:
            end(stream)

    def stop(self) -> None:
        # shutdown wakes the accept, which close alone does not
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.join(5)

    def _connect(self) -> socket.socket | None:
        ports = list(self.endpoints)
        first = next(self._turn)
        for i in range(len(ports)):
            try:
                return socket.create_connection(("127.0.0.1", ports[(first + i) % len(ports)]), 5)
            except OSError:
                continue
        return None


def forward(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(1 << 16):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        end(source)
        end(sink)


def end(stream: socket.socket) -> None:
    try:
        stream.shutdown(socket.SHUT_RDWR)
    except OSError:  # it has ended
        pass
