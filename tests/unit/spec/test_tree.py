from __future__ import annotations

import pytest

from meshnet.model.errors import SpecError
from meshnet.spec.nodes import Listing, Mapping, Scalar
from meshnet.spec.tree import DEEPEST, read_tree


def plain(node):
    match node:
        case Scalar():
            return node.text
        case Listing():
            return [plain(item) for item in node.items]
        case Mapping():
            return {plain(key): plain(item) for key, item in node.entries}


def said(text):
    with pytest.raises(SpecError) as refused:
        read_tree(text, "x")
    return refused.value.problems


def test_yaml_and_json_are_one():
    assert plain(read_tree("a: [1, two]\nb: {c: ''}\n", "x")) == {"a": ["1", "two"], "b": {"c": ""}}
    assert plain(read_tree('{"a": ["1", "two"],\n\t"b": {"c": ""}}', "x")) == {"a": ["1", "two"], "b": {"c": ""}}


def test_each_node_knows_its_line():
    root = read_tree("a: 1\nb:\n  - x\n  - y\n", "x")
    (_, first), (_, second) = root.entries
    assert (root.line, first.line, [item.line for item in second.items]) == (1, 1, [3, 4])


def test_a_quoted_word_is_told_from_a_bare_one():
    (_, bare), (_, quoted) = read_tree("a: null\nb: 'null'\n", "x").entries
    assert (bare.plain, bare.null, quoted.plain, quoted.null) == (True, True, False, False)


def test_an_alias_stands_on_its_own_line():
    (_, first), (_, second) = read_tree("a: &x [1]\nb: *x\n", "x").entries
    assert (plain(second), first.line, second.line) == (["1"], 1, 2)


def test_a_key_that_is_there_twice_is_there_twice():
    assert len(read_tree("a: 1\na: 2\n", "x").entries) == 2


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", ["x:1: nothing is written here"]),
        ("# a note\n", ["x:1: nothing is written here"]),
        ("null\n", ["x:1: nothing is written here"]),
        ("- a\n", ["x:1: a list in place of keys and values"]),
        ("word\n", ["x:1: one word (word) in place of keys and values"]),
        ("a: 1\n---\nb: 2\n", ["x:2: a second document"]),
        ("a: !!int 1\nb: !x y\n", ["x:1: a YAML tag (!!int)", "x:2: a YAML tag (!x)"]),
        ("a: *none\n", ["x:1: "]),
        ("a:\n\tb: 1\n", ["x:2: a tab in the indentation"]),
        ("a: [1,,2]\n", ["x:1: "]),
        ("a: [1\n", ["x:"]),
        ("a: 'x\n", ["x:"]),
        ("a: \x00\n", ["x:1: not text"]),
        ("a: 1\nb: \ud800\n", ["x:2: not text"]),
        ("[" * 5000, ["x:1: nested more than 16 levels deep"]),
        ("{a: " * 100, ["x:1: nested more than 16 levels deep"]),
    ],
)
def test_what_is_no_document(text, lines):
    found = said(text)
    assert len(found) == len(lines)
    assert all(line.startswith(begin) for line, begin in zip(found, lines, strict=True)), found


def test_the_deepest_that_is_read():
    deep = "[" * (DEEPEST - 1) + "]" * (DEEPEST - 1)
    assert read_tree(f"a: {deep}\n", "x")
    assert "nested" in said(f"a: [{deep}]\n")[0]
