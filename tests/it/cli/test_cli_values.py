"""Bad values of options are told as such, also where there is no driver, no slice and no cluster to ask."""

import re

import pytest

from conftest import ROOT
from cli_tools import cli, end, make_cli  # noqa: F401 (fixtures)

LONG = "x" * 64
# (command, option): bad values, and words that go before the operands so that the value is all that is wrong
BAD = {
    ("run", "memory"): ["", "1X", "-1", "0", "0%", "101%", "1Gi,", ",1Gi", "1Gi,,1Gi", "99999999999999999999", "nan", "none,x"],
    ("run", "cores"): ["", "0", "101", "-5", "abc", "30.5", "1e1", "0x10", "30,", "30,,40", "99999999999999999999"],
    ("run", "policy"): ["", "FIXED", "lend", "fixed,elastic"],
    ("run", "priority"): ["", "mid", "HIGH", "0"],
    ("run", "device"): ["", ",", "0,", ",0", "0,,1", "0,0", "-1", "GPU", "ALL", "0,all"],
    ("run", "name"): ["", "a/b", ".a", "-a", "a b", LONG],
    ("run", "join"): ["", "a/b", "nobody", LONG],
    ("run", "trace"): ["", "/nowhere/at/all", "/", "/proc/self/none"],
    ("resize", "memory"): ["", "1X", "-1", "0", "101%", "1Gi,"],
    ("resize", "cores"): ["", "0", "101", "-5", "abc", "30,"],
    ("resize", "policy"): ["", "lend"],
    ("resize", "priority"): ["", "mid"],
    ("top", "interval"): ["", "0", "abc", "-1", "3601", "1x", "nan", "inf"],
    ("log", "lines"): ["", "0", "-1", "abc", "1.5"],
    ("explain", "kubeconfig"): ["/nowhere"],
    ("explain", "from-dump"): ["/nowhere"],
    ("explain", "device-config-file"): ["/nowhere"],
    ("explain", "node-scheduler-policy"): ["", "numa", "Binpack", "binpack,spread"],
    ("explain", "gpu-scheduler-policy"): ["", "lol", "spread,", "spread,lol"],
    ("doctor", "watch"): ["", "x", "-1", "86401", "nan", "1s"],
    ("doctor", "device-config-file"): ["", "/nowhere", "/"],
    ("doctor", "node-config-file"): ["", "/nowhere"],
    ("doctor", "root"): ["", "/nowhere"],
}
ANY_WORD = {("explain", "context"), ("doctor", "node-name")}  # the kubeconfig's own, the cluster's
OPERANDS = {"run": ["echo", "started"], "resize": ["s"], "top": [], "log": ["s"], "explain": ["pod", "p"], "doctor": []}
STATUS = {"run": 125, "resize": 2, "top": 2, "log": 2, "explain": 2, "doctor": 2}
NOT_THERE = {("explain", "kubeconfig"), ("explain", "from-dump"), ("explain", "device-config-file")}


@pytest.fixture
def bare(cli, tmp_path):
    """No driver, no cluster."""
    env = {k: v for k, v in cli.env.items() if k != "KUBECONFIG"}
    cli.env = {**env, "LD_LIBRARY_PATH": str(tmp_path), "HOME": str(tmp_path)}
    return cli


def test_every_option_that_takes_a_value_is_here():
    text = (ROOT / "src/apps/gpuslice/options.def").read_text()
    found = re.findall(r'^GS_OPTION\((\w+), \w+, [^,]+, "([^"]+)", "', text, re.M)
    assert {(c.lower(), o) for c, o in found} == set(BAD) | ANY_WORD


@pytest.mark.parametrize("command,option,value", [(*key, v) for key, values in BAD.items() for v in values])
def test_a_bad_value_is_told_without_a_driver(bare, command, option, value):
    out = bare(command, f"--{option}={value}", *OPERANDS[command])
    said = out.stderr
    assert out.returncode == (1 if (command, option) in NOT_THERE else STATUS[command]) and out.stdout == "", said
    assert said.count("\n") == 1 and "driver" not in said, said
    assert f"--{option}" in said or f"'{value}'" in said or f"{value}:" in said, said


@pytest.mark.parametrize("options", [
    ["--policy", "elastic"], ["--policy", "fixed", "--cores", "none"], ["--cores", "10,20,30", "--device", "0,1"],
    ["--memory", "1Gi,1Gi", "--cores", "1,2,3"], ["--memory", "1Gi,1Gi", "--device", "0"],
    ["--join", "nobody", "--memory", "1Gi"],
], ids=" ".join)
def test_options_that_do_not_go_together_are_told_without_a_driver(bare, options):
    out = bare("run", *options, "echo", "started")
    assert out.returncode == 125 and out.stdout == "" and "driver" not in out.stderr and "--" in out.stderr


def test_resize_tells_in_the_same_way(bare):
    out = bare("resize", "--memory", "1Gi,1Gi", "--cores", "1,2,3", "s")
    assert out.returncode == 2 and "--memory names 2 sizes for 3 cards" in out.stderr
    out = bare("resize", "--cores", "30", "nobody")
    assert out.returncode == 1 and "no live slice 'nobody'" in out.stderr


@pytest.mark.parametrize("pod", ["", "/", "/p", "n/", "a/b/c"])
def test_explain_tells_what_is_no_pod(bare, pod):
    out = bare("explain", "pod", pod)
    assert out.returncode == 2 and "no pod" in out.stderr


def test_explain_tells_that_a_word_is_missing(bare):
    for operands in (["default/ok"], ["node", "n1"], ["--json", "default/ok"]):
        out = bare("explain", *operands)
        assert (out.returncode, out.stdout) == (2, "")
        assert f"'pod' is missing in front of '{[o for o in operands if o[0] != '-'][0]}'" in out.stderr
    assert "missing operand" in bare("explain").stderr


def test_what_is_right_still_waits_for_a_driver(bare, tmp_path):
    """And a trace that was there is not emptied for a program that did not start."""
    trace = tmp_path / "trace"
    trace.write_text("mine")
    out = bare("run", "--memory", "1Gi,50%", "--cores", "30,none", "--policy", "elastic", "--priority", "low", "--device",
               "0,GPU-1234", "--trace", trace, "echo", "started")
    assert out.returncode == 125 and out.stderr.count("\n") == 1 and "driver" in out.stderr
    assert trace.read_text() == "mine"
