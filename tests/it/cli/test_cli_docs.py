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


def complete(cli, *words):
    """What bash offers for the last word."""
    script = installed("bash-completion", "completions", "gpuslice.bash")
    code = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); compopt() { :; }; _gpuslice; '
            'printf "%s\\n" "${COMPREPLY[@]}"')
    out = subprocess.run(["bash", "-c", code, "x", script, "gpuslice", *words], env=cli.env, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    assert out.stderr == ""
    return out.stdout.split()


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


def test_zsh_completion_parses():
    script = installed("zsh", "site-functions", "_gpuslice")
    assert script.read_text().startswith("#compdef gpuslice\n")
    zsh = shutil.which("zsh")
    if not zsh:
        pytest.skip("no zsh")
    assert subprocess.run([zsh, "-n", script]).returncode == 0
