from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshnet.cli.init_flags import OPTIONS, OWN, help_lines, read, seconds
from meshnet.model.errors import SpecError, Wrong
from meshnet.spec.dialects.istio_options import BEHAVIOUR, RULES

if TYPE_CHECKING:
    from meshnet.spec.dialects.istio_options import Option

SHORT = {option.short: option for option in OPTIONS if option.short}


def given_by(*words: str, **variables: str) -> dict[str, str]:
    return {name: word.text for name, word in read(words, variables).given.items()}


def said(*words: str, **variables: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        read(words, variables)
    return caught.value.lines()


@pytest.mark.parametrize(
    "words",
    [
        ("-b", "80"),
        ("-b80",),
        ("-b=80",),
        ("--istio-inbound-ports", "80"),
        ("--istio-inbound-ports=80",),
        ("-b", "9", "-b", "80"),
        ("istio-iptables", "-b", "80"),
        ("--log_output_level=default:info", "-b", "80"),
        ("--log_output_level", "default:info", "--log_as_json", "-b", "80"),
        ("--log_rotate_max_age", "30", "--log_target", "stdout", "--vklog", "9", "--log_caller", "", "-b", "80"),
        ("-b", "80", "--log_stacktrace_level"),
    ],
    ids=" ".join,
)
def test_ways_to_say_the_same(words: tuple[str, ...]) -> None:
    assert given_by(*words) == {"istio-inbound-ports": "80"}


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("-n",), {"dry-run": "true"}),
        (("-n=false",), {"dry-run": "false"}),
        (("--dry-run=0",), {"dry-run": "0"}),
        (("-nf",), {"dry-run": "true", "restore-format": "true"}),
        (("-nfb", "80"), {"dry-run": "true", "restore-format": "true", "istio-inbound-ports": "80"}),
        (("-nb80",), {"dry-run": "true", "istio-inbound-ports": "80"}),
        (("-x", ""), {"istio-service-exclude-cidr": ""}),
        (("-i", "*"), {"istio-service-cidr": "*"}),
        (("-b", "-n"), {"istio-inbound-ports": "-n"}),
        (("--host-nsenter-exec", "--restore-format=true"), {"host-nsenter-exec": "true", "restore-format": "true"}),
        ((), {}),
    ],
)
def test_flags(words: tuple[str, ...], found: dict[str, str]) -> None:
    assert given_by(*words) == found


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--istio-inbound-port", "80"), "--istio-inbound-port: no such flag: --istio-inbound-ports"),
        (("-y",), "-y: no such flag: meshnet-init --help lists them"),
        (("-ny",), "-y: no such flag: meshnet-init --help lists them"),
        (("--",), "--: no such flag: meshnet-init --help lists them"),
        (("-",), "an argument that belongs to no flag (-): every value stands behind its flag"),
        (("",), "an argument that belongs to no flag (): every value stands behind its flag"),
        (("--dry-run", "true"), "an argument that belongs to no flag (true): every value stands behind its flag"),
        (("-n=maybe",), "--dry-run (-n, DRY_RUN): not true or false (maybe): true or false"),
        (("--dry-run=",), "--dry-run (-n, DRY_RUN): not true or false (): true or false"),
    ],
)
def test_what_is_no_flag(words: tuple[str, ...], line: str) -> None:
    assert said(*words)[0] == line


def test_a_flag_without_its_value_is_told_what_it_is_about() -> None:
    (line,) = said("-b")
    assert line.startswith("--istio-inbound-ports (-b, ISTIO_INBOUND_PORTS): no value: ")


def test_all_wrong_flags_are_named_at_once() -> None:
    assert len(said("--one", "-y", "loose", "-n=maybe", DROP_INVALID="perhaps")) == 5


def test_a_flag_wins_over_a_variable() -> None:
    assert given_by("-b", "", ISTIO_INBOUND_PORTS="80") == {"istio-inbound-ports": ""}
    assert given_by("--redirect-dns=false", ISTIO_META_DNS_CAPTURE="true") == {"redirect-dns": "false"}


@pytest.mark.parametrize(
    ("name", "later"),
    [
        ("REDIRECT_DNS", "ISTIO_META_DNS_CAPTURE"),
        ("DROP_INVALID", "INVALID_DROP"),
        ("DUAL_STACK", "ISTIO_DUAL_STACK"),
        ("ISTIO_AGENT_DUAL_STACK", "ISTIO_DUAL_STACK"),
    ],
)
def test_of_two_variables_the_later_one_wins(name: str, later: str) -> None:
    """The original reads both into one setting, one after the other."""
    option = next(option.name for option in RULES if later in (option.variable, *option.also))
    assert given_by(**{name: "true"}) == {option: "true"}
    assert given_by(**{later: "true"}) == {option: "true"}
    assert given_by(**{name: "true", later: "false"}) == {option: "false"}
    assert given_by(**{name: "false", later: "true"}) == {option: "true"}
    assert given_by(**{name: "true", later: ""}) == {option: "true"}


def test_an_empty_variable_is_one_for_a_list_alone() -> None:
    """Manifests set variables to nothing; for groups that is no group, where an absent variable is all of them."""
    assert given_by(ISTIO_OUTBOUND_OWNER_GROUPS="") == {"istio-outbound-owner-groups": ""}
    assert given_by(INBOUND_CAPTURE_PORT="", REDIRECT_DNS="", PROBE_TIMEOUT="") == {}


def test_meshnet_s_own_flags_have_no_variable() -> None:
    """A pod has HELP, OUTPUT and VERSION for other purposes."""
    assert given_by(**{option.variable: "x" for option in OWN}) == {}


@pytest.mark.parametrize(
    ("word", "found"),
    [("5s", 5), ("500ms", 0.5), ("1m", 60), ("1.5s", 1.5), ("2", 2), ("60m", 3600), ("1h", 3600), ("1m30s", 90)],
)
def test_times(word: str, found: float) -> None:
    assert seconds(word) == found


@pytest.mark.parametrize(
    "word",
    ["", "0", "0s", "-1s", "2h", "1h1ms", "61m", "s", ".", "1.2.3s", "1m30", "5d", "nan", "inf", "1e3", "\u0663"],
)
def test_what_is_no_time(word: str) -> None:
    with pytest.raises(Wrong):
        seconds(word)


@pytest.mark.parametrize("word", ["true", " true", "1\n"])
def test_blanks_around_a_flag_s_value(word: str) -> None:
    """As a variable has them that was filled from a file."""
    assert read((), {"DRY_RUN": word}).flag("dry-run")
    assert not read((), {"DRY_RUN": word.replace("true", "false").replace("1", "0")}).flag("dry-run")


def test_an_option_is_read_by_whoever_needs_it() -> None:
    settings = read(("--probe-timeout", " 2s ", "--iptables-probe-port", ""), {})
    assert settings.read("probe-timeout", seconds, 5) == 2
    assert settings.read("iptables-probe-port", int, 15002) == 15002
    wrong = read((), {"PROBE_TIMEOUT": "long"})
    with pytest.raises(SpecError) as caught:
        wrong.read("probe-timeout", seconds, 5)
    assert caught.value.lines()[0].startswith("--probe-timeout (PROBE_TIMEOUT): not a time (long): ")


def test_the_help_page_has_every_flag_and_variable() -> None:
    page = "\n".join(help_lines())
    for option in OPTIONS:
        assert f"--{option.name}" in page
        assert option in OWN or all(name in page for name in (option.variable, *option.also))
    assert all(f"  {code}" in page for code in (0, 2, 3, 4, 126))


def test_no_flag_stands_for_two_things() -> None:
    names = [option.name for option in OPTIONS]
    letters = [option.short for option in OPTIONS if option.short]
    variables = [name for option in (*RULES, *BEHAVIOUR) for name in (option.variable, *option.also)]
    for found in (names, letters, variables):
        assert len(found) == len(set(found))


texts = st.one_of(
    st.sampled_from(("", "*", "80", " true ", "f\n", "-n", "--", "=", "a=b", " 80 ", "10.0.0.0/8,::1")), st.text()
)
truths = st.sampled_from(("true", "false", "1", "0", "T", "F"))


@st.composite
def command_lines(draw: st.DrawFn) -> tuple[list[str], dict[str, str]]:
    """A command line, and the settings that it says; an option given twice has its last value."""
    words: list[str] = []
    wanted: dict[str, str] = {}
    for option in draw(st.lists(st.sampled_from(OPTIONS), max_size=8)):
        text = draw(truths if option.takes == "flag" else texts)
        words += draw(st.sampled_from(_spellings(option, text)))
        wanted[option.name] = text
    return words, wanted


def _spellings(option: Option, text: str) -> list[list[str]]:
    found = [[f"--{option.name}={text}"]]
    if option.short:
        found.append([f"-{option.short}={text}"])
    if option.takes == "flag":
        return [*found, [f"--{option.name}"]] if text == "true" else found
    found.append([f"--{option.name}", text])
    if option.short:
        found.append([f"-{option.short}", text])
        if text and not text.startswith("="):
            found.append([f"-{option.short}{text}"])
    return found


@given(command_lines())
def test_whatever_is_said_is_what_is_read(said: tuple[list[str], dict[str, str]]) -> None:
    words, wanted = said
    assert given_by(*words) == wanted


flags = [f"--{option.name}" for option in OPTIONS] + [f"-{letter}" for letter in SHORT]
anything = st.one_of(st.sampled_from(flags), texts, st.from_regex(r"-{0,3}[a-z=_]{0,9}", fullmatch=True))
names = st.sampled_from([name for option in (*RULES, *BEHAVIOUR) for name in (option.variable, *option.also)])


@given(st.lists(anything, max_size=9), st.dictionaries(names, texts, max_size=5))
def test_no_command_line_fails_in_another_way(words: list[str], variables: dict[str, str]) -> None:
    try:
        settings = read(words, variables)
    except SpecError as error:
        assert error.lines()
    else:
        assert set(settings.given) <= {option.name for option in OPTIONS}
        assert {settings.flag(option.name) for option in OPTIONS if option.takes == "flag"} <= {True, False}
