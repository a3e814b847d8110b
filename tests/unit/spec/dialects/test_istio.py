from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshnet.model.cidr import read_cidr
from meshnet.model.errors import SpecError
from meshnet.model.marks import FULL
from meshnet.model.names import MARK_MASK
from meshnet.model.ports import PortRange
from meshnet.model.spec import Dns, Inbound, Interfaces, Outbound, Sidecar, Spec
from meshnet.spec.check import conflicts
from meshnet.spec.dialects.istio import Directory, spec_of, wants_both_families
from meshnet.spec.dialects.istio_options import RULES, Word
from meshnet.spec.dump import to_yaml
from meshnet.spec.load import load_text

LABELS = {option.name: option.label for option in RULES}
SHORT = {option.short: option.name for option in RULES if option.short}
NAMES = Directory({"istio-proxy": 1500, "envoy": 1600}.get, {"java": 203, "istio-proxy": 1501}.get)


def words(options: dict[str, str]) -> dict[str, Word]:
    given = {SHORT.get(name, name.replace("_", "-")): text for name, text in options.items()}
    return {name: Word(text, LABELS[name]) for name, text in given.items()}


def read(directory: Directory = NAMES, profile: Any = "istio", families: Any = "auto", **options: str) -> Spec:
    return spec_of(words(options), profile=profile, families=families, directory=directory)


def said(profile: Any = "istio", **options: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        read(profile=profile, **options)
    return caught.value.lines()


def ports(*numbers: int) -> tuple[PortRange, ...]:
    return tuple(PortRange(number, number) for number in numbers)


def blocks(*texts: str) -> tuple[Any, ...]:
    return tuple(map(read_cidr, texts))


def test_nothing_given_captures_nothing() -> None:
    spec = read(Directory())
    assert (spec.inbound.ports, spec.outbound.cidrs, spec.dns.capture) == ((), (), "off")
    assert (spec.inbound.mode, spec.inbound.port, spec.inbound.tunnel_port) == (
        "redirect",
        PortRange(15006, 15006),
        15008,
    )
    assert (spec.outbound.port, spec.outbound.groups) == (15001, "*")
    assert spec.sidecar == Sidecar((1337,), (1337,))
    assert spec.inbound.exclude_ports == ()
    assert (spec.marks.inbound, spec.marks.outbound, spec.marks.mask, spec.routing.table) == (1337, 1338, FULL, 133)
    assert spec.profile == "istio"


@pytest.mark.parametrize(
    ("options", "section", "found"),
    [
        ({"p": "1"}, "outbound", {"port": 1}),
        ({"p": ""}, "outbound", {"port": 15001}),
        ({"z": "2"}, "inbound", {"port": PortRange(2, 2)}),
        ({"e": "3"}, "inbound", {"tunnel_port": 3}),
        ({"b": "*"}, "inbound", {"ports": "*"}),
        ({"b": " * "}, "inbound", {"ports": "*"}),
        ({"b": ""}, "inbound", {"ports": ()}),
        ({"b": ","}, "inbound", {"ports": ()}),
        ({"b": "80, 90,"}, "inbound", {"ports": ports(80, 90)}),
        ({"b": ",80,,90"}, "inbound", {"ports": ports(80, 90)}),
        ({"b": "80,80"}, "inbound", {"ports": ports(80)}),
        ({"b": "9000:9100,1-2"}, "inbound", {"ports": (PortRange(9000, 9100), PortRange(1, 2))}),
        ({"d": "15090,15021"}, "inbound", {"exclude_ports": ports(15090, 15021)}),
        ({"m": "REDIRECT"}, "inbound", {"mode": "redirect", "original_source": False}),
        ({"m": "TPROXY"}, "inbound", {"mode": "tproxy", "original_source": True}),
        ({"m": "tproxy"}, "inbound", {"mode": "tproxy"}),
        ({"m": "NONE"}, "inbound", {"mode": "none"}),
        ({"m": ""}, "inbound", {"mode": "redirect"}),
        ({"i": "*"}, "outbound", {"cidrs": "*"}),
        ({"i": "10.0.0.0/8,2001:db8::/32"}, "outbound", {"cidrs": blocks("10.0.0.0/8", "2001:db8::/32")}),
        ({"i": "10.1.2.3/8,10.9.9.9"}, "outbound", {"cidrs": blocks("10.0.0.0/8", "10.9.9.9/32")}),
        ({"x": "10.0.0.0/8"}, "outbound", {"exclude_cidrs": blocks("10.0.0.0/8")}),
        ({"q": "3306"}, "outbound", {"ports": ports(3306)}),
        ({"o": "3306,27017"}, "outbound", {"exclude_ports": ports(3306, 27017)}),
        ({"k": "vm0,vm+"}, "interfaces", {"guest": ("vm0", "vm+")}),
        ({"c": "eth1"}, "interfaces", {"exclude": ("eth1",)}),
        ({"t": "2000"}, "marks", {"inbound": 2000, "mask": FULL}),
        ({"t": "0x7d0"}, "marks", {"inbound": 2000}),
        ({"r": "200"}, "routing", {"table": 200}),
        ({"u": "0,7"}, "sidecar", {"uids": (0, 7), "gids": (0, 7)}),
        ({"u": "0", "g": "9"}, "sidecar", {"uids": (0,), "gids": (9,)}),
        ({"g": "9"}, "sidecar", {"uids": (1500,), "gids": (9,)}),
        ({"u": "envoy", "g": "java"}, "sidecar", {"uids": (1600,), "gids": (203,)}),
        ({"envoy_user": "envoy"}, "sidecar", {"uids": (1600,), "gids": (1600,)}),
        ({"envoy_user": "nobody-such"}, "sidecar", {"uids": (1337,)}),
        ({"envoy_user": "envoy", "u": "5"}, "sidecar", {"uids": (5,)}),
        ({"redirect_dns": "true"}, "dns", {"capture": "resolvers"}),
        ({"redirect_dns": "true", "capture_all_dns": "true"}, "dns", {"capture": "all"}),
        ({"capture_all_dns": "true"}, "dns", {"capture": "off"}),
        ({"redirect_dns": "false"}, "dns", {"capture": "off"}),
        ({"istio_outbound_owner_groups": "*"}, "outbound", {"groups": "*"}),
        ({"istio_outbound_owner_groups": ""}, "outbound", {"groups": ()}),
        ({"istio_outbound_owner_groups": "java,7"}, "outbound", {"groups": (203, 7)}),
        ({"istio_outbound_owner_groups_exclude": "java"}, "outbound", {"exclude_groups": (203,)}),
        ({"istio_outbound_ipv4_loopback_cidr": "127.0.0.1/8"}, "outbound", {"loopback_cidr": read_cidr("127.0.0.0/8")}),
    ],
    ids=str,
)
def test_what_an_option_says(options: dict[str, str], section: str, found: dict[str, Any]) -> None:
    read_in = getattr(read(**options), section)
    assert {name: getattr(read_in, name) for name in found} == found


def test_flags_of_the_whole_spec() -> None:
    assert read(drop_invalid="true").drop_invalid
    assert not read().drop_invalid


def test_both_families_are_for_who_knows_nothing_better() -> None:
    """Whoever has looked at the namespace knows whether IPv6 is spoken there at all."""
    assert read(dual_stack="true").families == (4, 6)
    assert read(dual_stack="true", families=(4,)).families == (4,)
    assert read(dual_stack="true", profile="meshnet").families == "auto"
    assert read(families=(4, 6)).families == (4, 6)
    assert wants_both_families(words({"dual_stack": "1"}))
    assert not wants_both_families(words({"dual_stack": "false"}))
    assert not wants_both_families({})


def test_one_list_serves_pods_of_both_families() -> None:
    """Meshes exclude a block of each family for all of their pods; an IPv4 pod leaves the other one alone."""
    spec = read(i="10.0.0.0/8,fd00::/8", x="10.9.0.0/16,fd09::/16", families=(4,))
    assert len(spec.outbound.cidrs) == len(spec.outbound.exclude_cidrs) == 2


def test_the_other_profile() -> None:
    spec = read(profile="meshnet", b="*", t="0x111")
    assert (spec.profile, spec.marks.inbound, spec.marks.mask) == ("meshnet", 0x111, MARK_MASK)
    assert read(profile="meshnet", t="0x10000").marks.mask == FULL
    dead = read(profile="meshnet", i="10.0.0.0/8,127.0.0.1/32,::1,10.1.0.0/16", x="10.1.0.0/16")
    assert dead.outbound.cidrs == blocks("10.0.0.0/8")
    assert len(read(i="10.0.0.0/8,127.0.0.1/32,::1", x="10.0.0.0/8").outbound.cidrs) == 3


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"b": "http"}, "--istio-inbound-ports (-b, ISTIO_INBOUND_PORTS): not a port number (http): "),
        ({"b": "80,*"}, "--istio-inbound-ports (-b, ISTIO_INBOUND_PORTS): not a port number (*): "),
        ({"b": "0"}, "--istio-inbound-ports (-b, ISTIO_INBOUND_PORTS): outside the ports (0): "),
        ({"d": "*"}, "--istio-local-exclude-ports (-d, ISTIO_LOCAL_EXCLUDE_PORTS): not a port number (*): "),
        ({"p": "65536"}, "--envoy-port (-p, ENVOY_PORT): outside the ports (65536): "),
        (
            {"m": "BRIDGE"},
            "--istio-inbound-interception-mode (-m, ISTIO_INBOUND_INTERCEPTION_MODE): not a mode (BRIDGE)",
        ),
        ({"i": "10.0.0.0/33"}, "--istio-service-cidr (-i, ISTIO_SERVICE_CIDR): not a prefix length (10.0.0.0/33): "),
        ({"i": "*,10.0.0.0/8"}, "--istio-service-cidr (-i, ISTIO_SERVICE_CIDR): * beside other entries (*): "),
        ({"x": "*"}, "--istio-service-exclude-cidr (-x, ISTIO_SERVICE_EXCLUDE_CIDR): * beside other entries (*): "),
        ({"x": "example.org"}, "--istio-service-exclude-cidr (-x, ISTIO_SERVICE_EXCLUDE_CIDR): not an IPv4 address"),
        ({"u": "nobody-such"}, "--proxy-uid (-u, PROXY_UID): an unknown user (nobody-such): "),
        ({"u": "4294967295"}, "--proxy-uid (-u, PROXY_UID): beyond the ids (4294967295): "),
        ({"g": "-1"}, "--proxy-gid (-g, PROXY_GID): an unknown group (-1): "),
        ({"t": "0"}, "--istio-inbound-tproxy-mark (-t, ISTIO_INBOUND_TPROXY_MARK): outside the marks (0): "),
        ({"t": "1338"}, "--istio-inbound-tproxy-mark (-t, ISTIO_INBOUND_TPROXY_MARK): the same as marks.inbound"),
        ({"r": "254"}, "--istio-inbound-tproxy-route-table (-r, ISTIO_INBOUND_TPROXY_ROUTE_TABLE): the kernel's own"),
        ({"k": "lo"}, "--kube-virt-interfaces (-k, KUBE_VIRT_INTERFACES): the loopback interface (lo): "),
        (
            {"c": "eth0", "k": "eth0"},
            "--kube-virt-interfaces (-k, KUBE_VIRT_INTERFACES): excluded by interfaces.exclude",
        ),
        ({"p": "15006", "b": "*", "i": "*"}, "--envoy-port (-p, ENVOY_PORT): the port of inbound.port too (15006): "),
        ({"redirect_dns": "yes"}, "--redirect-dns (REDIRECT_DNS, ISTIO_META_DNS_CAPTURE): not true or false (yes): "),
        (
            {"istio_outbound_owner_groups": "x"},
            "--istio-outbound-owner-groups (ISTIO_OUTBOUND_OWNER_GROUPS): an unknown",
        ),
        (
            {"istio_outbound_owner_groups": ",".join(map(str, range(48)))},
            "--istio-outbound-owner-groups (ISTIO_OUTBOUND_OWNER_GROUPS): 48 groups, which iptables has to take in",
        ),
        (
            {"istio_outbound_ipv4_loopback_cidr": "10.0.0.0/8"},
            "--istio-outbound-ipv4-loopback-cidr (ISTIO_OUTBOUND_IPV4_LOOPBACK_CIDR): not inside the loopback block",
        ),
    ],
    ids=str,
)
def test_what_is_refused_names_flag_variable_and_value(options: dict[str, str], line: str) -> None:
    (found,) = said(**options)
    assert found.startswith(line)


def test_everything_wrong_is_named_at_once() -> None:
    assert len(said(b="http,https", p="x", i="1.2.3", u="who")) == 5


numbers = st.sampled_from(("0", "1", "53", "80", "15001", "15006", "15008", "65535", "65536", "1337", "1338", "x"))
items = st.one_of(
    numbers,
    st.sampled_from(("*", "", " ", "80:90", "90-80", "eth0", "vm+", "lo", "10.0.0.0/8", "127.0.0.0/8", "127.0.0.1/32")),
    st.sampled_from(("::1", "::/0", "0.0.0.0/0", "fd00::/8", "fd00::1/8", "java", "true", "false", "TPROXY", "NONE")),
)
texts = st.one_of(items, st.lists(items, max_size=5).map(",".join), st.text(max_size=12))
good = st.fixed_dictionaries(
    {},
    optional={
        "p": st.sampled_from(("15001", "1", "")),
        "z": st.sampled_from(("15006", "2")),
        "e": st.sampled_from(("15008", "3", "")),
        "u": st.sampled_from(("0", "1337", "1,2", "envoy")),
        "g": st.sampled_from(("0", "1337", "3,4", "java")),
        "m": st.sampled_from(("REDIRECT", "TPROXY", "NONE", "")),
        "b": st.sampled_from(("*", "", "80", "80,9000:9100")),
        "d": st.sampled_from(("", "15090,15021", "80")),
        "i": st.sampled_from(("*", "", "10.0.0.0/8", "fd00::1/8,127.0.0.1/32", "::1,10.0.0.0/8", "0.0.0.0/0")),
        "x": st.sampled_from(("", "10.0.0.0/8", "fd00::/8,10.0.0.0/8", "127.0.0.1/32")),
        "q": st.sampled_from(("", "3306", "1:65535")),
        "o": st.sampled_from(("", "3306", "53")),
        "k": st.sampled_from(("", "vm0", "vm0,vm+")),
        "c": st.sampled_from(("", "eth1", "eth1,net+")),
        "t": st.sampled_from(("1337", "0x111", "4294967295", "0x80000000")),
        "r": st.sampled_from(("133", "200", "4294967295")),
        "redirect_dns": st.sampled_from(("true", "false")),
        "capture_all_dns": st.sampled_from(("true", "0")),
        "drop_invalid": st.sampled_from(("true", "f")),
        "dual_stack": st.sampled_from(("true", "F")),
        "istio_outbound_owner_groups": st.sampled_from(("*", "", "java,7")),
        "istio_outbound_owner_groups_exclude": st.sampled_from(("", "java", "7,8")),
        "istio_outbound_ipv4_loopback_cidr": st.sampled_from(("127.0.0.1/32", "127.0.0.1/8", "")),
        "envoy_user": st.sampled_from(("envoy", "who", "")),
    },
)
profiles = st.sampled_from(("istio", "meshnet"))
families = st.sampled_from(("auto", (4,), (4, 6)))


def consistent(spec: Spec) -> None:
    assert conflicts(spec) == []
    assert load_text(to_yaml(spec), "s.yaml").spec == spec


@given(good, profiles, families)
@settings(max_examples=300, deadline=None)
def test_settings_that_the_original_takes(options: dict[str, str], profile: Any, wanted: Any) -> None:
    """All of these are right each for itself. Together some are refused, such as one port for two listeners."""
    try:
        spec = read(profile=profile, families=wanted, **options)
    except SpecError as error:
        assert all(line.startswith("--") for line in error.lines()), error.lines()
    else:
        consistent(spec)


@given(st.dictionaries(st.sampled_from([option.name for option in RULES]), texts, max_size=6), profiles, families)
@settings(max_examples=300, deadline=None)
def test_whatever_is_given(options: dict[str, str], profile: Any, wanted: Any) -> None:
    try:
        spec = read(profile=profile, families=wanted, **{name.replace("-", "_"): it for name, it in options.items()})
    except SpecError as error:
        assert error.lines()
    else:
        consistent(spec)


def test_a_spec_in_the_profile_s_own_words_is_the_usual_one() -> None:
    spec = read(Directory(), m="TPROXY", b="*", i="*", d="15090,15021,15020")
    assert spec.inbound == Inbound(mode="tproxy", ports="*", exclude_ports=ports(15090, 15021, 15020))
    assert (spec.outbound, spec.dns, spec.interfaces) == (Outbound(), Dns(), Interfaces())
