"""Random tables of nftables, of the vocabulary that the simulator knows, from the constants of ``randomrules``.

Every rule has a comment of its own, by which its counter is found again.
"""

from __future__ import annotations

import random

from tests.netns.randomrules import BLOCKS, FAR, GIDS, GROUPS, LOOP, POD, PORTS, UIDS

BASES = (
    ("filter", "prerouting", -300), ("filter", "output", -300), ("filter", "prerouting", -150),
    ("route", "output", -150), ("filter", "output", -140), ("filter", "postrouting", -150),
    ("nat", "prerouting", -100), ("nat", "prerouting", -90), ("nat", "output", -100), ("nat", "postrouting", 100),
    ("nat", "input", 100), ("filter", "prerouting", 0), ("filter", "input", 0), ("filter", "forward", 0),
    ("filter", "output", 0), ("route", "output", 10), ("filter", "input", 110), ("filter", "postrouting", 110),
)  # fmt: skip
MARKS = ("0x0", "0x539", "& 0xfff == 0x539", "& 0xf0 != 0x10", "!= 0x1", "{ 0x1, 0x539 }", "& 0x1 == 0x1")
STATES = ("new", "established", "new,related", "{ invalid, untracked }", "!= new", "& (new | invalid) == 0")
PUT = ("0x539", "{} & 0xfffff000 | 0x53a", "{} | 0x1", "{} & 0xf0f", "{} ^ 0x539")
LINKS = ("lo", '"eth0"', '"eth*"', "{ lo, eth1 }", "!= lo", '!= "eth*"')


class Author:
    def __init__(self, seed: random.Random, family: int) -> None:
        self.seed = seed
        self.family = family
        self.ip = "ip6" if family == 6 else "ip"
        self.count = 0

    def rules(self) -> str:
        seed = self.seed
        chains = [text for base in BASES if seed.random() < 0.45 for text in self._base(*base)]
        kind = "ipv6_addr" if self.family == 6 else "ipv4_addr"
        lists = ((kind, seed.sample(BLOCKS[self.family], 2)), ("inet_service", ["80", "9000-9500", str(PORTS[-1])]))
        sets = [
            f"set {name} {{ type {kind}; flags interval; auto-merge; elements = {{ {', '.join(words)} }} }}"
            for name, (kind, words) in zip(("blocks", "ports"), lists, strict=True)
        ]
        inside = "\n".join((*sets, *chains))
        return f"table inet fuzz {{\n{inside}\n}}\n"

    def _base(self, kind: str, hook: str, priority: int) -> list[str]:
        """A base chain and those that it alone leads to, since what a rule may say depends on the hook."""
        seed = self.seed
        name = f"{kind}_{hook}_{priority}".replace("-", "m")
        called = [f"{name}_{number}" for number in range(seed.choice((0, 0, 1, 2)))]
        policy = "drop" if (kind, hook) == ("filter", "input") and seed.random() < 0.1 else "accept"
        head = f"type {kind} hook {hook} priority {priority}; policy {policy};"
        rules = [self._rule(kind, hook, priority, called) for _ in range(seed.choice((1, 2, 3)))]
        made = [self._chain(name, [head, *rules])]
        for place, chain in enumerate(called):
            inside = [self._rule(kind, hook, priority, called[place + 1 :]) for _ in range(seed.choice((1, 2)))]
            made.append(self._chain(chain, inside))
        return made

    def _chain(self, name: str, lines: list[str]) -> str:
        return f"chain {name} {{\n" + "".join(f"\t{line}\n" for line in lines) + "}"

    def _rule(self, kind: str, hook: str, priority: int, called: list[str]) -> str:
        seed = self.seed
        self.count += 1
        action, protocol = self._action(kind, hook, priority, called)
        protocol = protocol or seed.choice(("", "", "tcp", "udp"))
        words = [f"meta l4proto {protocol}"] if protocol else []
        tracked = not (hook in ("prerouting", "output") and priority < -200)
        words += [self._match(hook, priority, protocol, tracked) for _ in range(seed.choice((0, 1, 1, 2)))]
        ahead = "" if action.startswith("tproxy") else "counter "
        return " ".join(word for word in (*words, f'{ahead}{action} comment "r{self.count}"') if word)

    def _match(self, hook: str, priority: int, protocol: str, tracked: bool) -> str:
        seed = self.seed
        kinds = ["address", "address", "set", "mark", "mark", "owner", "fib", "family"]
        kinds += ["oifname"] if hook != "input" else []
        kinds += ["iifname"] if hook != "postrouting" else []
        kinds += ["state", "connmark", "direction", "status"] if tracked else []
        kinds += ["socket"] if hook in ("prerouting", "input") and tracked else []
        kinds += ["port", "port", "ports"] if protocol else []
        kinds += ["flags"] if protocol == "tcp" else []
        return self._words(seed.choice(kinds), protocol)

    def _words(self, kind: str, protocol: str) -> str:  # noqa: C901 (one case for one match)
        seed = self.seed
        no = seed.choice(("", "", "", "!= "))
        match kind:
            case "address":
                return f"{self.ip} {seed.choice(('saddr', 'daddr'))} {no}{seed.choice(BLOCKS[self.family])}"
            case "set":
                return f"{self.ip} {seed.choice(('saddr', 'daddr'))} {no}@blocks"
            case "mark":
                return f"meta mark {seed.choice(MARKS)}"
            case "connmark":
                return f"ct mark {seed.choice([words for words in MARKS if '{' not in words])}"
            case "owner":
                gid = seed.choice((*GIDS, *GROUPS))
                uid = seed.choice(UIDS)
                return seed.choice(
                    (f"meta skuid {no}{uid}", f"meta skgid {no}{gid}", f"meta skuid {no}{uid}-{uid + 500}")
                )
            case "iifname" | "oifname":
                return f"{kind} {seed.choice(LINKS)}"
            case "fib":
                return f"fib {seed.choice(('saddr', 'daddr'))} type {no}local"
            case "state":
                return f"ct state {seed.choice(STATES)}"
            case "direction":
                return f"ct direction {seed.choice(('original', 'reply'))}"
            case "status":
                return seed.choice(("ct status dnat", "ct status & dnat == 0", "ct status snat"))
            case "socket":
                return seed.choice(("socket transparent 1", "socket transparent <= 1"))
            case "port":
                port = seed.choice(PORTS)
                words = seed.choice((str(port), f"{port}-{port + 400}", f"{{ {port}, 9000-9500 }}"))
                return f"{protocol} {seed.choice(('dport', 'dport', 'sport'))} {no}{words}"
            case "ports":
                return f"{seed.choice((protocol, 'th'))} dport {no}@ports"
            case "flags":
                return f"tcp flags & (fin | syn | rst | ack) {seed.choice(('==', '!='))} syn"
            case _:
                return f"meta nfproto ipv{self.family}"

    def _action(self, kind: str, hook: str, priority: int, called: list[str]) -> tuple[str, str]:
        """What a rule does, and the protocol that it needs."""
        seed = self.seed
        port, protocol = seed.choice(PORTS), seed.choice(("tcp", "tcp", "udp"))
        mark = f"meta mark set {seed.choice(PUT).format('meta mark')}"
        early = hook in ("prerouting", "output") and priority < -200
        found = [("return", ""), ("accept", ""), ("", ""), ('log prefix "x" group 5', ""), (mark, "")]
        found += [(f"{verb} {seed.choice(called)}", "") for verb in ("jump", "jump", "goto") if called]
        if kind == "nat":
            return seed.choice((*found[:3], *found[5:], *self._translations(hook, port, protocol)))
        found += [(seed.choice(("ct zone set 1", "notrack")), "")] * 2 if early else []
        if not early:
            put = f"ct mark set {seed.choice(PUT).format('ct mark')}"
            found += [(put, ""), ("ct mark set meta mark", ""), ("meta mark set ct mark", "")]
        if (hook, priority) == ("prerouting", -150):
            found += [(f"tproxy {self.ip} to :{port} counter {seed.choice((mark, ''))} accept", protocol)] * 4
        if seed.random() < 0.3:
            found += [("drop", "")]
        if kind == "filter" and hook in ("input", "forward", "output") and priority == 0:
            found += [("reject", "")]
        return seed.choice(found)

    def _translations(self, hook: str, port: int, protocol: str) -> list[tuple[str, str]]:
        seed, six = self.seed, self.family == 6
        if hook == "postrouting":
            return [("masquerade", ""), (f"snat {self.ip} to {POD[self.family][0]}", "")]
        if hook == "input":
            return [(f"snat {self.ip} to {POD[self.family][0]}", "")]
        to = seed.choice((POD[self.family][0], FAR[self.family][0], LOOP[self.family][0]))
        dnat = f"dnat {self.ip} to {f'[{to}]' if six else to}:{port}"
        return [(f"redirect to :{port}", protocol)] * 3 + [
            (f"redirect to :{port}-{port + 2}", protocol),
            (dnat, protocol),
        ]
