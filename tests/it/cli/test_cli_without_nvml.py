"""Where NVML is absent or does not answer, cards are as libcuda has them: slices are made and held, and what is not
known is said."""

import json
import subprocess

import pytest

from conftest import GIB, stage_dir
from cli_tools import Client, cli, end, make_cli  # noqa: F401 (fixtures)


@pytest.fixture(params=["absent", "refuses", "a call of it fails"])
def without(request, make_cli, tmp_path):
    """Factory of a command line without NVML."""
    def make(**config):
        cli = make_cli(**config)
        cli.whole = {"LD_LIBRARY_PATH": cli.env["LD_LIBRARY_PATH"]}
        if request.param == "absent":
            for name in ("libcuda.so.1", "libcuda.so"):
                (tmp_path / name).symlink_to(stage_dir() / "lib" / "gpuslice" / "sim" / "nvidia" / name)
            cli.env = {**cli.env, "LD_LIBRARY_PATH": str(tmp_path)}
            cli.reason = "NVML (libnvidia-ml.so.1) cannot be loaded"
            return cli
        fault = ["nvml-absent"] if request.param == "refuses" else ["nvmlDeviceGetMemoryInfo", "--error", "3"]
        subprocess.run([stage_dir() / "bin" / "gpuslice-sim", "fault", *fault], env=cli.env, check=True, timeout=30)
        cli.reason = "NVML does not start" if request.param == "refuses" else "card 0: NVML says: Not Supported"
        return cli
    return make


def test_a_slice_is_held(without):
    cli = without()
    c = Client(cli, "--memory", "1Gi", "--cores", "30", "--name", "s")
    assert c.ask("total()") == 1024 and c.ask("alloc(1000)") == 0 and c.ask("alloc(100)") == 2
    said = cli("resize", "s", "--memory", "50%", "--cores", "40")
    assert said.returncode == 0 and "memory 1 GiB -> 4 GiB" in said.stdout, said.stderr
    assert c.ask("alloc(100)") == 0 and c.ask("total()") == 4096
    assert end(c) == 0
    lines = c.p.stderr.read().splitlines()
    assert lines[0].startswith("gpuslice: " + cli.reason), lines
    for word in ("libcuda.so.1", "are held", "in use on a card", "outside slices"):
        assert word in lines[0]


def test_cards_are_the_same_with_and_without(without):
    """Their numbers, too, whatever the user's variable leaves of them."""
    cli = without(cards=3)
    out = cli("top", "--once", "--json", env={**cli.env, "CUDA_VISIBLE_DEVICES": "2"})
    assert out.returncode == 0 and out.stderr.startswith("gpuslice: " + cli.reason)
    subprocess.run([stage_dir() / "bin" / "gpuslice-sim", "reset"], env=cli.env, check=True, timeout=30)
    told = json.loads(cli.ok("top", "--once", "--json", env={**cli.env, **cli.whole}))["cards"]
    assert json.loads(out.stdout)["cards"] == [{**c, "used_bytes": None, "util_pct": None} for c in told]


def test_top_says_what_is_not_known(without):
    cli = without()
    c = Client(cli, "--memory", "1Gi", "--cores", "30", "--name", "s")
    assert c.ask("alloc(512)") == 0
    text = cli.ok("top", "--once")
    assert "? / 8 GiB" in text and "512 MiB / 1 GiB" in text and "held" in text and "not known" in text.lower()
    assert end(c) == 0


def test_cards_can_be_chosen(without):
    cli = without(cards=3)
    uuids = [c["uuid"] for c in cli.top()["cards"]]
    for options, visible, card in ((["--device", "1"], None, 1), (["--device", uuids[2]], None, 2), ([], "2", 2),
                                   ([], None, 0)):
        env = {**cli.env, **({"CUDA_VISIBLE_DEVICES": visible} if visible else {})}
        out = cli("run", "--memory", "1Gi", *options, "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES", env=env)
        assert out.stdout.strip() == uuids[card], (options, visible, out.stderr)
    out = cli("run", "--device", "3", "true")
    assert out.returncode == 125 and "no such card" in out.stderr


def test_memory_is_promised_by_the_cards_size(without):
    cli = without()
    assert cli.top()["cards"][0]["total_bytes"] == 8 * GIB
    out = cli("run", "--memory", "9Gi", "true")
    assert out.returncode == 125 and "8 GiB" in out.stderr


def test_without_any_driver_it_says_so(make_cli, tmp_path):
    cli = make_cli()
    cli.env = {**cli.env, "LD_LIBRARY_PATH": str(tmp_path)}
    for args in (["run", "true"], ["top", "--json"]):
        out = cli(*args)
        assert out.returncode in (1, 125) and "no NVIDIA driver found" in out.stderr, args


def test_libcuda_that_cannot_start_is_told_with_the_reason_for_nvml(make_cli, tmp_path):
    cli = make_cli()
    (tmp_path / "libcuda.so.1").symlink_to(stage_dir() / "lib" / "gpuslice" / "sim" / "nvidia" / "libcuda.so.1")
    subprocess.run([stage_dir() / "bin" / "gpuslice-sim", "fault", "cuDeviceGetCount", "--error", "999"], env=cli.env, check=True,
                   timeout=30)
    cli.env = {**cli.env, "LD_LIBRARY_PATH": str(tmp_path)}
    out = cli("run", "true")
    assert out.returncode == 125 and out.stderr.count("\n") == 1
    assert "NVML" in out.stderr and "libcuda.so.1" in out.stderr and "999" in out.stderr
