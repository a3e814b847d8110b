"""Kuma's transparent-proxy configuration to a Spec (kumahq/kuma, pkg/transparentproxy/config).

What Kuma does in silence is said here: included ports put the excluded ones of the same direction out of force. What
has no counterpart in a spec is refused by name, and what only says how Kuma works is left aside.
"""

from __future__ import annotations

from meshnet.model.errors import Wrong
from meshnet.model.ports import PortRange, read_port, read_ports
from meshnet.model.spec import (
    ALL,
    Dns,
    Inbound,
    InterfaceNetwork,
    Interfaces,
    Outbound,
    Sidecar,
    Spec,
    UserExclusion,
)
from meshnet.spec import readers
from meshnet.spec.dialects.istio import read_block
from meshnet.spec.dialects.plain import Places, Translated, shown
from meshnet.spec.nearest import nearest
from meshnet.spec.nodes import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from meshnet.model.cidr import Cidr
    from meshnet.model.spec import DnsCapture, Families, Transports

USER = 5678
"""Kuma's own default for the proxy's user."""

RESOLV_CONF = "/etc/resolv.conf"
FLOW = ("enabled", "port", "includePorts", "excludePorts", "excludePortsForUIDs", "excludePortsForIPs")
MEANT = (
    "kumaDPUser",
    "ipFamilyMode",
    "dropInvalidPackets",
    *(f"redirect.{way}.{key}" for way in ("inbound", "outbound") for key in FLOW),
    *(f"redirect.dns.{key}" for key in ("enabled", "port", "captureAll", "resolvConfigPath")),
    "redirect.vnet.networks",
)
REFUSED = {
    "ebpf.enabled": "rules in eBPF, and a spec becomes rules of netfilter",
    "log.enabled": "rules that log every packet, of which a spec has none",
    "storeFirewalld": "rules kept by firewalld, and meshnet writes its own",
    "redirect.dns.skipConntrackZoneSplit": "DNS without a conntrack zone of its own, which the proxy's queries need",
}
"""Switches without a counterpart; false is what a spec means anyway."""

ASIDE = (
    "verbose",
    "dryRun",
    "cniMode",
    "wait",
    "waitInterval",
    "comments.disabled",
    "log.level",
    "retry.maxRetries",
    "retry.sleepBetweenRetries",
    *(f"redirect.{way}.insertRedirectInsteadOfAppend" for way in ("inbound", "outbound")),
    *(f"ebpf.{key}" for key in ("instanceIP", "instanceIPEnvVarName", "bpffsPath", "cgroupPath", "programsSourcePath")),
    "ebpf.tcAttachIface",
    *(f"iptablesExecutables.{six}tables{tool}" for six in ("ip", "ip6") for tool in ("", "-save", "-restore")),
)
"""How Kuma works. Meshnet's rules are always the first of a built-in chain, so the order is no question here."""

KNOWN = (*MEANT, *REFUSED, *ASIDE)
WHERE = {
    "sidecar": "kumaDPUser",
    "inbound.port": "redirect.inbound.port",
    "inbound.excludeSources": "redirect.inbound.excludePortsForIPs",
    "outbound.port": "redirect.outbound.port",
    "outbound.excludeCidrs": "redirect.outbound.excludePortsForIPs",
    "dns.port": "redirect.dns.port",
    "interfaces.networks": "redirect.vnet.networks",
}


def spec_of(document: object) -> Translated:
    """The Spec for a configuration as plain data, in which every word may be text. SpecError has all problems."""
    config = _Config(document)
    dns = _dns(config)
    outbound = _outbound(config)
    networks = _networks(config)
    if networks and outbound.mode == "none":
        what = "a network's traffic is captured though outbound traffic isn't"
        config.wrong("redirect.vnet.networks", what, "redirect.outbound.enabled: true, or no networks")
    if networks and dns.capture == "resolvers":
        what = "every query of a network is captured, though others' only to the resolvers"
        config.wrong("redirect.vnet.networks", what, "redirect.dns.captureAll: true, or no networks")
    if dns.capture != "off" and any(ports.covers(53) for ports in outbound.exclude_ports):
        right = "excludePortsForUIDs for the users that are meant, such as tcp:53:1000"
        config.wrong("redirect.outbound.excludePorts", "port 53 over TCP alone, while DNS is captured (53)", right)
    spec = Spec(
        name="kuma",
        families=config.read("ipFamilyMode", config.word("ipFamilyMode"), _families) or "auto",
        sidecar=Sidecar((_user(config),), ()),
        inbound=_inbound(config),
        outbound=outbound,
        dns=dns,
        interfaces=Interfaces(networks=networks),
        drop_invalid=config.truth("dropInvalidPackets", False),
    )
    for path, why in REFUSED.items():
        if path.startswith("redirect.dns") and dns.capture == "off":
            continue
        if config.truth(path, False):
            config.wrong(path, f"nothing that a spec can say ({why})", "false")
    aside = tuple(path for path in ASIDE if config.word(path) not in ("", "false"))
    return Translated(config.judged(spec, WHERE), aside)


def _user(config: _Config) -> int:
    word = config.word("kumaDPUser")
    if not word:
        return USER
    if not word[0].isdigit():
        config.wrong("kumaDPUser", f"a name, and names are not looked up ({printable(word)})", "the user's number")
        return USER
    found = config.read("kumaDPUser", word, readers.read_id)
    return USER if found is None else int(found)


def _families(word: str) -> Families:
    """``dualstack`` takes IPv6 only where the namespace has it, as ``auto`` does."""
    modes: dict[str, Families] = {"": "auto", "dualstack": "auto", "ipv4": (4,)}
    if word.lower() not in modes:
        raise Wrong(f"unknown mode ({printable(word)})", "dualstack or ipv4")
    return modes[word.lower()]


def _inbound(config: _Config) -> Inbound:
    here = "redirect.inbound"
    included = config.ports(f"{here}.includePorts")
    excluded = config.ports(f"{here}.excludePorts")
    if config.items(f"{here}.excludePortsForUIDs"):
        what = "what enters the pod has no user there"
        config.wrong(f"{here}.excludePortsForUIDs", what, "redirect.outbound.excludePortsForUIDs, or nothing")
    return Inbound(
        mode="redirect" if config.truth(f"{here}.enabled", True) else "none",
        port=read_ports(config.port(f"{here}.port", Inbound().port.first)),
        ports=included or ALL,
        exclude_ports=() if included else excluded,
        exclude_sources=config.blocks(f"{here}.excludePortsForIPs"),
        tunnel_port=None,
        original_source=False,
    )


def _outbound(config: _Config) -> Outbound:
    here = "redirect.outbound"
    included = config.ports(f"{here}.includePorts")
    excluded = config.ports(f"{here}.excludePorts")
    users = config.each(f"{here}.excludePortsForUIDs", _user_exclusion)
    return Outbound(
        mode="redirect" if config.truth(f"{here}.enabled", True) else "none",
        port=config.port(f"{here}.port", Outbound().port),
        cidrs=() if included else ALL,
        ports=included,
        exclude_ports=() if included else excluded,
        exclude_cidrs=config.blocks(f"{here}.excludePortsForIPs"),
        exclude_users=tuple(dict.fromkeys(users)),
    )


def _dns(config: _Config) -> Dns:
    here = "redirect.dns"
    everything = config.truth(f"{here}.captureAll", False)
    capture: DnsCapture = "all" if everything else "resolvers"
    if not config.truth(f"{here}.enabled", False):
        capture = "off"
    path = config.word(f"{here}.resolvConfigPath") or RESOLV_CONF
    if capture == "resolvers" and path != RESOLV_CONF:
        right = f"{RESOLV_CONF}, captureAll: true, or a spec with the resolvers' addresses"
        config.wrong(f"{here}.resolvConfigPath", f"another file with resolvers ({printable(path)})", right)
    return Dns(capture, config.port(f"{here}.port", Dns().port))


def _networks(config: _Config) -> tuple[InterfaceNetwork, ...]:
    found: dict[str, list[Cidr]] = {}
    for name, block in config.each("redirect.vnet.networks", _network):
        found.setdefault(name, []).append(block)
    return tuple(InterfaceNetwork(name, tuple(dict.fromkeys(blocks))) for name, blocks in found.items())


def _network(word: str) -> tuple[str, Cidr]:
    name, colon, block = word.partition(":")
    if not colon:
        raise Wrong(f"no network ({printable(word)})", "an interface and its block, such as docker0:172.17.0.0/16")
    return readers.read_interface(name), read_block(block)


def _user_exclusion(word: str) -> UserExclusion:
    """``protocols:ports:users``, of which the first one or two may be absent, and ``*`` or nothing means all."""
    parts = word.split(":")
    if len(parts) > 3:
        raise Wrong(f"more than protocols, ports and users ({printable(word)})", "such as tcp:53,3000-5000:106-108")
    protocols, ports, users = ("", "", *parts)[-3:]
    if not users or users == "*" or "," in users:
        raise Wrong(f"no user and no range of users ({printable(word)})", "such as tcp:53,3000-5000:106-108")
    some = ALL if ports in ("", "*") else tuple(dict.fromkeys(read_ports(item.strip()) for item in ports.split(",")))
    return UserExclusion((readers.read_ids(users),), some, _transports(protocols))


def _transports(word: str) -> Transports:
    asked = {item.strip().lower() for item in word.split(",")} if word not in ("", "*") else {"tcp", "udp"}
    if not asked <= {"tcp", "udp"}:
        raise Wrong(f"unknown protocol ({printable(word)})", "tcp, udp, both with a comma between, or *")
    return "all" if len(asked) == 2 else "tcp" if "tcp" in asked else "udp"


class _Config(Places):
    """The words of a configuration by path. Unknown ones are problems."""

    def __init__(self, document: object) -> None:
        super().__init__()
        self._words: dict[str, object] = {}
        if not isinstance(document, dict):
            self.wrong("", f"{shown(document)} in place of a configuration", "kumaDPUser: …, redirect: …")
        elif "kind" in document:
            self.wrong("kind", f"a Kubernetes object ({shown(document['kind'])})", "its text under data, config.yaml")
        else:
            self._flatten(document, "")

    def word(self, path: str) -> str:
        item = self._words.get(path)
        if isinstance(item, dict | list):
            self.wrong(path, f"{shown(item)} in place of a word", "one word")
            return ""
        return "" if item is None else str(item).lower() if isinstance(item, bool) else str(item).strip()

    def truth(self, path: str, default: bool) -> bool:
        word = self.word(path)
        found = self.read(path, word, readers.read_flag) if word else default
        return default if found is None else bool(found)

    def port(self, path: str, default: int) -> int:
        word = self.word(path)
        return (self.read(path, word, read_port) if word else default) or default

    def ports(self, path: str) -> tuple[PortRange, ...]:
        """A list, or one text with commas; Kuma takes no ranges here."""
        item = self._words.get(path)
        words = self.items(path) if isinstance(item, list) else [("", part) for part in self.word(path).split(",")]
        if words == [("", "")]:
            return ()
        found = [self.read(f"{path}{place}", word.strip(), read_port) for place, word in words]
        return tuple(dict.fromkeys(PortRange(number, number) for number in found if number is not None))

    def blocks(self, path: str) -> tuple[Cidr, ...]:
        def read(word: str) -> tuple[Cidr, ...]:
            return tuple(read_block(item.strip()) for item in word.split(","))

        return tuple(dict.fromkeys(block for found in self.each(path, read) for block in found))

    def each(self, path: str, read: Callable[[str], Any]) -> list[Any]:
        found = [self.read(f"{path}{place}", word, read) for place, word in self.items(path)]
        return [item for item in found if item is not None]

    def items(self, path: str) -> list[tuple[str, str]]:
        """The entries of a list of words, each with its place."""
        item = self._words.get(path)
        if item is None or item == "":
            return []
        if not isinstance(item, list):
            self.wrong(path, f"no list ({shown(item)})", "a list of words")
            return []
        return list(self._entries(path, item))

    def _entries(self, path: str, entries: list[Any]) -> Iterator[tuple[str, str]]:
        for place, entry in enumerate(entries):
            if isinstance(entry, dict | list) or entry is None:
                self.wrong(f"{path}[{place}]", f"no word ({shown(entry)})", "a word")
            else:
                yield f"[{place}]", str(entry).strip()

    def _flatten(self, inside: dict[Any, Any], where: str) -> None:
        for key, item in inside.items():
            path = f"{where}{key}"
            if path in KNOWN:
                self._words[path] = item
            elif any(known.startswith(f"{path}.") for known in KNOWN):
                self._flatten(self.mapping(inside, key, where), f"{path}.")
            else:
                within = {known.removeprefix(where).partition(".")[0] for known in KNOWN if known.startswith(where)}
                near = nearest(str(key), sorted(within))
                self.wrong(
                    printable(path, 80), "nothing that Kuma knows", near or f"one of {', '.join(sorted(within))}"
                )
