"""From flags and rules to a pod that packets can walk through."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any

import pytest

from meshnet.cli.simulated import Subject, conduct_for, host_for, of_document, of_files, of_text, tproxy_marks
from meshnet.model.cidr import read_address
from meshnet.model.errors import UsageError
from meshnet.model.host import Address
from meshnet.model.marks import Mark
from meshnet.parse.ruleset import read
from meshnet.spec.load import load_text
from tests.unit.cli.commands import HEAD
from tests.unit.simulate.pods import table

if TYPE_CHECKING:
    from pathlib import Path

    from meshnet.model.host import Host
    from meshnet.model.story import Conduct

PLAIN: dict[str, Any] = {
    "way": None,
    "src": None,
    "dst": None,
    "iface": "eth0",
    "proto": "tcp",
    "dport": 80,
    "address": (),
    "src_valid_mark": False,
    "forward": False,
    "no_policy_route": False,
    "uid": None,
    "gid": None,
    "sidecar": None,
    "sidecar_uid": None,
    "sidecar_gid": None,
    "sidecar_mark": None,
    "inbound_port": None,
    "outbound_port": None,
}
NOBODY = Subject("saved", ())
TPROXY = "-A PREROUTING -p tcp -j TPROXY --on-port 15006 --on-ip 0.0.0.0 --tproxy-mark {}"
OWNER = "-A OUTPUT -m owner --{}-owner {} -j RETURN"


def number(text: str) -> int:
    return read_address(text)[1]


def host(about: Subject = NOBODY, *, route_localnet: bool = False, **given: Any) -> Host:
    return host_for(about, PLAIN | given, route_localnet)


def addresses(found: Host, link: str = "eth0") -> dict[int, list[tuple[int, int]]]:
    held = found.link(link)
    assert held is not None
    return {family: [(a.number, a.prefix) for a in held.addresses if a.family == family] for family in (4, 6)}


def spec(body: str = "", families: tuple[Any, ...] = (4, 6)) -> Subject:
    return of_document(load_text(HEAD + body, "pod.yaml"), families)


def saved(*lines: str, name: str = "mangle", family: int = 4) -> Subject:
    return of_text(table(name, *lines), "saved", family)  # type: ignore[arg-type]


def conduct(about: Subject, family: int = 4, **given: Any) -> Conduct:
    return conduct_for(about, PLAIN | given, family)[0]  # type: ignore[arg-type]


def test_of_a_spec_only_the_family_that_is_asked_for_is_read() -> None:
    assert [held.family for held in spec("families: [ipv4, ipv6]\n", (6,)).rules] == [6]
    assert [held.family for held in spec("families: [ipv4]\n").rules] == [4]
    assert spec(families=(4,)).of(6).tables == ()


def test_a_rule_leads_back_to_its_line_and_others_to_none() -> None:
    about = spec("families: [ipv4]\noutbound:\n  excludePorts: [22]\n")
    rules = [rule for item in about.rules for t in item.tables for chain in t.chains for rule in chain.rules]
    assert "pod.yaml:5" in {about.origin(rule)[1] for rule in rules}
    assert about.origin(None) == ("", "")
    other = saved('-A PREROUTING -m comment --comment "meshnet:in.x" -j ACCEPT')
    (foreign,) = other.rules[0].table("mangle").chain("PREROUTING").rules  # type: ignore[union-attr]
    assert other.origin(foreign) == ("", "")
    assert about.origin(foreign) == ("", "")


def test_the_sidecar_s_ports_are_the_spec_s_or_the_usual_ones() -> None:
    found = spec("inbound: {port: 16006}\noutbound: {port: 16001}\ndns: {port: 16053}\n").proxies
    assert (found.inbound.first, found.outbound, found.dns) == (16006, 16001, 16053)
    assert (NOBODY.proxies.inbound.first, NOBODY.proxies.outbound) == (15006, 15001)


def test_saved_rules_of_both_families(tmp_path: Path) -> None:
    for name in ("v4", "v6"):
        (tmp_path / name).write_text(table("nat", f'-A OUTPUT -m comment --comment "{name}" -j ACCEPT'))
    found = of_files(str(tmp_path / "v4"), str(tmp_path / "v6"))
    assert found.name == f"{tmp_path}/v4 and {tmp_path}/v6"
    assert [held.family for held in found.rules] == [4, 6]
    assert [held.family for held in of_files(None, str(tmp_path / "v6")).rules] == [6]


def test_standard_input_is_one_file(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stdin:
        buffer = io.BytesIO(table("nat", "-A OUTPUT -j ACCEPT").encode())

    with pytest.raises(UsageError, match="standard input is one file"):
        of_files("-", "-")
    monkeypatch.setattr(sys, "stdin", Stdin())
    assert of_files("-", None).name == "<stdin>"


def test_a_table_that_the_tool_could_not_print_is_said() -> None:
    text = "# Table `nat' is incompatible, use 'nft' tool.\n" + table("mangle", "-A OUTPUT -j ACCEPT")
    (note,) = of_text(text, "saved", 4).notes
    assert "table nat" in note


def test_a_pod_has_addresses_of_both_families_that_belong_to_nobody() -> None:
    found = addresses(host())
    assert found == {4: [(number("192.0.2.2"), 24)], 6: [(number("2001:db8::2"), 64)]}


@pytest.mark.parametrize(("given"), [{"dst": "10.0.0.9"}, {"way": "out", "src": "10.0.0.9"}])
def test_an_end_that_was_named_is_the_pod_s_address(given: dict[str, Any]) -> None:
    found = addresses(host(**given))
    assert found[4] == [(number("10.0.0.9"), 24)]
    assert len(found[6]) == 1


@pytest.mark.parametrize(
    "given",
    [
        {"dst": "127.0.0.1"},
        {"dst": "::1"},
        {"way": "out", "src": "127.0.0.6"},
        {"way": "out", "src": "::6"},
        {"dst": "10.0.0.9", "iface": "net1"},
        {"way": "out", "dst": "10.0.0.9"},
    ],
)
def test_what_is_no_address_of_eth0(given: dict[str, Any]) -> None:
    assert addresses(host(**given))[4] == [(number("192.0.2.2"), 24)]


def test_addresses_that_are_named_stand_with_their_networks() -> None:
    found = host(address=("10.0.0.9/16", "net1=10.1.0.9", "eth0=fd00::9/48"), dst="10.0.0.10")
    assert addresses(found) == {4: [(number("10.0.0.9"), 16)], 6: [(number("fd00::9"), 48)]}
    assert addresses(found, "net1")[4] == [(number("10.1.0.9"), 32)]


@pytest.mark.parametrize("word", ["10.0.0.9/33", "fd00::/129", "10.0.0.9/", "x", "eth0=", "10.0.0.9/-1", "10.0.0.9/ 8"])
def test_what_is_no_address(word: str) -> None:
    with pytest.raises(UsageError):
        host(address=(word,))


def test_another_interface_has_a_network_of_its_own() -> None:
    found = host(iface="net1")
    assert addresses(found, "net1")[4] != addresses(found)[4]
    assert host(iface="lo").link("lo") is not None
    assert len([link for link in host(iface="lo").links if link.name == "lo"]) == 1


def test_sysctls_are_those_of_the_flags() -> None:
    found = host(route_localnet=True, src_valid_mark=True, forward=True)
    assert all(link.route_localnet and link.src_valid_mark for link in found.links if link.name != "lo")
    assert (found.forwards, host().forwards) == ((4, 6), ())


def test_a_spec_s_own_routing() -> None:
    found = host(spec("families: [ipv4, ipv6]\nrouting: {table: 77}\n"))
    assert {(rule.family, rule.table) for rule in found.lookups} == {(4, 77), (6, 77)}
    assert host(spec(), no_policy_route=True).lookups == ()


def test_the_address_that_a_sidecar_binds_is_on_lo() -> None:
    lo = host(spec("families: [ipv6]\ninbound: {mode: redirect, originalSource: false}\n")).link("lo")
    assert lo is not None
    assert Address(6, 6, 128) in lo.addresses


def test_saved_rules_get_the_routing_that_tproxy_s_marks_need() -> None:
    about = saved(TPROXY.format("0x539/0xfff"), TPROXY.format("0x1/0xff"), TPROXY.format("0x539/0xfff"))
    assert tproxy_marks(about.rules[0]) == [Mark(0x539, 0xFFF), Mark(1, 0xFF)]
    found = host(about)
    assert [rule.mark for rule in found.lookups] == [Mark(0x539, 0xFFF), Mark(1, 0xFF)]
    assert [route.kind for route in found.routes].count("local") == 1
    assert host(about, no_policy_route=True).lookups == ()
    assert host(saved("-A PREROUTING -j ACCEPT")).lookups == ()


def test_a_mark_s_bits_outside_of_its_mask_are_none() -> None:
    assert tproxy_marks(read(table("mangle", TPROXY.format("0x1539/0xfff")), 4)) == [Mark(0x539, 0xFFF)]


@pytest.mark.parametrize(("family", "bound"), [(4, "127.0.0.6"), (6, "::6")])
def test_a_spec_s_sidecar(family: int, bound: str) -> None:
    hidden = spec("sidecar: {uids: [7, 8], gids: [9]}\ninbound: {mode: redirect, originalSource: false}\n")
    found = conduct(hidden, family)
    assert (found.uid, found.gid, found.bind, found.spoofs) == (7, 9, number(bound), False)
    assert not found.transparent
    kept = conduct(spec("sidecar: {mark: 0x10}\n"), family)
    assert (kept.bind, kept.spoofs, kept.mark, kept.own_mark, kept.transparent) == (None, True, 0x539, 16, True)


def test_a_sidecar_without_ids_is_root() -> None:
    assert conduct(spec("sidecar: {uids: [], gids: [], mark: 1}\n")).uid == 0


def test_saved_rules_tell_the_sidecar_by_the_owner_that_they_name_first() -> None:
    about = saved(OWNER.format("uid", 7), OWNER.format("gid", 9), OWNER.format("uid", 8), name="nat")
    found = conduct(about)
    assert (found.uid, found.gid, found.bind) == (7, 9, number("127.0.0.6"))
    assert conduct(saved(OWNER.format("uid", 7), name="nat")).gid == 7
    assert (conduct(saved("-A OUTPUT -j ACCEPT", name="nat")).uid, conduct(NOBODY).uid) == (1337, 1337)


@pytest.mark.parametrize(
    ("lines", "mark"),
    [
        ((TPROXY.format("0x10/0xff"), "-A OUTPUT -j CONNMARK --restore-mark"), 0x10),
        (("-A OUTPUT -m connmark --mark 0x20 -j CONNMARK --restore-mark",), 0x20),
        (("-A PREROUTING -m mark --mark 0x30 -j CONNMARK --save-mark",), 0),
    ],
)
def test_rules_that_keep_a_mark_on_the_connection_keep_the_client_s_address(lines: tuple[str, ...], mark: int) -> None:
    found = conduct(saved(*lines))
    assert (found.spoofs, found.bind, found.mark) == (True, None, mark)


@pytest.mark.parametrize(
    ("word", "bind", "spoofs", "dials"),
    [
        ("original-source", None, True, None),
        ("passthrough", "127.0.0.6", False, None),
        ("loopback", "127.0.0.6", False, ("127.0.0.1", 8080)),
    ],
)
def test_a_way_of_dialling_that_was_named(word: str, bind: str | None, spoofs: bool, dials: tuple[str, int]) -> None:
    found = conduct(NOBODY, sidecar=word, dport=8080)
    assert (found.bind, found.spoofs) == (None if bind is None else number(bind), spoofs)
    assert found.dials == (None if dials is None else (number(dials[0]), dials[1]))


def test_ids_of_the_flags_are_the_sidecar_s_but_for_a_packet_that_somebody_sends() -> None:
    assert conduct(NOBODY, uid=5, gid=6).uid == 5
    assert conduct(NOBODY, uid=5, way="out").uid == 1337
    assert conduct(NOBODY, uid=5, sidecar_uid=7, sidecar_gid=0).uid == 7
    assert conduct(NOBODY, sidecar_gid=0).gid == 0


def test_a_mark_and_ports_of_the_flags() -> None:
    found = conduct(NOBODY, sidecar_mark="0x77", inbound_port=1, outbound_port=2)
    assert (found.mark, found.inbound_port, found.outbound_port) == (0x77, 1, 2)
    with pytest.raises(UsageError, match="--sidecar-mark"):
        conduct(NOBODY, sidecar_mark="seven")


def test_what_it_was_taken_from_is_said() -> None:
    said = conduct_for(spec(), PLAIN, 4)[1][0]
    assert said.endswith("keeps the client's address, mark 0x539: as the spec says")
    assert "as far as the rules tell" in conduct_for(NOBODY, PLAIN, 4)[1][0]
