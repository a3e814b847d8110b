"""One call from its variables and its standard input to an exit code and an answer, without a process."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from meshnet.cni import entry, verbs
from meshnet.cni.entry import call, read_input
from meshnet.cni.protocol import CniError
from meshnet.model.errors import BusyError, NamespaceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

GOOD = {"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "one", "CNI_IFNAME": "eth0", "CNI_NETNS": "/none"}


@pytest.fixture
def asked(tmp_path: Path) -> Callable[..., tuple[int, dict[str, Any]]]:
    def made(verb: str = "ADD", text: bytes | None = None, **more: Any) -> tuple[int, dict[str, Any]]:
        plain = {
            "cniVersion": "1.1.0",
            "name": "net",
            "interception": {},
            "prevResult": {},
            "stateDir": str(tmp_path / "state"),
            "logFile": str(tmp_path / "log"),
        }
        given = json.dumps(plain | more).encode() if text is None else text
        code, answer = call(GOOD | {"CNI_COMMAND": verb}, lambda _: given)
        return code, json.loads(answer) if answer else {}

    return made


@pytest.fixture
def standard_input(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The writing end of a pipe that is this process's standard input."""
    before = os.dup(0)
    read, write = os.pipe()
    os.dup2(read, 0)
    os.close(read)
    yield write
    os.dup2(before, 0)
    os.close(before)


@pytest.mark.parametrize("given", [b"", b"no json", b"[]", b"\xff", b'{"cniVersion": "9.9"}', b'{"cniVersion": []}'])
def test_version_answers_whatever_comes(given: bytes) -> None:
    code, answer = call({"CNI_COMMAND": "VERSION"}, lambda _: given)
    assert code == 0
    found = json.loads(answer)
    assert found == {"cniVersion": "1.1.0", "supportedVersions": ["0.3.1", "0.4.0", "1.0.0", "1.1.0"]}


def test_version_answers_in_the_version_that_was_named() -> None:
    _, answer = call({"CNI_COMMAND": "VERSION"}, lambda _: b'{"cniVersion": "0.4.0"}')
    assert json.loads(answer)["cniVersion"] == "0.4.0"


def test_version_answers_without_a_standard_input() -> None:
    def never(_: float) -> bytes:
        raise CniError(5, "nothing came")

    assert call({"CNI_COMMAND": "VERSION"}, never)[0] == 0


@pytest.mark.parametrize(
    ("text", "code", "version"),
    [
        (b"", 6, "1.1.0"),
        (b"[]", 6, "1.1.0"),
        (b'{"cniVersion": 1}', 1, "1.1.0"),
        (b'{"cniVersion": "9.9.9", "name": "net"}', 1, "1.1.0"),
        (b'{"cniVersion": "0.4.0"}', 7, "0.4.0"),
        (b'{"cniVersion": "1.0.0", "name": "net", "intercepton": {}}', 2, "1.0.0"),
    ],
)
def test_an_error_is_of_the_version_that_was_asked_for(
    asked: Callable[..., Any], text: bytes, code: int, version: str
) -> None:
    exit_code, answer = asked(text=text)
    assert (exit_code, answer["code"], answer["cniVersion"]) == (1, code, version)


def test_what_a_verb_refuses_is_logged_with_the_container(asked: Callable[..., Any], tmp_path: Path) -> None:
    code, answer = asked()
    assert (code, answer["code"]) == (1, 3)
    line = (tmp_path / "log").read_text()
    assert "error: ADD net: one: 3: CNI_NETNS" in line


def test_of_many_details_the_log_has_the_first_and_the_answer_all(
    asked: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> str:
        raise CniError(101, "drift", "\n".join(f"line {number}." for number in range(30)))

    monkeypatch.setitem(verbs.VERBS, "CHECK", refuse)
    _, answer = asked("CHECK")
    assert answer["details"].count("\n") == 29
    log = (tmp_path / "log").read_text()
    assert "line 9." in log
    assert "line 10." not in log


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        (BusyError("another meshnet is at work there"), 11),
        (NamespaceError("it went away"), 8),
        (KeyboardInterrupt(), 11),
        (ZeroDivisionError("seven by nothing"), 110),
        (RecursionError(), 110),
    ],
)
def test_whatever_a_verb_raises_becomes_an_error_object(
    asked: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, raised: BaseException, code: int
) -> None:
    def broken(*_: object) -> str:
        raise raised

    monkeypatch.setitem(verbs.VERBS, "DEL", broken)
    exit_code, answer = asked("DEL")
    assert (exit_code, answer["code"]) == (1, code)


def test_a_mistake_of_ours_says_where_it_is(asked: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> str:
        raise KeyError("who")

    monkeypatch.setitem(verbs.VERBS, "GC", broken)
    assert "KeyError: 'who' (test_entry.py:" in asked("GC")[1]["msg"]


def test_standard_input_is_read_to_its_end(standard_input: int) -> None:
    os.write(standard_input, b'{"cni')
    os.write(standard_input, b'Version": ""}')
    os.close(standard_input)
    assert read_input(5.0) == b'{"cniVersion": ""}'


def test_a_standard_input_without_an_end_is_given_up(standard_input: int) -> None:
    os.write(standard_input, b"{")
    with pytest.raises(CniError) as refused:
        read_input(0.05)
    os.close(standard_input)
    assert refused.value.code == 5


def test_a_standard_input_that_is_too_long_is_given_up_at_once(
    standard_input: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entry, "LARGEST", 10)
    os.write(standard_input, b"x" * 11)
    with pytest.raises(CniError) as refused:
        read_input(5.0)
    os.close(standard_input)
    assert refused.value.code == 6


def test_a_standard_input_that_can_t_be_read() -> None:
    before = os.dup(0)
    folder = os.open("/", os.O_RDONLY)
    try:
        os.dup2(folder, 0)
        with pytest.raises(CniError) as refused:
            read_input(5.0)
    finally:
        os.dup2(before, 0)
        os.close(before)
        os.close(folder)
    assert refused.value.code == 5


@pytest.mark.parametrize(
    ("words", "code", "stream"), [(["--version"], 0, 1), (["-h"], 0, 1), (["install"], 2, 2), (["-V", "-h"], 2, 2)]
)
def test_a_person_who_calls_it_is_told_what_it_is(
    capfd: pytest.CaptureFixture[str], words: list[str], code: int, stream: int
) -> None:
    assert entry._explain(words) == code
    said = capfd.readouterr()
    assert said[stream - 1].startswith("meshnet-cni")
    assert said[2 - stream] == ""
