"""What a sidecar in the path costs a connection: Envoy behind REDIRECT, TPROXY, TPROXY with the client's address.

A call to the application and its first byte, beside the same call without sidecar. Taken in turns, in one run; the
client, the application and Envoy run ahead of everything else on the machine.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from bench_datapath import POD, built, cable, first, served  # noqa: E402

from meshnet.apply.session import Session  # noqa: E402
from meshnet.kernel import netns  # noqa: E402
from meshnet.kernel.netns import Where  # noqa: E402
from meshnet.lab import servers  # noqa: E402
from meshnet.model.spec import Inbound, Spec  # noqa: E402
from meshnet.sidecar.config import settings_of  # noqa: E402
from meshnet.sidecar.envoy import Envoy  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from meshnet.kernel.netns import Namespace

PORT = 45001
ROWS: dict[str, Spec | None] = {
    "no sidecar": None,
    "redirect": Spec(families=(4,), inbound=Inbound(mode="redirect", original_source=False)),
    "tproxy": Spec(families=(4,), inbound=Inbound(mode="tproxy", original_source=False)),
    "tproxy, original source": Spec(families=(4,), inbound=Inbound(mode="tproxy", original_source=True)),
}


def main() -> int:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--seconds", type=float, default=0.5, help="how long one measurement takes")
    words.add_argument("--rounds", type=int, default=7, help="how often each is taken; the median counts")
    words.add_argument("--backend", default="nftables")
    asked = words.parse_args()
    taken: dict[str, list[tuple[float, float]]] = {row: [] for row in ROWS}
    with tempfile.TemporaryDirectory() as folder, netns.unnamed() as client, netns.unnamed() as pod:
        load = built(Path(folder))
        cable(client, pod)
        with served(load, pod):
            for number in range(asked.rounds):
                for row, spec in ROWS.items():
                    print(f"round {number + 1} of {asked.rounds}: {row}", file=sys.stderr)
                    with sidecar(pod, spec, asked.backend) as through:
                        taken[row].append(times(load, client, asked.seconds))
                        assert through() > 0, "every connection went through the sidecar"
    print(table({row: (_median(items, 0), _median(items, 1)) for row, items in taken.items()}))
    return 0


@contextlib.contextmanager
def sidecar(pod: Namespace, spec: Spec | None, backend: str) -> Iterator[Callable[[], int]]:
    """The pod with these rules and Envoy behind them; how many connections it has taken."""
    if spec is None:
        yield lambda: 1
        return
    place = Where("path", f"/proc/self/fd/{pod.fd}")
    with Session(place, backend) as session:  # type: ignore[arg-type]
        session.apply(spec)
    try:
        with servers.envoy(Envoy(settings_of(spec, (4,)), admin=servers.ADMIN), pod) as made:
            all_ahead(made.child.pid)
            yield lambda: made.counts().inbound
    finally:
        with Session(place) as session:
            session.remove()


def all_ahead(pid: int) -> None:
    """Put every thread of a process ahead of all other processes, where that is allowed."""
    with contextlib.suppress(PermissionError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setscheduler(int(thread.name), os.SCHED_FIFO, os.sched_param(10))


def times(load: str, client: Namespace, seconds: float) -> tuple[float, float]:
    """The median and the 99th percentile of a call, in microseconds."""
    with client.entered():
        argv = (load, "connect", POD, str(PORT), str(seconds))
        ran = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60, preexec_fn=first)
    _, middle, late = (float(word) for word in ran.stdout.split())
    return middle, late


def _median(items: list[tuple[float, float]], place: int) -> float:
    return statistics.median(item[place] for item in items)


def table(found: dict[str, tuple[float, float]]) -> str:
    base = found["no sidecar"]
    lines = ["| a call and its first byte, µs | p50 | p99 | added p50 | added p99 |", "|---|---:|---:|---:|---:|"]
    for row, (middle, late) in found.items():
        lines.append(f"| {row} | {middle:.0f} | {late:.0f} | {middle - base[0]:.0f} | {late - base[1]:.0f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
