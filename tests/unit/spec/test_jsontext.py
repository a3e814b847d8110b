from __future__ import annotations

import json
import math
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshnet.spec.jsontext import NotJson, decode, encode

plain = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)),
)


@given(plain)
def test_what_is_written_is_read_again(data: object) -> None:
    assert decode(encode(data)) == data
    assert json.loads(encode(data)) == data
    assert decode(f" \n{json.dumps(data, indent=2)}\t\r\n") == data


WORDS = (
    "",
    " ",
    "nul",
    "{",
    '{"a"',
    '{"a":1,}',
    "[1,]",
    "'a'",
    '"a',
    '"\n"',
    "01",
    "1 2",
    "NaN",
    "-Infinity",
    "\ufeff1",
)


@pytest.mark.parametrize("text", [*WORDS, "[" * 200_000, "9" * 5000])
def test_what_is_no_json(text: str) -> None:
    with pytest.raises(NotJson) as refused:
        decode(text)
    assert str(refused.value)


@given(st.text(alphabet='{}[]",:0123eE.-+ntfa\\u "', max_size=20))
def test_it_agrees_with_the_package(text: str) -> None:
    try:
        wanted = json.loads(text, parse_constant=lambda _: math.nan)
    except ValueError:
        with pytest.raises(NotJson):
            decode(text)
    else:
        assert decode(text) == wanted


def test_the_package_is_loaded_for_an_error_alone() -> None:
    script = (
        "import sys; from meshnet.spec.jsontext import decode, encode, NotJson\n"
        "assert decode(encode({'a': [1]})) == {'a': [1]}\n"
        "assert not {'json', 're'} & set(sys.modules)\n"
        "try: decode('{')\n"
        "except NotJson as error: assert 'line 1' in str(error)\n"
    )
    subprocess.run((sys.executable, "-S", "-c", script), check=True)


def test_an_interpreter_without_the_c_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "_json", None)
    assert decode(encode({"a": [1.5, "é"]})) == {"a": [1.5, "é"]}
    with pytest.raises(NotJson):
        decode("[")
