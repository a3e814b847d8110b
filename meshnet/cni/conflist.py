"""Our entry put into a network configuration's text, and taken out again, with every other byte left as it is.

Whoever reads a document and writes it anew keeps its meaning at best: blanks, numbers such as 1e3 and keys given twice
are gone, and a file that its owner compares with his own looks tampered with. So the text is cut and joined.
"""

from __future__ import annotations

import json

from meshnet.cni.protocol import VERSIONS, is_name
from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TYPE = "meshnet-cni"
OTHERS = ("istio-cni", "linkerd-cni", "kuma-cni")
"""Types of plugins that write rules of the same kind: two of them in a chain would capture twice."""

BLANKS = " \t\r\n"


class NotReady(Exception):
    """Nothing that our entry can be put into now; the text says why. Somebody may still be writing it."""


@value
class Span:
    """A value in a text: where it begins and ends, and what it is."""

    start: int
    end: int
    data: Any


def members(text: str) -> dict[str, Span]:
    """The values of a JSON object's text by key. NotReady when it is none."""
    found = _value(text, _skip(text, 0))
    if not isinstance(found.data, dict):
        raise NotReady("no object")
    if text[found.end :].strip(BLANKS):
        raise NotReady(f"something stands behind the object (character {found.end})")
    spans: dict[str, Span] = {}
    place = _skip(text, found.start + 1)
    while text[place] != "}":
        key = _value(text, place)
        item = _value(text, _skip(text, _skip(text, key.end) + 1))
        spans[key.data] = item
        place = _skip(text, item.end)
        place = _skip(text, place + 1) if text[place] == "," else place
    return spans


def plugins_of(text: str) -> list[Span]:
    """The plugins of a configuration list. NotReady when no runtime would take it (libcni, ConfListFromBytes)."""
    keys = members(text)
    listed = keys.get("plugins")
    if listed is None:
        raise NotReady("no plugins")
    if not isinstance(listed.data, list) or not listed.data:
        raise NotReady("plugins is no list, or an empty one")
    _named(keys)
    found: list[Span] = []
    place = _skip(text, listed.start + 1)
    while text[place] != "]":
        item = _value(text, place)
        if not isinstance(item.data, dict) or not isinstance(item.data.get("type"), str):
            raise NotReady(f"plugin {len(found) + 1} has no type")
        found.append(item)
        place = _skip(text, item.end)
        place = _skip(text, place + 1) if text[place] == "," else place
    return found


def with_entry(text: str, entry: dict[str, Any]) -> str:
    """A list's text with our entry as its last plugin, once; the same text when that is so already. NotReady."""
    bare = without_entry(text)
    plugins = plugins_of(bare)
    for other in (item.data["type"] for item in plugins):
        if other in OTHERS:
            raise NotReady(f"{other} is in the chain, and both would capture: take it out first")
    last = plugins[-1]
    # In the file's own manner: on a line of its own, as deep as its neighbour, if that stands on one.
    line = bare.rfind("\n", 0, last.start) + 1
    indent = bare[line : last.start]
    joint = f",\n{indent}" if line and not indent.strip(BLANKS) else ", "
    found = f"{bare[: last.end]}{joint}{_written(entry)}{bare[last.end :]}"
    return found if "cniVersion" in members(found) else _with_version(found)


def without_entry(text: str) -> str:
    """The text without our entry and without what came with it. NotReady when it is no list."""
    plugins = plugins_of(text)
    ours = [place for place, item in enumerate(plugins) if item.data["type"] == TYPE]
    for place in reversed(ours):
        if place:
            text = text[: plugins[place - 1].end] + text[plugins[place].end :]
        elif len(plugins) > 1:
            text = text[: plugins[0].start] + text[plugins[1].start :]
        else:
            raise NotReady("our entry is the only plugin: nothing makes an interface there")
    return _without_version(text) if ours else text


def entry_of(text: str) -> dict[str, Any] | None:
    """Our entry in a list, if it is the last plugin and the only one of ours."""
    types = [item.data["type"] for item in plugins_of(text)]
    if types.count(TYPE) != 1 or types[-1] != TYPE:
        return None
    found: dict[str, Any] = plugins_of(text)[-1].data
    return found


def list_of(text: str, entry: dict[str, Any]) -> str:
    """A plain configuration's text as a list: the plugin as it stands, and our entry behind it. NotReady."""
    keys = members(text)
    if "type" not in keys or not isinstance(keys["type"].data, str):
        raise NotReady("no type, and no plugins")
    if keys["type"].data in OTHERS or keys["type"].data == TYPE:
        raise NotReady(f"{keys['type'].data} makes no interface")
    _named(keys)
    version = keys["cniVersion"].data if "cniVersion" in keys else VERSIONS[0]
    head = f'"cniVersion": {json.dumps(version)}, "name": {json.dumps(keys["name"].data)}'
    return f'{{{head}, "plugins": [\n{text.strip(BLANKS)},\n{_written(entry)}\n]}}\n'


def plain_of(text: str) -> str:
    """What ``list_of`` was made from: the text of the first plugin. NotReady when others have come in besides."""
    plugins = [item for item in plugins_of(text) if item.data["type"] != TYPE]
    if len(plugins) != 1:
        raise NotReady("somebody has put a plugin of his own into the list")
    return text[plugins[0].start : plugins[0].end]


MARK = '"cniVersion" : "0.3.1" , '
"""Put at the head of a list that names no version. That means 0.1.0, in which no plugin gets a result of another. Its
blanks tell it from what somebody else has written, so that it goes with us."""


def _with_version(text: str) -> str:
    place = text.index("{") + 1
    return f"{text[:place]}{MARK}{text[place:]}"


def _without_version(text: str) -> str:
    place = text.index("{") + 1
    return text[:place] + text[place:].removeprefix(MARK)


def _named(keys: dict[str, Span]) -> None:
    name = keys["name"].data if "name" in keys else None
    if not isinstance(name, str) or not is_name(name):
        raise NotReady("no name of a network")
    version = keys["cniVersion"].data if "cniVersion" in keys else VERSIONS[0]
    if version not in VERSIONS:
        raise NotReady(f"cniVersion {version}: a chain with us needs one of {', '.join(VERSIONS)}")


def _written(entry: dict[str, Any]) -> str:
    return json.dumps(entry)


def _value(text: str, start: int) -> Span:
    try:
        data, end = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError) as error:
        raise NotReady(f"no JSON, or half of it ({error})") from None
    return Span(start, end, data)


def _skip(text: str, place: int) -> int:
    while place < len(text) and text[place] in BLANKS:
        place += 1
    return place
