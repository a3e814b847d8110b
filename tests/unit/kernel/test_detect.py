from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from meshnet.kernel import detect
from meshnet.kernel.detect import Evidence, Found
from meshnet.kernel.run import Ran
from meshnet.model.errors import NOT_HERE, ToolError, UnsupportedError

if TYPE_CHECKING:
    from pathlib import Path

EMPTY = """*nat
:PREROUTING ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
COMMIT
"""


def seen(nft=None, legacy=None, system="nft", family=4):
    """Counts are (ours, foreign); a text is a problem; None is not installed."""

    def found(variant, what):
        if isinstance(what, tuple):
            return Found(variant, True, *what)
        return Found(variant, False, problem=what or f"{variant} is missing")

    known_by = f"xtables-{system}-multi" if system else ""
    return Evidence(family, (found("nft", nft), found("legacy", legacy)), system, known_by)


@pytest.mark.parametrize(
    ("evidence", "backend", "why"),
    [
        (seen((0, 0), (3, 0)), "iptables-legacy", "holds 3 rules of ours"),
        (seen((1, 0), (0, 50), "legacy"), "iptables-nft", "holds 1 rules of ours"),
        (seen((5, 0), (2, 0)), "iptables-nft", "iptables-legacy holds 2 too"),
        (seen((0, 2), (0, 7)), "iptables-legacy", "holds 7 foreign rules (iptables-nft holds 2 too"),
        (seen((0, 2), (0, 0), "legacy"), "iptables-nft", "2 foreign rules"),
        (seen((0, 0), (0, 0)), "iptables-nft", "iptables is xtables-nft-multi"),
        (seen((0, 0), (0, 0), "legacy"), "iptables-legacy", "xtables-legacy-multi"),
        (seen((0, 0), (0, 0), ""), "iptables-nft", "iptables-nft is there"),
        (seen(None, (0, 0), ""), "iptables-legacy", "iptables-legacy is there"),
        (seen(None, (0, 0), "nft"), "iptables-legacy", "iptables-legacy is there"),
        (seen((0, 0), "tables exist, but iptables-legacy-save is missing"), "iptables-nft", "tables exist"),
    ],
)
def test_the_choice_follows_the_evidence_and_names_it(evidence, backend, why):
    choice = detect.choose([evidence])
    assert choice.backend == backend
    assert why in choice.reason


def test_both_families_count_together():
    choice = detect.choose([seen((0, 1), (0, 2)), seen((0, 5), (0, 0), family=6)])
    assert choice.backend == "iptables-nft"
    assert "holds 6 foreign" in choice.reason


def test_a_variant_must_be_there_for_every_family():
    assert detect.choose([seen((0, 0), (0, 0)), seen(None, (0, 0), family=6)]).backend == "iptables-legacy"


def test_without_ipv6_tools_the_family_is_named():
    four, six = seen((0, 0), (0, 0)), seen(None, None, "", family=6)
    assert (four.usable, six.usable) == (True, False)
    assert detect.choose([four]).backend == "iptables-nft"
    with pytest.raises(UnsupportedError) as caught:
        detect.choose([four, six])
    assert caught.value.exit_code == NOT_HERE
    assert all(reason.startswith("IPv6") for reason in caught.value.reasons)


def test_our_rules_where_a_tool_is_missing_are_no_case_for_the_other_variant():
    with pytest.raises(UnsupportedError, match="iptables-legacy holds rules of ours"):
        detect.choose([seen((0, 0), (3, 0)), seen((0, 0), None, family=6)])


@pytest.mark.parametrize(
    ("line", "mine"),
    [
        ("-A MESHNET_IN -j RETURN", True),
        ("-A OUTPUT -j MESHNET_OUT", True),
        ('-A OUTPUT -m comment --comment "meshnet:out.jump" -j ACCEPT', True),
        ('-A OUTPUT -m comment --comment "not meshnet:x" -j ACCEPT', False),
        ('-A OUTPUT -m comment --comment "-j MESHNET_OUT" -j ACCEPT', False),
        ("-A OUTPUT -j MY_MESHNET_OUT", False),
    ],
)
def test_whose_rule_it_is(line, mine):
    assert detect.ours(line) is mine


def test_tables_without_a_rule_are_no_evidence():
    """Listing legacy tables makes them: going by that, a second run would change over to the other backend."""
    empty = detect._found(4, "legacy", EMPTY)
    assert (empty.usable, empty.ours, empty.foreign) == (True, 0, 0)
    nothing = detect._found(4, "nft", "")
    assert detect.choose([Evidence(4, (nothing, empty), "nft", "xtables-nft-multi")]).backend == "iptables-nft"


def test_what_couldn_t_be_read_is_a_problem():
    found = detect._found(4, "nft", ToolError("refused", detail="why"))
    assert (found.installed, found.usable, found.problem) == (True, False, "refused; said: why")


def test_the_text_that_was_read_is_kept_for_who_chose_the_backend():
    seen = [Evidence(family, (Found("nft", True, text=f"nft{family}"), Found("legacy", False))) for family in (4, 6)]
    assert detect.texts(seen, "iptables-nft") == {4: "nft4", 6: "nft6"}
    assert detect.texts(seen, "iptables-legacy") is None
    assert detect.texts(seen, "libiptc") is None


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Makes programs as links, the last of them as a file, and finds the first as ``iptables``."""

    def make(*names: str) -> None:
        for name, target in pairwise(names):
            (tmp_path / name).symlink_to(target)
        (tmp_path / names[-1]).touch(0o755)
        monkeypatch.setattr(detect, "find", lambda name: str(tmp_path / names[0]) if name == "iptables" else None)

    return make


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("iptables", "alternative", "iptables-nft", "xtables-nft-multi"), ("nft", "xtables-nft-multi")),
        (("iptables", "iptables-legacy", "xtables-legacy-multi"), ("legacy", "xtables-legacy-multi")),
        (("iptables", "iptables-nft"), ("nft", "iptables-nft")),
    ],
)
def test_the_plain_name_is_followed_without_a_process(installed, monkeypatch, names, said):
    monkeypatch.setattr(detect, "run", lambda *_, **__: pytest.fail("a process"))
    installed(*names)
    assert detect._system(4) == said
    assert detect._system(6) == ("", "")


@pytest.mark.parametrize(
    ("out", "code", "said"),
    [
        ("iptables v1.8.9 (nf_tables)\n", 0, ("nft", "iptables v1.8.9 (nf_tables)")),
        ("iptables v1.6.1\n", 0, ("legacy", "iptables v1.6.1")),
        ("", 127, ("", "")),
    ],
)
def test_a_link_that_doesn_t_tell_is_asked(installed, monkeypatch, out, code, said):
    monkeypatch.setattr(detect, "run", lambda argv, **_: Ran(tuple(argv), code, out, ""))
    installed("iptables", "xtables-multi")
    assert detect._system(4) == said


def test_a_table_of_ours_decides():
    """Whatever iptables holds: it may be what a move to nftables left when it was killed."""
    alone = detect.choose([seen((0, 9), (0, 0))], ("meshnet",))
    assert (alone.backend, alone.reason) == ("nftables", "table inet meshnet is ours")
    both = detect.choose([seen((3, 0), (0, 0))], ("meshnet",))
    assert both.backend == "nftables"
    assert both.reason == "table inet meshnet is ours (rules of ours are in iptables-nft too: all are in force)"
    assert detect.choose([seen(None, None)], ("meshnet",)).backend == "nftables"
