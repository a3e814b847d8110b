"""Configurations as found on nodes, good and broken: what becomes of each, and that all of it can be undone."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshnet.cni.conflist import NotReady, entry_of, list_of, members, plain_of, with_entry, without_entry
from tests import conformance

FOLDER = conformance.FOLDER / "cni-conflist"
ENTRY = {"type": "meshnet-cni", "interception": {}}
LISTS = ("10-calico.conflist", "calico.conflist", "list.conflist", "nover_calico.conflist")
PLAIN = ("10-flannel.conf", "bridge.conf", "minikube_cni.conf")
REFUSED = {
    "bad_minikube_cni.conf": "no type",
    "invalid-arr.conflist": "no object",
    "invalid-map.conflist": "no plugins",
    "list-with-istio.conflist": "istio-cni is in the chain",
    "non_json.conf": "no object",
    "noname_calico.conflist": "no name",
    "noplugins_calico.conflist": "no plugins",
}


def text_of(name: str) -> str:
    return (FOLDER / name).read_text()


@pytest.mark.conformance
def test_every_file_has_its_place_in_the_table() -> None:
    assert sorted((*LISTS, *PLAIN, *REFUSED)) == sorted(path.name for path in FOLDER.iterdir())


@pytest.mark.conformance
@pytest.mark.parametrize("name", LISTS)
def test_a_list_gets_our_entry_last_and_keeps_all_else(name: str) -> None:
    text = text_of(name)
    new = with_entry(text, ENTRY)
    before, after = json.loads(text), json.loads(new)
    assert after["plugins"] == [*before["plugins"], ENTRY]
    assert list(after) == (list(before) if "cniVersion" in before else ["cniVersion", *before])
    assert {key: after[key] for key in before if key != "plugins"} == {
        key: before[key] for key in before if key != "plugins"
    }
    assert after["cniVersion"] == before.get("cniVersion", "0.3.1")
    assert with_entry(with_entry(new, ENTRY), ENTRY) == new
    assert entry_of(new) == ENTRY and entry_of(text) is None
    changed = with_entry(new, {**ENTRY, "logLevel": "debug"})
    assert len(json.loads(changed)["plugins"]) == len(after["plugins"])
    for written in (new, changed):
        assert without_entry(written) == text
    assert without_entry(text) == text


@pytest.mark.conformance
@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_configuration_becomes_a_list(name: str) -> None:
    text = text_of(name)
    new = list_of(text, ENTRY)
    before, after = json.loads(text), json.loads(new)
    assert after["plugins"] == [before, ENTRY]
    assert (after["name"], after["cniVersion"]) == (before["name"], before.get("cniVersion", "0.3.1"))
    assert plain_of(new) == text.strip()
    assert entry_of(new) == ENTRY


@pytest.mark.conformance
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_broken_is_refused_in_words(name: str) -> None:
    for change in (with_entry, list_of) if not name.endswith(".conflist") else (with_entry,):
        with pytest.raises(NotReady) as refused:
            change(text_of(name), ENTRY)
    assert REFUSED[name] in str(refused.value)


@pytest.mark.conformance
@pytest.mark.parametrize("name", [*LISTS, *PLAIN])
def test_half_a_file_is_refused_wherever_it_ends(name: str) -> None:
    text = text_of(name).strip()
    for end in range(0, len(text) - 1, 3):
        with pytest.raises(NotReady):
            (with_entry if name.endswith(".conflist") else list_of)(text[:end], ENTRY)


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "n", "cniVersion": "0.2.0", "plugins": [{"type": "a"}]}',
        '{"name": "n", "cniVersion": 1, "plugins": [{"type": "a"}]}',
        '{"name": "n", "cniVersion": "1.0.0", "plugins": []}',
        '{"name": "n", "cniVersion": "1.0.0", "plugins": [{}]}',
        '{"name": "n", "cniVersion": "1.0.0", "plugins": [1]}',
        '{"name": "n", "cniVersion": "1.0.0", "plugins": [{"type": "meshnet-cni"}]}',
        '{"name": "../n", "cniVersion": "1.0.0", "plugins": [{"type": "a"}]}',
        "[" * 100_000,
        "",
    ],
)
def test_what_no_runtime_or_no_chain_would_take(text: str) -> None:
    with pytest.raises(NotReady):
        with_entry(text, ENTRY)


def test_an_entry_of_ours_in_the_middle_is_put_last() -> None:
    chain = '{"type":"meshnet-cni"},{"type":"a"},{"type":"meshnet-cni"},{"type":"b"}'
    text = f'{{"cniVersion":"1.0.0","name":"n","plugins":[{chain}]}}'
    types = [plugin["type"] for plugin in json.loads(with_entry(text, ENTRY))["plugins"]]
    assert types == ["a", "b", "meshnet-cni"]


words = st.text(max_size=6)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), words),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(words, inner, max_size=2)),
    max_leaves=5,
)
plugins = st.builds(
    lambda more, kind: {**more, "type": kind}, st.dictionaries(words, values, max_size=3), st.sampled_from(["a", "b"])
)


@given(
    st.dictionaries(words, values, max_size=3),
    st.lists(plugins, min_size=1, max_size=3),
    st.sampled_from([None, 1, 3, "\t"]),
    st.sampled_from([(", ", ": "), (",", ":"), (" ,", " : ")]),
    st.booleans(),
)
def test_any_list_is_given_back_byte_by_byte(
    more: dict[str, object], chain: list[dict[str, object]], indent: str | int | None, marks: tuple[str, str], old: bool
) -> None:
    more = {key: item for key, item in more.items() if key != "cniVersion"}
    document = {**more, "name": "n", "plugins": chain} | ({} if old else {"cniVersion": "1.0.0"})
    text = json.dumps(document, indent=indent, separators=marks, ensure_ascii=False) + "\n"
    new = with_entry(text, ENTRY)
    assert without_entry(new) == text
    assert json.loads(new)["plugins"] == [*chain, ENTRY]
    assert members(text).keys() == document.keys()
