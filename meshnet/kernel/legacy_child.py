"""What runs in the forked child of ``xtables_legacy``: rules to libiptc and back, by python-iptables.

Matches and targets are parsed, checked and printed by libxtables itself, through python-iptables. Its Rule objects
are not used for the rest: they ask every table whether it has a chain (which creates the tables), and they print and
parse each match again before use. Bytes of a match are kept by its words, so that a repeated one costs a look-up.
"""

from __future__ import annotations

import ctypes
import os

from meshnet.kernel import legacy_entry
from meshnet.kernel.legacy_entry import Head
from meshnet.kernel.savetext import numbered, words
from meshnet.model.errors import ToolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from meshnet.model.cidr import Family

LONGEST_CHAIN = 28
STANDARD_TARGETS = ("ACCEPT", "DROP", "QUEUE", "RETURN")
STDOUT = 1

# bytes of a match or target, and the mask of those that decide whether two are the same
Packed = tuple[bytes, bytes]


class Extensions:
    """The matches and targets of one family."""

    def __init__(self, family: Family) -> None:
        import iptc
        from iptc import xtables

        self.family = family
        self._library: Any = iptc
        self._wrap_save: Any = xtables._wrap_save
        self._xtables: Any = xtables.xtables(xtables.NFPROTO_IPV6 if family == 6 else xtables.NFPROTO_IPV4)
        self._xtables._xtables_set_nfproto(self._xtables.proto)
        self._packed: dict[tuple[Any, ...], Packed] = {}
        self._options: dict[tuple[str, str], dict[str, int]] = {}
        self._printed: dict[tuple[Any, ...], str] = {}
        self._printed_up_to = 0

    def options(self, kind: str, name: str) -> dict[str, int]:
        """The options of an extension with the number of words each takes (-1: all up to the next option)."""
        key = (kind, name)
        if key not in self._options:
            module = self._module(kind, name)
            found: dict[str, int] = {}
            for table, modern in ((getattr(module, "x6_options", None), True), (module.extra_opts, False)):
                for entry in table or ():
                    if not entry.name:
                        break
                    takes = (1 if entry.type else 0) if modern else (-1 if entry.has_arg else 0)
                    found.setdefault(entry.name.decode(), takes)
            self._options[key] = found
        return self._options[key]

    def pack(self, kind: str, name: str, given: tuple[tuple[str, bool, tuple[str, ...]], ...], head: Head) -> Packed:
        """Bytes of a match or target from its options (name, negated, words)."""
        # multiport looks at the rule's protocol while it parses
        key = (kind, name, given, head.protocol, head.inverted & legacy_entry.INVERTED["-p"])
        found = self._packed.get(key)
        if found is None:
            found = self._packed[key] = self._pack(kind, name, given, head)
        return found

    def _pack(self, kind: str, name: str, given: tuple[tuple[str, bool, tuple[str, ...]], ...], head: Head) -> Packed:
        rule = self._rule(head)
        try:
            if kind == "match":
                made = self._library.Match(rule, name=name)
            else:
                made = self._library.Target(rule, name=name, goto=False)
            for option, negated, values in given:
                argv = (ctypes.c_char_p * (len(values) + 1))()
                argv[0] = option.encode()
                for place, word in enumerate(values, 1):
                    argv[place] = word.encode()
                made._parse(argv, ctypes.c_int(negated), ctypes.pointer(rule.entry))
            made._final_check()
        except (self._library.xtables.XTablesError, ValueError, AttributeError) as error:
            what = " ".join(
                f"{'! ' if negated else ''}--{option} {' '.join(rest)}".strip() for option, negated, rest in given
            )
            raise ToolError(f"libxtables refused {name} {what}".rstrip(), detail=str(error)) from error
        raw = bytes(made.match_buf) if kind == "match" else ctypes.string_at(made._target_buf, made.size)
        return raw, b"\xff" * made.usersize + b"\0" * (len(raw) - made.usersize)

    def text(self, kind: str, raw: bytes, entry: bytes) -> str:
        """A match or target as iptables-save prints it."""
        name = legacy_entry.extension_name(raw, 0)[1]
        head = entry[: legacy_entry.HEAD[self.family].size]
        # of the head they look at the protocol alone, which is at its end (v4: u16 and two flag bytes; v6: eight)
        key = (kind, raw, head[-8 if self.family == 6 else -4 :])
        found = self._printed.get(key)
        if found is None:
            found = self._printed[key] = self._print(kind, name, raw, head)
        return found

    def _print(self, kind: str, name: str, raw: bytes, head: bytes) -> str:
        module = self._module(kind, name)
        revision = legacy_entry.extension_name(raw, 0)[2]
        if module.revision != revision:
            raise ToolError(f"{kind} {name} has revision {revision}, libxtables knows {module.revision}")
        buffer = ctypes.create_string_buffer(raw, len(raw))
        address = ctypes.create_string_buffer(head, len(head))
        alias = getattr(module, "alias", None)
        pointer_type = ctypes.POINTER(
            self._library.xtables.xt_entry_match if kind == "match" else self._library.xtables.xt_entry_target
        )
        shown = alias(ctypes.cast(buffer, pointer_type)).decode() if alias else name
        text = f" {'-m' if kind == 'match' else '-j'} {shown}"
        if not module.save:
            return text
        self._wrap_save(module.save, ctypes.cast(address, ctypes.c_void_p), ctypes.cast(buffer, ctypes.c_void_p))
        size = os.fstat(STDOUT).st_size
        printed = os.pread(STDOUT, size - self._printed_up_to, self._printed_up_to)
        self._printed_up_to = size
        return text + printed.decode(errors="replace").rstrip("\n")  # the library's wrapper ends with a line end

    def _module(self, kind: str, name: str) -> Any:
        found = self._xtables.find_match(name) if kind == "match" else self._xtables.find_target(name)
        if not found:
            raise ToolError(f"libxtables has no {kind} {name}")
        return found[0]

    def _rule(self, head: Head) -> Any:
        library = self._library
        rule = library.Rule6() if self.family == 6 else library.Rule()
        raw = head.pack()
        ctypes.memmove(ctypes.byref(rule.entry), raw, len(raw))
        return _Context(rule)


class _Context:
    """What Match and Target want to know of their rule, without the tables that a Rule would open."""

    tables = ()

    def __init__(self, rule: Any) -> None:
        self.nfproto = rule.nfproto
        self.entry = rule.entry
        self._rule = rule

    def get_ip(self) -> Any:
        return self._rule.get_ip()


class Table:
    """One table of the current namespace, changed in memory until ``commit``."""

    def __init__(self, family: Family, name: str, extensions: Extensions) -> None:
        import iptc

        self.family = family
        self.name = name
        self._extensions = extensions
        try:
            kind = iptc.Table6 if family == 6 else iptc.Table
            self._table: Any = kind(name, autocommit=False)
        except iptc.IPTCError as error:
            raise ToolError(f"there is no table {name}", detail=str(error)) from error
        self._handle = self._table._handle
        self._calls: Any = self._table._iptc

    def command(self, line: str) -> None:
        """Carry out one line of a restore text."""
        if line.startswith(":"):
            self._declare(line)
            return
        verb, chain, *rest = words(line)
        name = chain.encode()
        match verb:
            case "-A":
                entry, _ = self._entry(rest)
                self._done(self._calls.iptc_append_entry(name, entry, self._handle))
            case "-I":
                place = int(rest.pop(0)) if rest and rest[0].isdigit() else 1
                entry, _ = self._entry(rest)
                self._done(self._calls.iptc_insert_entry(name, entry, place - 1, self._handle))
            case "-D":
                entry, mask = self._entry(rest)
                self._done(self._calls.iptc_delete_entry(name, entry, mask, self._handle))
            case "-F":
                self._done(self._calls.iptc_flush_entries(name, self._handle))
            case "-X":
                self._done(self._calls.iptc_delete_chain(name, self._handle))
            case _:
                raise ToolError(f"{verb} is not among the commands of this backend (-A -I -D -F -X)")

    def _declare(self, line: str) -> None:
        chain, policy, *_ = line[1:].split()
        name = chain.encode()
        if len(name) > LONGEST_CHAIN:
            raise ToolError(f"a chain name of more than {LONGEST_CHAIN} bytes ({chain})")
        if self._calls.iptc_builtin(name, self._handle):
            if policy != "-":
                self._done(self._calls.iptc_set_policy(name, policy.encode(), None, self._handle))
        elif self._calls.iptc_is_chain(name, self._handle):
            self._done(self._calls.iptc_flush_entries(name, self._handle))
        else:
            self._done(self._calls.iptc_create_chain(name, self._handle))

    def commit(self) -> None:
        self._done(self._calls.iptc_commit(self._handle))

    def lines(self, counters: bool) -> list[str]:
        """The table as iptables-save prints it."""
        import iptc
        from iptc.xtables import xt_counters

        chains: list[bytes] = []
        found = self._calls.iptc_first_chain(self._handle)
        while found:
            chains.append(found)
            found = self._calls.iptc_next_chain(self._handle)
        lines = [f"*{self.name}"]
        for chain in chains:
            seen = xt_counters()
            policy = "-"
            if self._calls.iptc_builtin(chain, self._handle):
                policy = self._calls.iptc_get_policy(chain, ctypes.byref(seen), self._handle).decode()
            lines.append(f":{chain.decode()} {policy} [{seen.pcnt}:{seen.bcnt}]")
        kind = iptc.ip6tc.ip6t_entry if self.family == 6 else iptc.ip4tc.ipt_entry
        for chain in chains:
            entry = self._calls.iptc_first_rule(chain, self._handle)
            while entry:
                lines.append(self._line(chain.decode(), entry, counters))
                entry = self._calls.iptc_next_rule(ctypes.cast(entry, ctypes.POINTER(kind)), self._handle)
        return [*lines, "COMMIT"]

    def _line(self, chain: str, pointer: Any, counters: bool) -> str:
        raw = ctypes.string_at(pointer, pointer[0].next_offset)
        family = self.family
        seen = "[{}:{}] ".format(*legacy_entry.counters_of(family, raw)) if counters else ""
        text = f"{seen}-A {chain}{legacy_entry.head_text(family, raw)}"
        offset, end = legacy_entry.SIZE[family], legacy_entry.target_offset(family, raw)
        while offset < end:
            size = legacy_entry.extension_name(raw, offset)[0]
            text += self._extensions.text("match", raw[offset : offset + size], raw)
            offset += size
        verdict = self._calls.iptc_get_target(pointer, self._handle)
        target = raw[end:]
        if legacy_entry.extension_name(target, 0)[1]:
            return text + self._extensions.text("target", target, raw)
        if not verdict:
            return text
        return f"{text} {'-g' if legacy_entry.is_goto(family, raw) else '-j'} {verdict.decode()}"

    def _entry(self, tokens: list[str]) -> tuple[Any, Any]:
        """The rule as bytes for libiptc, and the mask by which it finds an equal one."""
        head, matches, target = _read(tokens, self.family, self._extensions)
        packed = [self._extensions.pack("match", name, tuple(given), head) for name, given in matches]
        target_name, given = target
        if self._is_verdict(target_name):
            raw = legacy_entry.standard_target(target_name)
            packed.append((raw, b"\xff" * len(raw)))
        else:
            packed.append(self._extensions.pack("target", target_name, tuple(given), head))
        before = sum(len(raw) for raw, _ in packed[:-1])
        start = head.pack(before, len(packed[-1][0]))
        entry = start + b"".join(raw for raw, _ in packed)
        mask = b"\xff" * len(start) + b"".join(mask for _, mask in packed)
        return ctypes.create_string_buffer(entry, len(entry)), ctypes.create_string_buffer(mask, len(mask))

    def _is_verdict(self, name: str) -> bool:
        return not name or name in STANDARD_TARGETS or bool(self._calls.iptc_is_chain(name.encode(), self._handle))

    def _done(self, answer: int) -> None:
        if answer == 1:
            return
        said = self._table.strerror()
        raise ToolError(said.decode(errors="replace") if isinstance(said, bytes) else str(said))


Given = list[tuple[str, bool, tuple[str, ...]]]


def _read(
    tokens: list[str], family: Family, extensions: Extensions
) -> tuple[Head, list[tuple[str, Given]], tuple[str, Given]]:
    """Words of a rule: its head, its matches in order, its target. As iptables does, ``--dport`` after ``-p tcp``
    brings the match ``tcp`` along when none before has that option."""
    head = Head(family)
    matches: list[tuple[str, Given]] = []
    target: tuple[str, Given] = ("", [])
    in_target = False
    rest = list(reversed(tokens))
    while rest:
        word = rest.pop()
        negated = word == "!"
        if negated:
            word = rest.pop() if rest else ""
        if word in legacy_entry.INVERTED:
            head.set(word, _next(rest, word), negated)
        elif word == "-m":
            matches.append((_next(rest, word), []))
            in_target = False
        elif word in ("-j", "-g"):
            target, in_target = (_next(rest, word), []), True
            head.goto = word == "-g"
        elif word.startswith("--"):
            owner = target if in_target else None
            _option(word[2:], negated, rest, owner, matches, head, extensions)
        else:
            raise ToolError(f"can't read {word!r} in a rule")
    return head, matches, target


def _option(
    option: str,
    negated: bool,
    rest: list[str],
    target: tuple[str, Given] | None,
    matches: list[tuple[str, Given]],
    head: Head,
    extensions: Extensions,
) -> None:
    kind = "target" if target else "match"
    holders = [target] if target else list(reversed(matches))
    owner = next((item for item in holders if option in extensions.options(kind, item[0])), None)
    if owner is None and not target and head.protocol in legacy_entry.NUMBERS:
        owner = (legacy_entry.NUMBERS[head.protocol], [])
        matches.append(owner)
    takes = extensions.options(kind, owner[0]).get(option) if owner else None
    if owner is None or takes is None:
        raise ToolError(f"nothing in the rule knows --{option}")
    values: list[str] = []
    while rest and (len(values) < takes or (takes < 0 and (not values or _more(rest[-1])))):
        values.append(rest.pop())
    owner[1].append((option, negated, tuple(values)))


def _more(word: str) -> bool:
    return word != "!" and not word.startswith("-")


def _next(rest: list[str], option: str) -> str:
    if not rest:
        raise ToolError(f"{option} without a word behind it")
    return rest.pop()


def restore(family: Family, text: str, *, test: bool) -> None:
    """What ``iptables-legacy-restore --noflush`` does. ToolError names the line."""
    extensions = Extensions(family)
    table: Table | None = None
    number = 0
    for number, line in numbered(text):
        try:
            if line.startswith("*"):
                table = Table(family, line[1:].strip(), extensions)
            elif table is None:
                raise ToolError("a line outside of any table")
            elif line == "COMMIT":
                if not test:
                    table.commit()
                table = None
            else:
                table.command(line)
        except ToolError as error:
            detail = "\n".join(part for part in (error.message, error.detail) if part)
            raise ToolError(f"libiptc refused line {number}: {line}", detail=detail) from error
    if table is not None:
        raise ToolError(f"the text ends at line {number} without COMMIT")


def save(family: Family, tables: tuple[str, ...], counters: bool) -> str:
    """The text of tables as ``iptables-legacy-save`` prints it, without its comment lines."""
    extensions = Extensions(family)
    lines = [line for name in tables for line in Table(family, name, extensions).lines(counters)]
    return "".join(f"{line}\n" for line in lines)
