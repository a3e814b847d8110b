"""What a walk and a comparison cost: walks a second on one core, and seconds of the processor."""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from meshnet.simulate.compare import compare  # noqa: E402
from tests.unit.simulate.pods import inward, outward, pod, table  # noqa: E402
from tests.unit.simulate.test_compare import OUT, rules, side  # noqa: E402

FORTY = table(
    "nat",
    ":IN - [0:0]",
    ":OUT - [0:0]",
    "-A PREROUTING -p tcp -j IN",
    "-A OUTPUT -p tcp -j OUT",
    *(f"-A IN -p tcp -m tcp --dport {port} -j RETURN" for port in range(15000, 15017)),
    "-A IN -p tcp -j REDIRECT --to-ports 15006",
    *(f"-A OUT -d 10.{number}.0.0/16 -j RETURN" for number in range(100, 118)),
    "-A OUT -m owner --uid-owner 1337 -j RETURN",
    "-A OUT -p tcp -j REDIRECT --to-ports 15001",
)


def main() -> None:
    walks()
    comparisons()


def walks() -> None:
    made, flows, best = pod(FORTY), (inward(), outward()), 0.0
    for _ in range(7):
        begin = time.process_time()
        for number in range(4000):
            made.walk(flows[number & 1])
        best = max(best, 4000 / (time.process_time() - begin))
    print(f"walks through 40 rules: {best:.0f} a second on one core (at least 20,000)")


def comparisons() -> None:
    print(f"compare of two sets of 40 rules: {_spent(FORTY, FORTY):.2f} s (under 3 s)")
    lines = [f"-A OUT -d 10.{number // 250}.{number % 250}.0/24 -j RETURN" for number in range(1000)]
    whole = _many(lines)
    random.Random(1).shuffle(lines)
    print(f"compare of two sets of 1,000 exclusions: {_spent(whole, _many(lines)):.2f} s (under 30 s)")


def _many(lines: list[str]) -> str:
    return table("nat", ":OUT - [0:0]", "-A OUTPUT -p tcp -j OUT", *lines, OUT.replace("OUTPUT", "OUT"))


def _spent(one: str, other: str) -> float:
    begin = time.process_time()
    assert compare(side(rules(one)), side(rules(other))).equal
    return time.process_time() - begin


main()
