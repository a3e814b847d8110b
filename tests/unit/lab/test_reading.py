from __future__ import annotations

import pytest

from meshnet.lab.reading import read_text, shipped
from meshnet.lab.scenario import Step, Variant
from meshnet.lab.topology import ADDRESSES
from meshnet.model.errors import SpecError, Wrong

STEP = "steps: [{say: client, call: {from: client, to: pod}, sees: client, through: inbound}]\n"
WORDS = "about: a\nsymptom: b\ncure: c\n"


def problems(text: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        read_text(text, "x")
    return list(caught.value.problems)


def test_every_shipped_scenario_is_read_and_says_what_it_is_about() -> None:
    found = shipped()
    assert len(found) >= 25
    assert len({item.name for item in found}) == len(found)
    for item in found:
        assert item.about and item.symptom and item.cure
        assert all(row.expected for row in item.rows), item.name
        assert len({row.name for row in item.rows}) == len(item.rows)


def test_whatever_is_compiled_here_runs_on_every_backend() -> None:
    everywhere = Variant().backends
    assert len(everywhere) == 3
    for item in shipped():
        for variant in item.variants:
            assert not variant.spec or set(variant.backends) == set(everywhere), (item.name, variant.name)


def test_a_variant_takes_over_what_is_said_for_all_and_changes_outcomes() -> None:
    text = (
        WORDS
        + STEP
        + (
            "families: [ipv4]\nbackends: [iptables-nft]\n"
            "variants:\n  one: {spec: 'inbound: {mode: redirect}', sees: {client: 'reset, direct'}}\n"
            "  two: {spec: 'inbound: {mode: tproxy}', sidecar: {kind: embedded, uid: 7}}\n"
        )
    )
    one, two = read_text(text, "x").rows
    assert (one.name, one.expected) == ("one nft ipv4", {"client": "reset, direct"})
    assert two.expected == {"client": f"{ADDRESSES['client'][4]}, inbound"}
    assert (two.variant.sidecar.kind, two.variant.sidecar.uid, one.variant.sidecar.kind) == ("embedded", 7, "envoy")


def test_a_comma_in_a_word_of_its_own_stays() -> None:
    text = WORDS + "steps: [{say: e, members: {}}]\nvariants: {a: {sees: {e: 'quorum, members seen as x'}}}\n"
    assert read_text(text, "x").rows[0].expected == {"e": "quorum, members seen as x"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (WORDS, "nothing is done"),
        (STEP, "about: text is needed"),
        (WORDS + STEP + "colour: red\n", "colour: nobody knows this key"),
        (WORDS + STEP + "sidecar: {kind: haproxy}\n", "haproxy is none of"),
        (WORDS + STEP + "sidecar: {dials: loopback, port: 80}\n", "port: nobody knows this key"),
        (WORDS + STEP + "spec: 'inbound: {mode: sideways}'\n", "sideways"),
        (WORDS + STEP + "families: [ipv5]\n", "is no list of ipv4, ipv6"),
        (WORDS + STEP + "with: [third-pod]\n", "a third pod without a node"),
        (WORDS + "steps: [{say: a, call: {}, ask: {}}]\n", "one of"),
        (WORDS + "steps: [{say: a, call: {form: client}}]\n", "form: nobody knows this key"),
        (WORDS + "steps: [{say: a, call: {from: moon}}]\n", "moon is none of"),
        (WORDS + "steps: [{say: a, call: {}, sees: client, through: wall}]\n", "wall is none of"),
        (WORDS + STEP + "sysctls: {a: high}\n", "names and numbers"),
        (WORDS + STEP + "variants: {a: {sees: {nobody: reset}}}\n", "nobody: nobody knows this key"),
        ("[", "no YAML"),
        ("just words", "not keys and values"),
    ],
)
def test_what_is_wrong_is_said(text: str, said: str) -> None:
    assert any(said in problem for problem in problems(text)), problems(text)


def test_all_problems_at_once() -> None:
    assert len(problems("colour: red\nsidecar: {kind: haproxy}\n")) >= 5


def test_two_steps_of_one_name_are_refused() -> None:
    with pytest.raises(Wrong):
        Variant(steps=(Step("a", "call"), Step("a", "ask")))
