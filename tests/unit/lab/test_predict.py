"""The simulator's word on every row, without a packet: the lab's runs then hold it against the kernel."""

from __future__ import annotations

import pytest

from meshnet.lab import measured
from meshnet.lab.predict import predicted, told, trace
from meshnet.lab.reading import shipped
from meshnet.lab.scenario import Scenario


def disagreements(scenario: Scenario) -> list[tuple[str, str, str, str]]:
    return [
        (row.name, label, word, row.expected[label])
        for row in scenario.rows
        for label, word in predicted(row).items()
        if word != row.expected[label].partition(", ")[0]
    ]


@pytest.mark.parametrize("scenario", shipped(), ids=lambda item: item.name)
def test_what_is_predicted_is_what_is_expected(scenario: Scenario) -> None:
    assert disagreements(scenario) == []


@pytest.mark.conformance
@pytest.mark.parametrize("number", range(20))
def test_what_was_measured_is_predicted(number: int) -> None:
    scenario = measured.scenarios()[number]
    assert disagreements(scenario) == []
    assert all(predicted(row) for row in scenario.rows)


def test_calls_of_and_to_the_pod_have_a_word_and_others_none() -> None:
    found = {item.name: item for item in shipped()}
    assert set(predicted(found["own-pod"].rows[0])) == {"by the pod's address"}
    for name in ("dns-one-source-port", "out-of-window", "zookeeper", "without-rules", "proxy-protocol"):
        assert predicted(found[name].rows[0]) == {}


def test_a_trace_names_the_rules() -> None:
    (row,) = (row for row in {s.name: s for s in shipped()}["source-kept"].rows if row.name == "tproxy nft ipv6")
    client, outwards = row.variant.steps
    path, story = trace(row, client), told(row, client)
    assert path is not None and path.disposition == "inbound-proxy"
    assert any(hop.rule is not None and "in.tproxy.capture" in hop.rule.comment for hop in path.hops)
    assert story is not None and story.app_sees is not None
    assert told(row, outwards) is None
    path = trace(row, outwards)
    assert path is not None and path.disposition == "outbound-proxy"
