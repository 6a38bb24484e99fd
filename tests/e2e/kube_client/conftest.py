"""The C client's probe against the real API server."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "it" / "kube"))
from kube_probe import Probe  # noqa: E402


@pytest.fixture
def make_probe(api):
    """Factory of probes as cluster admin, or with another kubeconfig; each must end well."""
    made = []

    def make(kubeconfig=None, **options) -> Probe:
        made.append(Probe(kubeconfig or api.kubeconfig, **options))
        return made[-1]

    yield make
    for probe in made:
        assert probe.close() == 0


@pytest.fixture
def probe(make_probe) -> Probe:
    return make_probe()
