from __future__ import annotations

import json

from meshnet.lab.report import data, evidence, lines, text, write
from tests.unit.lab.runs import ran, record

GOOD, BAD = record("nft ipv4"), record("nft ipv6", "127.0.0.6")
LOST = record("legacy ipv4", "", ok=False, trouble="no server\nmore", exit_code=3)
ARROW = {"kind": "data", "at": 1.5, "interface": "eth0", "from": "client", "to": "pod", "text": "SYN", "wrong": "lost"}


def test_a_line_for_each_step_that_came_out_otherwise():
    found = lines(ran("one", GOOD, BAD, LOST))
    assert [item[1:] for item in found] == [
        ("nft ipv6", "a call", "10.0.0.1", "10.0.0.1", "127.0.0.6", "NO"),
        ("legacy ipv4", "a call", "10.0.0.1", "10.0.0.1", "no server", "NO"),
    ]
    assert [item[-1] for item in lines(ran("one", GOOD, BAD), all_rows=True)] == ["yes", "NO"]


def test_a_step_without_a_prediction_or_a_measurement():
    (found,) = lines(ran("one", record("x", "", ok=False, predicted={})))
    assert found[4:6] == ("-", "not measured")


def test_data_are_by_row_and_step():
    found = data([ran("one", GOOD), ran("two", GOOD, BAD)])
    assert (found["ok"], [item["ok"] for item in found["scenarios"]]) == (False, [True, False])
    assert found["scenarios"][1]["measured"] == {
        "nft ipv4": {"a call": "10.0.0.1"},
        "nft ipv6": {"a call": "127.0.0.6"},
    }
    assert data([])["ok"]


def test_evidence_of_everything_that_there_is():
    sidecar = {"kind": "envoy", "inbound": 1, "outbound": 2, "refused": 0, "failed": 3}
    step = ARROW | {"kind": "step", "text": "a call"}
    full = record(
        "x",
        arrows=[step, ARROW],
        packets=9,
        left_out=7,
        sidecar=sidecar,
        sockets=["s"],
        tracked=["t"],
        counters=["c"],
        logs={"envoy": "1\n2"},
    )
    told = evidence(full)
    assert told[0] == "packets (9 captured):" and told[1] == "  a call:"
    assert "client > pod" in told[2] and told[2].endswith("SYN   <-- lost")
    assert "  and 7 more in between" in told
    assert "the sidecar counted: inbound 1, outbound 2, refused 0, failed 3" in told
    assert told[-3:] == ["envoy said:", "  1", "  2"]
    assert evidence(GOOD) == []


def test_of_a_long_log_the_end_is_told():
    told = evidence(record("x", logs={"a": "\n".join(str(n) for n in range(30))}))
    assert told[1:] == [f"  {n}" for n in range(10, 30)]


def test_the_text_of_a_run():
    said = text([ran("one", GOOD, LOST)])
    assert "== one: about one" in said and "   cure: a cure" in said
    assert "-- nft ipv4: as expected" in said and "-- legacy ipv4: NOT as expected" in said
    assert "   no server\n   more" in said


def test_files_of_a_report(tmp_path):
    folder = tmp_path / "a" / "b"
    for _ in range(2):
        write([ran("one", GOOD)], folder)
    assert json.loads((folder / "report.json").read_text())["ok"] is True
    assert {path.name for path in folder.iterdir()} == {"index.html", "report.json", "report.txt"}
