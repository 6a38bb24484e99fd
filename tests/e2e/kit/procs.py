"""Child processes that never outlive their owner, and their remains from owners that were killed."""

import fcntl
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2]))
from ports import free_ports  # noqa: E402, F401 (for the others of this kit)

PREFIX = "gpuslice-e2e-"


def until(check, timeout: float, what: str):
    """Poll `check` until it gives something true; its value. For what offers no event to wait for."""
    end = time.monotonic() + timeout
    while True:
        value = check()
        if value:
            return value
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {timeout:g} s")
        time.sleep(0.02)


def start_time(pid: int) -> str:
    """Start time of a process in clock ticks since boot, as text; empty: no such process, or a dead one."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]


class Process:
    """One daemon. Its output goes to <folder>/log/<name>.log; its id is noted in <folder>/pids."""

    def __init__(self, folder: pathlib.Path, name: str, argv: list, env: dict | None = None, keep: bool = False):
        self.folder, self.name, self.argv, self.env, self.keep = folder, name, [str(a) for a in argv], env, keep
        self.log = folder / "log" / f"{name}.log"
        self.popen: subprocess.Popen | None = None

    def start(self) -> "Process":
        (self.folder / "log").mkdir(exist_ok=True)
        # With the test run's own end the kernel ends the daemon too; one that is to stay has no such tie.
        tie = [] if self.keep else ["setpriv", "--pdeathsig", "KILL", "--"]
        with open(self.log, "ab") as log:
            self.popen = subprocess.Popen(tie + self.argv, env=self.env, stdin=subprocess.DEVNULL, stdout=log,
                                          stderr=log, cwd=self.folder, start_new_session=True)
        note_pid(self.folder, self.popen.pid)
        return self

    @property
    def pid(self) -> int:
        return self.popen.pid

    def cpu_seconds(self) -> float:
        """Processor time it has used so far."""
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def is_running(self) -> bool:
        return self.popen is not None and self.popen.poll() is None

    def check(self) -> None:
        """Raise with the end of the log when the process is gone."""
        if not self.is_running():
            raise RuntimeError(f"{self.name} ended with {self.popen.returncode}:\n{self.tail()}")

    def wait_ready(self, check, timeout: float = 60) -> None:
        def look():
            self.check()
            return check()
        try:
            until(look, timeout, f"{self.name} ready")
        except TimeoutError as e:
            raise TimeoutError(f"{e}\n{self.tail()}") from None

    def send(self, number: int) -> None:
        if self.is_running():
            os.kill(self.popen.pid, number)

    def stop(self, number: int = signal.SIGTERM, timeout: float = 10) -> int | None:
        """End it, by force where it does not go; its exit status."""
        if self.popen is None:
            return None
        self.send(number)
        try:
            self.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()
        return self.popen.returncode

    def kill(self) -> None:
        self.stop(signal.SIGKILL)

    def tail(self, lines: int = 30) -> str:
        try:
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        except OSError:
            return "(no log)"


def note_pid(folder: pathlib.Path, pid: int) -> None:
    with open(folder / "pids", "a", encoding="ascii") as f:
        f.write(f"{pid} {start_time(pid)}\n")


def end_noted(folder: pathlib.Path, timeout: float = 10) -> int:
    """End every process noted in a folder or below it, last first; how many were alive."""
    noted = [line.split() for notes in sorted(folder.glob("**/pids")) for line in notes.read_text().splitlines()]
    alive = [(int(e[0]), e[1]) for e in noted if len(e) == 2 and start_time(int(e[0])) == e[1]]
    for pid, born in reversed(alive):
        os.kill(pid, signal.SIGTERM)
        try:
            until(lambda p=pid, b=born: start_time(p) != b, timeout / 5, "end")
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            until(lambda p=pid, b=born: start_time(p) != b, timeout, "end by force")
    return len(alive)


_held = []  # open as long as this process lives: with them the kernel keeps the locks


def new_folder() -> pathlib.Path:
    """A temporary folder, held by a lock as long as this process lives: so long `sweep` of another run leaves it alone.
    The lock appears there held: nobody can take it in between."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix=PREFIX))
    _held.append(open(folder / "lock.new", "wb"))
    fcntl.flock(_held[-1], fcntl.LOCK_EX)
    os.rename(folder / "lock.new", folder / "lock")
    return folder


def make_cgroups(name: str) -> None:
    """In each hierarchy of version 1, or in the one of version 2."""
    root = pathlib.Path("/sys/fs/cgroup")
    for top in [root] if (root / "cgroup.procs").exists() else root.iterdir():
        if (top / "cgroup.procs").exists():
            (top / name).mkdir(exist_ok=True)


def drop_cgroups(name: str) -> bool:
    """Remove the control groups of that name; false while something lives in one."""
    for top in pathlib.Path("/sys/fs/cgroup").glob(f"**/{name}"):
        for folder, _, _ in os.walk(top, topdown=False):
            try:
                os.rmdir(folder)
            except OSError:
                return False
    return True


def sweep() -> list[str]:
    """Remove folders, and end processes, of runs that are no more: of those whose lock can be had. Process ids would not
    tell, for a run may live in a namespace of its own."""
    swept = []
    for folder in pathlib.Path(tempfile.gettempdir()).glob(PREFIX + "*"):
        try:
            if folder.stat().st_uid != os.getuid():
                continue
            lock = open(folder / "lock", "rb")
        except OSError:  # gone, or not there yet
            continue
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            end_noted(folder)
            drop_cgroups(folder.name)
            shutil.rmtree(folder, ignore_errors=True)
        swept.append(folder.name)
    return swept
