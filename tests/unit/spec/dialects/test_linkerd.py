from __future__ import annotations

import pytest

from meshnet.model.errors import SpecError
from meshnet.model.ports import PortRange
from meshnet.model.spec import Spec
from meshnet.spec.check import problems
from meshnet.spec.dialects.linkerd import BY_NAME, spec_of

USUAL = "--incoming-proxy-port 4143 --outgoing-proxy-port 4140 --proxy-uid 2102"


def read(line: str) -> Spec:
    found = spec_of(line.split()).spec
    assert problems(found) == []
    return found


def said(line: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        spec_of(line.split())
    return caught.value.lines()


def ports(*words: int | tuple[int, int]) -> tuple[PortRange, ...]:
    return tuple(PortRange(*word) if isinstance(word, tuple) else PortRange(word, word) for word in words)


def test_the_flags_of_an_injected_pod() -> None:
    found = spec_of(
        [*f"--ipv6=false {USUAL} --inbound-ports-to-ignore 4190,4191,4567,4568".split(), "--outbound-ports-to-ignore",
         "4567-4568, 25"]
    )  # fmt: skip
    spec = found.spec
    assert found.aside == ()
    assert (spec.name, spec.profile, spec.families) == ("linkerd", "meshnet", (4,))
    assert (spec.sidecar.uids, spec.sidecar.gids) == ((2102,), ())
    assert (spec.inbound.mode, spec.inbound.port, spec.inbound.ports) == ("redirect", PortRange(4143, 4143), "*")
    assert spec.inbound.exclude_ports == ports(4190, 4191, 4567, 4568)
    assert (spec.inbound.tunnel_port, spec.inbound.original_source, spec.inbound.own_pod) == (None, False, False)
    assert (spec.outbound.port, spec.outbound.cidrs) == (4140, "*")
    assert spec.outbound.exclude_ports == ports((4567, 4568), 25)
    assert (spec.dns.capture, spec.drop_invalid) == ("off", False)


@pytest.mark.parametrize(
    "line", ["-p 4143 -o 4140 -u 2102", "-p4143 -o=4140 -u=2102", "-wp 4143 -o4140 -u2102 -w=false"]
)
def test_the_short_spelling(line: str) -> None:
    spec = read(line)
    assert (spec.inbound.port.first, spec.outbound.port, spec.sidecar.uids) == (4143, 4140, (2102,))


def test_the_last_word_counts_and_lists_grow() -> None:
    spec = read(f"{USUAL} -u 5 -g 6 -r 80 --ports-to-redirect=443,80 --subnets-to-ignore 10.0.0.1/8,::/64")
    assert (spec.sidecar.uids, spec.sidecar.gids, spec.inbound.ports) == ((5,), (6,), ports(80, 443))
    assert [str(block) for block in spec.inbound.exclude_sources] == ["10.0.0.0/8", "::/64"]
    assert spec.outbound.exclude_cidrs == ()


@pytest.mark.parametrize(("line", "families"), [("", "auto"), ("--ipv6", (4, 6)), ("--ipv6=0", (4,))])
def test_families(line: str, families: object) -> None:
    assert read(f"{USUAL} {line}").families == families


def test_what_says_how_the_work_is_done_is_left_aside() -> None:
    work = "--simulate -w --log-level debug --log-format=json --firewall-bin-path iptables-nft --iptables-mode nft"
    line = f"{USUAL} {work}"
    assert spec_of(line.split()).aside == (
        "--simulate",
        "--use-wait-flag",
        "--log-level",
        "--log-format",
        "--firewall-bin-path",
        "--iptables-mode",
    )


def test_what_is_wrong_comes_at_once() -> None:
    lines = said(
        "--incomming-proxy-port 4143 -o http --proxy-uid root --inbound-ports-to-ignore 5-4,,7 --netns /proc/5/ns/net "
        "--timeout-close-wait-secs 3600 --subnets-to-ignore 10.0.0.0/40 -x --ipv6=perhaps stray --log-level"
    )
    starts = (
        "--incomming-proxy-port: no flag of linkerd2-proxy-init: --incoming-proxy-port",
        "--incoming-proxy-port (-p): missing",
        "--outgoing-proxy-port (-o): not a port number (http)",
        "--proxy-uid (-u): not an id (root)",
        "--inbound-ports-to-ignore: a range that ends before it begins (5-4)",
        "--inbound-ports-to-ignore: not a port number ()",
        "--netns: where to work, not what for (/proc/5/ns/net): meshnet's own --netns",
        "--timeout-close-wait-secs: a setting of the kernel and not of rules (3600)",
        "--subnets-to-ignore: not a prefix length (10.0.0.0/40)",
        "-x: no flag of linkerd2-proxy-init: one of -p,",
        "--ipv6: not true or false (perhaps)",
        "stray: a word that belongs to no flag",
        "--log-level: nothing is given",
    )
    assert len(lines) == len(starts), lines
    for start in starts:
        assert any(line.startswith(start) for line in lines), (start, lines)


@pytest.mark.parametrize("uid", ["", "-u 0", "-u -1"])
def test_a_proxy_that_nobody_knows(uid: str) -> None:
    (line,) = said(f"-p 4143 -o 4140 {uid}")
    assert line.startswith("--proxy-uid (-u), --proxy-gid (-g): no uid, gid or mark")
    assert read(f"-p 4143 -o 4140 {uid} -g 7").sidecar.gids == (7,)


def test_conflicts_name_the_flags() -> None:
    assert said("-p 4143 -o 4143 -u 5") == [
        "--outgoing-proxy-port (-o): the port of inbound.port too (4143): a port of its own"
    ]
    (line,) = said(f"{USUAL} --ipv6=false --subnets-to-ignore fd00::/8")
    assert line.startswith("--subnets-to-ignore: an IPv6 entry")


def test_no_wait_is_fine() -> None:
    read(f"{USUAL} --timeout-close-wait-secs 0")


def test_no_two_flags_share_a_name() -> None:
    assert len(BY_NAME) == 18
