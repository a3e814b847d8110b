"""All checks together: our own rules are healthy, and what was measured to go wrong is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshnet.cli.doctor import FLOW, _sidecars
from meshnet.cli.simulated import host_for, of_document
from meshnet.doctor.calls import own_calls, stories
from meshnet.doctor.examine import examine
from meshnet.doctor.loop import loops
from meshnet.doctor.patient import Patient
from meshnet.doctor.reply import lost_replies
from meshnet.model.errors import SpecError
from meshnet.model.host import Host
from meshnet.model.value import replace
from meshnet.parse.ruleset import read
from meshnet.parse.scenario import read_scenario
from meshnet.simulate.scenario import host_of
from meshnet.spec.load import load_text
from tests import conformance
from tests.unit.doctor.patients import PLAIN, patient
from tests.unit.simulate.mutations import goldens, host
from tests.unit.simulate.pods import table

CASES = sorted(path for path in (Path(__file__).resolve().parents[2] / "cases").iterdir() if path.is_dir())
GIVEN = {
    **FLOW, "address": (), "src_valid_mark": False, "forward": True, "no_policy_route": False, "sidecar": None,
    "sidecar_uid": None, "sidecar_gid": None, "sidecar_mark": None, "inbound_port": None, "outbound_port": None,
}  # fmt: skip
FOLDER = conformance.FOLDER / "original-source"


def of_case(path: Path, profile: str) -> list[Patient]:
    text = (path / "spec.yaml").read_text() + f"\nprofile: {profile}\n"
    subject = of_document(load_text(text, path.name), (4, 6))
    return [
        Patient(
            held,
            tuple((str(one), host_for(subject, GIVEN, one)) for one in (False, True)),
            _sidecars(subject, GIVEN, held.family)[0],
            subject.proxies,
            assumed=True,
        )
        for held in subject.rules
    ]


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.name)
def test_our_own_rules_are_healthy(path: Path) -> None:
    for one in of_case(path, "meshnet"):
        report = examine(one)
        assert not report.findings and not report.notes


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.name)
def test_each_of_our_identities_is_enough_by_itself(path: Path) -> None:
    """A sidecar is known by its uid, whatever its gid, and the other way round."""
    for one in of_case(path, "meshnet"):
        first = one.sidecars[0]
        if first.own_mark:
            continue
        alone = {replace(each, gid=4242) for each in one.sidecars} | {replace(each, uid=4242) for each in one.sidecars}
        sick = replace(one, sidecars=tuple(alone))
        told = tuple(stories(sick))
        assert not [*loops(sick, told, own_calls(sick)), *lost_replies(sick, told)]


def test_two_users_under_profile_istio() -> None:
    """The second one's calls to its own pod are let go by the first one's rule for everybody else."""
    (path,) = (path for path in CASES if path.name == "tproxy-sidecar-identities")
    for one in of_case(path, "istio"):
        words = [finding.where.words for finding in examine(one).findings if finding.where is not None]
        assert any("--uid-owner 1400 -j ISTIO_IN_REDIRECT" in text for text in words)


@pytest.mark.parametrize(
    "path",
    # All of them take as long as all other unit tests together.
    [path if number % 5 == 0 else pytest.param(path, marks=pytest.mark.long) for number, path in enumerate(CASES)],
    ids=lambda path: path.name,
)
def test_profile_istio_is_examined_without_a_mishap(path: Path) -> None:
    try:
        patients = of_case(path, "istio")
    except SpecError:
        return
    for one in patients[:1]:
        examine(one)


def measurements():
    path = FOLDER / "cases.json"
    if not path.exists():
        return [None]
    scenario = read_scenario(path.read_text(), "cases.json")
    return [(scenario.topology, case, measured) for case in scenario.cases for measured in case.measured]


@pytest.mark.conformance
@pytest.mark.parametrize(
    "item",
    measurements(),
    ids=lambda item: f"{item[1].name}-{item[2].proxy_uid}-{int(item[2].route_localnet)}" if item else "absent",
)
def test_what_was_measured_to_go_wrong_is_found_and_nothing_else(item) -> None:
    """ "loop" is a loop, "reset" an answer that never came; what worked has neither."""
    topology, case, measured = item
    conduct = replace(case.conduct, uid=measured.proxy_uid)
    space: Host = replace(host_of(topology, case, measured, conduct), listeners=(), assume=True)
    one = Patient(read((FOLDER / case.rules).read_text(), 4, case.rules), (("", space),), (conduct,))
    told = tuple(stories(one))
    looping, lost = list(loops(one, told, own_calls(one))), list(lost_replies(one, told))
    if measured.outcome == "loop":
        assert looping
    elif measured.outcome == "reset":
        assert lost
    else:
        assert not looping and not lost


@pytest.mark.conformance
@pytest.mark.parametrize(("name", "held"), goldens(), ids=lambda item: item if isinstance(item, str) else "")
def test_golden_rules_are_examined(name: str, held) -> None:
    """They have rules that nothing reaches, and with the usual sidecar neither loops nor lost replies."""
    one = Patient(held, (("", host()),), (PLAIN,), assumed=True)
    told = tuple(stories(one))
    if name not in ("dns-uid-gid.golden", "ipv6-dns-uid-gid.golden", "ipv6-uid-gid.golden"):
        assert not list(lost_replies(one, told))


def test_undecided_calls_are_noted() -> None:
    report = examine(patient(table("mangle", "-A PREROUTING -m geoip --cc XX -j DROP")))
    assert not report.findings and "undecided" in report.notes[0]
