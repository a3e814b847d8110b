from __future__ import annotations

import contextlib
import json
import socket
import sys
import time
import urllib.request
from collections.abc import Iterator

import pytest

from meshnet.lab.process import start, start_application, start_sidecar
from meshnet.model.errors import ToolError
from meshnet.sidecar.config import Settings


def python(text: str) -> list[str]:
    return [sys.executable, "-I", "-c", text]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as made:
        return int(made.getsockname()[1])


def test_a_server_that_ends_early_is_an_error_with_its_own_words() -> None:
    with pytest.raises(ToolError) as caught:
        start("server", python("import sys; sys.exit('port taken')"))
    assert "ended with 1" in caught.value.message and caught.value.detail == "port taken\n"


def test_a_server_that_says_nothing_is_waited_for_only_so_long() -> None:
    began = time.monotonic()
    with pytest.raises(ToolError, match="not ready within"):
        start("server", python("import time; time.sleep(60)"), ready_within=0.3)
    assert time.monotonic() - began < 10


def test_another_word_than_ready_is_refused() -> None:
    with pytest.raises(ToolError, match="instead of ready"):
        start("server", python("print('hello', flush=True); import time; time.sleep(60)"))


def test_a_server_that_ignores_sigterm_is_killed() -> None:
    text = "import signal, time; signal.signal(15, signal.SIG_IGN); print('ready', flush=True); time.sleep(60)"
    child = start("server", python(text))
    assert child.running
    assert child.stop(within=0.2) == -9
    assert child.stop() == -9 and not child.running


def test_one_that_was_asked_to_end_does_and_is_stopped_as_ever() -> None:
    asked = "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(5))"
    child = start("server", python(f"{asked}; print('ready', flush=True); time.sleep(60)"))
    child.ask_to_end()
    wait_until = time.monotonic() + 20
    while child.running and time.monotonic() < wait_until:
        time.sleep(0.01)
    assert not child.running
    child.ask_to_end()
    assert child.stop() == 5


def test_stderr_is_kept_to_its_end() -> None:
    text = "import sys; sys.stderr.write('a' * 200000 + 'end'); sys.stderr.flush(); print('ready', flush=True)"
    with start("server", python(text)) as child:
        pass
    assert child.stderr.endswith("aend") and len(child.stderr) == 65536


def test_the_namespace_is_entered_around_the_start_only() -> None:
    seen: list[str] = []

    class Place:
        @contextlib.contextmanager
        def entered(self) -> Iterator[None]:
            seen.append("in")
            yield
            seen.append("out")

    with start("server", python("print('ready', flush=True); import time; time.sleep(60)"), Place()):
        assert seen == ["in", "out"]


def test_wrong_settings_end_the_sidecar_with_a_line() -> None:
    with pytest.raises(ToolError) as caught:
        start("sidecar", [sys.executable, "-m", "meshnet.sidecar", '{"colour": 1}'])
    assert "ended with 2" in caught.value.message and caught.value.detail.startswith("sidecar: settings: unknown")


def test_the_application_answers_and_ends() -> None:
    port = free_port()
    with start_application(port=port, families=[4]) as child:
        for _ in range(2):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as answer:
                assert json.load(answer)["peer"] == "127.0.0.1"
        assert child.stop() == 0


def test_a_port_that_is_taken_is_said() -> None:
    port = free_port()
    with start_application(port=port, families=[4]), pytest.raises(ToolError) as caught:
        start_sidecar(Settings(outbound_port=port, uid=None, gid=None, families=(4,), inbound_mode="none"))
    assert "ended with 3" in caught.value.message and "in use" in caught.value.detail
