from __future__ import annotations

import pytest

from meshnet.doctor.calls import stories
from meshnet.doctor.reply import lost_replies
from meshnet.model.value import replace
from tests.unit.doctor.patients import CAPTURE, KEPT, SPOOFS, patient


def found(text: str, sidecar=SPOOFS, **more):
    one = patient(text, sidecar, **more)
    return list(lost_replies(one, stories(one)))


def without(text: str, word: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if word not in line)


def test_a_client_s_address_that_is_kept_soundly() -> None:
    assert found(KEPT) == []
    assert found(CAPTURE, replace(SPOOFS, spoofs=False, bind=None)) == []


@pytest.mark.parametrize(
    ("word", "hint"), [("--restore-mark", "CONNMARK --restore-mark"), ("--save-mark", "CONNMARK --save-mark")]
)
def test_a_mark_that_isn_t_saved_or_given_back(word: str, hint: str) -> None:
    (only,) = found(without(KEPT, word))
    assert only.kind == "lost-reply" and "leaves by eth0" in only.why[0]
    assert hint in only.next_step
    assert only.steps[-1].trace.link == "eth0"


def test_a_mark_that_no_policy_rule_leads_to_lo() -> None:
    (only,) = found(CAPTURE + without(KEPT, "TPROXY"), policy=False)
    assert "ip -4 rule add fwmark 0x539 lookup 133" in only.next_step


def test_a_sidecar_without_a_mark() -> None:
    (only,) = found(CAPTURE, replace(SPOOFS, mark=0))
    assert "SO_MARK" in only.next_step and only.where is None


def test_an_answer_that_tproxy_drops() -> None:
    """It comes from a server, finds the application's socket, and that one isn't transparent."""
    (only,) = found(without(KEPT, "-m socket -j ACCEPT"))
    assert only.where is not None and only.where.number == 6
    assert "--ctdir REPLY" in only.next_step
