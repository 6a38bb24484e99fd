"""Several users on one machine: private slices, promises as far as they can be seen, and what top says."""

import os
import re
import shutil
import subprocess

import pytest

from cli_tools import Cli, end, make_cli  # noqa: F401 (fixtures)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be two users")
UIDS = (4711, 4712)


@pytest.fixture
def users(make_cli, tmp_path_factory):
    """Two users on one set of cards, each with the folder below /tmp that a login without XDG has."""
    root = make_cli()
    sim = root.env["GPUSLICE_SIM_DIR"]
    os.chmod(sim, 0o777)
    folder = os.path.dirname(sim)
    os.chmod(folder, 0o755)
    # cards are made by the first who looks; their file has to be everybody's, as a device node is
    root.ok("top", "--once")
    for name in os.listdir(sim):
        os.chmod(os.path.join(sim, name), 0o666)
    env = {k: v for k, v in root.env.items() if k not in ("XDG_RUNTIME_DIR", "HOME")}
    # the staged tree may lie where only root can go
    tree = str(tmp_path_factory.mktemp("tree"))
    os.chmod(os.path.dirname(tree), 0o755)
    os.chmod(os.path.dirname(os.path.dirname(tree)), 0o755)
    os.chmod(tree, 0o755)
    stage = root.exe.parent.parent
    shutil.copytree(stage / "lib", os.path.join(tree, "lib"), symlinks=True)
    os.mkdir(os.path.join(tree, "bin"))
    shutil.copy2(root.exe, os.path.join(tree, "bin"))
    env["LD_LIBRARY_PATH"] = os.path.join(tree, "lib/gpuslice/sim/nvidia")
    made = []
    for uid in UIDS:
        cli = User(dict(env), uid, os.path.join(tree, "bin", "gpuslice"))
        shutil.rmtree(f"/tmp/gpuslice-{uid}", ignore_errors=True)
        made.append(cli)
    yield (*made, root)
    for cli in made:
        cli.stop_all()
        shutil.rmtree(f"/tmp/gpuslice-{cli.uid}", ignore_errors=True)


class User(Cli):
    def __init__(self, env, uid, exe):
        super().__init__({**env, "XDG_RUNTIME_DIR": ""})
        self.uid, self.exe = uid, exe

    def __call__(self, *args, **kw):
        return super().__call__(*args, user=self.uid, group=self.uid, extra_groups=[], cwd="/", **kw)

    def start(self, *args, **kw):
        return super().start(*args, user=self.uid, group=self.uid, extra_groups=[], cwd="/", **kw)


def test_slices_of_others_are_private(users):
    a, b, root = users
    p = a.start("--memory", "5Gi", "--name", "mine")
    folder = f"/tmp/gpuslice-{a.uid}"
    assert os.stat(folder).st_mode & 0o777 == 0o700 and os.stat(folder).st_uid == a.uid
    assert b.names() == [] and a.names() == ["mine"]
    for args in (("rm", "--force", "mine"), ("log", "mine"), ("run", "--join", "mine", "true")):
        assert b(*args).returncode != 0, args
    assert subprocess.run(["cat", f"{folder}/mine/quota"], user=b.uid, group=b.uid, extra_groups=[],
                          stderr=subprocess.DEVNULL).returncode != 0
    assert p.poll() is None and a.slice("mine")["state"] == "running"
    assert end(p) == 0


def test_top_says_what_it_cannot_see(users):
    a, b, root = users
    p = a.start("--memory", "5Gi", "--name", "mine")
    text = b.ok("top", "--once")
    assert "mine  running" not in text and "sh -c" not in text
    assert re.search(r"Not shown: slices that \d+ other user", text)  # the machine may have more than these two
    out = b("top", "--once", "--json")
    assert out.returncode == 0 and "cannot be read" in out.stderr
    assert end(p) == 0


def test_root_adds_up_everybodys_promises(users):
    a, b, root = users
    p = a.start("--memory", "5Gi", "--name", "mine")
    q = b.start("--memory", "2Gi", "--name", "mine")
    out = root("run", "--memory", "2Gi", "true")
    assert out.returncode == 125 and "7 GiB are promised to 2 slices" in out.stderr
    assert root("run", "--memory", "1Gi", "true").returncode == 0
    assert sorted(d["limit_bytes"] for s in root.top()["slices"] for d in s["devices"]) == [2 << 30, 5 << 30]
    assert root.names() == []  # listed are one's own
    assert end(p) == 0 and end(q) == 0


def test_a_squatted_folder_is_refused_not_used(users):
    a, b, root = users
    os.mkdir(f"/tmp/gpuslice-{a.uid}", 0o777)
    os.chown(f"/tmp/gpuslice-{a.uid}", b.uid, b.uid)
    out = a("run", "--memory", "1Gi", "true")
    assert out.returncode == 125 and f"belongs to user {b.uid}" in out.stderr and "XDG_RUNTIME_DIR" in out.stderr
    assert os.listdir(f"/tmp/gpuslice-{a.uid}") == []


def test_a_foreign_runtime_folder_is_passed_over(users):
    """su keeps XDG_RUNTIME_DIR of the user who called it."""
    a, b, root = users
    a.env["XDG_RUNTIME_DIR"] = str(root.runtime)
    p = a.start("--memory", "1Gi", "--name", "su", code="echo $GPUSLICE_QUOTA_DIR; cat")
    assert p.first_line == f"/tmp/gpuslice-{a.uid}/su"
    assert end(p) == 0
