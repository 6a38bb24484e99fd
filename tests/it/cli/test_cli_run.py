"""gpuslice run: exit status, signals, the slice's life, what it refuses and how it says so."""

import os
import pathlib
import signal
import stat
import shutil
import subprocess
import sys

import pytest

from conftest import GIB, stage_dir
from cli_tools import SIGNALS, Terminal, cli, end, make_cli, read_line, wait_gone  # noqa: F401 (fixtures)


@pytest.mark.parametrize("code,status", [("exit 0", 0), ("exit 7", 7), ("exit 255", 255), ("kill -9 $$", 137),
                                         ("kill -TERM $$", 143), ("kill -SEGV $$", 139)])
def test_exit_status_is_the_childs(cli, code, status):
    assert cli("run", "--memory", "1Gi", "--", "sh", "-c", code).returncode == status


def test_exit_status_when_not_started(cli, tmp_path):
    plain = tmp_path / "plain"
    plain.write_text("x")
    out = cli("run", "--memory", "1Gi", "no-such-program-here")
    assert out.returncode == 127 and "no-such-program-here" in out.stderr
    assert cli("run", "--memory", "1Gi", str(plain)).returncode == 126
    assert cli("run", "--frobnicate", "true").returncode == 125
    assert cli("run").returncode == 125
    assert cli.names() == []


def test_output_and_input_pass_untouched(cli):
    out = cli("run", "--memory", "1Gi", "--", "sh", "-c", "cat; echo err >&2", input="a\0b\n")
    assert out.stdout == "a\0b\n" and out.stderr == "err\n"


def test_environment(cli):
    env = {**cli.env, "LD_PRELOAD": "/usr/lib/x86_64-linux-gnu/libm.so.6"}
    out = cli("run", "--memory", "1Gi", "--name", "e1", "--", "env", env=env).stdout
    got = dict(line.split("=", 1) for line in out.splitlines() if "=" in line)
    card = cli.top()["cards"][0]["uuid"]
    folder = str(cli.runtime / "gpuslice" / "e1")
    hook = str((stage_dir() / "lib" / "gpuslice" / "libvgpu.so").resolve())
    assert got["LD_PRELOAD"] == f"{hook}:/usr/lib/x86_64-linux-gnu/libm.so.6"
    assert got["GPUSLICE_QUOTA_DIR"] == folder
    assert got["CUDA_DEVICE_MEMORY_SHARED_CACHE"] == f"{folder}/slice.cache"
    assert got["GPUSLICE_NAME"] == "e1"
    assert got["CUDA_VISIBLE_DEVICES"] == card
    out = cli("run", "--memory", "1Gi", "--device", "all", "--", "env").stdout
    assert "CUDA_VISIBLE_DEVICES" not in out


def test_quota_file_and_folder(cli):
    p = cli.start("--memory", "1536Mi", "--cores", "30", "--name", "q")
    folder = cli.runtime / "gpuslice" / "q"
    card = cli.top()["cards"][0]["uuid"]
    assert (folder / "quota").read_text() == (
        "gpuslice-quota 1\ngeneration 1\nfail closed\n"
        f"device {card} memory={1536 << 20} cores=30 policy=fixed\n")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert all(stat.S_IMODE(f.stat().st_mode) == 0o600 for f in folder.iterdir())
    assert end(p) == 0
    assert not folder.exists()


@pytest.mark.parametrize("signo", SIGNALS)
def test_signals_are_forwarded(cli, signo):
    name = signal.Signals(signo).name[3:]
    if signal.getsignal(signo) is signal.SIG_IGN:  # as nohup leaves it: no shell could trap it
        signal.signal(signo, signal.SIG_DFL)
    p = cli.start("--memory", "1Gi", code=f'trap "echo got {name}; exit 9" {name}; echo ready; while :; do sleep 1; done')
    p.send_signal(signo)
    assert read_line(p.stdout) == f"got {name}"
    assert p.wait(30) == 9


def test_ctrl_c_reaches_the_child_once(cli):
    """On a terminal the whole foreground group gets the signal: the parent must not send a second one."""
    # waits for the signal: a handler of Python's runs late where the signal comes just before a read
    code = ('import signal,sys\ns={signal.SIGINT}\nsignal.pthread_sigmask(signal.SIG_BLOCK,s)\nprint("ready",flush=True)\n'
            'signal.sigwait(s)\nprint("got 1",flush=True)\nsys.stdin.readline()\n'
            'print("count",1+(signal.sigtimedwait(s,0) is not None),flush=True)\n')
    t = Terminal([str(cli.exe), "run", "--memory", "1Gi", "--", sys.executable, "-c", code], cli.env)
    t.until(b"ready")
    t.type(b"\x03")
    t.until(b"got 1\r\n")
    t.type(b"\n")
    text, status = t.end()
    assert b"count 1" in text and status == 0


def test_ctrl_z_stops_both_and_continues(cli):
    """A shell with job control sees its job stop, and `fg` continues the program."""
    inner = 'echo be""gun; read x; echo "en""ded-$x"'
    t = Terminal(["/bin/bash", "--norc", "-c",
                  f"set -m; {cli.exe} run --memory 1Gi -- sh -c '{inner}'; echo sta'tus' $?; fg; echo sta'tus' $?"],
                 cli.env)
    t.until(b"begun")
    t.type(b"\x1a")
    t.until(b"status 148")  # 128 + SIGTSTP
    t.until(b"run --memory")  # fg names the job it continues
    t.type(b"well\n")
    t.until(b"ended-well")
    text, status = t.end()
    assert b"status 0" in text and status == 0


def test_orphans_keep_the_slice_and_the_next_command_collects_it(cli):
    p = cli.start("--memory", "1Gi", "--name", "o", code="setsid sleep 1000 >/dev/null 2>&1 & echo $!")
    orphan = int(p.first_line)
    assert p.wait(30) == 0
    try:
        assert cli.slice("o")["state"] == "orphaned"
        out = cli("rm", "o")
        assert out.returncode == 1 and "--force" in out.stderr
    finally:
        os.kill(orphan, signal.SIGKILL)
    wait_gone(orphan)
    assert cli.names() == []
    assert not (cli.runtime / "gpuslice" / "o").exists()


def test_killed_parent_leaves_the_program_and_a_slice_that_is_collected(cli):
    p = cli.start("--memory", "6Gi", "--name", "k", code="echo $$; exec sleep 1000")
    child = int(p.first_line)
    p.kill()
    p.wait()
    try:
        assert cli.slice("k")["state"] == "orphaned"
        assert cli("run", "--memory", "6Gi", "true").returncode == 125  # still promised
    finally:
        os.kill(child, signal.SIGKILL)
    wait_gone(child)
    assert cli("run", "--memory", "6Gi", "true").returncode == 0


def test_orphans_stay_in_the_tree(cli):
    """A double fork does not leave: the parent adopts what its tree loses."""
    p = cli.start("--memory", "1Gi", code="o=$(sleep 1000 >/dev/null 2>&1 & echo $!); echo $o; cat")
    orphan = int(p.first_line)
    stat_line = pathlib.Path(f"/proc/{orphan}/stat").read_text().rsplit(")", 1)[1].split()
    assert int(stat_line[1]) == p.pid
    os.kill(orphan, signal.SIGKILL)
    assert end(p) == 0


def test_promises_add_up(cli):
    a = cli.start("--memory", "5Gi", "--name", "a")
    out = cli("run", "--memory", "4Gi", "true")
    assert out.returncode == 125
    assert "8 GiB" in out.stderr and "5 GiB" in out.stderr and "'a'" in out.stderr and "--oversubscribe" in out.stderr
    assert out.stderr.count("\n") == 1
    assert cli("run", "--memory", "3Gi", "true").returncode == 0
    assert cli("run", "--memory", "4Gi", "--oversubscribe", "true").returncode == 0
    assert end(a) == 0
    assert cli("run", "--memory", "8Gi", "true").returncode == 0


def test_promises_hold_when_many_start_at_once(cli):
    """Twelve ask for 1 GiB of 8 at one moment: exactly eight get it."""
    script = "echo ready; cat"
    ps = [subprocess.Popen([str(cli.exe), "run", "--memory", "1Gi", "--name", f"n{i}", "--", "sh", "-c", script],
                           env=cli.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           text=True) for i in range(12)]
    cli.started += ps
    got = [p.stdout.readline() for p in ps]
    assert got.count("ready\n") == 8 and got.count("") == 4
    assert sorted(end(p) for p in ps) == [0] * 8 + [125] * 4
    assert cli.names() == []


def test_least_promised_card_first(make_cli):
    cli = make_cli(cards=2)
    uuid = [c["uuid"] for c in cli.top()["cards"]]
    for name, card in (("a", 0), ("b", 1), ("c", 0)):
        cli.start("--memory", "2Gi", "--name", name)
        assert cli.slice(name)["devices"][0]["uuid"] == uuid[card], name


def test_several_cards_with_a_limit_each(make_cli):
    cli = make_cli(cards=3)
    uuid = [c["uuid"] for c in cli.top()["cards"]]
    p = cli.start("--memory", "1Gi,2Gi", "--device", f"2,{uuid[0]}", "--name", "m")
    assert [(d["uuid"], d["limit_bytes"]) for d in cli.slice("m")["devices"]] == [(uuid[2], GIB), (uuid[0], 2 * GIB)]
    assert end(p) == 0


def test_join_shares_the_slice(cli):
    a = cli.start("--memory", "2Gi", "--name", "j")
    b = cli.start("--join", "j", code="echo $GPUSLICE_QUOTA_DIR:$CUDA_VISIBLE_DEVICES; cat")
    assert b.first_line == f"{cli.runtime}/gpuslice/j:{cli.top()['cards'][0]['uuid']}"
    assert end(a) == 0
    assert cli.slice("j")["state"] == "running"  # held by the one who joined
    assert end(b) == 0
    assert cli.names() == []
    out = cli("run", "--join", "j", "true")
    assert out.returncode == 125 and "gpuslice ls" in out.stderr
    assert cli("run", "--join", "j", "--memory", "1Gi", "true").returncode == 125


def test_names(cli):
    a = cli.start("--memory", "1Gi", "--name", "x.y-1_Z")
    out = cli("run", "--memory", "1Gi", "--name", "x.y-1_Z", "true")
    assert out.returncode == 125 and "exists" in out.stderr
    for bad in ("", ".", "..", "../x", "a/b", "-x", "a b", "a" * 64, "\033[2J"):
        out = cli("run", "--memory", "1Gi", f"--name={bad}", "true")
        assert out.returncode == 125 and "--name" in out.stderr and "\033" not in out.stderr
    assert end(a) == 0


@pytest.mark.parametrize("size", ["0", "-1", "1e999", "12zb", "0x10", "", "101%", "99999999999999999999", "9Gi", "1,1"])
def test_bad_sizes_are_one_line(cli, size):
    out = cli("run", f"--memory={size}", "true")
    assert out.returncode == 125
    assert out.stderr.startswith("gpuslice: ") and out.stderr.count("\n") == 1
    assert cli.names() == []


def test_slices_do_not_nest(cli):
    out = cli("run", "--memory", "1Gi", "--name", "outer", "--", cli.exe, "run", "--memory", "4Gi", "true")
    assert out.returncode == 125 and "inside slice 'outer'" in out.stderr


def test_rm_force_ends_the_programs(cli):
    p = cli.start("--memory", "1Gi", "--name", "f", code='trap "" TERM; echo $$; exec sleep 1000')
    inner = int(p.first_line)
    out = cli("rm", "f")
    assert out.returncode == 1 and cli.names() == ["f"]
    assert cli("rm", "--force", "f").returncode == 0
    assert p.wait(30) == 137
    wait_gone(inner)
    assert cli.names() == []
    assert cli("rm", "f").returncode == 1


def test_folder_that_is_a_trap_is_refused(cli, tmp_path):
    base = cli.runtime / "gpuslice"
    base.symlink_to(tmp_path)
    out = cli("run", "--memory", "1Gi", "true")
    assert out.returncode == 125 and "symbolic link" in out.stderr
    base.unlink()
    base.mkdir(mode=0o755)
    os.chmod(base, 0o755)
    out = cli("run", "--memory", "1Gi", "true")
    assert out.returncode == 125 and "chmod 700" in out.stderr
    assert list(tmp_path.iterdir()) == []


def test_damaged_slices_do_not_stop_the_others(cli):
    p = cli.start("--memory", "1Gi", "--name", "good")
    bad = cli.start("--memory", "1Gi", "--name", "bad")
    folder = cli.runtime / "gpuslice" / "bad"
    (folder / "quota").write_bytes(b"\0" * 100)
    (folder / "owner").write_text("x" * 5000)
    (folder / "slice.cache").write_bytes(os.urandom(5000))
    (cli.runtime / "gpuslice" / "stray").mkdir(mode=0o700)
    assert cli.slice("bad")["state"] == "damaged"
    assert cli.slice("good")["state"] == "running"
    assert "good" in cli.ok("ls") and "bad" in cli.ok("top")
    assert cli("log", "bad").returncode == 1
    assert cli("run", "--join", "bad", "true").returncode == 125
    assert end(bad) == 0 and end(p) == 0
    assert cli.names() == []


HOLDS_A_CONTEXT = ("import ctypes,sys\nc=ctypes.CDLL('libcuda.so.1')\nx=ctypes.c_void_p()\nassert c.cuInit(0)==0\n"
                   "assert c.cuDevicePrimaryCtxRetain(ctypes.byref(x),0)==0\nprint('on',flush=True)\nsys.stdin.read()\n")


def test_a_spoiled_quota_frees_no_promise(cli):
    """Its programs are held to what the ledger says, and so is what is promised."""
    p = subprocess.Popen([str(cli.exe), "run", "--cores", "70", "--memory", "64Mi", "--name", "spoilt", "--",
                          sys.executable, "-c", HOLDS_A_CONTEXT],
                         env=cli.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    cli.started.append(p)
    assert read_line(p.stdout) == "on"
    (cli.runtime / "gpuslice" / "spoilt" / "quota").write_bytes(b"\0" * 100)
    assert cli.slice("spoilt")["state"] == "damaged"
    out = cli("run", "--cores", "40", "true")
    assert out.returncode == 125 and "'spoilt' 70 %" in out.stderr
    assert cli("run", "--cores", "30", "true").returncode == 0
    assert end(p) == 0


def test_a_name_taken_by_no_slice_is_told(cli):
    p = cli.start("--memory", "1Gi", "--name", "open")
    (cli.runtime / "gpuslice" / "open").chmod(0o755)
    out = cli("run", "--memory", "1Gi", "--name", "open", "true")
    assert out.returncode == 125 and "no slice" in out.stderr and "chmod 700" in out.stderr
    (cli.runtime / "gpuslice" / "open").chmod(0o700)
    assert "exists" in cli("run", "--memory", "1Gi", "--name", "open", "true").stderr
    assert end(p) == 0


@pytest.mark.skipif(not shutil.which("musl-gcc"), reason="musl-gcc is not installed")
def test_a_program_of_another_libc_starts_without_the_hook(cli, tmp_path):
    """Its loader cannot load ours, and would not start it."""
    (tmp_path / "three.c").write_text("int main(void) { return 3; }")
    subprocess.run(["musl-gcc", "-o", tmp_path / "three", tmp_path / "three.c"], check=True)
    out = cli("run", "--memory", "1Gi", str(tmp_path / "three"))
    assert (out.returncode, out.stderr.count("\n")) == (3, 1) and "musl" in out.stderr


def test_no_driver_is_one_line_with_a_way_out(cli, tmp_path):
    env = {**cli.env, "LD_LIBRARY_PATH": str(tmp_path)}
    out = cli("run", "--memory", "1Gi", "true", env=env)
    assert out.returncode == 125 and out.stderr.count("\n") == 1 and "driver" in out.stderr
    out = cli("top", "--once", env=env)
    assert out.returncode == 1 and "No cards" in out.stdout
    assert cli("ls", env=env).returncode == 0


def test_missing_hook_is_told(cli):
    out = cli("run", "--memory", "1Gi", "true", env={**cli.env, "GPUSLICE_HOOK": "/nowhere/libvgpu.so"})
    assert out.returncode == 125 and "/nowhere/libvgpu.so" in out.stderr


def test_limit_below_the_context_is_refused_with_the_reason(make_cli):
    cli = make_cli(overhead="300Mi")
    out = cli("run", "--memory", "200Mi", "true")
    assert out.returncode == 125 and "300 MiB" in out.stderr and "--memory" in out.stderr
    assert cli.names() == []
    assert cli("run", "--memory", "400Mi", "true").returncode == 0


def test_refusals_are_explained(cli):
    """`log` says why, while the slice lives and after it has ended."""
    code = ("import ctypes,sys\nc=ctypes.CDLL('libcuda.so.1')\nx=ctypes.c_void_p()\nassert c.cuInit(0)==0\n"
            "assert c.cuDevicePrimaryCtxRetain(ctypes.byref(x),0)==0 and c.cuCtxSetCurrent(x)==0\n"
            "p=ctypes.c_uint64()\nr=c.cuMemAlloc_v2(ctypes.byref(p),ctypes.c_size_t(128<<20))\n"
            "print(r,flush=True)\nsys.stdin.read()\n")
    p = subprocess.Popen([str(cli.exe), "run", "--memory", "64Mi", "--name", "why", "--", sys.executable, "-c", code],
                         env=cli.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    cli.started.append(p)
    assert read_line(p.stdout) == "2"
    live = cli.ok("log", "why")
    assert "cuMemAlloc" in live and "128 MiB" in live and "64 MiB" in live
    p.stdin.close()
    assert p.wait(30) == 0
    assert "gpuslice log why" in p.stderr.read()
    assert cli.names() == []
    assert cli.ok("log", "why") == live
    assert cli.ok("log", "--lines", "1", "why") == live.splitlines(True)[-1]
    out = cli("log", "nobody")
    assert out.returncode == 1 and "no slice 'nobody'" in out.stderr and "last 32" in out.stderr


def test_a_quiet_slice_that_has_ended_is_known(cli):
    assert cli("run", "--memory", "1Gi", "--name", "quiet", "true").returncode == 0
    out = cli("log", "quiet")
    assert (out.returncode, out.stdout) == (0, "")
    assert "nothing happened in slice 'quiet', which has ended" in out.stderr
