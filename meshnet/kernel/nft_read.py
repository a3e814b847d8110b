"""Tables of nftables as the kernel has them, over netlink: no program, no version's way of printing.

Of other people's tables nothing is read but their names and comments, and of chains the heads; rules and sets are asked
for by the table's name. ``nft list ruleset`` would read everything, and older versions die of what newer ones wrote.
"""

from __future__ import annotations

import errno
import struct

from meshnet.kernel.netlink import NETFILTER, Netlink, attributes, nested, text, text_attribute
from meshnet.kernel.nft_table import ABSENT, HEADER, INET, SUBSYSTEM, TABLE_USERDATA, comment
from meshnet.model.errors import PermissionMissing, ToolError
from meshnet.model.nft import RawChain, RawExpression, RawRule, RawSet, RawTable
from meshnet.model.value import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

GET_TABLE, GET_CHAIN, GET_RULE, GET_SET, GET_ELEMENTS = (SUBSYSTEM << 8 | kind for kind in (1, 4, 7, 10, 13))
TABLE_NAME, TABLE_FLAGS, TABLE_USE = 1, 2, 3
CHAIN_TABLE, CHAIN_NAME, CHAIN_HOOK, CHAIN_POLICY, CHAIN_TYPE = 1, 3, 4, 5, 7
HOOK_NUMBER, HOOK_PRIORITY = 1, 2
RULE_TABLE, RULE_CHAIN, RULE_HANDLE, RULE_EXPRESSIONS, RULE_USERDATA = 1, 2, 3, 4, 7
EXPRESSION_NAME, EXPRESSION_DATA = 1, 2
SET_TABLE, SET_NAME, SET_FLAGS, SET_KEY_TYPE = 1, 2, 3, 4
ELEMENTS_TABLE, ELEMENTS_SET, ELEMENTS_LIST = 1, 2, 3
ELEMENT_KEY, ELEMENT_FLAGS, DATA_VALUE = 1, 3, 1
"""linux/netfilter/nf_tables.h."""


def tables() -> tuple[RawTable, ...]:
    """All tables of family inet, whoever made them, with nothing in them; none without nf_tables in the kernel.

    Looking creates none. PermissionMissing without CAP_NET_ADMIN.
    """
    try:
        with Netlink(NETFILTER, "nft tables") as netlink:
            return tuple(_table(body) for body in netlink.dump(GET_TABLE, _header(), says_when_interrupted=True))
    except OSError as error:
        if error.errno in ABSENT:
            return ()
        raise _refused(error) from error


def content(table: RawTable) -> RawTable:
    """The table with its chains, sets and rules; an empty one when it went away meanwhile."""
    name = text_attribute(1, table.name)
    try:
        with Netlink(NETFILTER, f"table inet {table.name}") as netlink:
            found = netlink.dump(GET_CHAIN, _header(), says_when_interrupted=True)
            chains = tuple(_chain(item) for item in _of(table, found, CHAIN_TABLE))
            found = netlink.dump(GET_SET, _header() + name, says_when_interrupted=True)
            sets = tuple(_set(netlink, name, item) for item in _of(table, found, SET_TABLE))
            listed = netlink.dump(GET_RULE, _header() + name, says_when_interrupted=True)
            rules = tuple(_rule(item) for item in _of(table, listed, RULE_TABLE))
    except OSError as error:
        if error.errno == errno.ENOENT:
            return table
        raise _refused(error) from error
    return replace(table, chains=chains, sets=sets, rules=rules)


def _of(table: RawTable, bodies: Iterable[bytes], kind: int) -> list[dict[int, bytes]]:
    """Those of the bodies that are of the table; older kernels list more than they were asked for."""
    found = (attributes(body, HEADER) for body in bodies)
    return [item for item in found if text(item[kind]) == table.name]


def _table(body: bytes) -> RawTable:
    found = attributes(body, HEADER)
    return RawTable(
        text(found[TABLE_NAME]),
        comment(found.get(TABLE_USERDATA, b"")),
        _number(found.get(TABLE_FLAGS)),
        _number(found.get(TABLE_USE)),
    )


def _chain(found: dict[int, bytes]) -> RawChain:
    name = text(found[CHAIN_NAME])
    if CHAIN_HOOK not in found:
        return RawChain(name)
    hook = attributes(found[CHAIN_HOOK], 0)
    priority = struct.unpack("!i", hook[HOOK_PRIORITY])[0]
    policy = _number(found.get(CHAIN_POLICY))
    return RawChain(name, text(found.get(CHAIN_TYPE, b"")), _number(hook[HOOK_NUMBER]), priority, policy)


def _set(netlink: Netlink, table: bytes, found: dict[int, bytes]) -> RawSet:
    name = text(found[SET_NAME])
    asked = _header() + table + text_attribute(ELEMENTS_SET, name)
    elements = [
        _element(item)
        for body in netlink.dump(GET_ELEMENTS, asked, says_when_interrupted=True)
        for item in nested(attributes(body, HEADER).get(ELEMENTS_LIST, b""))
    ]
    return RawSet(name, _number(found.get(SET_KEY_TYPE)), _number(found.get(SET_FLAGS)), tuple(elements))


def _element(body: bytes) -> tuple[bytes, int]:
    found = attributes(body, 0)
    key = attributes(found.get(ELEMENT_KEY, b""), 0).get(DATA_VALUE, b"")
    return key, _number(found.get(ELEMENT_FLAGS))


def _rule(found: dict[int, bytes]) -> RawRule:
    expressions = []
    for item in nested(found.get(RULE_EXPRESSIONS, b"")):
        said = attributes(item, 0)
        expressions.append(RawExpression(text(said[EXPRESSION_NAME]), attributes(said.get(EXPRESSION_DATA, b""), 0)))
    handle = int.from_bytes(found[RULE_HANDLE], "big")
    return RawRule(text(found[RULE_CHAIN]), handle, comment(found.get(RULE_USERDATA, b"")), tuple(expressions))


def _number(body: bytes | None) -> int:
    return int.from_bytes(body, "big") if body else 0


def _header() -> bytes:
    """An nfgenmsg for family inet."""
    return struct.pack("=BBH", INET, 0, 0)


def _refused(error: OSError) -> ToolError | PermissionMissing:
    if error.errno == errno.EPERM:
        return PermissionMissing("reading nft tables needs CAP_NET_ADMIN", hint="run it as root")
    return ToolError(f"can't read nft tables: {error.strerror}")
