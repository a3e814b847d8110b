"""Random rule sets and flows, of the vocabulary that the simulator knows, from constants that often meet."""

from __future__ import annotations

import random

POD = {4: ("10.77.0.2", "10.78.0.2"), 6: ("fd77::2", "fd78::2")}
CLIENT = {4: ("10.77.0.1", "10.78.0.1"), 6: ("fd77::1", "fd78::1")}
FAR = {4: ("203.0.113.9", "198.51.100.9"), 6: ("2001:db8:1::9", "2001:db8:2::9")}
ODD = {
    4: ("0.0.0.0", "10.77.0.255", "255.255.255.255", "224.0.0.5", "224.0.0.1", "127.0.0.1"),
    6: ("ff02::1", "ff0e::9", "::1"),
}
"""Broadcast, multicast and nobody: addresses that no packet should come from, or that are many's."""

LOOP = {4: ("127.0.0.1", "127.0.0.6"), 6: ("::1", "::1")}
BLOCKS = {
    4: ("10.77.0.0/24", "10.0.0.0/8", "203.0.113.0/24", "127.0.0.0/8", "198.51.100.9", "10.77.0.1", "127.0.0.6",
        "127.0.0.1", "10.77.0.2"),
    6: ("fd77::/64", "fd00::/8", "2001:db8:1::/48", "::1", "2001:db8:2::9", "fd77::1", "fd77::2"),
}  # fmt: skip
PORTS = (53, 80, 443, 8080, 9090, 15001, 15006, 15053)
MARKS = ("0x0", "0x539", "0x53a", "0x1", "0x10/0xf0", "0x539/0xfff", "0x1/0x1", "0x100/0xf00")
UIDS, GIDS, GROUPS = (0, 1000, 1337), (0, 1337, 2000), (7, 8)
SPANS = {4: ("10.77.0.1-10.77.0.9", "127.0.0.2-127.0.0.9"), 6: ("fd77::1-fd77::9", "::1-::9")}
SETS = {
    "meshnet-net": ("hash:net", {4: ("10.77.0.0/24", "203.0.113.0/24"), 6: ("fd77::/64", "2001:db8:1::/48")}),
    "meshnet-port": ("bitmap:port range 0-65535", {4: ("0-80", "15000-15053"), 6: ("0-130", "15000-15053")}),
    "meshnet-both": ("hash:net,port", {4: ("10.0.0.0/8,tcp:80", "203.0.113.9,udp:53"), 6: ("fd00::/8,tcp:80",)}),
}
"""Sets that rules ask about, by name: the type, and the entries of each family."""

SIDES = {"meshnet-net": ("src", "dst"), "meshnet-port": ("src", "dst"), "meshnet-both": ("dst,dst", "src,dst")}
ICMP_TYPES = {4: (0, 3, 8, 13), 6: (1, 128, 129, 143)}
STATES = ("NEW", "ESTABLISHED", "INVALID", "RELATED,NEW", "UNTRACKED", "DNAT", "SNAT")
TABLES = {
    "raw": ("PREROUTING", "OUTPUT"),
    "mangle": ("PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"),
    "nat": ("PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"),
    "filter": ("INPUT", "FORWARD", "OUTPUT"),
}


class Author:
    """Writes what iptables-restore takes. User chains are called from below only, so that none leads in a circle."""

    def __init__(self, seed: random.Random, family: int) -> None:
        self.seed = seed
        self.family = family

    def rules(self) -> str:
        return "".join(self._table(name) for name in TABLES)

    def _table(self, name: str) -> str:
        seed = self.seed
        chains = [f"C{number}" for number in range(seed.choice((0, 1, 2, 3)))]
        heads = [f":{hook} ACCEPT [0:0]" for hook in TABLES[name]]
        if name == "filter" and seed.random() < 0.15:
            heads[0] = ":INPUT DROP [0:0]"
        if name in ("mangle", "filter") and seed.random() < 0.05:
            heads[-1] = heads[-1].replace("ACCEPT", "DROP")
        heads += [f":{chain} - [0:0]" for chain in chains]
        lines = []
        for hook in TABLES[name]:
            for _ in range(seed.choice((0, 1, 2, 3, 4))):
                lines.append(f"-A {hook} {self._rule(name, (hook,), chains)}")
        for place, chain in enumerate(chains):
            for _ in range(seed.choice((1, 2, 3))):
                lines.append(f"-A {chain} {self._rule(name, (), chains[place + 1 :])}")
        return "\n".join((f"*{name}", *heads, *lines, "COMMIT", ""))

    def _rule(self, table: str, hooks: tuple[str, ...], chains: list[str]) -> str:
        seed = self.seed
        target, needs = self._target(table, hooks, chains)
        protocol = needs or seed.choice(("", "", "tcp", "tcp", "udp", "icmp", "!tcp"))
        words = []
        if protocol.startswith("!"):
            words.append(f"! -p {protocol[1:]}")
        elif protocol:
            words.append(f"-p {'ipv6-icmp' if protocol == 'icmp' and self.family == 6 else protocol}")
        for _ in range(seed.choice((0, 0, 1, 1, 2))):
            match = self._match(table, hooks, protocol)
            if match and match.split()[0:2] not in [word.split()[0:2] for word in words]:
                words.append(match)
        return " ".join(
            (*words, *([f"-j {target}"] if target and not target.startswith("-g") else [target] if target else []))
        )

    def _not(self) -> str:
        return "! " if self.seed.random() < 0.25 else ""

    def _match(self, table: str, hooks: tuple[str, ...], protocol: str) -> str:
        """A user chain may be reached from any hook, so only what every hook takes goes into one."""
        seed = self.seed
        hook = hooks[0] if hooks else ""
        kinds = ["s", "d", "mark", "mark", "comment", "iprange", "set"]
        if table != "raw":
            kinds += ["connmark", "ctstate", "ctdir", "addrtype"]
        if hook in ("PREROUTING", "INPUT", "FORWARD"):
            kinds += ["i", "limited"] if table != "raw" else ["i"]
        if hook in ("OUTPUT", "POSTROUTING", "FORWARD"):
            kinds += ["o"]
        if hook in ("OUTPUT", "POSTROUTING"):
            kinds += ["owner", "owner"]
        if table == "mangle" and hook in ("PREROUTING", "INPUT"):
            kinds += ["socket"]
        if protocol in ("tcp", "udp"):
            kinds += ["dport", "dport", "sport", "multiport"]
        if protocol == "tcp":
            kinds += ["syn"]
        if protocol == "icmp":
            kinds += ["icmp", "icmp"]
        return self._words(seed.choice(kinds), protocol)

    def _words(self, kind: str, protocol: str) -> str:  # noqa: C901 (one case for one match)
        seed, no = self.seed, self._not()
        match kind:
            case "s" | "d":
                return f"{no}-{kind} {seed.choice(BLOCKS[self.family])}"
            case "i" | "o":
                return f"{no}-{kind} {seed.choice(('lo', 'eth0', 'eth1', 'eth+', 'l+'))}"
            case "mark":
                return f"-m mark {no}--mark {seed.choice(MARKS)}"
            case "connmark":
                return f"-m connmark {no}--mark {seed.choice(MARKS)}"
            case "ctstate":
                return f"-m conntrack {no}--ctstate {seed.choice(STATES)}"
            case "ctdir":
                return f"-m conntrack --ctdir {seed.choice(('ORIGINAL', 'REPLY'))}"
            case "addrtype":
                types = seed.choice(("LOCAL", "UNICAST", "LOCAL,MULTICAST", "BROADCAST", "MULTICAST", "UNSPEC"))
                types = "LOCAL" if self.family == 6 and types == "BROADCAST" else types
                return f"-m addrtype {no}--{seed.choice(('src', 'dst'))}-type {types}"
            case "limited":
                return f"-m addrtype {no}--dst-type {seed.choice(('LOCAL', 'UNICAST'))} --limit-iface-in"
            case "iprange":
                return f"-m iprange {no}--{seed.choice(('src', 'dst'))}-range {seed.choice(SPANS[self.family])}"
            case "set":
                name = seed.choice(tuple(SETS))
                return f"-m set {no}--match-set {name}-{self.family} {seed.choice(SIDES[name])}"
            case "icmp":
                option = "icmp --icmp-type" if self.family == 4 else "icmp6 --icmpv6-type"
                word, _, rest = option.partition(" ")
                return f"-m {word} {no}{rest} {seed.choice(ICMP_TYPES[self.family])}"
            case "owner":
                return f"-m owner {self._owner()}"
            case "socket":
                return f"-m socket{seed.choice(('', ' --transparent', ' --nowildcard'))}"
            case "dport" | "sport":
                port = seed.choice(PORTS)
                return f"-m {protocol} {no}--{kind} {seed.choice((str(port), f'{port}:{port + 400}', f':{port}'))}"
            case "multiport":
                ports = ",".join(map(str, seed.sample(PORTS, 2)))
                return f"-m multiport {no}--{seed.choice(('dports', 'sports', 'ports'))} {ports},9000:9500"
            case "syn":
                return f"-m tcp {no}--tcp-flags FIN,SYN,RST,ACK SYN"
            case _:
                return f'-m comment --comment "of \\"{seed.randrange(100)}\\""'

    def _owner(self) -> str:
        seed = self.seed
        uid, gid = seed.choice(UIDS), seed.choice((*GIDS, *GROUPS))
        return seed.choice(
            (
                f"{self._not()}--uid-owner {uid}",
                f"{self._not()}--uid-owner {uid}-{uid + 500}",
                f"{self._not()}--gid-owner {gid}",
                f"{self._not()}--gid-owner {gid} --suppl-groups",
                f"{self._not()}--uid-owner {uid} {self._not()}--gid-owner {gid}",
                f"{self._not()}--socket-exists",
            )
        )

    def _target(self, table: str, hooks: tuple[str, ...], chains: list[str]) -> tuple[str, str]:
        """The target, and the protocol that it needs."""
        seed = self.seed
        hook = hooks[0] if hooks else ""
        kinds = ["RETURN", "ACCEPT", "", "LOG", "NFLOG"]
        if chains:
            kinds += ["chain", "chain", "goto"]
        if table == "raw":
            kinds += ["CT", "CT"]
        if table in ("mangle", "filter", "raw") and seed.random() < 0.5:
            kinds += ["DROP"]
        if table == "mangle":
            kinds += ["MARK", "MARK", "CONNMARK", "CONNMARK", *(["TPROXY", "TPROXY"] if hook == "PREROUTING" else [])]
        if table == "filter" and hooks:
            kinds += ["REJECT"]
        if table == "nat" and hook in ("PREROUTING", "OUTPUT"):
            kinds += ["REDIRECT", "REDIRECT", "REDIRECT", "DNAT"]
        if table == "nat" and hook == "POSTROUTING":
            kinds += ["MASQUERADE", "SNAT"]
        if table == "nat" and hook == "INPUT":
            kinds += ["SNAT"]
        return self._words_of(seed.choice(kinds), chains)

    def _words_of(self, kind: str, chains: list[str]) -> tuple[str, str]:  # noqa: C901 (one case for one target)
        seed, six = self.seed, self.family == 6
        port, protocol = seed.choice(PORTS), seed.choice(("tcp", "tcp", "udp"))
        match kind:
            case "chain":
                return seed.choice(chains), ""
            case "goto":
                return f"-g {seed.choice(chains)}", ""
            case "CT":
                return seed.choice(
                    ("CT --zone 1", "CT --zone 2", "CT --notrack", "CT --zone-orig 3", "CT --zone-reply 4")
                ), ""
            case "MARK":
                what = seed.choice(
                    (
                        "set-mark 0x539",
                        "set-mark 0x1/0x1",
                        "set-xmark 0x53a/0xfff",
                        "or-mark 0x1",
                        "and-mark 0xf0f",
                        "xor-mark 0x539",
                    )
                )
                return f"MARK --{what}", ""
            case "CONNMARK":
                words = (
                    "save-mark",
                    "restore-mark",
                    "set-mark 0x539",
                    "set-xmark 0x53a/0xff",
                    "xor-mark 0x539",
                    "and-mark 0xff",
                    "or-mark 0x1",
                    "save-mark --mask 0xff",
                    "save-mark --nfmask 0xff0 --ctmask 0xff",
                    "restore-mark --nfmask 0xf --ctmask 0xff",
                )
                return f"CONNMARK --{seed.choice(words)}", ""
            case "TPROXY":
                on = (
                    f" --on-ip {seed.choice((LOOP[self.family][0], POD[self.family][0]))}"
                    if seed.random() < 0.2
                    else ""
                )
                return (
                    f"TPROXY --on-port {port}{on} --tproxy-mark {seed.choice(('0x539', '0x539/0xfff', '0x1'))}",
                    protocol,
                )
            case "REDIRECT":
                return f"REDIRECT --to-ports {seed.choice((str(port), '8080-8082'))}", protocol
            case "DNAT":
                to = seed.choice((POD[self.family][0], FAR[self.family][0], LOOP[self.family][0]))
                if seed.random() < 0.2:
                    return f"DNAT --to-destination {to}", ""
                return (
                    f"DNAT --to-destination {f'[{to}]' if six else to}:{seed.choice((str(port), '8080-8082'))}",
                    protocol,
                )
            case "SNAT":
                return seed.choice(
                    (
                        (f"SNAT --to-source {POD[self.family][0]}", ""),
                        (f"SNAT --to-source {f'[{POD[6][1]}]' if six else POD[4][1]}:1024-2048", protocol),
                    )
                )
            case "MASQUERADE":
                return seed.choice((("MASQUERADE", ""), ("MASQUERADE --to-ports 3000-3100", protocol)))
            case "REJECT":
                return "REJECT", ""
            case "NFLOG":
                return "NFLOG --nflog-group 9", ""
            case _:
                return kind, ""
