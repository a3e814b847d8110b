from __future__ import annotations

from meshnet.doctor.shadow import shadows
from tests.unit.doctor.patients import CAPTURE, patient
from tests.unit.simulate.pods import table


def test_a_shadowed_rule_and_what_takes_its_packets() -> None:
    text = CAPTURE.replace("COMMIT", "-A OUT -p tcp -m tcp --dport 80 -j RETURN\nCOMMIT")
    (only,) = shadows(patient(text)).findings
    assert only.kind == "shadowed" and only.where is not None
    assert (only.where.number, only.where.words) == (5, "-p tcp -m tcp --dport 80 -j RETURN")
    assert [taker.number for taker in only.takers] == [1, 2, 3, 4]


def test_a_chain_that_nothing_leads_to_and_words_that_nothing_fits() -> None:
    text = table(
        "mangle", ":LOST - [0:0]", ":T - [0:0]", "-A LOST -j DROP", "-A INPUT -p tcp -j T", "-A T -p udp -j DROP"
    )
    loose, misfit = shadows(patient(text)).findings
    assert (loose.kind, loose.what) == ("unreachable", "nothing leads to chain LOST of mangle")
    assert (misfit.kind, misfit.what) == ("unreachable", "no packet fits rule 1 of mangle T")


def test_what_isn_t_judged_is_noted() -> None:
    report = shadows(patient(table("mangle", "-A INPUT -f -j DROP")))
    assert not report.findings
    assert report.notes == (
        "IPv4: whether rule 1 of mangle INPUT is reached can't be told: fragments aren't followed: conntrack has put "
        "them together (-f -j DROP)",
    )
