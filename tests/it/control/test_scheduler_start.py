"""How the daemon starts: what it says of itself, and of what it cannot work with."""

import json
import re
import socket
import subprocess

import pytest

from conftest import ROOT
from scheduler_daemon import PROGRAM, Daemon, get


@pytest.fixture
def start(tmp_path):
    running = []

    def run(*flags, **more):
        running.append(Daemon(tmp_path, *flags, **more))
        return running[-1]

    yield run
    for one in running:
        one.close()


def say(*args):
    return subprocess.run([PROGRAM, *args], capture_output=True, text=True, timeout=60)


def test_version():
    version = re.search(r"version: '([^']+)'", (ROOT / "meson.build").read_text()).group(1)
    for args in (["--version"], ["-version"], ["version"], ["--debug", "--version"]):
        done = say(*args)
        assert (done.returncode, done.stdout) == (0, f"gpuslice-scheduler {version}\n"), args
    assert "--version" in say("--help").stdout


@pytest.mark.parametrize("arg, meant", [
    ("--node-choise=extender", "node-choice"),
    ("--http-bind=:80", "http_bind"),
    ("-kube_config", "kubeconfig"),
    ("--leader-election", "leader-elect"),
    ("--schedulername=x", "scheduler-name"),
    ("--metrics-bind-addres", "metrics-bind-address"),
])
def test_flag_that_may_have_been_meant(arg, meant):
    done = say(arg)
    assert done.returncode == 2 and done.stderr == f"gpuslice-scheduler: unknown flag '{arg}'; is it --{meant}? See --help\n"


@pytest.mark.parametrize("arg", ["--completely-different", "--x", "-", "--", "--=x", "--" + "a" * 5000])
def test_flag_that_is_like_none(arg):
    done = say(arg)
    assert done.returncode == 2 and done.stderr.startswith("gpuslice-scheduler: unknown flag '") and "is it" not in done.stderr


def limits(daemon):
    with open(f"/proc/{daemon.process.pid}/limits") as file:
        return next(line.split()[3:5] for line in file if line.startswith("Max open files"))


def lines(daemon, text):
    return [json.loads(line) for line in daemon.log().splitlines() if text in line]


def test_limit_of_open_files_is_raised(start):
    daemon = start(files=(600, 13000)).wait_ready()
    assert limits(daemon) == ["13000", "13000"]
    assert not lines(daemon, "open files")


def test_few_open_files(start):
    """1,024: (1,024 - 256) / 2 listeners. A crowd at one port keeps nobody out, and leaves files for all else."""
    daemon = start(files=(200, 1024)).wait_ready()
    (line,) = lines(daemon, "few open files")
    assert (line["level"], line["files"], line["connections"]) == ("warning", 1024, 384)
    host, port = daemon.calls.removeprefix("http://").split(":")
    crowd = [socket.create_connection((host, int(port)), 10) for _ in range(900)]
    try:
        assert get(f"{daemon.calls}/readyz") == "ok\n"
        page = get(f"{daemon.metrics}/metrics")
        assert int(re.search(r'http_crowded_total{listener="extender"} (\d+)', page).group(1)) >= 900 - 384
        assert int(re.search(r'http_crowded_total{listener="metrics"} (\d+)', page).group(1)) == 0
    finally:
        for s in crowd:
            s.close()


def test_too_few_open_files(start):
    """256 and 64 for each listener."""
    assert start(files=(384, 384)).wait_ready()
    daemon = start(files=(383, 383))
    assert daemon.process.wait(60) == 1
    (line,) = lines(daemon, "cannot start")
    assert line["error"] == "383 open files are allowed (ulimit -n): 384 are needed"


def test_calls_that_are_not_understood(start):
    """The caller is told why, not only that."""
    daemon = start().wait_ready()
    for path, body, want in (
            ("/filter", b"null", (200, "extender args missing pod")),
            ("/bind", b"null", (200, "extender binding args missing PodName")),
            ("/preempt", b"null", (400, "preemption args missing pod\n")),
            ("/preempt", b"", (400, "empty")),
            ("/prioritize", b"null", (400, "extender args missing pod\n")),
            ("/prioritize", b"[]", (400, "extender args: not an object\n"))):
        done = subprocess.run(["curl", "-s", "--noproxy", "*", "-w", "%{http_code}", "--data-binary", body, f"{daemon.calls}{path}"],
                              capture_output=True, text=True, timeout=60).stdout
        text, status = done[:-3], int(done[-3:])
        assert status == want[0], (path, body, done)
        assert want[1] in (json.loads(text)["Error"] if status == 200 else text), (path, body, done)


@pytest.mark.parametrize("flag, what", [("kubeconfig", "the kubeconfig"), ("device-config-file", "the device configuration")])
def test_a_file_that_is_not_there_is_told_in_words(start, flag, what, tmp_path):
    daemon = start(f"--{flag}={tmp_path}/nothing")
    assert daemon.process.wait(60) == 1
    (line,) = lines(daemon, "cannot start")
    assert line["error"].endswith(f"cannot read {what} '{tmp_path}/nothing': No such file or directory")
