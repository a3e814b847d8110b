from __future__ import annotations

import time

from tests.unit.simulate.pods import inward, outward, pod, table

RULES = table(
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


def test_twenty_thousand_walks_a_second() -> None:
    """Through 40 rules, half of the packets each way; the best of five runs, since the machine is shared."""
    made = pod(RULES)
    flows = (inward(), outward())
    best = 0.0
    for _ in range(5):
        begin = time.perf_counter()
        for number in range(4000):
            made.walk(flows[number & 1])
        best = max(best, 4000 / (time.perf_counter() - begin))
    assert best > 20_000, f"{best:.0f} walks a second"
