from __future__ import annotations

import time

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from meshnet.model.errors import SpecError
from meshnet.model.spec import Spec
from meshnet.spec.load import Document, load_text
from meshnet.spec.tree import read_tree
from tests.unit.spec.writing import HEAD, said, spec_of


def test_a_document_of_head_alone_is_the_default_spec() -> None:
    assert spec_of("") == Spec()


def test_sections_without_content_are_defaults() -> None:
    assert spec_of("inbound:\noutbound: {}\ndns: ~\nsidecar: null\n") == Spec()


def test_json_is_read_and_may_be_indented_with_tabs() -> None:
    text = '{\n\t"apiVersion": "meshnet/v1",\n\t"kind": "Interception",\n\t"outbound": {\t"port": 15002}\n}\n'
    document = load_text(text, "s.json")
    assert document.spec.outbound.port == 15002
    assert document.line_of("outbound.port") == 4


def test_a_byte_order_mark_and_windows_line_ends_are_no_problem() -> None:
    document = load_text("\ufeff" + (HEAD + "name: a\nrouting:\n  table: 7\n").replace("\n", "\r\n"), "s.yaml")
    assert (document.spec.name, document.spec.routing.table) == ("a", 7)
    assert document.line_of("routing.table") == 5


LINES = """\
apiVersion: meshnet/v1
kind: Interception

inbound:
  excludePorts:
    - 1
    # a comment
    - 2
    - 3-4
  ports: [80,
    81]
outbound: {port: 15001, cidrs:
  [10.0.0.0/8]}
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("apiVersion", 1),
        ("kind", 2),
        ("inbound", 4),
        ("inbound.excludePorts", 5),
        ("inbound.excludePorts[0]", 6),
        ("inbound.excludePorts[1]", 8),
        ("inbound.excludePorts[2]", 9),
        ("inbound.ports[0]", 10),
        ("inbound.ports[1]", 11),
        ("outbound.port", 12),
        ("outbound.cidrs[0]", 13),
    ],
)
def test_every_place_has_its_line(path: str, line: int) -> None:
    document = load_text(LINES, "s.yaml")
    assert document.line_of(path) == line
    assert document.place(path) == f"s.yaml:{line}"


ENTRIES = """\
apiVersion: meshnet/v1
kind: Interception
outbound:
  excludeUsers:
    - {uids: [5]}
    - uids:
        - 6
        - 7-8
      transport: udp
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("outbound.excludeUsers", 4),
        ("outbound.excludeUsers[0]", 5),
        ("outbound.excludeUsers[0].uids[0]", 5),
        ("outbound.excludeUsers[1]", 6),
        ("outbound.excludeUsers[1].uids", 6),
        ("outbound.excludeUsers[1].uids[0]", 7),
        ("outbound.excludeUsers[1].uids[1]", 8),
        ("outbound.excludeUsers[1].uids[9]", 6),
        ("outbound.excludeUsers[1].transport", 9),
        ("outbound.excludeUsers[1].ports", 6),
        ("outbound.excludeUsers[9].ports", 4),
    ],
)
def test_places_in_a_list_of_sections(path: str, line: int) -> None:
    assert load_text(ENTRIES, "s.yaml").line_of(path) == line


@pytest.mark.parametrize(
    ("path", "line"),
    [("inbound.mode", 4), ("inbound.excludePorts[7]", 5), ("marks.inbound", 1), ("", 1), ("nonsense[x]", 1)],
)
def test_what_is_not_written_has_the_line_of_what_is_around_it(path: str, line: int) -> None:
    assert load_text(LINES, "s.yaml").line_of(path) == line


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "1: nothing is written here: "),
        ("# only a comment\n", "1: nothing is written here: "),
        ("---\n...\n", "1: nothing is written here: "),
        ("null\n", "1: nothing is written here: "),
        ("[a, b]\n", "1: a list in place of keys and values: "),
        ("\nhello\n", "2: one word (hello) in place of keys and values: "),
        (HEAD + "---\n" + HEAD, "3: a second document: one Interception in a file"),
        (HEAD + "---\n", "3: a second document: "),
        (HEAD + "inbound:\n\tport: 1\n", "4: a tab in the indentation: blanks"),
        (HEAD + "inbound: {port: 1\n", "4: not YAML ("),
        (HEAD + "inbound: ]\n", "3: nothing between two commas, or a bracket too many: "),
        (HEAD + "inbound: {ports: [1, , 2]}\n", "3: nothing between two commas, or a bracket too many: "),
        (HEAD + "name: @x\n", "3: not YAML ("),
        (HEAD + "name: 'x\n", "4: not YAML ("),
        (HEAD + "name: *x\n", "3: an alias of nothing (*x): "),
        (HEAD + "name: !!str x\n", "3: a YAML tag (!!str): the value alone"),
        (HEAD + "name: !mine x\n", "3: a YAML tag (!mine): the value alone"),
        (HEAD + "name: !!python/object/apply:os.system [id]\n", "3: a YAML tag (!!python/object/apply:os.system): "),
        (HEAD + "name: a\x00b\n", "3: not text ("),
        (HEAD + "name: a\x07b\n", "3: not text ("),
        (HEAD + "name: \ud800\n", "3: not text ("),
        (HEAD + "name: " + "[" * 100_000, "3: nested more than 16 levels deep: "),
        (HEAD + "name: " + "{a: " * 100_000, "3: nested more than 16 levels deep: "),
    ],
)
@pytest.mark.parametrize("fast", [True, False])
def test_text_that_is_no_document(text: str, problem: str, fast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not fast:
        monkeypatch.delattr(yaml, "CBaseLoader", raising=False)
    (found,) = said(text, head="")
    assert found.startswith(problem) or (not fast and found.partition(": ")[2].startswith(problem.partition(": ")[2]))


def test_an_alias_is_what_it_stands_for() -> None:
    document = load_text(HEAD + "sidecar:\n  uids: &ids [1, &two 2]\n  gids: *ids\nrouting:\n  table: *two\n", "s.yaml")
    assert document.spec.sidecar.gids == (1, 2)
    assert document.spec.routing.table == 2


def test_aliases_of_aliases_take_no_time() -> None:
    laughs = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))
    started = time.perf_counter()
    problems = said("a0: &a0 [x]\n" + laughs + "inbound: {ports: *a29}\n")
    assert time.perf_counter() - started < 5
    assert "32: inbound.ports[0]: a list of 9 in place of a port or a range: " in "\n".join(problems)


def test_a_node_inside_itself_ends() -> None:
    assert said("inbound: {ports: &p [*p]}\n") == [
        "3: inbound.ports[0]: a list of 1 in place of a port or a range: a port or a range, such as 9000-9100"
    ]


def test_mappings_are_not_merged() -> None:
    (problem,) = said("inbound: &i {mode: none}\noutbound: {<<: *i}\n")
    assert problem == "4: outbound.<<: unknown key (<<): the keys themselves; mappings are not merged"


def test_the_slow_parser_reads_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    fast = load_text(LINES, "s.yaml")
    monkeypatch.delattr(yaml, "CBaseLoader", raising=False)
    assert load_text(LINES, "s.yaml") == fast


def test_ten_thousand_blocks() -> None:
    blocks = "".join(f"  - 10.{n >> 8}.{n & 255}.0/24\n" for n in range(10_000))
    text = HEAD + "outbound:\n  cidrs:\n" + blocks
    document = load_text(text, "s.yaml")
    assert len(document.spec.outbound.cidrs) == 10_000
    assert document.line_of("outbound.cidrs[9999]") == 10_004


def test_ten_thousand_wrong_blocks_are_all_named() -> None:
    problems = said("outbound:\n  cidrs:\n" + "  - 010.0.0.1\n" * 10_000)
    assert len(problems) == 10_000
    assert problems[-1].startswith("10004: outbound.cidrs[9999]: not an IPv4 address (010.0.0.1): ")


def _load(text: str) -> None:
    try:
        found = load_text(text, "s.yaml")
    except SpecError as error:
        assert error.problems
        assert all(line.startswith("s.yaml:") and line.isprintable() for line in error.lines())
    else:
        assert isinstance(found, Document)


@given(st.text(st.characters()))
def test_any_text_is_a_document_or_has_problems(text: str) -> None:
    _load(text)


@given(st.text("{}[],:-?&*!|>'\"%@`#\n\t x01~<.", max_size=60))
def test_any_punctuation_is_a_document_or_has_problems(text: str) -> None:
    _load(HEAD + text)


WORDS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.dates(),
    st.sampled_from(("*", "off", "auto", "80", "10.0.0.0/8", "inbound", "ports", "port", "eth0", "redirect", "", "~")),
)
SECTIONS = ("inbound", "outbound", "sidecar", "dns", "interfaces", "passthrough", "marks", "routing")
KEYS = st.one_of(
    st.sampled_from((*SECTIONS, "name", "families", "ports", "port", "mode", "uids", "mask", "exclude", "cidrs")), WORDS
)
TREES = st.recursive(
    WORDS, lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=4)), max_leaves=20
)


@given(st.dictionaries(KEYS, TREES, max_size=6), st.booleans())
def test_any_yaml_is_a_document_or_has_problems(tree: object, head: bool) -> None:
    text = yaml.safe_dump(tree, allow_unicode=True)
    _load(HEAD + text if head and not text.startswith("{") else text)


def test_a_tree_keeps_the_words_as_they_are_written() -> None:
    tree = read_tree("a: 010\nb: 0x539\nc: 1_000\nd: yes\ne: 1e3\nf: 80:80\ng: 2026-01-01\nh: '~'\n", "s.yaml")
    assert [getattr(node, "text", None) for _, node in tree.entries] == [
        "010", "0x539", "1_000", "yes", "1e3", "80:80", "2026-01-01", "~",
    ]  # fmt: skip
    assert [getattr(node, "null", None) for _, node in tree.entries] == [False] * 8
