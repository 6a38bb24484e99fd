"""gpuslice suspend and resume, HAMi's signals and status word, and programs that use the signals themselves."""

import json
import mmap
import os
import signal
import struct

from cli_tools import Client, cli, end, make_cli, until  # noqa: F401 (fixtures)

SLOT0_STATUS = 1856 + 1928  # HAMi's region 1.2: slots begin at 1856, status is at 1928 of each


def waits(cli, name="s"):
    """Until the log of the slice tells that an allocation waits."""
    return until(lambda: "the slice is suspended" in cli.ok("log", name))


def test_allocations_wait_until_resumed(cli):
    c = Client(cli, "--memory", "1Gi", "--name", "s")
    assert c.ask("alloc(100)") == 0
    assert cli.ok("suspend", "s") == "slice 's': 1 process suspended\n"
    assert cli.slice("s")["state"] == "suspended" and "suspended" in cli.ok("ls")
    assert c.ask("total()") == 1024 and c.ask("free()") == 0  # asking and freeing do not wait
    c.tell("alloc(100)")
    assert waits(cli)
    assert "cuMemAlloc: waits" in cli.ok("log", "s")
    assert cli.ok("suspend", "s") == "slice 's': already suspended\n"
    assert cli.ok("resume", "s") == "slice 's': 1 process resumed\n"
    assert c.answer() == 0
    assert cli.ok("resume", "s") == "slice 's': already running, not suspended\n"
    assert cli.slice("s")["state"] == "running"
    assert end(c) == 0


def test_a_small_allocation_that_waits_is_told_by_name(cli):
    """One that shares the driver's block with others takes a way of its own."""
    c = Client(cli, "--memory", "1Gi", "--name", "s")
    cli.ok("suspend", "s")
    c.tell("c.cuMemAlloc_v2(C.byref(C.c_uint64()), C.c_size_t(4096))")
    assert waits(cli)
    assert "cuMemAlloc: waits" in cli.ok("log", "s")
    cli.ok("resume", "s")
    assert c.answer() == 0
    assert end(c) == 0


def test_programs_that_start_later_are_held_up_too(cli):
    a = Client(cli, "--memory", "1Gi", "--name", "s")
    cli.ok("suspend", "s")
    b = Client(cli, "--join", "s")  # a context is no allocation of the program's
    b.tell("alloc(10)")
    assert waits(cli)
    assert cli.ok("resume", "s") == "slice 's': 2 processes resumed\n"
    assert b.answer() == 0 and a.ask("alloc(10)") == 0
    assert end(a) == 0 and end(b) == 0


def test_hamis_signals(cli):
    c = Client(cli, "--memory", "1Gi", "--name", "s")
    os.kill(c.pid, signal.SIGUSR2)
    until(lambda: cli.slice("s")["state"] == "suspended")
    c.tell("alloc(10)")
    assert waits(cli)
    os.kill(c.pid, signal.SIGUSR1)
    assert c.answer() == 0
    assert cli.slice("s")["state"] == "running"
    assert end(c) == 0


def test_a_status_written_from_outside_is_obeyed(cli):
    c = Client(cli, "--memory", "1Gi", "--name", "s")
    with open(cli.runtime / "gpuslice" / "s" / "slice.cache", "r+b") as f, mmap.mmap(f.fileno(), 1 << 20) as m:
        assert struct.unpack_from("<i", m, SLOT0_STATUS) == (1,)
        struct.pack_into("<i", m, SLOT0_STATUS, 2)
        c.tell("alloc(10)")
        assert waits(cli)
        struct.pack_into("<i", m, SLOT0_STATUS, 1)
        assert c.answer() == 0
    assert end(c) == 0


def test_a_programs_own_handlers_stay_its_own(cli):
    c = Client(cli, "--memory", "1Gi", "--name", "s", before="own_handlers()")
    out = cli("suspend", "s")
    assert out.returncode == 0 and "uses SIGUSR1 or SIGUSR2 itself" in out.stderr
    c.tell("alloc(10)")
    assert waits(cli)
    cli.ok("resume", "s")
    assert c.answer() == 0 and c.ask("own") == []  # nobody sent it anything
    os.kill(c.pid, signal.SIGUSR1)
    os.kill(c.pid, signal.SIGUSR2)
    assert c.ask("sorted(own)") == [signal.SIGUSR1, signal.SIGUSR2]
    assert cli.slice("s")["state"] == "running"
    assert end(c) == 0


def test_signals_can_be_left_alone(cli):
    c = Client(cli, "--memory", "1Gi", "--name", "s", env={**cli.env, "GPUSLICE_SIGNALS": "off"})
    os.kill(c.pid, signal.SIGUSR2)
    assert c.p.wait(30) == 128 + signal.SIGUSR2


def test_one_that_waits_can_be_ended(cli):
    c = Client(cli, "--memory", "1Gi", "--name", "s")
    cli.ok("suspend", "s")
    c.tell("alloc(10)")
    assert waits(cli)
    os.kill(c.pid, signal.SIGTERM)
    assert c.p.wait(30) == 128 + signal.SIGTERM
    assert cli.names() == []


def test_an_exec_is_not_hit_by_the_signal(cli):
    """The slot of a process that has become another program is still there; the signal would end that program."""
    c = Client(cli, "--memory", "1Gi", "--name", "s")
    c.tell("os.execvp('sh', ['sh', '-c', 'echo 7; read x; echo 8'])")
    assert c.answer() == 7
    cli.ok("suspend", "s")
    cli.ok("resume", "s")
    assert c.ask("") == 8
    assert c.p.wait(30) == 0


def test_nothing_to_suspend(cli):
    p = cli.start("--memory", "1Gi", "--name", "s")
    out = cli("suspend", "s")
    assert out.returncode == 1 and "no program of it has used a card yet" in out.stderr
    assert cli("suspend", "nobody").returncode == 1 and cli("resume", "nobody").returncode == 1
    assert end(p) == 0


def test_suspend_is_recorded_in_the_trace(cli, tmp_path):
    trace = tmp_path / "t.json"
    trace.write_text("old")
    c = Client(cli, "--memory", "1Gi", "--name", "s", "--trace", trace)
    assert json.loads(trace.read_text() + "]") == [json.loads(trace.read_text()[2:])]
    for n in range(2):
        cli.ok("suspend", "s")
        c.tell("alloc(10)")
        until(lambda: cli("log", "s").stdout.count("the slice is suspended") == n + 1)
        cli.ok("resume", "s")
        assert c.answer() == 0
    head, name, *events = json.loads(trace.read_text() + "]")
    assert head["ph"] == name["ph"] == "M" and (name["name"], name["pid"]) == ("process_name", c.pid)
    assert [(e["name"], e["ph"], e["pid"], e["args"]["what"], e["cat"]) for e in events] == [
        ("wait: suspend", "X", c.pid, "cuMemAlloc", "gpuslice")] * 2
    assert all(e["dur"] >= 100 and e["ts"] > 0 and e["tid"] == c.pid for e in events)
    assert events[0]["args"]["device"] == cli.top()["cards"][0]["uuid"]
    assert end(c) == 0
    assert json.loads(trace.read_text()) == [head, name, *events]


def test_a_trace_is_closed_by_who_leaves_last(cli, tmp_path):
    """Not while another program of the slice may add to it, and only what is a trace."""
    trace = tmp_path / "t.json"
    a = cli.start("--name", "s", "--trace", trace)
    b = cli.start("--join", "s")
    assert end(a) == 0
    assert not trace.read_text().endswith("]\n") and json.loads(trace.read_text() + "]")
    assert end(b) == 0
    a = cli.start("--name", "s", "--trace", trace)
    trace.write_text("mine\n")
    assert end(a) == 0 and trace.read_text() == "mine\n"


def test_trace_files_that_cannot_be(cli, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for bad in (tmp_path, tmp_path / "no" / "file", tmp_path / "fifo", "/dev/null", ""):
        out = cli("run", "--trace", bad, "true")
        assert out.returncode == 125 and "--trace" in out.stderr and out.stderr.count("\n") == 1, bad
    assert cli.names() == []
