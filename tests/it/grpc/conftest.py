"""Fixtures: folders whose names are short enough for sockets, grpc_tool, grpcio servers, Python's modules of proto/."""

import importlib
import pathlib
import shutil
import sys
import tempfile

import pytest
from grpc_tools import protoc

from grpc_peers import ROOT, Peer, Tool


@pytest.fixture
def folder():
    made = pathlib.Path(tempfile.mkdtemp(prefix="gpuslice-grpc-"))
    yield made
    shutil.rmtree(made)


@pytest.fixture
def path(folder):
    return folder / "a.sock"


@pytest.fixture
def tool():
    """Start grpc_tool; at the end it has to go in peace, with whatever runs on it then."""
    running = []

    def start(*args):
        running.append(Tool(*args))
        return running[-1]

    yield start
    try:
        for t in running:
            if t.process.poll() is None:
                t.quit()
    finally:
        for t in running:
            t.close()


@pytest.fixture
def serve(tool, path):
    return lambda *args: tool("--serve", path, *args)


@pytest.fixture
def peer(path):
    running = []

    def start(methods, at=path, **options):
        running.append(Peer(at, methods, **options))
        return running[-1]

    yield start
    for p in running:
        p.close()


class Apis:
    """Messages and stubs by file, as modules."""

    def __init__(self, folder):
        proto = ROOT / "proto"
        files = sorted(str(f) for f in proto.glob("*.proto"))
        assert protoc.main(["protoc", f"-I{proto}", f"--python_out={folder}", f"--grpc_python_out={folder}", *files]) == 0
        sys.path.insert(0, str(folder))
        for name in ("deviceplugin_v1beta1", "deviceplugin_registration_v1beta1", "podresources_v1"):
            setattr(self, name, importlib.import_module(f"{name}_pb2"))
            setattr(self, f"{name}_grpc", importlib.import_module(f"{name}_pb2_grpc"))


@pytest.fixture(scope="session")
def apis(tmp_path_factory):
    return Apis(tmp_path_factory.mktemp("apis"))
