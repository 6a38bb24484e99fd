"""Fixtures: certificates, and the programs net_server and net_client under their names."""

import pytest
from net_tools import Client, Pki, Server


@pytest.fixture(scope="session")
def pki(tmp_path_factory):
    return Pki(tmp_path_factory.mktemp("pki"))


@pytest.fixture
def serve():
    running = []

    def start(*args, **more):
        server = Server(*args, **more)
        running.append(server)
        return server

    yield start
    for server in running:
        server.close()


@pytest.fixture
def ask():
    """Run net_client to its end: list of results, one per call."""

    def run(*args):
        return Client(*args).end()

    return run


@pytest.fixture
def client():
    running = []

    def start(*args):
        c = Client(*args)
        running.append(c)
        return c

    yield start
    for c in running:
        if c.process.poll() is None:
            c.process.kill()
        c.process.wait()
