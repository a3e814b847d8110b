"""Every rule word of meshnet, as the tools print it, for both families."""

from __future__ import annotations

TEXT = """\
*raw
:MESHNET_DNS - [0:0]
-A OUTPUT -p udp -m udp --dport 53 -m comment --comment "meshnet:dns.jump" -j MESHNET_DNS
-A MESHNET_DNS -p udp -m owner --uid-owner 1337 -m comment --comment "meshnet:dns.zone" -j CT --zone 1
-A MESHNET_DNS -p udp -j CT --zone 2
COMMIT
*nat
:MESHNET_OUT - [0:0]
-A OUTPUT -p tcp -m comment --comment "meshnet:out.jump" -j MESHNET_OUT
-A MESHNET_OUT -m owner --uid-owner 1337 -j RETURN
-A MESHNET_OUT -m owner ! --uid-owner 1337 -j RETURN
-A MESHNET_OUT -m owner --gid-owner 1337 -j RETURN
-A MESHNET_OUT -m owner --uid-owner 1000-2000 -j RETURN
-A MESHNET_OUT -o lo -m owner ! --gid-owner 1000-2000 -j RETURN
-A MESHNET_OUT -m owner --uid-owner 0-4294967294 -j RETURN
-A MESHNET_OUT -p tcp -j REDIRECT --to-ports 15001
-A MESHNET_OUT -p tcp -j REDIRECT --to-ports 15001-15004
COMMIT
*mangle
:MESHNET_IN - [0:0]
:MESHNET_TPROXY - [0:0]
-A PREROUTING -m comment --comment "meshnet:in.jump" -j MESHNET_IN
-A MESHNET_IN ! -i lo -p tcp -m tcp --tcp-flags FIN,SYN,RST,ACK SYN -m multiport --dports 80,443,9000:9100 \
-m comment --comment "meshnet:in a b" -j MESHNET_TPROXY
-A MESHNET_IN -p tcp -m tcp ! --dport 80 -j RETURN
-A MESHNET_IN -p tcp -m tcp --sport 80:90 -j RETURN
-A MESHNET_IN -p udp -m udp ! --dport 53 -j RETURN
-A MESHNET_IN -p tcp -m multiport ! --sports 1,2 -j RETURN
-A MESHNET_IN -p tcp -m tcp ! --tcp-flags FIN,SYN,RST,ACK SYN -j RETURN
-A MESHNET_IN -m mark --mark 0x539/0xfff -j RETURN
-A MESHNET_IN -m mark ! --mark 0x539/0xfff -j RETURN
-A MESHNET_IN -m mark --mark 0x539 -j RETURN
-A MESHNET_IN -m connmark --mark 0x539/0xfff -j RETURN
-A MESHNET_IN -m connmark ! --mark 0x539/0xfff -j RETURN
-A MESHNET_IN -m conntrack --ctstate INVALID -j DROP
-A MESHNET_IN -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A MESHNET_IN -m conntrack ! --ctstate NEW -j ACCEPT
-A MESHNET_IN -m conntrack --ctdir REPLY -j ACCEPT
-A MESHNET_IN -m conntrack --ctstate NEW --ctdir ORIGINAL -j ACCEPT
-A MESHNET_IN -p tcp -m socket --transparent -j RETURN
-A MESHNET_IN -s {net} ! -d {host} -j RETURN
-A MESHNET_IN ! -s {net} -j RETURN
-A MESHNET_IN -i eth+ -j RETURN
-A MESHNET_IN ! -p tcp -j RETURN
-A MESHNET_IN -m mark --mark 0x1/0x1 -m connmark --mark 0x2/0x2 -m comment --comment plain -j RETURN
-A MESHNET_IN -p tcp -j MARK --set-xmark 0x539/0xfff
-A MESHNET_IN -p tcp -j CONNMARK --save-mark --nfmask 0xfff --ctmask 0xfff
-A MESHNET_IN -p tcp -j CONNMARK --restore-mark --nfmask 0xfff --ctmask 0xfff
-A MESHNET_IN
-A MESHNET_TPROXY -p tcp -j TPROXY --on-port 15006 --on-ip {any} --tproxy-mark 0x539/0xfff
-A MESHNET_TPROXY -p udp -j TPROXY --on-port 15006 --on-ip {lo} --tproxy-mark 0x539/0xfff
COMMIT
"""


def text(family: int) -> str:
    four = {"net": "10.0.0.0/8", "host": "127.0.0.1/32", "any": "0.0.0.0", "lo": "127.0.0.1"}
    six = {"net": "fd00::/8", "host": "::1/128", "any": "::", "lo": "::1"}
    return TEXT.format(**(six if family == 6 else four))


def rules(saved: str) -> dict[str, list[str]]:
    """Rule lines by table."""
    from meshnet.kernel.savetext import sections

    return {section.table: section.lines for section in sections(saved)}


def plain(saved: str) -> list[str]:
    """All lines but the comments, which carry the time."""
    return [line for line in saved.splitlines() if not line.startswith("#")]
