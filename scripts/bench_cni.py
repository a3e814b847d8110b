"""What the CNI plugin costs, as ratios measured in one run: absolute times say more about the machine than the code.

P is the interpreter doing nothing, F the bare tools fed with the same content: both restores and both ``ip``, side by
side as the plugin starts them. The packed plugin (``make cni-binary``) is measured beside the source tree.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = [sys.executable, "-I"]
SOURCE = str(Path(sys.executable).with_name("meshnet-cni"))
PACKED = str(ROOT / "dist" / "meshnet-cni" / "meshnet-cni")
RUNS = 25
PODS, AT_ONCE = 100, 8
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}

sys.path.insert(0, str(ROOT))


def main() -> None:
    if os.geteuid() != 0:
        sys.exit("bench-cni: needs root")
    with tempfile.TemporaryDirectory() as folder:
        config = _config(folder)
        steps = _steps()
        times: dict[str, list[float]] = {}
        for _ in range(RUNS):
            _one_round(config, steps, times)
        _report({name: statistics.median(found) * 1e3 for name, found in times.items()})
        for name, program in (("source", SOURCE), ("packed", PACKED)):
            _many(name, program, config)


def _report(ms: dict[str, float]) -> None:
    p, floor = ms["P"], ms["F"]
    print(f"P, the interpreter doing nothing: {p:.1f} ms; F, the bare tools: {floor:.1f} ms")
    for name in ("source", "packed"):
        version, add = ms[f"{name} VERSION"], ms[f"{name} ADD"]
        print(f"{name}: VERSION {version:.1f} ms = {version / p:.2f} P (at most 2)")
        print(f"{name}: ADD {add:.1f} ms = F + {(add - floor) / p:.2f} P (at most 3)")
        print(f"{name}: CHECK {ms[f'{name} CHECK']:.1f} ms, DEL {ms[f'{name} DEL']:.1f} ms")
    print(f"packed ADD / source ADD: {ms['packed ADD'] / ms['source ADD']:.2f} (at most 1.5)")


def _one_round(config: bytes, steps: list[dict[str, str]], times: dict[str, list[float]]) -> None:
    """Everything once, one after the other, so that drift meets all of it alike; a new namespace for each ADD."""
    from meshnet.kernel.netns import unnamed

    def note(name: str, seconds: float) -> None:
        times.setdefault(name, []).append(seconds)

    note("P", _timed([*PYTHON, "-c", "pass"]))
    with unnamed() as namespace, namespace.entered():
        _timed(["ip", "link", "set", "lo", "up"])
        note("F", _floor(steps))
    for name, program in (("source", SOURCE), ("packed", PACKED)):
        note(f"{name} VERSION", _timed([program], b"{}", CNI_COMMAND="VERSION"))
        with unnamed() as namespace:
            with namespace.entered():
                _timed(["ip", "link", "set", "lo", "up"])
            path = f"/proc/{os.getpid()}/fd/{namespace.fd}"
            for verb in ("ADD", "CHECK", "DEL"):
                note(f"{name} {verb}", _timed([program], config, CNI_COMMAND=verb, **_who("bench", path)))


def _floor(steps: list[dict[str, str]]) -> float:
    """The same groups of steps as in an apply: one tool for both families side by side."""
    groups: list[list[dict[str, str]]] = []
    for step in steps:
        if groups and groups[-1][0]["tool"] == step["tool"] and len(groups[-1]) == 1:
            groups[-1].append(step)
        else:
            groups.append([step])
    begin = time.perf_counter()
    for group in groups:
        children = []
        for step in group:
            child = subprocess.Popen(_argv(step), stdin=subprocess.PIPE, env=ENVIRONMENT)
            assert child.stdin is not None
            child.stdin.write(step["text"].encode())
            child.stdin.close()
            children.append(child)
        assert all(child.wait() == 0 for child in children)
    return time.perf_counter() - begin


def _argv(step: dict[str, str]) -> list[str]:
    if step["tool"] == "ip":
        return ["ip", f"-{step['family']}", "-batch", "-"]
    return [f"{'ip6tables' if step['family'] == 6 else 'iptables'}-nft-restore", "--noflush"]


def _many(name: str, program: str, config: bytes) -> None:
    from meshnet.kernel.netns import unnamed

    pods = [unnamed() for _ in range(PODS)]
    for pod in pods:
        with pod.entered():
            _timed(["ip", "link", "set", "lo", "up"])

    def add(number: int) -> float:
        path = f"/proc/{os.getpid()}/fd/{pods[number].fd}"
        return _timed([program], config, CNI_COMMAND="ADD", **_who(f"{name}-{number}", path))

    begin = time.perf_counter()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        each = list(pool.map(add, range(PODS)))
    seconds = time.perf_counter() - begin
    print(
        f"{name}: {PODS} ADDs, {AT_ONCE} at a time: all succeeded in {seconds:.1f} s, {PODS / seconds:.0f} a second, "
        f"the slowest {max(each) * 1e3:.0f} ms"
    )
    for pod in pods:
        pod.close()


def _config(folder: str) -> bytes:
    previous = {"cniVersion": "1.0.0", "ips": [{"address": "10.0.0.2/24"}]}
    kept = {"stateDir": f"{folder}/state", "logFile": f"{folder}/log"}
    return json.dumps(
        {"cniVersion": "1.0.0", "name": "bench", "interception": {}, "prevResult": previous, **kept}
    ).encode()


def _steps() -> list[dict[str, str]]:
    """What the default spec gives an empty namespace, as ``meshnet compile`` prints it."""
    text = "apiVersion: meshnet/v1\nkind: Interception\n"
    argv = [*PYTHON, "-m", "meshnet", "compile", "-", "-o", "json"]
    done = subprocess.run(argv, input=text.encode(), capture_output=True, check=True, cwd=ROOT)
    steps: list[dict[str, str]] = json.loads(done.stdout)["steps"]
    return steps


def _who(container: str, path: str) -> dict[str, str]:
    return {"CNI_CONTAINERID": container, "CNI_NETNS": path, "CNI_IFNAME": "eth0"}


def _timed(argv: list[str], text: bytes = b"", **variables: str) -> float:
    begin = time.perf_counter()
    done = subprocess.run(argv, input=text, capture_output=True, env=ENVIRONMENT | variables, check=False)
    seconds = time.perf_counter() - begin
    if done.returncode:
        sys.exit(f"bench-cni: {' '.join(argv)}: {done.stdout.decode()}{done.stderr.decode()}")
    return seconds


main()
