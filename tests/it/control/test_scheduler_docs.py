"""docs/scheduler.md and the README against the daemon: its flags, series and reasons are those that are written down."""

import re
import subprocess

import pytest

from conftest import ROOT, stage_dir
from scheduler_daemon import Daemon, get, until

OWN = "gpuslice_scheduler_"
TEXT = (ROOT / "docs" / "scheduler.md").read_text()
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "deploy" / "manifests" / "README.md"]


def help_of(*command: str) -> str:
    return subprocess.run([stage_dir() / "bin" / command[0], *command[1:], "--help"], check=True, capture_output=True,
                          text=True).stdout


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> str:
    """/metrics of a daemon that has read a small cluster."""
    daemon = Daemon(tmp_path_factory.mktemp("daemon"))
    try:
        daemon.wait_ready()
        yield until(lambda: get(f"{daemon.metrics}/metrics"), "no metrics")
    finally:
        daemon.close()


def rows(heading: str) -> list[list[str]]:
    """The rows of the first table below a heading."""
    section = TEXT.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    table = section.split("|---|")[1].split("\n\n")[0]
    return [row.strip("|").split("|") for row in table.split("\n")[1:] if row.startswith("|")]


def spans(text: str) -> list[str]:
    """Code in a text: `...`, and lines behind a prompt."""
    return re.findall(r"`([^`\n]+)`", text) + re.findall(r"^\$ (.+)", text, re.M)


def test_flags():
    """Each flag that is spoken of is one of the daemon's, or of the command that it stands behind."""
    flags = set(re.findall(r"--[\w-]+", help_of("gpuslice-scheduler")))
    explain = set(re.findall(r"--[\w-]+", help_of("gpuslice", "explain")))
    checked = 0
    for span in spans(TEXT):
        if span.startswith(("./dev", "helm", "kubectl", "kube-scheduler", "docker", "ctr")):
            continue
        for flag in re.findall(r"--[\w-]+", span):
            assert flag in flags | explain, f"docs/scheduler.md: {span}"
            checked += 1
    assert checked > 10


def test_a_word_that_a_flag_does_not_know():
    """It is refused with those it knows, which the help names too."""
    assert "--node-choice extender|scheduler" in help_of("gpuslice-scheduler")
    done = subprocess.run([stage_dir() / "bin" / "gpuslice-scheduler", "--node-choice=filter"], capture_output=True,
                          text=True, timeout=60)
    assert done.returncode != 0
    assert "--node-choice: 'filter' is none of extender|scheduler" in done.stderr


def test_presets():
    """Values that stand behind a flag are its preset."""
    text = help_of("gpuslice-scheduler")
    said = re.findall(r"`(--[\w-]+)` \(`([^`]+)`\)", TEXT)
    said += [(flag, f"{n}s") for flag, n in re.findall(r"`(--[\w-]+)`, (\d+) s\b", TEXT)]
    assert len(said) >= 2
    for flag, value in said:
        assert re.search(rf"^  {flag} .*\n.*\({re.escape(value)}\)$", text, re.M), (flag, value)


def labels_on(page: str, name: str) -> set[str]:
    found = set()
    for labels in re.findall(rf"^{name}(?:_bucket|_sum|_count)?(?:{{(.*)}})? \S+$", page, re.M):
        found |= set(re.findall(r'(\w+)="', labels))
    return found - {"le"}


def test_series(page):
    """The table has every series of ours with its labels, and no other."""
    there = set(re.findall(rf"^# TYPE {OWN}(\w+) ", page, re.M))
    said = {}
    for cell in (row[0] for row in rows("Metrics")):
        pending = []
        for name, labels in re.findall(r"`(\w+)`|\(([^)]*)\)", cell):
            if name:
                pending.append(name)
                said[name] = set()
                continue
            words = {word.strip() for word in labels.split(";")[-1].split(",")}
            # labels behind a list are those of each in it that has any
            for one in pending:
                said[one] = words if labels_on(page, OWN + one) else set()
            pending = []
    assert set(said) == there
    for name, labels in said.items():
        assert labels == labels_on(page, OWN + name), name
    for name in re.findall(r"`(hami_\w+)`", TEXT):
        assert f"# TYPE {name} " in page, name


def test_reasons(page):
    """The words of refusals are those that are explained."""
    counted = {"filter": set(), "webhook": set()}
    for call, reason in re.findall(rf'^{OWN}refusals_total{{call="(\w+)",reason="(\w+)"}}', page, re.M):
        counted[call].add(reason)
    assert {word for row in rows("Why a pod waits") for word in re.findall(r"`([A-Z]\w+)`", row[0])} == counted["filter"]
    webhook = TEXT.split("The webhook's, in `refusals_total`")[1].split("\n\n")[0]
    assert set(re.findall(r"`([A-Z]\w+)`", webhook)) == counted["webhook"]


def test_names_in_the_sources():
    """Reasons of events, annotations, and tests that are named exist."""
    code = "".join(path.read_text() for path in (ROOT / "src").rglob("*.[ch]"))
    daemon = "".join(path.read_text() for room in ("control", "cluster", "apps/scheduler")
                     for path in (ROOT / "src" / room).rglob("*.[ch]"))
    events = TEXT.split("Events on the pod:")[1].split("\n\n")[0]
    assert set(re.findall(r"`([A-Z]\w+)`", events)) == set(re.findall(r'reason = [^;]*?"([A-Z]\w+)"', daemon)) | {
        word for pair in re.findall(r'reason = \w+ \? "(\w+)" : "(\w+)"', daemon) for word in pair}
    for key in set(re.findall(r"\b(?:hami|gpuslice)\.io/[\w.-]*\w", TEXT)):
        assert key in code, key
    tests = "".join(path.name + path.read_text() for path in (ROOT / "tests" / "e2e" / "control").glob("*.py"))
    for word in re.findall(r"-k (\w+)", TEXT):
        assert re.search(rf"(def test_\w*|test_\w*){word}", tests), word


@pytest.mark.parametrize("file", PAGES, ids=lambda file: str(file.relative_to(ROOT)))
def test_links(file):
    """Links inside the repository lead somewhere."""
    for target in re.findall(r"\]\(([^)#\s]+)", file.read_text()):
        if "://" not in target:
            assert (file.parent / target).exists(), target
