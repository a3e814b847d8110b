from __future__ import annotations

from pathlib import Path

import pytest

from meshnet.model.cidr import read_cidr
from meshnet.model.ports import PortRange
from tests.unit.spec.writing import said, spec_of

REFUSED = [
    line for line in Path(__file__).with_name("refused.txt").read_text(encoding="utf-8").splitlines() if line[:1] != "#"
]
PAIRS = list(zip(REFUSED[::2], REFUSED[1::2], strict=True))


@pytest.mark.parametrize(("body", "problem"), PAIRS, ids=[body for body, _ in PAIRS])
def test_what_is_refused_and_how(body: str, problem: str) -> None:
    (found,) = said(body.replace("\\n", "\n") + "\n")
    assert found.partition(": ")[2] == problem.removeprefix("    ")


@pytest.mark.parametrize(
    ("head", "problem"),
    [
        ("kind: Interception\n", "1: apiVersion: missing: meshnet/v1"),
        ("apiVersion: meshnet/v1\n", "1: kind: missing: Interception"),
        ("apiVersion: meshnet/v2\nkind: Interception\n", "1: apiVersion: unknown apiVersion (meshnet/v2): meshnet/v1"),
        ("apiVersion: meshnet/v1\nkind: Pod\n", "2: kind: unknown kind (Pod): Interception"),
        ("apiVersion: meshnet/v1\nkind: []\n", "2: kind: unknown kind (a list of 0): Interception"),
    ],
)
def test_a_document_says_what_it_is(head: str, problem: str) -> None:
    assert said("", head=head) == [problem]


def test_all_problems_come_at_once_in_the_order_of_lines() -> None:
    problems = said("name: A\nsidecar: {uids: [], gids: []}\ninbound:\n  ports:\n    - http\n    - 0\n  prot: 1\n")
    assert [problem.partition(": ")[0] for problem in problems] == ["3", "4", "7", "8", "9"]
    assert "no uid, gid or mark" in problems[1]


def test_words_are_taken_as_they_are_written() -> None:
    spec = spec_of("name: off\ndns: {capture: off}\nmarks: {inbound: 1337, outbound: '0x53A'}\n")
    assert (spec.name, spec.dns.capture, spec.marks.inbound, spec.marks.outbound) == ("off", "off", 0x539, 0x53A)


def test_ports_may_be_numbers_or_text() -> None:
    spec = spec_of('inbound: {port: "15006", ports: [80, "81", 9000-9100, "1-65535"]}\n')
    assert spec.inbound.ports == (PortRange(80, 80), PortRange(81, 81), PortRange(9000, 9100), PortRange(1, 65535))


def test_a_list_is_unset_empty_or_all() -> None:
    assert spec_of('inbound: {ports: "*"}\n').inbound.ports == "*"
    assert spec_of("inbound: {ports: []}\n").inbound.ports == ()
    assert spec_of('outbound: {groups: "*", cidrs: []}\n').outbound.cidrs == ()


def test_a_lone_address_is_the_block_of_itself() -> None:
    spec = spec_of('outbound: {cidrs: [10.0.0.1, "2001:db8::1"]}\n')
    assert spec.outbound.cidrs == (read_cidr("10.0.0.1/32"), read_cidr("2001:db8::1/128"))


def test_none_where_a_field_may_have_none() -> None:
    spec = spec_of("inbound: {tunnelPort: null}\nsidecar: {mark: ~}\n")
    assert (spec.inbound.tunnel_port, spec.sidecar.mark) == (None, None)


def test_families_are_numbers() -> None:
    assert spec_of("families: auto\n").families == "auto"
    assert spec_of("families: [ipv6, ipv4]\n").families == (6, 4)


def test_a_huge_word_is_cut_in_the_message() -> None:
    (problem,) = said(f"inbound: {{ports: [{'9' * 5000}]}}\n")
    assert len(problem) < 200
    (problem,) = said(f"{'k' * 5000}: 1\n")
    assert len(problem) < 400


def test_messages_stay_on_one_line() -> None:
    (problem,) = said('"na\\nme": 1\n')
    assert problem.startswith("3: na\\nme: unknown key (na\\nme): ")
