"""A scripted API server and probes of it."""

import pytest
from fake_api import FakeApi
from kube_probe import Probe


@pytest.fixture
def server():
    made = FakeApi()
    yield made
    made.close()


@pytest.fixture
def make_probe(server, tmp_path):
    made = []

    def make(**options) -> Probe:
        path = tmp_path / "config"
        path.write_text(f"""{{"current-context": "x", "clusters": [{{"name": "c", "cluster": {{"server": "{server.url}"}}}}],
            "contexts": [{{"name": "x", "context": {{"cluster": "c"}}}}]}}""")
        made.append(Probe(path, **options))
        return made[-1]

    yield make
    for probe in made:
        assert probe.close() == 0


@pytest.fixture
def probe(make_probe) -> Probe:
    return make_probe()
