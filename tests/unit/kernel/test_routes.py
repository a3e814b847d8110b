from __future__ import annotations

import pytest

from meshnet.kernel.routes import _failed_line, hint_for


@pytest.mark.parametrize(
    ("said", "word"),
    [
        ("RTNETLINK answers: File exists\nCommand failed -:1\n", "routing.table"),
        ("RTNETLINK answers: Network is down\n", "loopback"),
        ("Error: IPv6 is disabled on nexthop device.\n", "families: [ipv4]"),
        ("RTNETLINK answers: Operation not permitted\n", "CAP_NET_ADMIN"),
    ],
)
def test_what_the_kernel_says_leads_to_a_next_step(said: str, word: str) -> None:
    assert word in hint_for(said)


def test_words_that_nobody_knows_lead_nowhere() -> None:
    assert hint_for("RTNETLINK answers: something new") == ""


def test_the_line_that_ip_stopped_at_is_named() -> None:
    text = "rule add a\nroute add b\n"
    assert _failed_line("Command failed -:2\n", text) == "route add b"
    assert _failed_line("Command failed -:9\n", text) == _failed_line("nothing of the kind", text) == ""
