from __future__ import annotations

from typing import Any

import pytest

from tests.unit.cli.commands import data


def test_compile_prints_a_restore_text_for_each_family(called: Any, spec_file: str) -> None:
    code, out, _ = called("compile", spec_file)
    assert code == 0
    assert "*mangle" in out and "ip6tables" in out and ":MESHNET_PRE - [0:0]" in out and "-N " not in out


@pytest.mark.parametrize(("family", "other"), [("4", "6"), ("6", "4")])
def test_one_family(called: Any, spec_file: str, family: str, other: str) -> None:
    _, out, _ = called("compile", spec_file, "--family", family)
    assert f"ip -{family} " in out and f"ip -{other} " not in out


def test_rules_as_json_say_where_they_come_from(called: Any, spec_file: str) -> None:
    code, out, _ = called("compile", spec_file, "-o", "json")
    answer = data(out)
    assert code == 0 and answer["name"] == "web" and answer["families"] == [4, 6]
    assert answer["steps"] and all(rule["id"] and rule["table"] and rule["rule"] for rule in answer["rules"])


def test_the_text_is_the_same_each_time(called: Any, spec_file: str) -> None:
    assert called("compile", spec_file) == called("compile", spec_file)


def test_the_schema_is_json_in_either_form(called: Any) -> None:
    plain, wanted = called("schema"), called("schema", "-o", "json")
    assert plain == wanted and data(plain[1])["$schema"].startswith("https://json-schema.org/")
