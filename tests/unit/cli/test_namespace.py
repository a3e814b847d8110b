"""``apply``, ``diff`` and ``remove`` with a session that is a list: codes, forms, and what is said beside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from meshnet.apply import drain as draining
from meshnet.apply import session as visiting
from meshnet.apply.drain import Drained
from meshnet.kernel.netns import OWN, where
from meshnet.model.errors import BusyError, NamespaceError, ToolError
from meshnet.model.plan import ChangeSet, Receipt, Step
from tests.unit.cli.commands import HEAD, data

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from meshnet.kernel.netns import Where

MISSING = ChangeSet(
    (Step("restore", 4, "*nat\nCOMMIT\n"), Step("restore", 6, "*nat\nCOMMIT\n")),
    ("+ -A OUTPUT -j A", "- -A OUTPUT -j B"),
)
ONE = ChangeSet((Step("ip", 6, "rule add x\n"),), ("+ rule x",))


class FakeSession:
    """In place of a visit; ``differs`` is what it finds."""

    differs = MISSING
    refusal: Exception | None = None
    backend, reason = "iptables-nft", "the namespace has its tables"

    def __init__(self, place: Where, backend: str = "auto") -> None:
        self.place = place
        self.asked = backend
        self.notices: list[str] = []
        self.done: list[str] = []
        FakeSession.last = self

    last: FakeSession

    def __enter__(self) -> FakeSession:
        if self.refusal is not None:
            raise self.refusal
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def changes(self, spec: Any) -> ChangeSet:
        self.notices.append("IPv6 left out")
        self.done.append(f"changes {spec.name}")
        return self.differs

    def removal(self) -> ChangeSet:
        self.done.append("removal")
        return self.differs

    def apply(self, spec: Any) -> Receipt:
        self.done.append(f"apply {spec.name}")
        return Receipt(self.backend, self.differs)

    def remove(self) -> Receipt:
        self.done.append("remove")
        return Receipt(self.backend, self.differs)


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> type[FakeSession]:
    monkeypatch.setattr(visiting, "Session", FakeSession)
    for name in ("differs", "refusal", "backend"):
        monkeypatch.setattr(FakeSession, name, getattr(FakeSession, name))
    return FakeSession


def test_apply_says_what_it_did(called: Any, session: type[FakeSession], spec_file: str) -> None:
    code, out, err = called("apply", spec_file, "--netns", "pod", "--backend", "iptables-legacy")
    assert (code, out) == (0, "applied web to pod: 2 changes\n")
    assert err == "backend iptables-nft: the namespace has its tables\n"
    assert (session.last.place, session.last.asked) == (where("pod"), "iptables-legacy")


def test_one_change_is_one(called: Any, session: type[FakeSession], spec_file: str) -> None:
    session.differs = ONE
    assert called("apply", spec_file)[1].endswith(": 1 change\n")
    assert called("remove")[1] == f"removed meshnet's rules from {OWN}: 1 change\n"


def test_nothing_to_do(called: Any, session: type[FakeSession], spec_file: str) -> None:
    session.differs = ChangeSet()
    for words in (("apply", spec_file), ("remove",)):
        assert called(*words)[:2] == (0, "nothing to do: already as it should be\n")
        assert data(called(*words, "-o", "json")[1])["changed"] is False


@pytest.mark.parametrize(("words", "done"), [(("apply", "{}"), "changes web"), (("remove",), "removal")])
def test_a_dry_run_prints_the_steps_and_takes_none(
    called: Any, session: type[FakeSession], spec_file: str, words: tuple[str, ...], done: str
) -> None:
    words = tuple(word.format(spec_file) for word in words)
    code, out, _ = called(*words, "-n")
    assert (code, session.last.done) == (0, [done])
    assert out == "# iptables-nft-restore --noflush\n*nat\nCOMMIT\n\n# ip6tables-nft-restore --noflush\n*nat\nCOMMIT\n"
    found = data(called(*words, "-n", "-o", "json")[1])
    assert (found["dry_run"], [step["family"] for step in found["steps"]]) == (True, [4, 6])
    session.differs = ChangeSet()
    assert called(*words, "-n")[:2] == (0, f"nothing to {words[0]}\n")


def test_diff_is_negative_when_anything_differs(called: Any, session: type[FakeSession], spec_file: str) -> None:
    code, out, err = called("diff", spec_file)
    assert (code, out) == (1, "+ -A OUTPUT -j A\n- -A OUTPUT -j B\n")
    assert "note: IPv6 left out" in err
    session.differs = ChangeSet()
    assert called("diff", spec_file)[:2] == (0, "in sync\n")
    found = data(called("diff", spec_file, "-o", "json")[1])
    assert (found["in_sync"], found["differences"], found["notices"]) == (True, [], ["IPv6 left out"])


@pytest.mark.parametrize("verb", ["apply", "diff"])
def test_a_wrong_spec_is_said_before_the_namespace_is_looked_at(
    called: Any, session: type[FakeSession], tmp_path: Path, verb: str
) -> None:
    session.refusal = NamespaceError("there is none")
    (tmp_path / "pod.yaml").write_text(f"{HEAD}inbound: {{mode: sideways}}\n")
    code, _, err = called(verb, str(tmp_path / "pod.yaml"))
    assert (code, "pod.yaml:3" in err) == (2, True)


@pytest.mark.parametrize(
    ("error", "code"),
    [(BusyError("at work"), 3), (ToolError("refused", detail="line 3"), 3), (NamespaceError("no"), 3)],
)
@pytest.mark.parametrize("words", [("apply", "{}"), ("diff", "{}"), ("remove",)])
def test_a_refusal_is_told_on_both_streams(
    called: Any, session: type[FakeSession], spec_file: str, words: tuple[str, ...], error: ToolError, code: int
) -> None:
    session.refusal = error
    found, out, err = called(*(word.format(spec_file) for word in words), "-o", "json")
    assert found == code
    assert error.message in err
    assert data(out)["error"]["kind"] == error.kind


@pytest.mark.parametrize(
    "words",
    [
        ("--netns", "a", "--pid", "1"),
        ("--backend", "ebtables"),
        ("--patience", "-1", "--drain"),
        ("--patience", "nan", "--drain"),
        ("-o", "xml"),
    ],
)
def test_what_remove_does_not_take(called: Any, session: type[FakeSession], words: tuple[str, ...]) -> None:
    assert called("remove", *words)[0] == 2


@pytest.fixture
def drained(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Any]]:
    """Has a draining end so; what it was asked for."""

    def ends(**more: Any) -> list[Any]:
        asked: list[Any] = []

        def drain(place: Where, backend: str, patience: float, progress: Callable[[int], None]) -> Drained:
            asked.extend((place, backend, patience))
            progress(2)
            return Drained("iptables-nft", "asked for", Receipt("iptables-nft", MISSING, ("a notice",)), **more)

        monkeypatch.setattr(draining, "drain", drain)
        return asked

    return ends


def test_draining(called: Any, drained: Callable[..., list[Any]]) -> None:
    asked = drained()
    code, out, err = called("remove", "--netns", "pod", "--drain", "--patience", "7", "--backend", "iptables-nft")
    assert (code, out) == (0, "removed meshnet's rules from pod: 2 changes\n")
    assert asked == [where("pod"), "iptables-nft", 7.0]
    assert err.splitlines() == [
        "… 2 captured connections are open; nothing new is captured",
        "backend iptables-nft: asked for",
        "note: a notice",
    ]


@pytest.mark.parametrize(
    ("more", "said", "key"),
    [
        ({"left": 2}, "2 captured connections are still open", "left_open"),
        ({"superseded": True}, "a spec was applied meanwhile", "superseded"),
        ({"left": 2, "superseded": True}, "a spec was applied meanwhile", "superseded"),
    ],
)
def test_a_draining_that_did_not_come_to_its_end(
    called: Any, drained: Callable[..., list[Any]], more: dict[str, Any], said: str, key: str
) -> None:
    drained(**more)
    code, out, _ = called("remove", "--drain")
    assert code == 1
    assert said in out
    found = data(called("remove", "--drain", "-o", "json")[1])
    assert found[key]
    assert found["notices"] == ["a notice"]


def test_a_dry_run_of_draining_waits_for_nobody(
    called: Any, session: type[FakeSession], drained: Callable[..., list[Any]]
) -> None:
    asked = drained()
    assert called("remove", "--drain", "-n")[0] == 0
    assert (asked, session.last.done) == ([], ["removal"])
