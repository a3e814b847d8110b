"""Scenario files: YAML, read strictly. An unknown key, a word of another kind, a place that nobody has: all refused.

A variant takes over what the file says for all, and says only what is different in it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from meshnet.lab.scenario import Application, Scenario, Sidecar, Step, Variant
from meshnet.lab.topology import ADDRESSES, Plan
from meshnet.model.errors import SpecError, Wrong
from meshnet.model.value import replace
from meshnet.sidecar.envoy import Declared
from meshnet.spec.load import load_text

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = Path(__file__).with_name("scenarios")
VERBS = ("call", "hold", "ask", "stray", "dns", "ports", "apply", "remove", "pin", "members")
HEAD = "apiVersion: meshnet/v1\nkind: Interception\n"
PLACES = tuple(ADDRESSES)
TRANSPORTS = ("tcp", "udp")
WAYS = ("direct", "inbound", "outbound", "both")
BACKENDS = ("iptables-legacy", "iptables-nft", "nftables")


def shipped() -> tuple[Scenario, ...]:
    """Every scenario that comes with meshnet, by name. SpecError for a file that isn't one."""
    return tuple(read_file(path) for path in sorted(FOLDER.glob("*.yaml")))


def read_file(path: Path) -> Scenario:
    """The scenario in a file, whose name is the scenario's. SpecError with all problems at once."""
    return read_text(path.read_text(encoding="utf-8"), path.stem, str(path))


def read_text(text: str, name: str, file: str = "<text>") -> Scenario:
    """The scenario in a text. SpecError with all problems at once."""
    import yaml

    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise SpecError([f"{file}: no YAML: {error}"]) from error
    reader = _Reader()
    made = reader.scenario(name, document)
    if reader.problems or made is None:
        raise SpecError([f"{file}: {problem}" for problem in reader.problems])
    return made


class _Reader:
    """Collects problems instead of stopping at the first."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def scenario(self, name: str, document: Any) -> Scenario | None:
        table = self._table(document, "the file")
        words = {key: table.text(key) for key in ("about", "symptom", "cure")}
        shape = table.word("topology", ("cable", "node"), "cable")
        extras = table.words("with", ("second-card", "guest", "third-pod"))
        base = self._variant(table, Variant(), "the file")
        variants = tuple(
            self._variant(inner, replace(base, name=key), f"variants.{key}", last=True)
            for key, inner in table.tables("variants")
        )
        table.end()
        if not all(variant.steps for variant in variants or (base,)):
            self.problems.append("steps: nothing is done")
        if self.problems:
            return None
        plan = self._made(
            "topology",
            lambda: Plan(shape, "second-card" in extras, "guest" in extras, "third-pod" in extras),  # type: ignore[arg-type]
        )
        return Scenario(name, words["about"], words["symptom"], words["cure"], variants or (base,), plan or Plan())

    def _variant(self, table: _Table, base: Variant, place: str, *, last: bool = False) -> Variant:
        changes: dict[str, Any] = {}
        if "spec" in table:
            changes["spec"] = HEAD + table.text("spec")
            self._made(f"{place}: spec", lambda: load_text(changes["spec"], "spec"))
        if "applied" in table:
            changes["applied"] = table.flag("applied")
        if "sidecar" in table:
            changes["sidecar"] = self._sidecar(table.table("sidecar"), base.sidecar, f"{place}: sidecar")
        if "application" in table:
            changes["application"] = self._application(
                table.table("application"), base.application, f"{place}: application"
            )
        if "sysctls" in table:
            changes["sysctls"] = tuple(table.numbers_by_key("sysctls").items())
        if "families" in table:
            found = table.words("families", ("ipv4", "ipv6"))
            changes["families"] = tuple(4 if word == "ipv4" else 6 for word in found)
        if "backends" in table:
            changes["backends"] = tuple(table.words("backends", BACKENDS))
        if "steps" in table:
            changes["steps"] = tuple(self._step(inner) for inner in table.listed("steps"))
        if "sees" in table:  # a variant's own outcomes, by the label of the step
            changes["steps"] = self._other_outcomes(table.table("sees"), base.steps)
        if last:
            table.end()
        return self._made(place, lambda: replace(base, **changes)) or base

    def _other_outcomes(self, table: _Table, steps: tuple[Step, ...]) -> tuple[Step, ...]:
        made = []
        for step in steps:
            word = table.text(step.label) if step.label in table else None
            if word is None:
                made.append(step)
                continue
            sees, through = _word_and_way(word)
            made.append(replace(step, sees=sees, through=through))
        table.end()
        return tuple(made)

    def _sidecar(self, table: _Table, base: Sidecar, place: str) -> Sidecar:
        changes: dict[str, Any] = {}
        if "kind" in table:
            changes["kind"] = table.word("kind", ("embedded", "envoy", "none"), "envoy")
        if "dials" in table:
            changes["dials"] = table.word("dials", ("original", "loopback"), "original")
        if "carries" in table:
            changes["carries"] = table.word("carries", ("nothing", "proxy-protocol", "x-forwarded-for"), "nothing")
        declared = [*(Declared(number) for number in table.numbers("http"))]
        declared += [Declared(number, "tcp") for number in table.numbers("tcp")]
        if declared:
            changes["declared"] = tuple(declared)
        for key in ("uid", "gid"):
            if key in table:
                changes[key] = table.number(key)
        if "keeps" in table:
            changes["keeps"] = table.flag("keeps")
        table.end()
        return self._made(place, lambda: replace(base, **changes)) or base

    def _application(self, table: _Table, base: Application, place: str) -> Application:
        changes: dict[str, Any] = {}
        if "kind" in table:
            changes["kind"] = table.word("kind", ("echo", "nginx", "zookeeper", "none"), "echo")
        if "listens" in table:
            changes["listens"] = table.word("listens", ("any", "pod", "loopback"), "any")
        if "behind" in table:
            changes["behind"] = table.word("behind", ("nothing", "proxy-protocol", "x-forwarded-for"), "nothing")
        if "ports" in table:
            changes["ports"] = tuple(table.numbers("ports"))
        if "uid" in table:
            changes["uid"] = table.number("uid")
        table.end()
        return self._made(place, lambda: replace(base, **changes)) or base

    def _step(self, table: _Table) -> Step:
        label = table.text("say")
        verbs = [verb for verb in VERBS if verb in table]
        if len(verbs) != 1:
            self.problems.append(f"step {label}: one of {', '.join(VERBS)} is to be done, not {len(verbs)}")
            return Step(label, "call")
        inner = table.table(verbs[0])
        changes: dict[str, Any] = {}
        for key, field, words in (
            ("from", "origin", PLACES),
            ("to", "target", PLACES),
            ("by", "transport", TRANSPORTS),
        ):
            if key in inner:
                changes[field] = inner.word(key, words, words[0])
        if "held" in inner:
            changes["held"] = inner.text("held")
        for key, field in (("port", "port"), ("uid", "uid"), ("source-port", "source_port")):
            if key in inner:
                changes[field] = inner.number(key)
        if "ports" in inner:
            changes["ports"] = tuple(inner.numbers("ports"))
        inner.end()
        sees = table.text("sees") if "sees" in table else ""
        through = table.word("through", WAYS, "direct") if "through" in table else ""
        table.end()
        return Step(label, verbs[0], sees, through, **changes)  # type: ignore[arg-type]

    def _table(self, found: Any, place: str) -> _Table:
        return _Table(found, place, self.problems)

    def _made(self, place: str, make: Callable[[], Any]) -> Any:
        try:
            return make()
        except Wrong as error:
            self.problems.append(f"{place}: {error.what}: {error.right}")
        except SpecError as error:
            self.problems += [f"{place}: {line}" for line in error.problems]
        return None


class _Table:
    """A mapping whose keys are taken one by one; what is left at the ``end`` is nobody's."""

    def __init__(self, found: Any, place: str, problems: list[str]) -> None:
        self._problems = problems
        self._place = place
        if found is None:
            found = {}
        if not isinstance(found, dict):
            self._say("", f"not keys and values ({found})")
            found = {}
        self._left = dict(found)

    def __contains__(self, key: str) -> bool:
        return key in self._left

    def text(self, key: str) -> str:
        found = self._left.pop(key, None)
        if isinstance(found, int) and not isinstance(found, bool):
            found = str(found)
        if not isinstance(found, str) or not found:
            self._say(key, "text is needed here")
            return ""
        return found

    def flag(self, key: str) -> bool:
        found = self._left.pop(key)
        if not isinstance(found, bool):
            self._say(key, f"neither true nor false ({found})")
        return bool(found)

    def number(self, key: str) -> int | None:
        found = self._left.pop(key)
        if found == "as-started":
            return None
        if not isinstance(found, int) or isinstance(found, bool):
            self._say(key, f"no number ({found})")
            return 0
        return found

    def numbers(self, key: str) -> list[int]:
        found = self._left.pop(key, [])
        if not isinstance(found, list) or not all(type(item) is int for item in found):
            self._say(key, f"no list of numbers ({found})")
            return []
        return found

    def word(self, key: str, words: tuple[str, ...], default: str) -> str:
        found = self._left.pop(key, default)
        if found not in words:
            self._say(key, f"{found} is none of {', '.join(words)}")
            return default
        return str(found)

    def words(self, key: str, words: tuple[str, ...]) -> list[str]:
        found = self._left.pop(key, [])
        if not isinstance(found, list) or not all(item in words for item in found):
            self._say(key, f"{found} is no list of {', '.join(words)}")
            return []
        return found

    def table(self, key: str) -> _Table:
        return _Table(self._left.pop(key), f"{self._place}: {key}", self._problems)

    def tables(self, key: str) -> list[tuple[str, _Table]]:
        found = self._left.pop(key, None) or {}
        if not isinstance(found, dict):
            self._say(key, "not keys and values")
            return []
        return [(str(name), _Table(inner, f"{key}.{name}", self._problems)) for name, inner in found.items()]

    def listed(self, key: str) -> list[_Table]:
        found = self._left.pop(key)
        if not isinstance(found, list):
            self._say(key, "no list")
            return []
        return [_Table(inner, f"{key}[{number}]", self._problems) for number, inner in enumerate(found)]

    def numbers_by_key(self, key: str) -> dict[str, int]:
        found = self._left.pop(key)
        if not isinstance(found, dict) or not all(type(number) is int for number in found.values()):
            self._say(key, "names and numbers are needed here")
            return {}
        return found

    def end(self) -> None:
        for key in self._left:
            self._say(str(key), "nobody knows this key")
        self._left = {}

    def _say(self, key: str, what: str) -> None:
        self._problems.append(f"{self._place}{': ' if key else ''}{key}: {what}")


def _word_and_way(word: str) -> tuple[str, str]:
    """``client, inbound`` is a word and which listeners were passed; a comma in another word is the word's own."""
    sees, found, way = word.rpartition(", ")
    return (sees, way) if found and way in WAYS else (word, "")
