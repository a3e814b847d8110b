from __future__ import annotations

import pytest

from meshnet.compile.istio.shortcomings import shortcomings
from meshnet.model.value import replace
from tests.unit.compile.istio.written import spec


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"m": "TPROXY", "b": "*"}, ["uid 1337"]),
        ({"m": "TPROXY", "b": "80", "u": "0,7"}, ["uid 7"]),
        ({"m": "TPROXY", "b": "*", "u": "0"}, []),
        ({"m": "TPROXY", "u": "7"}, []),
        ({"b": "*", "u": "1,2"}, ["uid 2"]),
        ({"b": "*", "u": "1"}, []),
        ({"u": "1,2"}, []),
        ({"m": "NONE", "b": "*", "u": "1,2"}, []),
    ],
    ids=str,
)
def test_one_line_for_each(options: dict[str, str], words: list[str]) -> None:
    found = shortcomings(spec(**options))
    assert len(found) == len(words)
    for line, word in zip(found, words, strict=True):
        assert word in line
        assert "--profile meshnet" in line
        assert "\n" not in line


def test_the_other_profile_has_none() -> None:
    assert shortcomings(replace(spec(m="TPROXY", b="*", u="1,2"), profile="meshnet")) == ()
