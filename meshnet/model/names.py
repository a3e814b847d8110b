"""Every number and name that meshnet leaves in a namespace, with the reason for it. Change one here or nowhere.

Ownership is by tag: a chain is ours by its prefix, a rule by its comment, a policy rule and a route by their
protocol. Removal needs nothing else, so it works without the spec that was applied.
"""

from __future__ import annotations

CHAIN_PREFIX = "MESHNET_"
"""Own chains. iptables takes 28 bytes; the prefix and the longest word behind it stay below (a test checks)."""

ISTIO_PREFIX = "ISTIO_"
"""The chains of profile istio, whose names are istio-iptables' own. They are ours in a table where our comment is on a
rule of theirs; without one they are what somebody else's run left, and stay unless their removal is asked for."""

ISTIO_TABLES = ("istio-proxy-nat", "istio-proxy-mangle", "istio-proxy-raw")
"""Tables of nftables, family ``inet``, that the original writes in place of chains when it is told to
(istio/istio, tools/istio-nftables). Those of ambient mode have other names."""

AMBIENT_POD, AMBIENT_NODE = "ISTIO_PRERT", "ISTIO_POSTRT"
"""Chains that istio-iptables never makes and the agent of Istio's ambient mode does, beside an ISTIO_OUTPUT of its own
(istio/istio, cni/pkg/iptables). They are never ours."""

COMMENT_PREFIX = "meshnet:"
"""Own rules: the comment ``meshnet:<rule-id>`` leads back to the pass and through the program to the spec's line."""

NEW_TABLE = CHAIN_PREFIX + "NEW_TABLE"
"""An empty chain in a table that did not exist before, so that remove takes the table away too. It stays until then:
killed when all rules are gone and the table isn't yet, the next remove still knows whose it is."""

NFT_TABLE = "meshnet"
"""Our table of nftables, family ``inet``, unless the spec has another name for it."""

NFT_MARK = "meshnet:table"
"""The table's comment: by it and nothing else such a table is ours, whatever its name."""

ROUTE_PROTOCOL = 109
"""rtm_protocol of own policy rules and routes. Routing daemons use 8 to 20, 42 and 186 to 192 (linux/rtnetlink.h)."""

RULE_PRIORITY = 109
"""Own policy rule: after ``local`` (0), ahead of source rules of multi-network plugins (from 512), of VRFs (1000)
and of ``main`` (32766), since a reply that one of those sends out by eth0 is a lost reply."""

ROUTE_TABLE = 133
"""Default table of the ``local`` route: the number that sidecar injectors use, so that firewalls already know it."""

INBOUND_MARK = 0x539
OUTBOUND_MARK = 0x53A
MARK_MASK = 0xFFF
"""1337 and 1338, as in use in the field. The mask leaves the upper 20 bits to others (Calico 0xffff0000,
kube-proxy 0x4000 and 0x8000, Cilium 0x0f00 on the node, not in the pod)."""

SIDECAR_ID = 1337

PASSTHROUGH4, PASSTHROUGH6 = "127.0.0.6", "::6"
"""What a sidecar binds when it passes an inbound connection on: the address says that this packet is done."""

ZONE_CAPTURED = 2
"""Conntrack zone of captured DNS queries. Without one, a sidecar that happens to ask from the application's source
port matches the application's entry and is sent back to itself. Zone 1 stays free for istio's own rules."""

ISTIO_ZONE_SIDECAR = 1
"""In profile istio alone: what the sidecar's user asks of resolvers, and what they answer."""

INBOUND_PORT, OUTBOUND_PORT, TUNNEL_PORT, DNS_PORT = 15006, 15001, 15008, 15053
UNCAPTURED_INBOUND = (15020, 15021, 15090)
"""Metrics, readiness and statistics of a sidecar's own agent: they answer for the pod, not for the application."""


def rule_comment(rule_id: str) -> str:
    return COMMENT_PREFIX + rule_id


def rule_id_of(comment: str) -> str:
    """The rule id in a comment of ours; empty for anybody else's comment."""
    if not comment.startswith(COMMENT_PREFIX):
        return ""
    return comment[len(COMMENT_PREFIX) :]
