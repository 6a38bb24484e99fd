"""Manual and completion, as they are installed."""

import re
import shutil
import subprocess

import pytest

from conftest import stage_dir
from cli_tools import Client, cli, end, make_cli  # noqa: F401 (fixtures)


def installed(*parts):
    path = stage_dir().joinpath("share", *parts)
    assert path.is_file(), path
    return path


def test_manual_is_sound():
    page = installed("man", "man1", "gpuslice.1")
    text = page.read_text()
    for word in ("gpuslice run", "\\-\\-memory", "\\-\\-oversubscribe", "gpuslice log", "FILES"):
        assert word in text, word
    man = shutil.which("groff") or shutil.which("mandoc")
    if not man:
        pytest.skip("no groff or mandoc to read the page with")
    args = ["-man", "-Tutf8", "-ww"] if man.endswith("groff") else ["-Tlint"]
    out = subprocess.run([man, *args, page], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert out.returncode == 0 and out.stderr == ""


def test_the_manual_explains_every_key(cli):
    page = installed("man", "man1", "gpuslice.1").read_text().replace("\\-", "-")
    json_section = page.split('.SH JSON')[1].split(".SH")[0]
    p = Client(cli, "--memory", "1Gi", "--name", "k")
    top = cli.top()
    keys = {*top, *top["cards"][0], *top["slices"][0], *top["slices"][0]["devices"][0],
            *top["slices"][0]["processes"][0]}
    for key in keys:
        assert re.search(rf"\b{key}\b", json_section), key
    for word in ("share", "priority", "turn", "queue", "memory", "suspend"):
        assert word in page.split('.SH TRACE')[1].split(".SH")[0], word
    assert end(p) == 0


def complete(cli, *words, cwd=None):
    """What bash offers for the last word, without the package of completions of others."""
    script = installed("bash-completion", "completions", "gpuslice.bash")
    code = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); compopt() { :; }; _gpuslice; '
            'printf "%s\\n" "${COMPREPLY[@]}"')
    out = subprocess.run(["bash", "-c", code, "x", script, "gpuslice", *words], env=cli.env, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, cwd=cwd)
    assert out.stderr == ""
    return [line for line in out.stdout.splitlines() if line]


def test_bash_completion(cli):
    p = cli.start("--memory", "1Gi", "--name", "night")
    assert complete(cli, "r") == ["run", "resize", "resume", "rm"]
    assert complete(cli, "run", "--me") == ["--memory="]
    assert complete(cli, "run", "--join", "n") == ["night"]
    assert complete(cli, "run", "--join", "=", "n") == ["night"]
    for command in ("rm", "resize", "suspend", "resume"):
        assert complete(cli, command, "") == ["night"], command
    assert complete(cli, "resize", "--p") == ["--policy=", "--priority="]
    assert complete(cli, "rm", "--f") == ["--force"]
    assert "bash" in complete(cli, "run", "--", "bas")
    assert end(p) == 0


def test_bash_completion_of_the_program_of_run(cli, tmp_path):
    (tmp_path / "hog.py").touch()
    (tmp_path / "two words").touch()
    for options in ([], ["--memory", "1Gi"], ["--memory", "=", "1Gi"], ["-m", "1Gi", "--strict"], ["--cores=30", "--"]):
        assert complete(cli, "run", *options, "python3", "ho", cwd=tmp_path) == ["hog.py"], options
        assert "bash" in complete(cli, "run", *options, "bas", cwd=tmp_path), options
        assert complete(cli, "run", *options, "./ho", cwd=tmp_path) == ["./hog.py"], options
    assert complete(cli, "run", "python3", "--me", cwd=tmp_path) == []  # its own options, not ours
    assert complete(cli, "run", "cat", "two", cwd=tmp_path) == ["two words"]


def test_bash_completion_of_values(make_cli, tmp_path):
    cli = make_cli(cards=2)
    (tmp_path / "dump.json").touch()
    for command in ("run", "resize"):
        assert complete(cli, command, "--policy", "") == ["fixed", "elastic", "off"]
        assert complete(cli, command, "-p", "=", "e") == ["elastic"]
        assert complete(cli, command, "--priority", "=", "") == ["high", "low"]
    assert complete(cli, "run", "--device", "") == ["0", "1", "all"]
    assert complete(cli, "explain", "") == ["pod"]
    assert complete(cli, "explain", "--from-dump", "dump.json", "") == ["pod"]
    assert complete(cli, "explain", "pod", "") == []
    assert complete(cli, "explain", "--node-scheduler-policy", "") == ["binpack", "spread"]
    for command, option in (("run", "--trace"), ("explain", "--from-dump"), ("explain", "--kubeconfig"),
                            ("explain", "--device-config-file")):
        assert complete(cli, command, option, "du", cwd=tmp_path) == ["dump.json"], option


def test_zsh_completion_parses():
    script = installed("zsh", "site-functions", "_gpuslice")
    text = script.read_text()
    assert text.startswith("#compdef gpuslice\n")
    assert "[Time between two views, 0.1 to 3600]" in text  # a point inside a number ends no sentence
    for part in ("--policy=}", ":(fixed elastic off)", ":_files", ":_gpuslice_cards", "'1:what:(pod)'"):
        assert part in text, part
    zsh = shutil.which("zsh")
    if not zsh:
        pytest.skip("no zsh")
    assert subprocess.run([zsh, "-n", script]).returncode == 0
