from __future__ import annotations

import pytest

from meshnet.lab.scenario import Application, Foreign, Scenario, Sidecar, Step, Variant
from meshnet.lab.topology import ADDRESSES
from meshnet.model.errors import Wrong

CALL = Step("a call", "call", "client")


def scenario(*variants):
    return Scenario("s", "about", "symptom", "cure", variants)


@pytest.mark.parametrize("family", [4, 6])
def test_a_place_stands_for_its_address_in_the_row_s_family(family):
    assert CALL.expected(family) == ADDRESSES["client"][family]
    assert Step("x", "call", "client", "inbound").expected(family) == f"{ADDRESSES['client'][family]}, inbound"
    assert Step("x", "call", "refused").expected(family) == "refused"


def test_a_row_for_each_variant_backend_and_family():
    made = scenario(Variant("one", spec="{}"), Variant("two", spec="{}", families=(6,), backends=("nftables",)))
    names = [row.name for row in made.rows]
    assert len(names) == len(set(names)) == 7
    assert names[0] == "one legacy ipv4" and names[-1] == "two nftables ipv6"


def test_names_say_no_more_than_there_is():
    assert [row.name for row in scenario(Variant(backends=("iptables-nft",))).rows] == ["ipv4", "ipv6"]
    foreign = Variant("uid 0", rules=Foreign(""), families=(4,), backends=("iptables-legacy",))
    assert [row.name for row in scenario(foreign).rows] == ["uid 0"]


def test_a_step_of_which_nothing_is_expected_is_not_judged():
    (row,) = scenario(
        Variant(spec="{}", families=(4,), backends=("nftables",), steps=(CALL, Step("look", "call")))
    ).rows
    assert row.expected == {"a call": ADDRESSES["client"][4]}


def test_what_has_to_be_there():
    plain = Variant(sidecar=Sidecar("embedded"), application=Application("echo", uid=None))
    assert scenario(plain).needs == frozenset()
    assert scenario(plain, Variant(application=Application("nginx"))).needs == {"envoy", "nginx", "ids"}
    assert scenario(Variant(sidecar=Sidecar("none", uid=7), application=Application("none", uid=None))).needs == {"ids"}


def test_a_pod_is_set_up_one_way():
    with pytest.raises(Wrong, match="at once"):
        Variant(spec="{}", rules=Foreign(""))


def test_two_steps_of_one_name_would_be_one_in_the_report():
    with pytest.raises(Wrong, match="two steps"):
        Variant(spec="{}", steps=(CALL, Step("a call", "hold")))
