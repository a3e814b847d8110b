"""What a run showed, as data, as text, and as files: one page, the data, and the packets."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from meshnet.lab.story import STEP

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from meshnet.lab.runner import Ran

NO_WORD = "-"


def data(ran: Sequence[Ran]) -> dict[str, Any]:
    """Everything, ready for JSON: ``expected``, ``predicted`` and ``measured`` are by row and step."""
    return {"ok": all(item.ok for item in ran), "scenarios": [_scenario(item) for item in ran]}


def _scenario(item: Ran) -> dict[str, Any]:
    scenario = item.scenario
    return {
        "name": scenario.name,
        "about": scenario.about,
        "symptom": scenario.symptom,
        "cure": scenario.cure,
        "ok": item.ok,
        "expected": item.words("expected"),
        "predicted": item.words("predicted"),
        "measured": item.words("measured"),
        "rows": list(item.records),
    }


def lines(item: Ran, *, all_rows: bool = False) -> list[tuple[str, ...]]:
    """A row of a table for each step of each row, or only for those that came out otherwise."""
    made: list[tuple[str, ...]] = []
    for record in item.records:
        words = record["expected"]
        for label, expected in words.items():
            measured = record["measured"].get(label, record["trouble"].split("\n")[0] or "not measured")
            if all_rows or measured != expected:
                said = record["predicted"].get(label, NO_WORD)
                good = "yes" if measured == expected else "NO"
                made.append((item.scenario.name, record["name"], label, expected, said, measured, good))
    return made


def evidence(record: dict[str, Any]) -> list[str]:
    """What tells why, of one row, as lines of text."""
    told: list[str] = []
    if record["arrows"]:
        told.append(f"packets ({record['packets']} captured):")
        for arrow in record["arrows"]:
            if arrow["kind"] == STEP:
                told.append(f"  {arrow['text']}:")
                continue
            wrong = f"   <-- {arrow['wrong']}" if arrow["wrong"] else ""
            ends = f"{arrow['from']} > {arrow['to']}"
            told.append(f"  {arrow['at']:9.3f} ms  {arrow['interface']:<5} {ends:<24} {arrow['text']}{wrong}")
        if record["left_out"]:
            told.append(f"  and {record['left_out']} more in between")
    sidecar = record["sidecar"]
    if sidecar["kind"] != "none":
        counts = ", ".join(f"{key} {sidecar[key]}" for key in ("inbound", "outbound", "refused", "failed"))
        told.append(f"the sidecar counted: {counts}")
    for key, title in (("sockets", "sockets"), ("tracked", "connection tracking"), ("counters", "rules that were met")):
        if record[key]:
            told += [f"{title}:", *(f"  {line}" for line in record[key])]
    for name, text in record["logs"].items():
        told += [f"{name} said:", *(f"  {line}" for line in text.splitlines()[-20:])]
    return told


def write(ran: Sequence[Ran], folder: Path) -> None:
    """``index.html``, ``report.json`` and ``report.txt`` in a folder, beside the packets that are there already."""
    from meshnet.lab.page import page

    found = data(ran)
    folder.mkdir(parents=True, exist_ok=True)
    folder.joinpath("index.html").write_text(page(found), encoding="utf-8")
    folder.joinpath("report.json").write_text(json.dumps(found, indent=1), encoding="utf-8")
    folder.joinpath("report.txt").write_text(text(ran), encoding="utf-8")


def text(ran: Sequence[Ran]) -> str:
    """Every scenario with its rows and the evidence of each."""
    told: list[str] = []
    for item in ran:
        scenario = item.scenario
        told += [f"== {scenario.name}: {scenario.about}", f"   symptom: {scenario.symptom}"]
        told += [f"   cure: {scenario.cure}"] if scenario.cure else []
        for record in item.records:
            told += ["", f"-- {record['name'] or 'one way'}: {'as expected' if record['ok'] else 'NOT as expected'}"]
            for label, expected in record["expected"].items():
                measured = record["measured"].get(label, "not measured")
                said = record["predicted"].get(label, NO_WORD)
                told.append(f"   {label}: expected {expected}, predicted {said}, measured {measured}")
            told += [f"   {line}" for line in (*record["trouble"].splitlines(), *evidence(record))]
        told.append("")
    return "\n".join(told)
