"""JSON text to plain data and back, by the interpreter's own C functions and without the package around them.

A CNI plugin is started for every pod, and importing ``json`` costs as much as the bare interpreter, since it brings
``re`` and ``enum``: 12 ms where P is 11. ``_json`` holds the same scanner and encoder and costs a quarter of one.
Where an interpreter has no such module, or the text is no JSON and somebody wants to know where, ``json`` is loaded
after all.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

BLANKS = " \t\r\n"
"""The white space of RFC 8259, section 2."""


class NotJson(ValueError):
    """A text that is no JSON (RFC 8259); the message says what is wrong and where."""


def decode(text: str) -> Any:
    """The value that a JSON text holds; of a key that is there twice the last one counts. NotJson.

    Stricter than ``json.loads`` in one thing: NaN and Infinity are no JSON.
    """
    try:
        start = len(text) - len(text.lstrip(BLANKS))
        found, end = _scanner()(text, start)
        if not text[end:].strip(BLANKS):
            return found
    except (StopIteration, SystemError):
        pass  # the scanner's way to say no; SystemError where it wanted the class of the package that isn't loaded
    except RecursionError:
        raise NotJson("nested too deeply") from None
    except NotJson:
        raise
    except ValueError as error:
        raise NotJson(str(error)) from None
    raise NotJson(_what_is_wrong(text))


def encode(data: Any) -> str:
    """Plain data (dict, list, text, numbers, bool, None) as JSON on one line, in ASCII."""
    return "".join(_encoder()(data, 0))


class _Settings:
    """What the scanner asks of whoever makes it."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    memo: dict[str, str] = {}

    @staticmethod
    def parse_constant(word: str) -> None:
        raise NotJson(f"{word} is no JSON")


def _scanner() -> Callable[[str, int], tuple[Any, int]]:
    made: Any
    try:
        import _json
    except ImportError:
        import json

        made = json.JSONDecoder(parse_constant=_Settings.parse_constant)
        return made.scan_once  # type: ignore[no-any-return]
    made = _json.make_scanner
    return made(_Settings)  # type: ignore[no-any-return]


def _encoder() -> Callable[[Any, int], tuple[str, ...]]:
    try:
        import _json
    except ImportError:
        import json

        return lambda data, _: (json.dumps(data),)
    made: Any = _json.make_encoder
    return made(  # type: ignore[no-any-return]
        None, None, _json.encode_basestring_ascii, None, ": ", ", ", False, False, False
    )


def _what_is_wrong(text: str) -> str:
    import json

    try:
        json.loads(text)
    except RecursionError:
        return "nested too deeply"
    except ValueError as error:
        return str(error)
    return "no JSON"
