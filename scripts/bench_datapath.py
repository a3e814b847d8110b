"""What rules cost the packets: two namespaces and a cable, rates with lists of growing length, a table and a plot.

Everything is measured in one run and each round in another order, so that a noisy machine is as noisy to all. Client
and server run ahead of everything else on it (SCHED_FIFO), a rate is that of the median connection, and the median of
the rounds counts. The call that is measured matches the last entry of a list: a walk through all of it, and no proxy in
the path.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import product
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from meshnet.apply.session import Session  # noqa: E402
from meshnet.kernel import links, netns  # noqa: E402
from meshnet.kernel.netns import Where  # noqa: E402
from meshnet.model.cidr import Cidr, read_cidr  # noqa: E402
from meshnet.model.ports import PortRange  # noqa: E402
from meshnet.model.spec import Inbound, Marks, Outbound, Spec  # noqa: E402
from meshnet.model.value import replace  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meshnet.kernel.netns import Namespace

LENGTHS = (0, 10, 100, 1_000, 10_000)
RULES = ("no rules", "istio's rules", "meshnet, iptables", "meshnet, nftables")
MEASURES = ("in", "out", "stream")
TITLES = {
    "in": "inbound, to the last excluded port: connections/s",
    "out": "outbound, to the last excluded block: connections/s",
    "stream": "one inbound stream to that port: Mbit/s",
}
CLIENT, POD, REMOTE = "10.111.0.1", "10.111.0.2", "203.0.113.9"
ACCEPT, SINK = 45001, 45003
ENOUGH = 0.95
COLOURS = {"no rules": "#777777", "istio's rules": "#c44e52", "meshnet, iptables": "#dd8452"}
COLOURS["meshnet, nftables"] = "#4c72b0"


def main() -> int:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--seconds", type=float, default=0.3, help="how long one measurement takes")
    words.add_argument("--rounds", type=int, default=5, help="how often each is taken")
    words.add_argument("--lengths", type=int, nargs="+", default=list(LENGTHS), help="how long the lists are")
    words.add_argument("--folder", type=Path, default=ROOT / "docs" / "figures", help="where the plots go")
    asked = words.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        load = built(Path(folder))
        found = measured(load, asked.lengths, asked.rounds, asked.seconds)
    print(table(found, asked.lengths))
    asked.folder.mkdir(parents=True, exist_ok=True)
    draw(found, asked.lengths, asked.folder)
    return judged(found, asked.lengths)


def built(folder: Path) -> str:
    """The load program, compiled for this machine."""
    made = folder / "load"
    source = ROOT / "scripts" / "datapath" / "load.c"
    subprocess.run(("gcc", "-O2", "-Wall", "-Werror", "-o", str(made), str(source)), check=True)
    return str(made)


Found = dict[tuple[str, str, int], float]


def measured(load: str, lengths: list[int], rounds: int, seconds: float) -> Found:
    """The median of each measure's rounds, by measure, rules and length."""
    taken: dict[tuple[str, str, int], list[float]] = {}
    with netns.unnamed() as client, netns.unnamed() as pod:
        cable(client, pod)
        with served(load, client), served(load, pod):
            for number in range(rounds):
                pairs = list(product(lengths, RULES))
                Random(number).shuffle(pairs)
                for length, rules in pairs:
                    print(f"round {number + 1} of {rounds}: {length} entries, {rules}", file=sys.stderr)
                    put(pod, rules, length)
                    for measure, rate in rates(load, client, pod, seconds).items():
                        taken.setdefault((measure, rules, length), []).append(rate)
    return {key: statistics.median(values) for key, values in taken.items()}


def first() -> None:
    """In a child: a client, on the first processor."""
    ahead(min(os.sched_getaffinity(0)))


def second() -> None:
    """In a child: a server, on the last processor. Left to the scheduler, both are on one now and on two then."""
    ahead(max(os.sched_getaffinity(0)))


def ahead(processor: int) -> None:
    """On one processor, ahead of every other process where that is allowed."""
    os.sched_setaffinity(0, {processor})
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))


def cable(client: Namespace, pod: Namespace) -> None:
    for namespace in (client, pod):
        links.quiet_ipv6(namespace)
    links.veth(client, "eth0", pod, "eth0")
    for namespace, address in ((client, CLIENT), (pod, POD)):
        links.address(namespace, "eth0", f"{address}/24")
        links.up(namespace, "lo", "eth0")
    links.address(client, "lo", f"{REMOTE}/32")
    links.route(pod, "default", via=CLIENT)


@contextlib.contextmanager
def served(load: str, namespace: Namespace) -> Iterator[None]:
    with namespace.entered():
        server = subprocess.Popen(
            (load, "serve", str(ACCEPT), str(SINK)), stdout=subprocess.PIPE, text=True, preexec_fn=second
        )
    try:
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        yield
    finally:
        server.kill()
        server.wait()


def put(pod: Namespace, rules: str, length: int) -> None:
    """Have the pod hold these rules and no others."""
    place = Where("path", f"/proc/self/fd/{pod.fd}")
    with Session(place) as session:
        session.remove()
    if rules == "no rules":
        return
    backend = "nftables" if rules.endswith("nftables") else "iptables-nft"
    with Session(place, backend) as session:  # type: ignore[arg-type]
        session.apply(spec(length, istio=rules.startswith("istio")))


def spec(length: int, *, istio: bool) -> Spec:
    """Lists of so many entries that no neighbours join, and the measured ones behind them."""
    ports = [PortRange(2 * n + 20001, 2 * n + 20001) for n in range(length)]
    ports += [PortRange(number, number) for number in (ACCEPT, SINK)]
    blocks = [Cidr(4, (10 << 24) + (n << 8), 25) for n in range(512, 512 + length)]
    blocks.append(read_cidr("203.0.113.0/24"))
    made = Spec(
        families=(4,),
        inbound=Inbound(mode="tproxy", exclude_ports=tuple(ports)),
        outbound=Outbound(exclude_cidrs=tuple(blocks)),
    )
    return replace(made, profile="istio", marks=Marks(mask=0xFFFFFFFF)) if istio else made


def rates(load: str, client: Namespace, pod: Namespace, seconds: float) -> dict[str, float]:
    found = {}
    for measure, namespace, what, to, port in (
        ("in", client, "connect", POD, ACCEPT),
        ("out", pod, "connect", REMOTE, ACCEPT),
        ("stream", client, "stream", POD, SINK),
    ):
        with namespace.entered():
            argv = (load, what, to, str(port), str(seconds))
            ran = subprocess.run(
                argv, capture_output=True, text=True, check=True, timeout=seconds + 60, preexec_fn=first
            )
        said = [float(word) for word in ran.stdout.split()]
        found[measure] = said[0] if what == "stream" else 1e6 / said[1]
        time.sleep(0.05)
    return found


def table(found: Found, lengths: list[int]) -> str:
    """Rates by list length, one part for each measure, as Markdown."""
    parts = []
    for measure in MEASURES:
        head = f"| {TITLES[measure]} | " + " | ".join(f"{length:,}" for length in lengths) + " |"
        lines = [head, "|---|" + "---:|" * len(lengths)]
        for rules in RULES:
            lines.append(f"| {rules} | " + " | ".join(f"{found[measure, rules, n]:,.0f}" for n in lengths) + " |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def draw(found: Found, lengths: list[int], folder: Path) -> None:
    """One plot for each measure, side by side, as PNG and SVG."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    matplotlib.rcParams["svg.hashsalt"] = "meshnet"
    figure, panels = pyplot.subplots(1, len(MEASURES), figsize=(15, 4.2), constrained_layout=True)
    places = range(len(lengths))
    for panel, measure in zip(panels, MEASURES, strict=True):
        for rules in RULES:
            panel.plot(places, [found[measure, rules, n] for n in lengths], "o-", label=rules, color=COLOURS[rules])
        title, _, unit = TITLES[measure].partition(": ")
        panel.set_title(title, fontsize=10)
        panel.set_ylabel(unit)
        panel.set_xticks(places, [f"{length:,}" for length in lengths])
        panel.set_xlabel("entries in each list")
        panel.set_ylim(bottom=0)
        panel.grid(alpha=0.3)
    panels[0].legend(loc="lower left", fontsize=9)
    figure.savefig(folder / "datapath.png", dpi=120)
    figure.savefig(folder / "datapath.svg", metadata={"Date": None})
    print(f"plots: {folder}/datapath.png, {folder}/datapath.svg", file=sys.stderr)


def judged(found: Found, lengths: list[int]) -> int:
    """What the project promises of nftables: its own rate at any length, and never less than istio's rules."""
    longest, shortest = max(lengths), min(lengths)
    mine = RULES[-1]
    wrong = 0
    for measure in MEASURES:
        share = found[measure, mine, longest] / found[measure, mine, shortest]
        print(
            f"{measure}: nftables with {longest:,} entries has {share:.0%} of its rate with {shortest} (at least 95%)"
        )
        wrong += share < ENOUGH
        ratios = [found[measure, mine, n] / found[measure, RULES[1], n] for n in lengths]
        said = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        print(f"{measure}: nftables beside istio's rules, by length: {said} (never below, within 5% of noise)")
        wrong += any(ratio < ENOUGH for ratio in ratios)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
