"""Shares of compute on the command line: what is taken, what is refused and with which words."""

import pytest

from cli_tools import cli, end, make_cli  # noqa: F401 (fixtures)


def refused(cli, *args):
    out = cli("run", *args, "true")
    assert out.returncode == 125 and out.stdout == ""
    assert out.stderr.startswith("gpuslice: ") and out.stderr.count("\n") == 1
    assert cli.names() == []
    return out.stderr


@pytest.mark.parametrize("share", ["0", "101", "-5", "abc", "", "5%", "1.5", "30,", ",30", "999999999999999999999"])
def test_bad_shares(cli, share):
    assert "1 to 100" in refused(cli, f"--cores={share}") or "," in share


def test_more_shares_than_cards(make_cli):
    cli = make_cli(cards=2)
    assert "3 shares, but only 2 cards" in refused(cli, "--cores", "10,20,30")
    assert "2 shares for 1 card;" in refused(cli, "--cores", "10,20", "--device", "0")
    assert "2 shares for 1 card;" in refused(cli, "--cores", "10,20", "--device", "1", "--memory", "1Gi")


@pytest.mark.parametrize("option, words", [("--policy=fast", "'fixed'"), ("--policy=", "'elastic'"),
                                           ("--priority=0", "'high'"), ("--priority=urgent", "'low'")])
def test_unknown_words(cli, option, words):
    assert words in refused(cli, "--cores", "30", option)


def test_a_policy_needs_a_share(cli):
    assert "--cores" in refused(cli, "--policy", "elastic")
    for policy in ("elastic", "fixed"):  # as `resize` has it
        assert "--cores" in refused(cli, "--cores", "none", "--policy", policy)
    assert cli("run", "--policy", "off", "true").returncode == 0
    assert cli("run", "--cores", "none", "--policy", "off", "true").returncode == 0


def test_terms_reach_the_quota(make_cli):
    cli = make_cli(cards=2)
    p = cli.start("--cores", "30,none", "--policy", "elastic", "--priority", "high", "--oversubscribe", "--name", "q")
    text = (cli.runtime / "gpuslice" / "q" / "quota").read_text()
    assert "priority 0\noversubscribe on\n" in text
    assert "cores=30 policy=elastic" in text and "cores=none policy=elastic" in text
    a, b = cli.slice("q")["devices"]
    assert (a["core_limit_pct"], b["core_limit_pct"]) == (30, 100)
    assert (a["policy"], a["priority"]) == ("elastic", "high")
    assert end(p) == 0
    p = cli.start("--cores", "30", "--name", "q")
    text = (cli.runtime / "gpuslice" / "q" / "quota").read_text()
    assert "cores=30 policy=fixed" in text and "priority" not in text and "oversubscribe" not in text
    assert end(p) == 0


def test_shares_are_promised_like_memory(cli):
    a = cli.start("--cores", "60", "--name", "a")
    b = cli.start("--cores", "30", "--policy", "elastic", "--name", "b")
    out = cli("run", "--cores", "11", "true")
    assert out.returncode == 125 and out.stderr.count("\n") == 1
    assert "'a' 60 %" in out.stderr and "'b' 30 %" in out.stderr and "--oversubscribe" in out.stderr
    for fits in (["--cores", "10"], ["--cores", "100"], ["--cores", "none"], [], ["--cores", "50", "--policy", "off"],
                 ["--cores", "50", "--oversubscribe"]):
        assert cli("run", *fits, "true").returncode == 0, fits
    assert end(a) == 0
    assert cli("run", "--cores", "70", "true").returncode == 0
    assert end(b) == 0


def test_the_card_with_the_least_compute_promised(make_cli):
    cli = make_cli(cards=2)
    a = cli.start("--memory", "1Gi", "--cores", "50", "--device", "0", "--name", "a")
    b = cli.start("--memory", "1Gi", "--cores", "20", "--device", "1", "--name", "b")
    c = cli.start("--memory", "1Gi", "--cores", "20", "--name", "c")
    assert cli.slice("c")["devices"][0]["uuid"] == cli.slice("b")["devices"][0]["uuid"]
    assert [end(p) for p in (a, b, c)] == [0, 0, 0]


def test_a_card_on_which_all_of_it_fits(make_cli):
    """The least memory promised is no use where the share does not fit."""
    cli = make_cli(cards=2)
    a = cli.start("--memory", "1Gi", "--cores", "80", "--device", "0", "--name", "a")
    b = cli.start("--memory", "2Gi", "--cores", "30", "--device", "1", "--name", "b")
    c = cli.start("--memory", "1Gi", "--cores", "50", "--name", "c")
    assert cli.slice("c")["devices"][0]["uuid"] == cli.slice("b")["devices"][0]["uuid"]
    out = cli("run", "--memory", "1Gi", "--cores", "60", "true")
    assert out.returncode == 125 and "card 0" in out.stderr and "'a' 80 %" in out.stderr
    assert cli("run", "--memory", "6Gi", "--cores", "20", "true").returncode == 0
    assert [end(p) for p in (a, b, c)] == [0, 0, 0]


def test_the_card_without_device_is_the_one_that_help_says(make_cli):
    """`gpuslice run --help`: room beside promises, room now, least memory promised, least compute, lowest index."""
    cli = make_cli(cards=3)
    text = " ".join(cli.ok("run", "--help").split())
    assert "Without --device the slice goes to a card that has room for all it asks for" in text
    order = ["to one that really has so much memory free, less what other slices may still take",
             "the one with the least memory promised or in use outside slices (a slice without a limit counts as a whole card)",
             "the one with the least compute promised", "the lowest index"]
    assert [text.index(x) for x in order] == sorted(text.index(x) for x in order)
    uuids = [c["uuid"] for c in cli.top()["cards"]]
    started = []

    def card_of(*options):
        started.append(cli.start("--name", f"s{len(started)}", *options))
        return uuids.index(cli.slice(f"s{len(started) - 1}")["devices"][0]["uuid"])

    assert card_of("--memory", "2Gi", "--cores", "10") == 0  # nothing promised: the lowest index
    assert card_of("--memory", "1Gi") == 1
    assert card_of() == 2  # no limit: as much as a whole card
    assert card_of("--memory", "1Gi") == 1  # the least memory
    assert card_of("--memory", "1Gi") == 1  # as much on 0 and 1, and no compute promised there
    assert card_of("--memory", "1Gi") == 0
    assert card_of("--memory", "4Gi") == 1  # 3 GiB on both
    out = cli("run", "--memory", "9Gi", "true")
    assert out.returncode == 125 and "card 0" in out.stderr, out.stderr  # it comes first, and says why
    assert [end(p) for p in started] == [0] * len(started)


def test_top_tells_shares_to_people(cli):
    p = cli.start("--cores", "30", "--priority", "high", "--name", "s")
    text = cli.ok("top", "--once")
    assert "of 30 % fixed" in text and "high priority" in text
    assert end(p) == 0
