"""gpuslice top and ls: the JSON interface, the text, the live view, and processes that are not held."""

import fcntl
import json
import os
import re
import struct
import subprocess
import sys
import termios
import time

import pytest

from conftest import GIB, MIB
from cli_tools import Terminal, cli, end, make_cli, read_line  # noqa: F401 (fixtures)

# Takes 64 MiB and waits for its input to end.
HOLD = ("import ctypes,os,sys\nc=ctypes.CDLL('libcuda.so.1')\nx=ctypes.c_void_p()\nassert c.cuInit(0)==0\n"
        "assert c.cuDevicePrimaryCtxRetain(ctypes.byref(x),0)==0 and c.cuCtxSetCurrent(x)==0\n"
        "p=ctypes.c_uint64()\nassert c.cuMemAlloc_v2(ctypes.byref(p),ctypes.c_size_t(64<<20))==0\n"
        "print(os.getpid(),flush=True)\nsys.stdin.read()\n")


def hold(cli, *before, options=("--memory", "1Gi", "--name", "h")):
    p = subprocess.Popen([str(cli.exe), "run", *options, "--", *before, sys.executable, "-c", HOLD], env=cli.env,
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    cli.started.append(p)
    return p, int(read_line(p.stdout))


def test_json_has_exactly_the_agreed_keys(cli):
    p, pid = hold(cli, options=("--memory", "1Gi", "--cores", "40", "--name", "h"))
    top = cli.top()
    assert list(top) == ["version", "cards", "slices"] and top["version"] == 1
    card, = top["cards"]
    assert list(card) == ["uuid", "index", "name", "total_bytes", "used_bytes", "util_pct",
                          "promised_core_pct"]
    assert card["promised_core_pct"] == 40
    assert card["total_bytes"] == 8 * GIB and card["index"] == 0 and card["used_bytes"] >= 64 * MIB
    s, = top["slices"]
    assert list(s) == ["name", "state", "devices", "processes"] and (s["name"], s["state"]) == ("h", "running")
    d, = s["devices"]
    assert list(d) == ["uuid", "limit_bytes", "used_bytes", "core_limit_pct", "core_used_pct", "core_used_1s_pct",
                       "core_used_10s_pct", "share_now_pct", "wait_ms_per_s", "policy", "priority", "managed_bytes"]
    assert (d["uuid"], d["limit_bytes"], d["used_bytes"]) == (card["uuid"], GIB, 64 * MIB)
    assert (d["core_limit_pct"], d["policy"], d["priority"]) == (40, "fixed", "low")  # as `run --help` says of a share
    assert (d["core_used_1s_pct"], d["core_used_10s_pct"], d["wait_ms_per_s"], d["managed_bytes"]) == (0, 0, 0, 0)
    assert d["share_now_pct"] == 40
    assert s["processes"] == [{"pid": pid, "used_bytes": 64 * MIB, "held": True}]
    assert json.loads(cli.ok("ls", "--json")) == {"version": 1, "slices": [
        {**s, "devices": [{**d, "core_used_pct": None}]}]}
    assert end(p) == 0
    assert cli.top()["slices"] == []


def test_a_process_without_the_hook_is_not_held(cli):
    p, pid = hold(cli, "env", "-u", "LD_PRELOAD")
    assert "cannot be held" in os.read(p.stderr.fileno(), 1000).decode()
    assert cli.slice("h")["processes"] == [{"pid": pid, "used_bytes": 64 * MIB, "held": False}]
    assert "NOT HELD" in cli.ok("top", "--once")
    assert end(p) == 0


def test_a_process_without_any_environment_is_found_by_its_parents(cli):
    p, pid = hold(cli, "env", "-i", f"LD_LIBRARY_PATH={cli.env['LD_LIBRARY_PATH']}",
                  f"GPUSLICE_SIM_DIR={cli.env['GPUSLICE_SIM_DIR']}")
    assert [(x["pid"], x["held"]) for x in cli.slice("h")["processes"]] == [(pid, False)]
    assert end(p) == 0


def test_one_that_joined_and_lost_the_hook_is_found_too(cli):
    a = cli.start("--memory", "1Gi", "--name", "h")
    p, pid = hold(cli, "env", "-i", f"LD_LIBRARY_PATH={cli.env['LD_LIBRARY_PATH']}",
                  f"GPUSLICE_SIM_DIR={cli.env['GPUSLICE_SIM_DIR']}", options=("--join", "h"))
    assert [(x["pid"], x["held"]) for x in cli.slice("h")["processes"]] == [(pid, False)]
    assert end(p) == 0 and end(a) == 0


def test_strict_does_not_start_what_cannot_be_held(cli):
    out = cli("run", "--memory", "1Gi", "--strict", "--", "env", "-i", "true")
    assert out.returncode == 125 and "--strict" in out.stderr and cli.names() == []


def test_strangers_are_shown_outside(cli):
    p = subprocess.Popen([sys.executable, "-c", HOLD], env=cli.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         text=True)
    pid = int(read_line(p.stdout))
    text = cli.ok("top", "--once")
    assert "Outside any slice" in text and str(pid) in text
    p.communicate("")


def test_text_has_no_escapes_in_a_pipe_and_ends(cli):
    p = cli.start("--memory", "2Gi", "--name", "t")
    out = cli.ok("top", timeout=30)
    assert "\033" not in out and "t  running" in out and "2 GiB" in out and "8 GiB" in out
    assert end(p) == 0
    lines = subprocess.run(f"'{cli.exe}' top --json --interval 0.1 | head -n 3", shell=True, env=cli.env, text=True,
                           stdout=subprocess.PIPE, timeout=30).stdout.splitlines()
    assert len(lines) == 3 and all(json.loads(x)["version"] == 1 for x in lines)


def test_live_view_refreshes_and_q_quits(cli):
    t = Terminal([str(cli.exe), "top", "--interval", "0.1"], {**cli.env, "TERM": "xterm"})
    seen = t.until(b"\033[H") + t.until(b"\033[H") + t.until(b"\033[H")
    t.type(b"q")
    text, status = t.end()
    assert status == 0 and b"CARD" in seen and text.rstrip().endswith(b"\033[?1049l")


def rows_of(screen, columns):
    """Frames of the live view as lines of text."""
    for frame in screen.split("\033[H")[2:-1]:
        assert "\033[2J" not in frame and "\033[J" in frame
        lines = [x.replace("\033[K", "") for x in frame.split("\033[J")[0].splitlines()]
        assert max(len(x) for x in lines) <= columns
        yield lines


def test_live_view_fits_the_terminal(cli):
    p = cli.start("--memory", "2Gi", "--cores", "30", "--policy", "elastic", "--priority", "high", "--name", "s",
                  code="echo ready; cat # " + "x" * 200)
    for columns in (80, 60, 200):
        t = Terminal([str(cli.exe), "top", "--interval", "0.1"], {**cli.env, "TERM": "xterm"})
        fcntl.ioctl(t.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        t.until(b"\033[J")  # may have been drawn before it had this size
        seen = b"\033[J" + t.until(b"\033[J") + t.until(b"\033[J") + t.until(b"\033[H") + t.until(b"\033[H")
        t.type(b"q")
        assert t.end()[1] == 0
        frames = list(rows_of("\033[H" + seen.decode(), columns))
        assert frames
        for lines in frames:
            assert "2 GiB" in "".join(lines) and "of 30 % elastic" in "".join(lines), lines
            assert ("GPU-" in lines[1]) == (columns == 200)
    assert end(p) == 0


def test_why_there_are_no_cards_stays_on_the_screen(cli, tmp_path):
    t = Terminal([str(cli.exe), "top"], {**cli.env, "TERM": "xterm", "LD_LIBRARY_PATH": str(tmp_path)})
    text, status = t.end()
    assert status == 1 and text.split(b"\033[?1049l")[1].startswith(b"gpuslice: ")


def test_promised_compute_is_shown(make_cli):
    cli = make_cli(cards=2)
    a = cli.start("--cores", "30", "--device", "0", "--name", "a")
    b = cli.start("--cores", "40,20", "--memory", "1Gi", "--device", "0,1", "--name", "b")
    c = cli.start("--cores", "50", "--policy", "off", "--device", "1", "--name", "c")
    assert [x["promised_core_pct"] for x in cli.top()["cards"]] == [70, 20]
    text = cli.ok("top", "--once")
    assert re.search(r"0 %  +1 GiB, 70 %  +GPU", text) and re.search(r"0 %  +1 GiB, 20 %  +GPU", text)
    rows = {x.split()[0]: re.split("  +", x.strip()) for x in cli.ok("ls").splitlines()}
    assert [rows[x][2:4] for x in "abc"] == [["none, 30 %", "0 B"], ["1 GiB, 40 %; 1 GiB, 20 %", "0 B; 0 B"],
                                             ["none", "0 B"]]
    assert [end(p) for p in (a, b, c)] == [0, 0, 0]


def test_a_slice_that_has_used_nothing_used_nothing(cli):
    p = cli.start("--cores", "30", "--name", "s")
    q = cli.start("--cores", "60", "--policy", "off", "--memory", "1Gi", "--name", "t")
    d, = cli.slice("s")["devices"]
    assert [d[k] for k in ("core_used_pct", "core_used_1s_pct", "core_used_10s_pct", "share_now_pct", "wait_ms_per_s",
                           "managed_bytes")] == [0, 0, 0, 30, 0, 0]
    text = cli.ok("top", "--once")
    assert "compute 0.0 of 30 % fixed, 10 s 0.0 %, waits 0 %\n" in text
    assert "compute 0 of 60 % off\n" in text
    assert "?" not in text
    for out in (text, cli.ok("ls")):
        assert all(line == line.rstrip() for line in out.splitlines())
    assert end(p) == 0 and end(q) == 0


def test_shares_are_rounded_not_cut(cli):
    """A share of 19.97 % is not 19.9: a history written into the ledger (layout: contract/ledger.h) has it."""
    p, _ = hold(cli, options=("--memory", "1Gi", "--cores", "30", "--name", "h"))
    ms, bins, bits = 10**6, 128, 37
    device_at = 2011136 + 4096 + 1024 * 128 + 1024 * 160 + 512 * 112
    epoch = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // (100 * ms)
    history = [0] * bins
    for e in range(epoch - 10, epoch + 117):  # for all that `top` may look at within the next ten seconds
        history[e % bins] = (e << bits | 19_970_000) % 2**64
    with open(cli.runtime / "gpuslice" / "h" / "slice.cache", "r+b") as f:
        f.seek(device_at + 320)
        f.write(struct.pack("<128Q", *history))
    assert cli.slice("h")["devices"][0]["core_used_1s_pct"] == 20.0
    assert "compute 20.0 of 30 % fixed" in cli.ok("top", "--once")
    assert end(p) == 0


def test_a_clock_that_was_set_back_makes_no_shares(cli):
    """The moment at which the ledger was made lies ahead then: 3 s of card time are 30 % of ten seconds, not 300."""
    p, _ = hold(cli, options=("--memory", "1Gi", "--cores", "40", "--name", "h"))
    device_at = 2011136 + 4096 + 1024 * 128 + 1024 * 160 + 512 * 112
    with open(cli.runtime / "gpuslice" / "h" / "slice.cache", "r+b") as f:
        head = f.seek(2011136)
        words = struct.unpack("<64Q", f.read(512))
        now = time.time_ns()
        made, = [i for i, w in enumerate(words) if now - 60 * 10**9 < w <= now]  # created_ns
        f.seek(head + 8 * made)
        f.write(struct.pack("<Q", now + 3600 * 10**9))
        epoch = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 10**8
        history = [0] * 128
        for e in range(epoch - 105, epoch + 22):
            history[e % 128] = (e << 37 | 30_000_000) % 2**64
        f.seek(device_at + 320)
        f.write(struct.pack("<128Q", *history))
    assert cli.slice("h")["devices"][0]["core_used_10s_pct"] == pytest.approx(30, abs=7)  # a few bins may have passed
    assert end(p) == 0


def test_bad_options(cli):
    for args in (["--interval", "0"], ["--interval", "nan"], ["--interval", "1e9"], ["--interval", "x"], ["extra"],
                 ["--bogus"]):
        out = cli("top", *args)
        assert out.returncode == 2 and out.stderr.count("\n") == 1, args
    for command in ("run", "top", "ls", "rm", "log"):
        assert f"Usage: gpuslice {command}" in cli.ok(command, "--help")
    assert cli("bogus").returncode == 2 and cli().returncode == 2
    assert cli.ok("--version").startswith("gpuslice ")


def test_output_that_cannot_be_written_is_told(cli):
    with open("/dev/full", "w") as full:
        out = subprocess.run([cli.exe, "top", "--once"], env=cli.env, stdout=full, stderr=subprocess.PIPE, text=True)
    assert out.returncode == 1 and "space" in out.stderr.lower()


# Held, but then goes past the hook: calls the driver's function by its address in the file.
PAST = HOLD.replace(
    "print(os.getpid()",
    "import subprocess\npath=next(l.split()[-1] for l in open('/proc/self/maps') if 'libcuda.so.1' in l)\n"
    "base=min(int(l.split('-')[0],16) for l in open('/proc/self/maps') if path in l)\n"
    "env={k:v for k,v in os.environ.items() if k!='LD_PRELOAD'}\n"
    "at=next(int(l.split()[0],16) for l in subprocess.run(['nm','-D',path],env=env,text=True,"
    "stdout=subprocess.PIPE).stdout.splitlines() if l.split()[-1].split('@')[0]=='cuMemAlloc_v2')\n"
    "f=ctypes.CFUNCTYPE(ctypes.c_int,ctypes.c_void_p,ctypes.c_size_t)(base+at)\n"
    "assert f(ctypes.addressof(p),512<<20)==0\nprint(os.getpid()")


def test_memory_taken_past_the_hook_is_told(cli):
    """The driver's own figure of a process against the books of its slice."""
    p = subprocess.Popen([str(cli.exe), "run", "--memory", "128Mi", "--name", "h", "--", sys.executable, "-c", PAST],
                         env=cli.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    cli.started.append(p)
    pid = int(read_line(p.stdout))
    assert cli.slice("h")["processes"] == [{"pid": pid, "used_bytes": 576 * MIB, "held": False}]
    assert "NOT HELD" in cli.ok("top", "--once")
    assert end(p) == 0
