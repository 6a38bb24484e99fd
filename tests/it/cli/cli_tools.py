"""The command line on simulated cards. Nothing here sleeps to let something happen: tests wait for it."""

import json
import os
import pathlib
import pty
import select
import signal
import subprocess
import sys
import termios
import time

import pytest

from conftest import stage_dir


# A program that does as it is told, one Python expression a line, and prints what came of it.
CLIENT = """
import ctypes as C, os, signal, sys
own = []
def own_handlers():
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, lambda n, f: own.append(n))
exec(sys.argv[1])
c = C.CDLL('libcuda.so.1')
assert c.cuInit(0) == 0
ctx, held = C.c_void_p(), []
assert c.cuDevicePrimaryCtxRetain(C.byref(ctx), 0) == 0 and c.cuCtxSetCurrent(ctx) == 0
def alloc(mib):
    p = C.c_uint64()
    r = c.cuMemAlloc_v2(C.byref(p), C.c_size_t(mib << 20))
    if r == 0: held.append(p)
    return r
def free():
    return c.cuMemFree_v2(held.pop())
def total():
    f, t = C.c_size_t(), C.c_size_t()
    assert c.cuMemGetInfo_v2(C.byref(f), C.byref(t)) == 0
    return t.value >> 20
print(os.getpid(), flush=True)
for line in sys.stdin: print(eval(line), flush=True)
"""


class Client:
    """A program in a slice that allocates when it is told to."""

    def __init__(self, cli, *options, before="pass", env=None):
        self.p = subprocess.Popen([str(cli.exe), "run", *map(str, options), "--", sys.executable, "-c", CLIENT, before],
                                  env=env or cli.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True)
        cli.started.append(self.p)
        self.pid = int(read_line(self.p.stdout))

    def tell(self, line):
        self.p.stdin.write(line + "\n")
        self.p.stdin.flush()

    def answer(self):
        return eval(read_line(self.p.stdout))

    def ask(self, line):
        self.tell(line)
        return self.answer()


class Cli:
    """gpuslice in one environment: one user's run-time folder, one set of cards."""

    def __init__(self, env):
        self.env = env
        self.exe = stage_dir() / "bin" / "gpuslice"
        self.runtime = pathlib.Path(env["XDG_RUNTIME_DIR"])
        self.started = []

    def __call__(self, *args, timeout=60, env=None, **kw):
        return subprocess.run([str(self.exe), *map(str, args)], env=env or self.env, timeout=timeout, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kw)

    def ok(self, *args, **kw):
        out = self(*args, **kw)
        assert out.returncode == 0, out.stderr
        return out.stdout

    def top(self):
        return json.loads(self.ok("top", "--once", "--json"))

    def slice(self, name):
        found = [s for s in self.top()["slices"] if s["name"] == name]
        assert len(found) == 1, found
        return found[0]

    def names(self):
        return self.ok("ls", "--quiet").split()

    def start(self, *args, code="echo ready; cat", **kw):
        """`gpuslice run ARGS -- sh -c CODE`; returns once the program printed its first line."""
        p = subprocess.Popen([str(self.exe), "run", *map(str, args), "--", "sh", "-c", code], env=self.env,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **kw)
        self.started.append(p)
        p.first_line = read_line(p.stdout)
        return p

    def stop_all(self):
        for p in self.started:
            if p.poll() is None:
                p.kill()
            for stream in (p.stdin, p.stdout, p.stderr):
                try:
                    stream.close()
                except OSError:
                    pass
            p.wait()


def read_line(stream, timeout=30):
    ready, _, _ = select.select([stream], [], [], timeout)
    assert ready, "nothing was printed in time"
    return stream.readline().rstrip("\n")


def wait_gone(pid, timeout=30):
    """Until the process has ended (a zombie has)."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        ready, _, _ = select.select([fd], [], [], timeout)
        assert ready, f"process {pid} is still there"
    finally:
        os.close(fd)


def until(condition, timeout=30):
    """Wait for something outside that nothing announces: look again until it holds."""
    give_up = time.monotonic() + timeout
    while not (seen := condition()):
        assert time.monotonic() < give_up, "it did not come in time"
        time.sleep(0.02)
    return seen


def end(p, timeout=30):
    """Close the program's input, which ends it, and give its exit status."""
    p = getattr(p, "p", p)
    p.stdin.close()
    return p.wait(timeout)


SIGNALS = [signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2]


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, argv, env):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                mode = termios.tcgetattr(0)
                mode[3] |= termios.NOFLSH  # else Ctrl-C throws away what the program prints on account of it
                termios.tcsetattr(0, termios.TCSANOW, mode)
                os.execve(argv[0], argv, env)
            finally:
                os._exit(127)
        self.text = b""

    def until(self, what, timeout=60):
        """Read until `what` has appeared; what comes behind it stays for the next call."""
        while what not in self.text:
            ready, _, _ = select.select([self.fd], [], [], timeout)
            assert ready, f"{what} did not come; the terminal shows {self.text}"
            self.text += os.read(self.fd, 4000)
        seen, self.text = self.text.split(what, 1)
        return seen + what

    def type(self, keys):
        os.write(self.fd, keys)

    def end(self):
        """What is left to read, and the exit status."""
        try:
            while data := os.read(self.fd, 4000):
                self.text += data
        except OSError:  # the terminal goes with its last program
            pass
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        return self.text, os.waitstatus_to_exitcode(status)


@pytest.fixture
def make_cli(make_sim):
    """Factory: make_cli(cards=2, ...), one card of 8 GiB by default. What it started ends with the test."""
    made = []

    def make(**config):
        cli = Cli(make_sim(**{"cards": 1, "memory": "8Gi", **config}).env())
        made.append(cli)
        return cli

    yield make
    for cli in made:
        cli.stop_all()


@pytest.fixture
def cli(make_cli):
    return make_cli()
