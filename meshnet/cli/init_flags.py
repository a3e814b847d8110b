"""The command line and the environment of ``meshnet-init``, read without click: its start is a pod's start."""

from __future__ import annotations

from meshnet.model.errors import SpecError, Wrong
from meshnet.model.value import value
from meshnet.spec.dialects.istio_options import BEHAVIOUR, RULES, Option, Word, read_truth

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from meshnet.apply.session import Asked

OWN: tuple[Option, ...] = (
    Option("profile", "", "word", "istio (the original's rules, and the default) or meshnet (the corrected ones)."),
    Option("print-spec", "", "flag", "Print the same as a meshnet spec, for meshnet apply, and do nothing."),
    Option("output", "", "word", "text or json."),
    Option("help", "h", "flag", "Print this page."),
    Option("version", "V", "flag", "Print the version."),
)
OPTIONS: tuple[Option, ...] = (*RULES, *BEHAVIOUR, *OWN)
LOGGING = ("log_", "vklog")
"""Flags of the original's logging library. They stand in every injected pod and say nothing about rules."""

BINARIES: dict[str, Asked] = {
    "": "auto",
    "nft": "iptables-nft",
    "legacy": "iptables-legacy",
    "iptables-nft": "iptables-nft",
    "iptables-legacy": "iptables-legacy",
}
"""Which backend a word of ``--force-iptables-binary`` is."""

UNITS = {"ms": 0.001, "h": 3600.0, "m": 60.0, "s": 1.0}


@value
class Settings:
    """What was asked for, by option name; flags of the command line win over variables, as in the original."""

    given: Mapping[str, Word]

    def flag(self, name: str) -> bool:
        return name in self.given and read_truth(self.given[name].text.strip())

    def read(self, name: str, reader: Callable[[str], Any], default: Any) -> Any:
        """The value of an option; SpecError names the flag, the variable and the value."""
        if not (text := self.text(name)):
            return default
        try:
            return reader(text)
        except Wrong as wrong:
            raise SpecError([f"{self.given[name].label}: {wrong.what}: {wrong.right}"]) from None

    def text(self, name: str, default: str = "") -> str:
        return self.given[name].text.strip() or default if name in self.given else default


def read(arguments: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """The settings; SpecError names every flag that isn't one, or lacks its value, at once."""
    problems: list[str] = []
    given = {name: word for option in OPTIONS if (name := option.name) and (word := _variable(option, environment))}
    given |= _flags(list(arguments), problems)
    for option in OPTIONS:
        if option.takes == "flag" and option.name in given:
            word = given[option.name]
            try:
                read_truth(word.text.strip())
            except Wrong as wrong:
                problems.append(f"{word.label}: {wrong.what}: {wrong.right}")
    if problems:
        raise SpecError(problems)
    return Settings(given)


def require_words(settings: Settings) -> None:
    """SpecError names every option whose word is none of its few."""
    form, profile = settings.text("output", "text"), settings.text("profile", "istio")
    wrong = []
    if form not in ("text", "json"):
        wrong.append(f"--output: not a form ({form}): text or json")
    if profile not in ("istio", "meshnet"):
        wrong.append(f"--profile: not a profile ({profile}): istio or meshnet")
    if settings.text("force-iptables-binary") not in BINARIES:
        word = settings.given["force-iptables-binary"]
        wrong.append(f"{word.label}: no variant of iptables ({word.text}): nft or legacy")
    if wrong:
        raise SpecError(wrong)


def _variable(option: Option, environment: Mapping[str, str]) -> Word | None:
    """The last of the option's variables, as in the original: ISTIO_META_DNS_CAPTURE wins over REDIRECT_DNS.

    An empty one counts as none, but for a list: with ISTIO_OUTBOUND_OWNER_GROUPS="" no group is captured.
    """
    if option in OWN:
        return None
    texts = [environment[name] for name in (option.variable, *option.also) if name in environment]
    counting = [text for text in texts if text or option.takes == "list"]
    return Word(counting[-1], option.label) if counting else None


def _flags(words: list[str], problems: list[str]) -> dict[str, Word]:
    found: dict[str, Word] = {}
    if words[:1] == ["istio-iptables"]:
        del words[0]  # what an injected container is told to run
    while words:
        word = words.pop(0)
        if word.startswith("--") and len(word) > 2:
            _long(word, words, found, problems)
        elif word.startswith("-") and len(word) > 1:
            _short(word, words, found, problems)
        else:
            problems.append(f"an argument that belongs to no flag ({word}): every value stands behind its flag")
    return found


def _long(word: str, words: list[str], found: dict[str, Word], problems: list[str]) -> None:
    name, equals, text = word[2:].partition("=")
    option = next((option for option in OPTIONS if option.name == name), None)
    if option is None:
        if not name.startswith(LOGGING):
            problems.append(_unknown(f"--{name}"))
        elif not equals and name.endswith(("level", "target", "caller", "rotate", "size", "age", "backups", "vklog")):
            words[:1] = []
        return
    _take(option, text if equals else None, words, found, problems)


def _short(word: str, words: list[str], found: dict[str, Word], problems: list[str]) -> None:
    """``-b 80``, ``-b80``, ``-b=80``; flags without a value may stand together."""
    letters = word[1:]
    while letters:
        option = next((option for option in OPTIONS if option.short == letters[0]), None)
        if option is None:
            problems.append(_unknown(f"-{letters[0]}"))
            return
        letters = letters[1:]
        if option.takes == "flag" and not letters.startswith("="):
            found[option.name] = Word("true", option.label)
            continue
        _take(option, letters.removeprefix("=") if letters else None, words, found, problems)
        return


def _take(option: Option, text: str | None, words: list[str], found: dict[str, Word], problems: list[str]) -> None:
    if text is None and option.takes == "flag":
        text = "true"
    elif text is None and not words:
        problems.append(f"{option.label}: no value: {option.says}")
        return
    found[option.name] = Word(words.pop(0) if text is None else text, option.label)


def _unknown(flag: str) -> str:
    from meshnet.spec.nearest import nearest

    near = nearest(flag.removeprefix("--"), tuple(option.name for option in OPTIONS))
    return f"{flag}: no such flag: {f'--{near}' if near else 'meshnet-init --help lists them'}"


def seconds(word: str) -> float:
    """A time in Go's form (5s, 500ms, 1m30s) or a bare number of seconds; not more than an hour."""
    total, rest = 0.0, word if word.strip("0123456789.") else f"{word}s"
    while rest:
        digits = rest[: len(rest) - len(rest.lstrip("0123456789."))]
        unit = next((unit for unit in UNITS if rest.startswith(unit, len(digits))), "")
        if not unit or not digits.replace(".", "", 1).isdecimal():
            break
        total += float(digits) * UNITS[unit]
        rest = rest[len(digits) + len(unit) :]
    if rest or not 0 < total <= UNITS["h"]:
        raise Wrong(f"not a time ({word})", "such as 5s or 500ms, at most 1h")
    return total


def help_lines() -> Iterator[str]:
    """The help page, like a page of a manual."""
    yield from (
        "Usage: meshnet-init [FLAGS]",
        "",
        "Write the rules that lead a pod's traffic through its sidecar, with istio-iptables' flags and variables.",
        "Run it again: nothing changes. Run it with other flags: the old rules are replaced in one go.",
        "",
    )
    for title, options in (("Rules", RULES), ("Behaviour", BEHAVIOUR), ("meshnet's own", OWN)):
        yield f"{title}:"
        for option in options:
            short = f"-{option.short}, " if option.short else "    "
            takes = {"flag": "", "list": " LIST", "word": " WORD", "seconds": " TIME"}[option.takes]
            yield f"  {short}--{option.name}{takes}"
            variables = "" if option in OWN else f" [{', '.join((option.variable, *option.also))}]"
            yield f"          {option.says}{variables}"
        yield ""
    yield from (
        "Exit codes:",
        "  0    fine",
        "  2    a wrong flag or value",
        "  3    the kernel or a tool refused",
        "  4    not permitted, or not supported here",
        "  126  the validation found that connections aren't redirected",
        "",
        "Examples:",
        "  meshnet-init -p 15001 -z 15006 -u 1337 -m REDIRECT -i '*' -b '*' -d 15090,15021,15020",
        "  meshnet-init -m TPROXY -i '*' -b '*' --profile meshnet --print-spec",
        "  meshnet-init --cleanup-only",
    )
