"""Numbers of IP protocols and TCP's flags, by the names that rules have for them."""

from __future__ import annotations

PROTOCOLS = {
    "all": 0,
    "icmp": 1,
    "tcp": 6,
    "udp": 17,
    "dccp": 33,
    "gre": 47,
    "esp": 50,
    "ah": 51,
    "ipv6-icmp": 58,
    "icmpv6": 58,
    "sctp": 132,
    "udplite": 136,
}
"""/etc/protocols, as far as rules name them; the tools print a number for all others."""

TCP_FLAGS = {"FIN": 1, "SYN": 2, "RST": 4, "PSH": 8, "ACK": 16, "URG": 32}
"""linux/tcp.h; ``ALL`` is every one of them and ``NONE`` none."""
