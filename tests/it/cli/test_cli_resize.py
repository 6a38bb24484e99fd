"""gpuslice resize: running programs follow, promises hold, bad input changes nothing."""

import random
import re
import signal
import subprocess

import pytest

from conftest import GIB, MIB
from cli_tools import Client, cli, end, make_cli, until  # noqa: F401 (fixtures)


def quota(cli, name):
    return (cli.runtime / "gpuslice" / name / "quota").read_text()


def test_a_running_program_follows(cli):
    c = Client(cli, "--memory", "1Gi", "--name", "r")
    assert c.ask("alloc(600)") == 0 and c.ask("alloc(600)") == 2 and c.ask("total()") == 1024
    out = cli.ok("resize", "--memory", "2Gi", "r")
    assert out == "slice 'r', card 0: memory 1 GiB -> 2 GiB\n"
    assert c.ask("alloc(600)") == 0 and c.ask("total()") == 2048
    assert "generation 2" in quota(cli, "r")
    d, = cli.slice("r")["devices"]
    assert (d["limit_bytes"], d["used_bytes"]) == (2 * GIB, 1200 * MIB)
    assert "new limits are in force" in cli.ok("log", "r")
    cli.ok("resize", "--memory", "none", "r")
    assert c.ask("alloc(5000)") == 0 and c.ask("total()") == 8192
    assert end(c) == 0


def test_the_log_says_what_changed_and_on_which_card(make_cli):
    cli = make_cli(cards=2)
    c = Client(cli, "--memory", "1Gi,2Gi", "--device", "1,0", "--name", "r")  # the program's device 0 is card 1
    assert c.ask("alloc(600)") == 0
    cli.ok("resize", "--memory", "512Mi,2Gi", "--cores", "30,none", "r")
    assert c.ask("alloc(600)") == 2
    text = cli.ok("log", "r")
    for line in ("  card 1  memory 512 MiB, compute 30 % fixed from now on\n", "  card 1  600 MiB are in use and the",
                 "  card 1  cuMemAlloc: asked for 600 MiB"):
        assert text.count(line) == 1, (line, text)
    assert "card 0" not in text and "device" not in text  # there nothing changed
    assert end(c) == 0
    assert cli.ok("log", "r") == text


def test_the_query_alone_notices(cli):
    c = Client(cli, "--memory", "1Gi", "--name", "r")
    cli.ok("resize", "--memory", "512Mi", "r")
    assert c.ask("total()") == 512
    assert end(c) == 0


def test_below_what_is_in_use(cli):
    c = Client(cli, "--memory", "2Gi", "--name", "r")
    assert c.ask("alloc(1000)") == 0 and c.ask("alloc(500)") == 0
    out = cli("resize", "--memory", "1Gi", "r")
    assert out.returncode == 0 and "2 GiB -> 1 GiB" in out.stdout
    assert "nothing is freed" in out.stderr and "1.5 GiB are in use" in out.stderr
    assert c.ask("alloc(1)") == 2
    assert cli.slice("r")["devices"][0]["used_bytes"] == 1500 * MIB
    assert "nothing is freed, new allocations are refused" in cli.ok("log", "r")
    assert c.ask("free()") == 0 and c.ask("alloc(1)") == 0 and c.ask("alloc(100)") == 2
    assert end(c) == 0


def test_all_processes_follow(cli):
    a = Client(cli, "--memory", "1Gi", "--name", "r")
    b = Client(cli, "--join", "r")
    assert a.ask("alloc(500)") == 0 and b.ask("alloc(500)") == 0 and b.ask("alloc(500)") == 2
    cli.ok("resize", "--memory", "1600Mi", "r")
    assert b.ask("alloc(500)") == 0
    assert a.ask("alloc(500)") == 2 and a.ask("total()") == 1600 and b.ask("total()") == 1600
    c = Client(cli, "--join", "r")  # one that starts later
    assert c.ask("alloc(500)") == 2 and c.ask("alloc(100)") == 0
    assert [end(x) for x in (a, b, c)] == [0, 0, 0]


def test_before_any_program_has_used_a_card(cli):
    p = cli.start("--memory", "1Gi", "--name", "r")
    cli.ok("resize", "--memory", "3Gi", "--cores", "20", "r")
    c = Client(cli, "--join", "r")
    assert c.ask("total()") == 3072
    assert cli.slice("r")["devices"][0]["core_limit_pct"] == 20
    assert end(c) == 0 and end(p) == 0


def test_promises_hold(cli):
    a = Client(cli, "--memory", "4Gi", "--cores", "50", "--name", "a")
    b = cli.start("--memory", "3Gi", "--cores", "40", "--name", "b")
    before = quota(cli, "a")
    for args, words in ((["--memory", "6Gi"], "'b'"), (["--cores", "61"], "'b' 40 %"),
                        (["--memory", "5Gi", "--cores", "61"], "60 % left")):
        out = cli("resize", *args, "a")
        assert out.returncode == 1 and out.stdout == "" and words in out.stderr, args
        assert quota(cli, "a") == before
    assert a.ask("total()") == 4096
    cli.ok("resize", "--memory", "5Gi", "--cores", "60", "a")
    assert cli("run", "--memory", "1Gi", "true").returncode == 125  # nothing is left
    cli.ok("resize", "--memory", "1Gi", "a")
    assert cli("run", "--memory", "4Gi", "true").returncode == 0
    assert end(a) == 0 and end(b) == 0


def test_a_slice_that_may_exceed_the_card_may_grow_beyond_it(cli):
    a = cli.start("--memory", "6Gi", "--name", "a")
    b = Client(cli, "--memory", "4Gi", "--oversubscribe", "--name", "b")
    cli.ok("resize", "--memory", "7Gi", "b")
    out = cli("resize", "--memory", "7Gi", "a")
    assert out.returncode == 1
    cli.ok("resize", "--memory", "5Gi", "a")  # less is no new promise, however much there is
    assert end(a) == 0 and end(b) == 0


def test_shares_policies_priorities(cli):
    c = Client(cli, "--memory", "1Gi", "--name", "r")
    assert "compute not held -> 30 % fixed" in cli.ok("resize", "--cores", "30", "r")
    assert "30 % fixed -> 30 % elastic" in cli.ok("resize", "--policy", "elastic", "r")
    assert "30 % elastic -> 50 % elastic" in cli.ok("resize", "--cores", "50", "r")
    assert "priority low -> high" in cli.ok("resize", "--priority", "high", "r")
    assert c.ask("total()") == 1024  # the program has come by
    assert cli.ok("log", "r").count("priority high from now on\n") == 1
    assert "cores=50 policy=elastic" in quota(cli, "r") and "priority 0\n" in quota(cli, "r")
    assert "50 % elastic -> not held" in cli.ok("resize", "--cores", "none", "--priority", "low", "r")
    assert "cores=none policy=off" in quota(cli, "r") and "priority 1\n" in quota(cli, "r")
    assert "generation 6" in quota(cli, "r")
    assert cli.ok("resize", "--cores", "none", "r") == "slice 'r': nothing changes\n"
    assert "generation 6" in quota(cli, "r")
    assert end(c) == 0


def test_several_cards(make_cli):
    cli = make_cli(cards=2)
    p = cli.start("--memory", "1Gi,2Gi", "--name", "m")
    out = cli.ok("resize", "--memory", "2Gi,1Gi", "--cores", "10,20", "m")
    assert out.count("\n") == 4
    assert [(d["limit_bytes"], d["core_limit_pct"]) for d in cli.slice("m")["devices"]] == [(2 * GIB, 10), (GIB, 20)]
    cli.ok("resize", "--cores", "10,none", "m")
    assert "10 % fixed -> 10 % elastic" in cli.ok("resize", "--policy", "elastic", "m")  # there is one to hold
    cli.ok("resize", "--memory", "25%", "m")
    assert [d["limit_bytes"] for d in cli.slice("m")["devices"]] == [2 * GIB, 2 * GIB]
    assert cli("resize", "--memory", "1Gi,1Gi,1Gi", "m").returncode == 2
    assert end(p) == 0


@pytest.mark.parametrize("args", [["--memory", "0"], ["--memory", "12zb"], ["--memory="], ["--cores", "0"],
                                  ["--cores", "101"], ["--cores=-5"], ["--cores", "abc"], ["--cores", "10,20"],
                                  ["--cores", "none", "--policy", "elastic"], ["--policy", "fast"], ["--policy", "fixed"], ["--priority", "1"], []])
def test_bad_input_changes_nothing(cli, args):
    p = cli.start("--memory", "1Gi", "--name", "r")
    before = quota(cli, "r")
    out = cli("resize", *args, "r")
    assert out.returncode == 2 and out.stderr.startswith("gpuslice: ") and out.stderr.count("\n") == 1
    assert quota(cli, "r") == before
    assert end(p) == 0


def test_no_such_slice(cli):
    out = cli("resize", "--memory", "1Gi", "nobody")
    assert out.returncode == 1 and "gpuslice ls" in out.stderr


def test_a_ledger_that_is_none_is_not_written(cli):
    p = cli.start("--memory", "1Gi", "--name", "r")
    ledger = cli.runtime / "gpuslice" / "r" / "slice.cache"
    junk = b"not a ledger " * 300000
    ledger.write_bytes(junk)
    out = cli("resize", "--memory", "2Gi", "r")
    assert out.returncode == 1 and "damaged" in out.stderr
    assert ledger.read_bytes() == junk
    assert end(p) == 0


def test_killed_at_any_moment(cli):
    """The old limits or the new ones, never a part; and the next resize works."""
    c = Client(cli, "--memory", "1Gi", "--name", "r")
    rng = random.Random(4)
    for i in range(40):
        p = subprocess.Popen([str(cli.exe), "resize", "--memory", "2Gi" if i % 2 else "1Gi", "r"], env=cli.env,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            p.wait(rng.uniform(0, 0.04))
        except subprocess.TimeoutExpired:
            p.send_signal(signal.SIGKILL)
            p.wait()
        assert re.fullmatch(r"gpuslice-quota 1\ngeneration \d+\nfail closed\n"
                            r"device GPU-\S+ memory=(1073741824|2147483648) cores=none policy=off\n", quota(cli, "r"))
        assert c.ask("total()") in (1024, 2048)
    cli.ok("resize", "--memory", "3Gi", "r")
    assert c.ask("total()") == 3072 and c.ask("alloc(2900)") == 0
    assert end(c) == 0
    assert cli.names() == []
