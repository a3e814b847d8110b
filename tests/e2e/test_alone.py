"""Nothing of a lab is left, and nothing of the host is touched: also when it was interrupted, or killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAB = (sys.executable, "-m", "meshnet", "lab")
RUN = (*LAB, "run", "source-kept", "own-pod")
LEFT = 9


def alone(*words: str, patience: int = 10) -> subprocess.CompletedProcess[str]:
    argv = ["bash", str(ROOT / "scripts" / "alone.sh"), *words]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "MESHNET_ALONE_PATIENCE": str(patience)}
    return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=300)


def test_the_judge_sees_what_is_left() -> None:
    for leaving in ("touch /dev/shm/x", "sleep 60 &", "ip link add x type bridge", "ip rule add fwmark 1 lookup 7"):
        done = alone("sh", "-c", leaving, patience=1)
        assert done.returncode == LEFT, f"{leaving}: {done.stdout}{done.stderr}"


def test_a_run_leaves_nothing() -> None:
    done = alone(*RUN)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("signal", "code"), [("INT", 130), ("KILL", 137), ("TERM", 143)])
def test_one_that_is_ended_leaves_nothing(signal: str, code: int) -> None:
    done = alone("--signal", signal, "--when", "[b]ase-id", *RUN)
    assert done.returncode == code, done.stdout + done.stderr
    assert "ever ran" not in done.stderr


def test_java_machines_of_a_killed_run_are_gone_too() -> None:
    done = alone("--signal", "KILL", "--when", "[Q]uorumPeerMain", *LAB, "run", "zookeeper")
    assert done.returncode == 137, done.stdout + done.stderr
    assert "ever ran" not in done.stderr


def test_a_lab_that_is_up_goes_down(tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text("apiVersion: meshnet/v1\nkind: Interception\n")
    up, down = " ".join((*LAB, "up", str(spec))), " ".join((*LAB, "down"))
    ask = " ".join((*LAB, "shell", "client", "--", sys.executable, str(tmp_path / "ask.py")))
    (tmp_path / "ask.py").write_text(
        "import urllib.request as r\nprint(*(r.urlopen(f'http://{h}/peer', timeout=9).read().decode() for h in "
        "('10.244.9.10', '[fd00:244:9::10]')))\n"
    )
    done = alone("sh", "-c", f"{up} && {ask} && {down}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "10.244.9.20 fd00:244:9::20" in done.stdout
    killed = f"{up} && pkill -KILL -f [m]eshnet.lab.keeper; sleep 0.2; ip netns list; {down} && {up} && {down}"
    done = alone("sh", "-c", killed)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "mnlab-pod" in done.stdout.split("the lab is gone")[0]


def test_rootless_where_one_user_is_enough() -> None:
    nobody = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "unshare", "-rn")
    env = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1"}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*nobody, *LAB, "run", *words], env=env, capture_output=True, text=True, timeout=120)

    done = run("rootless")
    assert done.returncode == 0, done.stdout + done.stderr
    done = run("source-kept")
    assert done.returncode == 4 and "users other than one's own" in done.stderr
