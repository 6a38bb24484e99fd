"""A tenant cuts the files of its own slice short, or puts something else in their place. Its own programs may end by it
(they map the ledger); nobody else does, waits or gives away anything: not the slice beside it, not `gpuslice run`, which
writes the board, and no command."""

import json
import os
import signal

import pytest
from side_by_side import scenario, seen  # noqa: F401, I001 (a fixture; and it makes bench importable)
from limiter_cards import now, reports
from load import Cards, begun, ledger_of, share_of

POINTS = 0.03
ELASTIC = ["--cores", "30", "--policy", "elastic"]
COMMANDS = [["top", "--once", "--json"], ["top", "--once"], ["ls"], ["ls", "--json"], ["log", "a"], ["suspend", "a"],
            ["resume", "a"], ["resize", "a", "--cores", "20"], ["run", "--join", "a", "true"]]


def in_place(make):
    def swap(path):
        os.unlink(path)
        make(path)
    return swap


def fill(path, byte):
    with open(path, "r+b") as f:
        f.write(bytes([byte]) * os.path.getsize(path))


def regrow(path):
    with open(path, "r+b") as f:  # once: after the cut the slice may be over, and its folder gone
        f.truncate(0)
        f.truncate(10 << 20)


LEDGER = {
    "emptied": lambda f: os.truncate(f, 0),
    "cut in the head": lambda f: os.truncate(f, 2011136 + 8),
    "cut in a device": lambda f: os.truncate(f, os.path.getsize(f) - 4096),
    "cut in the region of HAMi": lambda f: os.truncate(f, 4096),
    "made longer": lambda f: os.truncate(f, os.path.getsize(f) + 4096),
    "cut and made long again": regrow,
    "zeroed": lambda f: fill(f, 0),
    "noise": lambda f: fill(f, 0xA5),
    "removed": os.unlink,
    "a folder": in_place(os.mkdir),
    "a folder of folders": in_place(lambda f: os.makedirs(f / "of" / "folders")),
    "a pipe": in_place(os.mkfifo),
    "a link": in_place(lambda f: os.symlink("/dev/zero", f)),
    "closed": lambda f: os.chmod(f, 0),
}
QUOTA = {
    "emptied": lambda f: os.truncate(f, 0),
    "cut": lambda f: os.truncate(f, 20),
    "endless": lambda f: os.truncate(f, 1 << 40),
    "removed": os.unlink,
    "a pipe": in_place(os.mkfifo),
    "a folder": in_place(os.mkdir),
    "a link": in_place(lambda f: os.symlink("/dev/zero", f)),
}
LOCK = {
    "removed": os.unlink,
    "a folder": in_place(os.mkdir),
    "a link": in_place(lambda f: os.symlink("/nowhere", f)),
}
OWNER = {"emptied": lambda f: os.truncate(f, 0), "a pipe": in_place(os.mkfifo)}
FILES = {"slice.cache": LEDGER, "quota": QUOTA, "lock": LOCK, "owner": OWNER}


def spoiled(what, how):
    with Cards() as cards:
        watch = cards.watch()
        a = cards.slice("a", ELASTIC, "--kernels", "k1ms", "--seconds", "40")
        b = cards.slice("b", ELASTIC, "--kernels", "k1ms", "--seconds", "14")
        start = max(begun(watch, "a"), begun(watch, "b"))
        before = share_of(watch, "b", start + 1.0, 1.0)
        FILES[what][how](ledger_of(cards, "a").with_name(what))
        after = share_of(watch, "b", now() + 1.0, 2.0)
        outs = [(command, cards.cli(*command)) for command in COMMANDS]
        outs.append((["rm"], cards.cli("rm", "--force", "a")))
        rc = a.wait(30)
        again = cards.cli("run", "--name", "a", *ELASTIC, "true")
        return before, after, outs, rc, again, reports(b, 60)


@scenario(spoiled)
@pytest.mark.parametrize("what,how", [(f, h) for f in FILES for h in FILES[f]])
def test_only_the_tenant_itself_is_hurt(seen, what, how):
    before, after, outs, rc, again, rows = seen
    assert before == pytest.approx(0.30, abs=POINTS)
    assert after >= 0.30 - POINTS  # and more where the other is gone
    for command, out in outs:
        assert out.returncode in (0, 1, 125), (command, out)
        assert out.stderr.count("\n") <= 2 and "gpuslice: " in out.stderr + "gpuslice: ", (command, out)
    slices = {s["name"]: s for s in json.loads(outs[0][1].stdout)["slices"]}
    assert [p["held"] for p in slices["b"]["processes"]] == [True]
    assert rc in (128 + signal.SIGBUS, 128 + signal.SIGTERM), rc
    assert again.returncode == 0, again.stderr
    assert len(rows) == 1
