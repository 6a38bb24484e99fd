"""Who writes the board of a card: one of the `gpuslice run` processes, another when it dies or stands still."""

import os
import shutil
import signal
import struct
import subprocess
import sys
import time

import pytest

MAGIC = 0x3144524F42475347
STALE_S = 0.25
HEAD = struct.Struct("<QIIQQQQ")  # contract/board.h
ENTRY = struct.Struct("<QQIIQ24x")
ENTRIES_AT = 256


class Board:
    """The board of the only card, as anybody may read it."""

    def __init__(self, sim):
        self.folder = sim.runtime / "gpuslice" / ".board"

    def read(self):
        """(beat in s, writer's pid, {ledger inode: (share, flags, refund)}); None: there is none."""
        files = [f for f in self.folder.glob("GPU-*") if not f.name.endswith(".lock")] if self.folder.is_dir() else []
        if not files:
            return None
        for _ in range(100):
            data = files[0].read_bytes()
            magic, version, n, seq, beat, pid, _ = HEAD.unpack_from(data)
            if seq % 2 == 0 and HEAD.unpack_from(files[0].read_bytes())[3] == seq:
                break
        assert (magic, version) == (MAGIC, 1)
        entries = [ENTRY.unpack_from(data, ENTRIES_AT + 56 * i) for i in range(n)]
        return beat / 1e9, pid, {e[1]: e[2:] for e in entries}

    def until(self, what, timeout=20):
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            now = self.read()
            if now and what(*now):
                return now
            time.sleep(0.002)
        pytest.fail(f"never seen; last {self.read()}")


@pytest.fixture
def start(sim):
    """start(name, *options): a slice around a program that waits; the parent's Popen."""
    started = []

    def go(name, *options):
        p = subprocess.Popen(["gpuslice", "run", "--name", name, *options, "--", sys.executable, "-c",
                              "import sys; print('up', flush=True); sys.stdin.read()"],
                             env=sim.env(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        started.append(p)
        assert p.stdout.readline() == b"up\n"
        return p

    yield go
    for p in started:
        if p.poll() is None:
            os.kill(p.pid, signal.SIGCONT)
        p.stdin.close()
        p.wait(20)


def fresh(beat):
    return time.monotonic() - beat < STALE_S


def test_every_slice_is_on_it(sim, start):
    board = Board(sim)
    start("a", "--cores", "30")
    start("b", "--cores", "40", "--policy", "elastic")
    start("c", "--priority", "high")
    inode = {n: (sim.runtime / "gpuslice" / n / "slice.cache").stat().st_ino for n in "abc"}
    _, _, entries = board.until(lambda beat, pid, e: fresh(beat) and len(e) == 3)
    assert {n: entries[inode[n]][0] for n in "abc"} == {"a": 3000, "b": 10000, "c": 10000}
    folder = board.folder.stat()
    assert folder.st_mode & 0o777 == 0o700


@pytest.mark.parametrize("signo", [signal.SIGKILL, signal.SIGTERM])
def test_another_takes_over(sim, start, signo):
    board = Board(sim)
    parents = {p.pid: p for p in (start("a", "--cores", "30"), start("b", "--cores", "30"), start("c", "--cores", "10"))}
    gaps = []
    while len(parents) > 1:
        beat, pid, _ = board.until(lambda beat, pid, e: fresh(beat) and pid in parents)
        victim = parents.pop(pid)
        os.kill(pid, signo)
        died = time.monotonic()
        board.until(lambda beat, now, e: now in parents)  # noqa: B023 (called here and now)
        gaps.append(time.monotonic() - died)
        victim.wait(20)
    assert min(gaps) < STALE_S, gaps  # nobody's advice expired; all of them where the machine is free


def test_a_stopped_writer_loses_its_office(sim, start):
    board = Board(sim)
    a, b = start("a", "--cores", "30"), start("b", "--cores", "30")
    _, pid, _ = board.until(lambda beat, pid, e: fresh(beat) and len(e) == 2)
    other = b.pid if pid == a.pid else a.pid
    os.kill(pid, signal.SIGSTOP)
    board.until(lambda beat, now, e: now == other and fresh(beat))
    os.kill(pid, signal.SIGCONT)
    # it sees that it has been replaced: a second of beats, all of the other
    end = time.monotonic() + 1
    while time.monotonic() < end:
        assert board.read()[1] == other
        time.sleep(0.01)


def test_nobody_writes_where_nothing_is_shared(sim, start):
    board = Board(sim)
    start("a")
    shared = start("b", "--cores", "30")
    beat, pid, entries = board.until(lambda beat, pid, e: fresh(beat) and len(e) == 2)
    shared.stdin.close()
    shared.wait(20)
    seen = board.read()
    board.until(lambda beat, pid, e: not fresh(beat))
    assert board.read()[0] <= seen[0] + 1.2  # a look a second, in case `a` wrote by then
    again = start("c", "--cores", "10")
    board.until(lambda beat, pid, e: fresh(beat))
    assert again.poll() is None


def test_its_files_may_be_removed(sim, start):
    board = Board(sim)
    start("a", "--cores", "30")
    board.until(lambda beat, pid, e: fresh(beat))
    for f in board.folder.iterdir():
        f.unlink()
    board.until(lambda beat, pid, e: fresh(beat) and len(e) == 1)


def board_file(board):
    return next(f for f in board.folder.glob("GPU-*") if not f.name.endswith(".lock"))


def swap_for_folder(f):
    f.unlink()
    f.mkdir()
    (f / "something").write_text("in it")


@pytest.mark.parametrize("spoil", [lambda f: os.truncate(f, 0), lambda f: os.truncate(f, 100), lambda f: f.chmod(0),
                                   swap_for_folder, lambda f: (f.unlink(), f.symlink_to("/etc/passwd")),
                                   lambda f: swap_for_folder(f.with_name(f.name + ".lock")),
                                   lambda f: shutil.rmtree(f.parent)],
                         ids=["cut", "short", "closed", "folder", "link", "lock", "gone"])
def test_what_somebody_does_to_its_files_is_mended(sim, start, spoil):
    board = Board(sim)
    a = start("a", "--cores", "30")
    board.until(lambda beat, pid, e: fresh(beat) and len(e) == 1)
    spoil(board_file(board))
    spoiled = time.monotonic()

    def is_whole():
        try:
            now = board.read()
        except (OSError, struct.error, AssertionError):
            return False
        return now is not None and now[0] > spoiled and len(now[2]) == 1
    while not is_whole():
        assert a.poll() is None
        assert time.monotonic() < spoiled + 10
        time.sleep(0.01)
    file = board_file(board)
    assert file.is_file() and not file.is_symlink() and file.stat().st_mode & 0o777 == 0o600
    assert not [f for f in board.folder.iterdir() if f.is_dir()]


@pytest.mark.parametrize("spoil", [lambda f: f.write_text("no folder"), lambda f: f.symlink_to("/etc"),
                                   lambda f: (f.mkdir(), f.chmod(0o777))])
def test_without_a_folder_for_boards_programs_run(sim, spoil):
    folder = sim.runtime / "gpuslice" / ".board"
    folder.parent.mkdir(mode=0o700)
    spoil(folder)
    done = subprocess.run(["gpuslice", "run", "--cores", "30", "--", "sh", "-c", "echo ${GPUSLICE_BOARD_DIR-none}"],
                          env=sim.env(GPUSLICE_BOARD_DIR="/elsewhere"), capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "none\n"), done.stderr
    assert "keep to their own shares" in done.stderr
