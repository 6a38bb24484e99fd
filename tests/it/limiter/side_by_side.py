"""Scenarios of these tests sleep most of their time: they all start at the first test and run side by side.

`@scenario(function)` gives a test its scenario; the function gets the test's parameters, and what it returns is the
test's argument `seen`. Bounds are coarse here, for machines that are busy with other things; the exact figures are
`./dev bench limiter`'s business."""

import concurrent.futures
import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "bench"))

SIDE_BY_SIDE = 4 * (os.cpu_count() or 2)
PATIENCE_S = 230


def scenario(function):
    def mark(test):
        test.gs_scenario = function
        return test

    return mark


def start(items):
    pool = concurrent.futures.ThreadPoolExecutor(max_workers=SIDE_BY_SIDE)
    jobs = {}
    for item in items:
        function = getattr(item.function, "gs_scenario", None)
        if function:
            jobs[item.nodeid] = pool.submit(function, **(item.callspec.params if hasattr(item, "callspec") else {}))
    return jobs


@pytest.fixture
def seen(request):
    session = request.session
    if not hasattr(session, "gs_scenarios"):
        session.gs_scenarios = start(session.items)
    return session.gs_scenarios[request.node.nodeid].result(timeout=PATIENCE_S)
