"""What meshnet costs, as ratios measured in one run: absolute times say more about the machine than about the code.

P is the bare start of the interpreter. Restoring is compared with the bare tool fed with the same text.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = [sys.executable, "-I"]
MESHNET = [*PYTHON, "-m", "meshnet"]
RUNS = 15
MANY = 10_000
SPEC = "apiVersion: meshnet/v1\nkind: Interception\nname: bench\ninbound: {mode: tproxy}\n"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        small, large = Path(folder, "small.yaml"), Path(folder, "large.yaml")
        small.write_text(SPEC)
        blocks = ", ".join(f"10.{number // 250}.{number % 250}.0/24" for number in range(MANY))
        large.write_text(f"{SPEC}outbound: {{excludeCidrs: [{blocks}]}}\n")
        start_up(small, large)
        if os.geteuid() == 0:
            applying(small)
            initialising()
        else:
            print("apply: needs root")


def start_up(small: Path, large: Path) -> None:
    explaining = [*MESHNET, "explain", str(small), "--in"]
    bare, compiling, explained = in_turn([*PYTHON, "-c", "pass"], [*MESHNET, "compile", str(small)], explaining)
    print(f"P, the bare start of the interpreter: {bare * 1e3:.1f} ms")
    print(f"compile of a small spec: {compiling * 1e3:.1f} ms = {compiling / bare:.1f} P (at most 8 P)")
    print(f"explain of a packet: {explained * 1e3:.1f} ms = {explained / bare:.1f} P (at most 8 P)")
    seconds, peak = with_peak([*MESHNET, "compile", str(large)])
    print(f"compile of {MANY} CIDRs: {seconds:.2f} s and {peak / 1024:.0f} MB (under 1 s and 150 MB)")


def applying(spec: Path) -> None:
    """A fresh apply of both families beside the bare tools with the same texts, in a scratch namespace each time."""
    import json

    compiled = subprocess.run([*MESHNET, "compile", str(spec), "-o", "json"], capture_output=True, check=True)
    steps = json.loads(compiled.stdout)["steps"]
    name = f"mnbench-{os.getpid()}"
    for variant in ("nft", "legacy"):
        tools, ours, again = [], [], []
        for _ in range(RUNS):
            tools.append(in_namespace(name, partial(bare_tools, name, steps, variant)))
            argv = [*MESHNET, "apply", str(spec), "--netns", name, "--backend", f"iptables-{variant}"]
            both: list[float] = []
            in_namespace(name, partial(twice, argv, both))
            ours.append(both[0])
            again.append(both[1])
        floor, fresh, second = (statistics.median(times) for times in (tools, ours, again))
        print(
            f"apply on {variant}: bare restore and ip {floor * 1e3:.0f} ms, meshnet {fresh * 1e3:.0f} ms "
            f"= {fresh / floor:.1f} times; second run {second * 1e3:.0f} ms"
        )


def initialising() -> None:
    """``meshnet-init`` in a fresh namespace and again, beside the bare tools with the same content, both families."""
    for mode in ("REDIRECT", "TPROXY"):
        for variant in ("nft", "legacy"):
            times: dict[str, list[float]] = {"P": [], "F": [], "fresh": [], "S": [], "second": []}
            for _ in range(RUNS):
                _one_round(mode, variant, times)
            p, floor, fresh, saves, second = (statistics.median(times[key]) * 1e3 for key in times)
            print(
                f"meshnet-init {mode} on {variant}: P {p:.1f} ms; fresh {fresh:.1f} ms, F {floor:.1f} ms = F + "
                f"{(fresh - floor) / p:.2f} P (at most 2); again {second:.1f} ms, the save commands {saves:.1f} ms = "
                f"S + {(second - saves) / p:.2f} P (at most 2)"
            )


def _one_round(mode: str, variant: str, times: dict[str, list[float]]) -> None:
    sys.path.insert(0, str(ROOT))
    from meshnet.kernel.netns import unnamed

    words = ["-m", mode, "-i", "*", "-b", "*", "-d", "15090,15021,15020", "--dual-stack"]
    argv = [str(Path(sys.executable).with_name("meshnet-init")), *words, "--force-iptables-binary", variant]
    with unnamed() as namespace, namespace.entered():
        timed(["ip", "link", "set", "lo", "up"])
        times["P"].append(timed([*PYTHON, "-c", "pass"]))
        steps = _steps(argv)
        times["fresh"].append(timed(argv))
        times["second"].append(timed(argv))
        saves = [[f"{tool}-{variant}-save"] for tool in ("iptables", "ip6tables")]
        times["S"].append(sum(timed(save) for save in saves))
    with unnamed() as namespace, namespace.entered():
        timed(["ip", "link", "set", "lo", "up"])
        times["F"].append(sum(_fed(step, variant) for step in steps))


def _steps(argv: list[str]) -> list[dict[str, str]]:
    import json

    said = subprocess.run([*argv, "--dry-run", "--output", "json"], capture_output=True, check=True)
    steps: list[dict[str, str]] = json.loads(said.stdout)["steps"]
    return steps


def _fed(step: dict[str, str], variant: str) -> float:
    six = str(step["family"]) == "6"
    tool = [f"{'ip6tables' if six else 'iptables'}-{variant}-restore", "--noflush"]
    argv = ["ip", f"-{step['family']}", "-batch", "-"] if step["tool"] == "ip" else tool
    begin = time.perf_counter()
    subprocess.run(argv, input=str(step["text"]).encode(), check=True)
    return time.perf_counter() - begin


def bare_tools(name: str, steps: list[dict[str, str]], variant: str) -> float:
    begin = time.perf_counter()
    for step in steps:
        six = step["family"] == 6
        if step["tool"] == "ip":
            argv = ["ip", "-n", name, "-6" if six else "-4", "-batch", "-"]
        else:
            tool = f"{'ip6tables' if six else 'iptables'}-{variant}-restore"
            argv = ["ip", "netns", "exec", name, tool, "--noflush", *(["-w", "5"] if variant == "legacy" else [])]
        subprocess.run(argv, input=str(step["text"]).encode(), check=True)
    return time.perf_counter() - begin


def twice(argv: list[str], times: list[float]) -> float:
    times += [timed(argv), timed(argv)]
    return sum(times)


def in_namespace(name: str, work: Callable[[], float]) -> float:
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
        return work()
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)


def in_turn(*commands: list[str]) -> list[float]:
    """The medians of commands run one after the other, again and again, so that drift meets them alike."""
    times: list[list[float]] = [[] for _ in commands]
    for _ in range(RUNS):
        for place, command in enumerate(commands):
            times[place].append(timed(command))
    return [statistics.median(each) for each in times]


def timed(command: list[str]) -> float:
    begin = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, cwd=ROOT)
    return time.perf_counter() - begin


def with_peak(command: list[str]) -> tuple[float, int]:
    """Seconds and the largest resident size in KiB of one command, in a child of its own."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        seconds = timed(command)
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        os.write(write, f"{seconds} {peak}".encode())
        os._exit(0)
    os.close(write)
    os.waitpid(pid, 0)
    with os.fdopen(read) as answer:
        seconds_text, peak_text = answer.read().split()
    return float(seconds_text), int(peak_text)


main()
