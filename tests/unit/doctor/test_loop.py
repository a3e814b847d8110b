from __future__ import annotations

from meshnet.doctor.calls import own_calls, stories
from meshnet.doctor.loop import loops
from meshnet.model.story import Conduct
from meshnet.model.value import replace
from tests.unit.doctor.patients import CAPTURE, PLAIN, patient


def found(text: str, sidecar: Conduct = PLAIN):
    one = patient(text, sidecar)
    return list(loops(one, tuple(stories(one)), tuple(own_calls(one))))


def test_a_sound_rule_set_has_none() -> None:
    assert found(CAPTURE) == []


def test_a_sidecar_that_no_rule_knows() -> None:
    """The application's call comes to it again and again, and so does what it sends by itself."""
    called, own = found(CAPTURE, replace(PLAIN, uid=7, gid=7))
    for one in (called, own):
        assert one.kind == "loop" and one.where is not None and one.steps
        assert (one.where.table, one.where.chain, one.where.number) == ("nat", "OUT", 4)
        assert "--uid-owner 7" in one.next_step and "ahead of rule 4 of nat OUT" in one.next_step
    assert "own connection again" in called.why[0]
    assert "taken back to itself" in own.why[0]


def test_its_own_queries_alone() -> None:
    text = CAPTURE.replace(
        "-A OUT -s 127", "-A OUT -p tcp -m tcp --dport 53 -j REDIRECT --to-ports 15053\n-A OUT -s 127"
    )
    (own,) = found(text)
    assert "its own DNS proxy" in own.why[0] and ":53/tcp" in own.why[1]


def test_the_rule_that_decides_is_named_and_not_the_one_that_only_redirects() -> None:
    text = CAPTURE.replace(":OUT -", ":TO - [0:0]\n:OUT -").replace(
        "-A OUT -p tcp -m tcp -j REDIRECT --to-ports 15001", "-A OUT -j TO\n-A TO -p tcp -j REDIRECT --to-ports 15001"
    )
    for one in found(text, replace(PLAIN, uid=7, gid=7)):
        assert one.where is not None and (one.where.chain, one.where.words) == ("OUT", "-j TO")


def test_calls_that_end_alike_are_one_finding() -> None:
    text = CAPTURE.replace("-A OUT -o lo", "-A OUT -p tcp -m tcp --dport 8080 -j RETURN\n-A OUT -o lo")
    called, _ = found(text, replace(PLAIN, uid=7, gid=7))
    assert any("the same way" in line for line in called.why)


def test_a_sidecar_that_is_known_by_a_mark_on_its_calls() -> None:
    text = CAPTURE.replace("-m owner --uid-owner 1337", "-m mark --mark 0x7")
    assert found(text, replace(PLAIN, own_mark=7)) == []
    assert found(text)
