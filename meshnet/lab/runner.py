"""Scenarios, several at a time: a process for each, whose places and servers end with it, however it ends.

A child has no thread but its own, so that the namespace it enters is nobody else's, and what it starts is ended by
the kernel when it is killed. It tells each row as one line of JSON.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import time
import traceback
from pathlib import Path

from meshnet.lab.capture import write_pcap
from meshnet.lab.predict import predicted
from meshnet.lab.row import Outcome, run_row
from meshnet.lab.story import Told, story
from meshnet.lab.world import SEGMENT_SIZES
from meshnet.model.errors import REFUSED
from meshnet.model.value import value
from meshnet.sidecar.privilege import die_with_parent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from meshnet.lab.scenario import Row, Scenario
    from meshnet.lab.story import Arrow

AT_ONCE = 3
ROW_SECONDS = 150.0
"""The longest row starts three Java machines on a busy machine and waits for a quorum: a minute and a half at most."""

LONGEST_LOG = 4000


@value
class Ran:
    """A scenario and the records of its rows, in the order of its rows; each is data, ready for JSON."""

    scenario: Scenario
    records: tuple[dict[str, Any], ...]

    @property
    def ok(self) -> bool:
        return all(record["ok"] for record in self.records)

    @property
    def exit_code(self) -> int:
        """0, 1 for a difference, or what the worst trouble says."""
        worst = max((int(record["exit_code"]) for record in self.records), default=0)
        return worst or (0 if self.ok else 1)

    def words(self, key: str) -> dict[str, dict[str, str]]:
        """``expected``, ``predicted`` or ``measured``: by row and step."""
        return {record["name"]: record[key] for record in self.records}


def run(
    scenarios: Sequence[Scenario],
    hear: Callable[[str, str, bool], None] = lambda _name, _row, _ok: None,
    *,
    at_once: int = AT_ONCE,
    folder: Path | None = None,
) -> tuple[Ran, ...]:
    """Run scenarios; ``hear`` is told of each row that ended. Packets are kept in ``folder`` if it is given.

    Interrupted, it ends its children, and with them everything that they built.
    """
    waiting = sorted(scenarios, key=lambda item: -_weight(item))  # the longest first, so that none is left for the end
    working: dict[int, _Child] = {}
    records: dict[str, list[dict[str, Any]]] = {item.name: [] for item in scenarios}
    selector = selectors.DefaultSelector()
    try:
        while waiting or working:
            while waiting and len(working) < at_once:
                child = _Child(waiting.pop(0), folder)
                working[child.pid] = child
                selector.register(child.stream, selectors.EVENT_READ, child)
            for key, _ in selector.select(timeout=1.0):
                child = key.data
                for record in child.read():
                    records[child.scenario.name].append(record)
                    hear(child.scenario.name, record["name"], record["ok"])
                if child.ended:
                    selector.unregister(child.stream)
                    child.reap()
                    records[child.scenario.name] += child.lost(records[child.scenario.name])
                    del working[child.pid]
            for child in working.values():
                child.bound()
    finally:
        for child in working.values():
            child.kill()
        selector.close()
    return tuple(Ran(item, tuple(_in_order(item, records[item.name]))) for item in scenarios)


class _Child:
    """A process at work on one scenario."""

    def __init__(self, scenario: Scenario, folder: Path | None) -> None:
        self.scenario = scenario
        self.ended = False
        self._rest = b""
        self._heard = time.monotonic()
        self.stream, mine = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            _work(scenario, mine, folder)
        os.close(mine)

    def read(self) -> list[dict[str, Any]]:
        """The records that have come since the last time."""
        data = os.read(self.stream, 1 << 20)
        self.ended = not data
        self._heard = time.monotonic()
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def bound(self) -> None:
        if time.monotonic() - self._heard > ROW_SECONDS:
            os.kill(self.pid, signal.SIGKILL)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.reap()

    def reap(self) -> None:
        os.close(self.stream)
        os.waitpid(self.pid, 0)

    def lost(self, known: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """A record for each row of which nothing came: the child ended before it."""
        named = {record["name"] for record in known}
        gone = "the process that measured this ended early, or took longer than " + f"{ROW_SECONDS:g} s"
        return [
            record_of(Outcome(row, {}, trouble=gone, exit_code=REFUSED))
            for row in self.scenario.rows
            if row.name not in named
        ]


def _work(scenario: Scenario, stream: int, folder: Path | None) -> None:
    """What a child does; it never comes back to the caller's code."""
    code = 0
    try:
        die_with_parent()
        with os.fdopen(stream, "wb") as out:
            for row in scenario.rows:
                outcome = _measured(row)
                if folder is not None:
                    _keep_packets(outcome, folder)
                out.write(json.dumps(record_of(outcome)).encode() + b"\n")
                out.flush()
    except BaseException:  # KeyboardInterrupt and a parent that is gone: nobody is left to tell
        code = REFUSED
    finally:
        os._exit(code)


def _measured(row: Row) -> Outcome:
    try:
        return run_row(row)
    except Exception:  # a defect of the lab's own must not take the other rows with it
        return Outcome(row, {}, trouble=traceback.format_exc(limit=6), exit_code=REFUSED)


def record_of(outcome: Outcome) -> dict[str, Any]:
    """A row's outcome as data. Logs are kept of a row that isn't as expected; else they are noise."""
    variant = outcome.row.variant
    sidecar = variant.sidecar
    told = Told(SEGMENT_SIZES, sidecar.dials == "loopback", sidecar.kind != "none")
    arrows, left_out = story(outcome.frames, told, outcome.begun)
    moment = outcome.moments[0] if outcome.moments else None
    logs = {name: text[-LONGEST_LOG:] for name, text in outcome.logs if text.strip()}
    return {
        "name": outcome.row.name,
        "expected": outcome.row.expected,
        "predicted": predicted(outcome.row),
        "measured": outcome.judged,
        "ok": outcome.ok,
        "trouble": outcome.trouble,
        "exit_code": outcome.exit_code,
        "seconds": round(outcome.seconds, 2),
        "sidecar": {
            "kind": sidecar.kind,
            "inbound": outcome.counts.inbound,
            "outbound": outcome.counts.outbound,
            "refused": outcome.counts.loops,
            "failed": outcome.counts.failures,
        },
        "packets": len(outcome.frames),
        "arrows": [_arrow_data(arrow) for arrow in arrows],
        "left_out": left_out,
        "sockets": list(moment.sockets) if moment else [],
        "tracked": list(moment.tracked) if moment else [],
        "counters": list(outcome.counters),
        "logs": {} if outcome.ok else logs,
    }


def _arrow_data(arrow: Arrow) -> dict[str, Any]:
    return {
        "at": round(arrow.at, 3),
        "from": arrow.source,
        "to": arrow.target,
        "interface": arrow.interface,
        "kind": arrow.kind,
        "text": arrow.text,
        "wrong": arrow.wrong,
    }


def _keep_packets(outcome: Outcome, folder: Path) -> None:
    place = folder / outcome.row.scenario.name
    place.mkdir(parents=True, exist_ok=True)
    for interface in sorted({frame.interface for frame in outcome.frames}):
        name = f"{outcome.row.name.replace(' ', '-').replace(',', '')}-{interface}.pcap".lstrip("-")
        write_pcap(place / name, [frame for frame in outcome.frames if frame.interface == interface])


def _weight(scenario: Scenario) -> int:
    return len(scenario.rows) + (100 if "zookeeper" in scenario.needs else 0)


def _in_order(scenario: Scenario, records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    places = {row.name: place for place, row in enumerate(scenario.rows)}
    return sorted(records, key=lambda record: places[record["name"]])
