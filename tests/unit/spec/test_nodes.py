from __future__ import annotations

from meshnet.spec.nodes import Listing, Mapping, Scalar, node_of, printable, shown


def test_what_is_null() -> None:
    assert all(Scalar(1, text).null for text in ("", "~", "null", "Null", "NULL"))
    assert not any(Scalar(1, text, plain=False).null for text in ("", "~", "null"))
    assert not Scalar(1, "nULL").null


def test_what_a_message_shows() -> None:
    assert shown(Scalar(1, "")) == "null"
    assert shown(Scalar(1, "", plain=False)) == '""'
    assert shown(Scalar(1, "a\n\x1b[31m")) == "a\\n\\x1b[31m"
    assert shown(Listing(1, [Scalar(1, "a")])) == "a list of 1"
    assert shown(Mapping(1, [])) == "a mapping of 0"


def test_long_text_is_cut() -> None:
    assert printable("a" * 60) == "a" * 60
    assert printable("a" * 61) == "a" * 59 + "…"


def test_plain_data_as_nodes() -> None:
    assert node_of({"a": [1, True, None, "x"]}) == Mapping(
        0,
        [
            (
                Scalar(0, "a", plain=False),
                Listing(0, [Scalar(0, "1"), Scalar(0, "true"), Scalar(0, "null"), Scalar(0, "x", plain=False)]),
            )
        ],
    )
