from __future__ import annotations

from tests.unit.compile.istio.written import plan, rules


def test_excluded_interfaces_stand_at_the_head_in_their_order() -> None:
    made = plan(b="*", c="eth8,eth9")
    assert rules(made, "nat", "PREROUTING") == ["-i eth8 -j RETURN", "-i eth9 -j RETURN", "-p tcp -j ISTIO_INBOUND"]
    assert rules(made, "nat", "OUTPUT") == ["-o eth8 -j RETURN", "-o eth9 -j RETURN", "-j ISTIO_OUTPUT"]
    assert rules(made, "mangle", "PREROUTING") == []


def test_under_tproxy_they_are_in_both_tables() -> None:
    made = plan(b="*", c="eth8", m="TPROXY", drop_invalid="true")
    assert rules(made, "nat", "PREROUTING") == ["-i eth8 -j RETURN"]
    assert rules(made, "nat", "OUTPUT") == ["-o eth8 -j RETURN", "-j ISTIO_OUTPUT"]
    assert rules(made, "mangle", "PREROUTING")[:3] == [
        "-i eth8 -j RETURN",
        "-m conntrack --ctstate INVALID -j ISTIO_DROP",
        "-p tcp -j ISTIO_INBOUND",
    ]
    assert rules(made, "mangle", "OUTPUT")[0] == "-o eth8 -j RETURN"


def test_guests_stand_ahead_of_all_the_last_one_first() -> None:
    """Each was put into the first place, one after the other."""
    made = plan(b="*", i="*", k="vm0,vm1", c="eth8")
    assert rules(made, "nat", "PREROUTING") == [
        "-i vm1 -j ISTIO_REDIRECT",
        "-i vm0 -j ISTIO_REDIRECT",
        "-i vm1 -j RETURN",
        "-i vm0 -j RETURN",
        "-i eth8 -j RETURN",
        "-p tcp -j ISTIO_INBOUND",
    ]


def test_guests_and_blocks_of_both_families() -> None:
    made = plan(i="10.0.0.0/8,fd00::/8,192.168.0.0/16", k="vm0,vm1")
    assert rules(made, "nat", "PREROUTING") == [
        "-d 192.168.0.0/16 -i vm1 -j ISTIO_REDIRECT",
        "-d 192.168.0.0/16 -i vm0 -j ISTIO_REDIRECT",
        "-d 10.0.0.0/8 -i vm1 -j ISTIO_REDIRECT",
        "-d 10.0.0.0/8 -i vm0 -j ISTIO_REDIRECT",
        "-i vm1 -j RETURN",
        "-i vm0 -j RETURN",
    ]
    assert rules(made, "nat", "PREROUTING", 6) == [
        "-d fd00::/8 -i vm1 -j ISTIO_REDIRECT",
        "-d fd00::/8 -i vm0 -j ISTIO_REDIRECT",
        "-i vm1 -j RETURN",
        "-i vm0 -j RETURN",
    ]


def test_where_nothing_is_captured_guests_are_let_through() -> None:
    assert rules(plan(k="vm0"), "nat", "PREROUTING") == ["-i vm0 -j RETURN"]
