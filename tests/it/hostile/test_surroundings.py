"""Surroundings a program and gpuslice may find themselves in: no room, no /proc, a log nobody reads, another folder.
Each is one line that names the fix, or the driver's own out-of-memory; never more memory, never a dead program."""

import os
import subprocess

import pytest

from conftest import MIB, build_dir, stage_dir

CLIENT = build_dir() / "tests/it/nvidia/memory_client"
GPUSLICE = stage_dir() / "bin" / "gpuslice"
OOM = 2


def client(env, lines, **kw):
    """What a client that does these lines answers; it must come to its own end."""
    out = subprocess.run([CLIENT], env=env, input="".join(f"{line}\n" for line in lines), text=True, timeout=60,
                         stdout=subprocess.PIPE, **kw)
    assert out.returncode == 0
    return [int(line.split()[0]) for line in out.stdout.splitlines()]


def told(sim, script, *wrap):
    """gpuslice must not start the program, and say why in one line."""
    sim.status()  # the cards' own file is there before room gets tight
    out = sim.run(*wrap, "sh", "-c", script, "sh", GPUSLICE, sim.folder,
                  env=sim.env(GPUSLICE_HOOK=sim.hook))
    assert out.returncode == 125, (out.returncode, out.stderr)
    assert "started" not in out.stdout
    assert out.stderr.startswith("gpuslice: ") and out.stderr.count("\n") == 1, out.stderr
    return out.stderr


def test_a_ledger_has_one_name_from_everywhere(sim):
    """A relative path names another file from another folder: one limit for each would be granted."""
    env = sim.hook_env("64m") | {"CUDA_DEVICE_MEMORY_SHARED_CACHE": "slice.cache"}
    for name in ("here", "there"):
        folder = sim.folder / name
        folder.mkdir()
        assert client(env, ["init", "ctx 0 0"], cwd=folder) == [0, OOM]
        assert not (folder / "slice.cache").exists()


def test_a_log_that_nobody_reads_ends_no_program(sim):
    read_end, write_end = os.pipe()
    os.close(read_end)
    env = sim.hook_env("64m", GPUSLICE_LOG=write_end)
    # Python ignores SIGPIPE, programs do not
    assert client(env, ["init", "ctx 0 0", f"alloc 0 {65 * MIB}", f"alloc 0 {MIB}"], pass_fds=[write_end],
                  restore_signals=True) == [0, 0, OOM, 0]
    os.close(write_end)


def test_a_log_that_is_a_pipe_holds_nobody_up(sim):
    os.mkfifo(sim.folder / "log")
    env = sim.hook_env("64m", GPUSLICE_LOG=sim.folder / "log")
    assert client(env, ["init", "ctx 0 0", f"alloc 0 {65 * MIB}", f"alloc 0 {MIB}"]) == [0, 0, OOM, 0]


@pytest.mark.parametrize("blocks", [0, 1, 1000])
def test_a_limit_of_file_size_is_told(sim, blocks):
    text = told(sim, f'ulimit -f {blocks}; exec "$1" run --memory 64Mi -- echo started')
    assert "ulimit -f" in text


@pytest.mark.parametrize("blocks", [0, 1000])
def test_a_limit_of_file_size_in_the_program_is_none_of_ours(sim, blocks):
    """`gpuslice run` has taken the room for the ledger."""
    sim.status()  # and the cards have theirs
    out = sim.run("sh", "-c", 'exec "$1" run --memory 64Mi -- sh -c "ulimit -f $3; exec $2"', "sh", GPUSLICE, CLIENT,
                  str(blocks), env=sim.env(GPUSLICE_HOOK=sim.hook), input=f"init\nctx 0 0\nalloc 0 {65 * MIB}\n")
    assert out.returncode == 0, out.stderr
    assert [int(line.split()[0]) for line in out.stdout.splitlines()] == [0, 0, OOM]  # memory of simulated cards is in files


def in_own_mounts():
    wrap = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "--map-root-user"]
    if subprocess.run([*wrap, "true"], capture_output=True).returncode != 0:
        pytest.skip("no mount namespace of one's own here")
    return wrap


def test_a_full_file_system_is_told(sim):
    text = told(sim, 'mkdir "$2/tiny"; mount -t tmpfs -o size=64k tmpfs "$2/tiny"; mkdir -m 700 "$2/tiny/run"; '
                     'XDG_RUNTIME_DIR="$2/tiny/run" exec "$1" run --memory 64Mi -- echo started', *in_own_mounts())
    assert "no room for the ledger" in text and "XDG_RUNTIME_DIR" in text


def test_no_proc_is_told(sim):
    text = told(sim, 'mkdir "$2/none"; mount --bind "$2/none" /proc; exec "$1" run --memory 64Mi -- echo started',
                *in_own_mounts())
    assert "mount -t proc" in text
