"""What others have in a namespace: rules in the tables that meshnet uses too, policy rules, routes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.netns.snapshot import run

if TYPE_CHECKING:
    from meshnet.kernel.netns import Namespace

RULES = """\
*raw
:OTHER_RAW - [0:0]
-A PREROUTING -i eth9 -m comment --comment "somebody else's" -j OTHER_RAW
-A OTHER_RAW -p udp -m udp --dport 9 -j RETURN
-A OUTPUT -p udp -m udp --sport 9 -j ACCEPT
COMMIT
*mangle
:OTHER_MARKS - [0:0]
-A PREROUTING -i eth9 -j OTHER_MARKS
-A OTHER_MARKS -j MARK --set-xmark 0x40000/0xff0000
-A OUTPUT -p udp -m udp --dport 7 -j MARK --set-xmark 0x40000/0xff0000
-A POSTROUTING -o eth9 -j ACCEPT
COMMIT
*nat
:OTHER_NAT - [0:0]
:EMPTY_NAT - [0:0]
-A PREROUTING -i eth9 -p tcp -m tcp --dport 8080 -j OTHER_NAT
-A OTHER_NAT -p tcp -j REDIRECT --to-ports 8081
-A OUTPUT -p tcp -m tcp --dport 9 -m comment --comment "see meshnet: below" -j RETURN
-A POSTROUTING -o eth9 -j MASQUERADE
COMMIT
*filter
-A INPUT -p tcp -m tcp --dport 9 -j DROP
COMMIT
"""


IN_NFT = ("iptables-nft", "nftables")
TABLE = """\
table inet stranger {
	set ports {
		type inet_service
		elements = { 7, 9 }
	}
	chain out {
		type filter hook output priority -150; policy accept;
		oifname "eth9" tcp dport @ports counter accept comment "somebody else's"
	}
}
"""


def tool(backend: str, family: int, verb: str = "") -> str:
    """The program of a backend, as ``iptables-nft`` or ``ip6tables-legacy-restore``; beside nftables, others use the
    former."""
    variant = "nft" if backend in IN_NFT else "legacy"
    return f"{'ip6tables' if family == 6 else 'iptables'}-{variant}{'-' + verb if verb else ''}"


def restore(namespace: Namespace, backend: str, family: int, text: str) -> None:
    more = [] if backend in IN_NFT else ["-w", "5"]
    run(namespace, tool(backend, family, "restore"), "--noflush", *more, text=text)


def settle(namespace: Namespace, backend: str) -> None:
    """Put it all there, both families."""
    if backend == "nftables":
        run(namespace, "nft", "-f", "-", text=TABLE)
    for family in (4, 6):
        restore(namespace, backend, family, RULES)
        block = "10.9.9.0/24" if family == 4 else "fd99::/64"
        ip = ("ip", f"-{family}")
        run(namespace, *ip, "rule", "add", "fwmark", "0x40000/0xff0000", "lookup", "77", "pref", "100")
        run(namespace, *ip, "rule", "add", "from", block, "lookup", "133", "pref", "109")
        run(namespace, *ip, "route", "add", "blackhole", block, "table", "77")
        run(namespace, *ip, "route", "add", "unreachable", block, "table", "133")
        run(namespace, *ip, "addr", "add", "192.0.2.7/32" if family == 4 else "fd99::7/128", "dev", "lo")
