"""Shares that change while kernels run: what the card itself says, in wall time of simulated cards."""

import json
import re
import subprocess
import time

from conftest import build_dir
from cli_tools import cli, end, make_cli, until  # noqa: F401 (fixtures)

SETTLE_S, WINDOW_S, POINTS = 1.0, 2.0, 6


class Load:
    """Processes of a slice that keep a card busy with kernels of a millisecond until they are told to end."""

    def __init__(self, cli, *options, processes=1):
        self.cli = cli
        before = self.card()[1]
        self.p = subprocess.Popen([str(cli.exe), "run", "--name", "l", *options, "--",
                                   str(build_dir() / "bench" / "limiter_client"), "--kernels", "k1ms", "--until-term",
                                   "--processes", str(processes)],
                                  env=cli.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True)
        cli.started.append(self.p)
        until(lambda: self.card()[1] > before + 50)

    def card(self):
        """(busy ns, kernels, time) as the card counts them."""
        out = subprocess.run([str(self.cli.exe.parent / "gpuslice-sim"), "status", "--json"], env=self.cli.env,
                             stdout=subprocess.PIPE, text=True, timeout=60)
        card, = out.returncode == 0 and json.loads(out.stdout)["cards"] or [{"busy_ns": 0, "kernels": 0, "t_ns": 0}]
        return card["busy_ns"], card["kernels"], card["t_ns"]

    def share(self, window_s=WINDOW_S):
        """Percent of the card's time in the window that begins now."""
        busy, _, start = self.card()
        time.sleep(window_s)
        later, _, now = self.card()
        return 100 * (later - busy) / (now - start)

    def settles_at(self, pct):
        """True to its word SETTLE_S after the command that asked for it returned."""
        time.sleep(SETTLE_S)
        assert abs(self.share() - pct) <= POINTS

    def end(self):
        self.p.terminate()
        self.p.wait(60)
        until(lambda: self.cli.names() == [])


def test_a_new_share_is_followed(cli):
    load = Load(cli, "--cores", "30")
    load.settles_at(30)
    cli.ok("resize", "--cores", "60", "l")
    load.settles_at(60)
    cli.ok("resize", "--cores", "20", "l")
    load.settles_at(20)
    load.end()


def test_a_first_share_is_followed_by_all_processes(cli):
    """Without one, launches go straight to the driver and look at nothing: a signal tells them."""
    load = Load(cli, processes=2)
    assert load.share(0.5) > 80
    out = cli("resize", "--cores", "40", "l")
    assert out.returncode == 0 and out.stderr == ""
    load.settles_at(40)
    d, = cli.slice("l")["devices"]
    assert 30 < d["core_used_1s_pct"] < 50 and 100 < d["wait_ms_per_s"] <= 1000
    assert re.search(r"waits \d+ %$", cli.ok("top", "--once"), re.M)
    cli.ok("resize", "--cores", "none", "l")
    time.sleep(SETTLE_S)
    assert load.share(0.5) > 80
    load.end()


def test_suspended_kernels_stop_and_go_on(cli):
    for options in (("--cores", "50"), ()):
        load = Load(cli, *options)
        cli.ok("suspend", "l")
        until(lambda: load.share(0.3) == 0)
        assert cli.slice("l")["state"] == "suspended"
        cli.ok("resume", "l")
        until(lambda: load.share(0.5) > 30)
        load.end()


def test_a_suspended_launch_waits_as_long_as_it_lasts(cli):
    load = Load(cli, "--cores", "50", processes=2)
    cli.ok("suspend", "l")
    until(lambda: load.share(0.3) == 0)
    until(lambda: 700 < cli.slice("l")["devices"][0]["wait_ms_per_s"] <= 1000)
    time.sleep(2)
    cli.ok("resume", "l")
    until(lambda: load.share(0.5) > 30)
    load.end()


def test_waits_are_recorded(cli, tmp_path):
    load = Load(cli, "--cores", "20", "--trace", str(tmp_path / "t.json"), processes=2)
    time.sleep(1)
    load.end()
    # Chrome's trace format lets the bracket be missing; it is where the last process outlived `gpuslice run` by a moment
    everything = json.loads((tmp_path / "t.json").read_text().rstrip().removesuffix("]") + "]")
    events = [e for e in everything if e["ph"] == "X"]
    waits = [e for e in events if e["name"] == "wait: share"]
    named = {e["pid"]: e["args"]["name"] for e in everything if e["name"] == "process_name" and e["pid"]}
    assert named == {e["pid"]: "limiter_client" for e in events}
    assert len({e["pid"] for e in waits}) == 2
    assert {e["args"]["what"] for e in waits} <= {"cuLaunchKernel", "cuGraphLaunch", "cuLaunchKernelEx"}
    assert all(e["dur"] >= 100 for e in events)
    assert sum(e["dur"] for e in waits) > 500000  # of a second of card time, eight tenths are waited for


def test_an_idle_share_is_lent_and_shown(cli):
    idle = cli.start("--cores", "50", "--name", "idle")
    load = Load(cli, "--cores", "30", "--policy", "elastic")
    until(lambda: cli.slice("l")["devices"][0]["share_now_pct"] == 100)
    assert "may use 100 % now" in cli.ok("top", "--once")
    until(lambda: load.share(0.5) > 80)
    load.p.terminate()
    load.p.wait(60)
    assert end(idle) == 0
