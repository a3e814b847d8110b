"""apply, diff, verify and remove as a user runs them, in a namespace made by hand; and every way to be refused."""

from __future__ import annotations

import contextlib
import fcntl
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.netns import foreign
from tests.netns.commands import meshnet
from tests.netns.snapshot import foreign_lines, run, snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meshnet.kernel.netns import Namespace

BACKENDS = ("iptables-nft", "iptables-legacy", "libiptc", "nftables")
COMMANDS = ("apply", "diff", "verify")
HEAD = "apiVersion: meshnet/v1\nkind: Interception\n"
TPROXY = HEAD + "name: web\nfamilies: [ipv4, ipv6]\ninbound: {mode: tproxy, excludePorts: [15020]}\n"
REDIRECT = HEAD + "name: web\nfamilies: [ipv4, ipv6]\ninbound: {mode: redirect, ports: [80, 443]}\n"


@pytest.fixture
def pod_file(tmp_path: Path) -> str:
    path = tmp_path / "pod.yaml"
    path.write_text(TPROXY)
    return str(path)


def name_of(namespace: Namespace) -> str:
    return namespace.where.text


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_whole_way_and_back(namespace: Namespace, pod_file: str, backend: str) -> None:
    """Somebody else's rules are there first, and neither a table nor an address differs when we are gone again."""
    foreign.settle(namespace, "iptables-nft" if backend == "iptables-nft" else "iptables-legacy")
    here = ("--netns", name_of(namespace), "--backend", backend, "-o", "json")
    before = snapshot(namespace)

    missing = meshnet("diff", pod_file, *here)
    assert missing.code == 1 and missing.data["in_sync"] is False and missing.data["differences"]
    assert snapshot(namespace) == before

    first = meshnet("apply", pod_file, *here)
    assert first.code == 0 and first.data["changed"] is True and first.data["backend"] == backend
    held = snapshot(namespace)
    again = meshnet("apply", pod_file, *here)
    assert again.code == 0 and again.data["changed"] is False and again.data["steps"] == []
    assert snapshot(namespace) == held

    same = meshnet("diff", pod_file, *here)
    assert same.code == 0 and same.data["in_sync"] is True and same.data["differences"] == []

    proof = meshnet("verify", pod_file, *here)
    assert proof.code == 0 and proof.data["ok"] is True and len(proof.data["probes"]) > 20
    assert all(probe["ok"] and probe["seen"] == probe["predicted"] for probe in proof.data["probes"])
    assert "rules_untouched" in proof.data
    assert snapshot(namespace) == held

    gone = meshnet("remove", *here)
    assert gone.code == 0 and gone.data["changed"] is True
    assert snapshot(namespace) == before
    nothing = meshnet("remove", *here)
    assert nothing.code == 0 and nothing.data["changed"] is False


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_others_have_in_our_tables_stays(namespace: Namespace, pod_file: str, backend: str) -> None:
    """Line by line in the save output of both families, under apply, another spec's apply, and remove."""
    variant = "iptables-nft" if backend == "iptables-nft" else "iptables-legacy"
    foreign.settle(namespace, variant)
    here = ("--netns", name_of(namespace), "--backend", backend)

    def others() -> dict[str, list[str]]:
        return {place: foreign_lines(text) for place, text in snapshot(namespace).items() if place.startswith("ip")}

    tables = [f"iptables-{variant[9:]}", f"ip6tables-{variant[9:]}"]
    before = {place: lines for place, lines in others().items() if place in tables}
    for call, text in ((("apply", "-", *here), TPROXY), (("apply", "-", *here), REDIRECT), (("remove", *here), "")):
        assert meshnet(*call, text=text).code == 0
        assert {place: lines for place, lines in others().items() if place in tables} == before


def test_a_dry_run_does_nothing(namespace: Namespace, pod_file: str) -> None:
    before = snapshot(namespace)
    shown = meshnet("apply", pod_file, "--netns", name_of(namespace), "--dry-run", "-o", "json")
    assert shown.code == 0 and shown.data["dry_run"] is True and shown.data["steps"]
    assert snapshot(namespace) == before
    meshnet("apply", pod_file, "--netns", name_of(namespace))
    held = snapshot(namespace)
    shown = meshnet("remove", "--netns", name_of(namespace), "-n", "-o", "json")
    assert shown.code == 0 and shown.data["steps"]
    assert snapshot(namespace) == held


def test_a_spec_from_standard_input(namespace: Namespace) -> None:
    assert meshnet("apply", "-", "--netns", name_of(namespace), text=TPROXY).code == 0
    assert meshnet("diff", "-", "--netns", name_of(namespace), text=TPROXY).code == 0
    other = meshnet("diff", "-", "--netns", name_of(namespace), text=REDIRECT)
    assert other.code == 1
    assert any(line.startswith("+") for line in other.out.splitlines())
    assert any(line.startswith("-") for line in other.out.splitlines())


@contextlib.contextmanager
def sleeper(namespace: Namespace) -> Iterator[int]:
    """A process that lives in the namespace: its id."""
    process = subprocess.Popen(("ip", "netns", "exec", name_of(namespace), "sleep", "300"))
    try:
        inode = Path(f"/run/netns/{name_of(namespace)}").stat().st_ino
        limit = time.monotonic() + 20
        while Path(f"/proc/{process.pid}/ns/net").stat().st_ino != inode:
            assert time.monotonic() < limit, "the process has not entered the namespace"
            time.sleep(0.01)
        yield process.pid
    finally:
        process.kill()
        process.wait()


def test_a_namespace_by_process_and_by_path(namespace: Namespace, pod_file: str) -> None:
    """Three ways to name one namespace: what was applied by one is in sync by the others."""
    with sleeper(namespace) as pid:
        assert meshnet("apply", pod_file, "--pid", str(pid)).code == 0
        for place in (("--netns", name_of(namespace)), ("--netns", f"/run/netns/{name_of(namespace)}")):
            assert meshnet("diff", pod_file, *place).code == 0
        assert meshnet("remove", "--netns", f"/proc/{pid}/ns/net").code == 0
        assert meshnet("diff", pod_file, "--pid", str(pid)).code == 1


def test_name_and_process_at_once(namespace: Namespace) -> None:
    refused = meshnet("remove", "--netns", name_of(namespace), "--pid", "1")
    assert refused.code == 2 and "--pid" in refused.err


@pytest.mark.parametrize("command", ["apply", "diff", "remove", "verify"])
def test_without_root(command: str, namespace: Namespace) -> None:
    """Root's id without root's powers: one line, and it says which of them is missing."""
    spec = () if command == "remove" else ("-",)
    powerless = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
    refused = meshnet(command, *spec, "--netns", name_of(namespace), text=TPROXY, before=powerless)
    assert refused.code == 4
    assert len(refused.words) == 1 and "CAP_NET_ADMIN" in refused.words[0], refused.err
    assert refused.out == ""


def test_as_nobody(pod_file: str) -> None:
    """Another id has no powers either; the program and its libraries are read by whoever may read them."""
    code = (
        "import os, sys\nimport meshnet.cli.main as main, meshnet.apply.session, meshnet.spec.load\n"
        "import meshnet.cli.namespace, meshnet.spec.decode\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "sys.exit(main.call(['apply', '-', '--netns', 'any']))\n"
    )
    done = subprocess.run(
        (sys.executable, "-c", code), input=TPROXY, capture_output=True, text=True, timeout=60, cwd=Path.cwd()
    )
    assert done.returncode == 4 and "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1 and "CAP_NET_ADMIN" in done.stderr


@pytest.mark.parametrize("place", ["mnt-nobody-made-this", "/run/netns/mnt-nobody-made-this", "/etc/hostname"])
@pytest.mark.parametrize("command", ["apply", "diff", "remove", "verify"])
def test_no_such_namespace(command: str, place: str) -> None:
    spec = () if command == "remove" else ("-",)
    refused = meshnet(command, *spec, "--netns", place, "-o", "json", text=TPROXY)
    assert refused.code == 3
    assert Path(place).name in refused.err
    assert refused.data["error"]["lines"]


def test_no_such_process() -> None:
    assert meshnet("remove", "--pid", "4194304").code == 3


@pytest.mark.parametrize("command", ["apply", "diff", "remove", "verify"])
def test_no_iptables(command: str, namespace: Namespace) -> None:
    """Every iptables program is hidden, in a mount namespace of the process: what is missing is named."""
    spec = () if command == "remove" else ("-",)
    hide = (
        "for folder in /usr/sbin /sbin /usr/bin /bin /usr/local/sbin /usr/local/bin; do "
        'for tool in "$folder"/ip*tables* "$folder"/xtables*; do '
        'real=$(readlink -f "$tool"); [ -f "$real" ] && mount --bind /dev/null "$real"; '
        'done; done 2>/dev/null; exec "$@"'
    )
    without = ("unshare", "-m", "sh", "-c", hide, "sh")
    refused = meshnet(command, *spec, "--netns", name_of(namespace), text=TPROXY, before=without)
    assert refused.code == 4, refused.err
    assert "iptables" in refused.err and "missing" in refused.err


def test_the_lock_is_held_by_another(namespace: Namespace, tmp_path: Path) -> None:
    """In the namespace that it came up in, meshnet shares the lock of the legacy tools: it waits, but not for ever."""
    lock = tmp_path / "xtables.lock"
    inside = ("ip", "netns", "exec", name_of(namespace))
    before = snapshot(namespace)
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        env = {"XTABLES_LOCKFILE": str(lock)}
        refused = meshnet("apply", "-", "--backend", "iptables-legacy", text=TPROXY, before=inside, env=env)
        assert refused.code == 3, refused.err
        assert "lock" in refused.err
        assert snapshot(namespace) == before
        # From outside the tools get a lock that belongs to the work in that namespace alone.
        entering = meshnet(
            "apply", "-", "--backend", "iptables-legacy", "--netns", name_of(namespace), text=TPROXY, env=env
        )
        assert entering.code == 0, entering.err


WRONG = """\
apiVersion: meshnet/v1
kind: Interception
inbound:
  port: 65536
  ports: [http, "80-70"]
  excludeSources: [010.0.0.1, 10.0.0.5/24]
outbund: {mode: none}
interfaces: {exclude: ["a/b"]}
"""


@pytest.mark.parametrize("command", COMMANDS)
def test_a_wrong_spec(command: str, namespace: Namespace, tmp_path: Path) -> None:
    """All problems at once, each at its line, and the namespace isn't even looked at."""
    path = tmp_path / "wrong.yaml"
    path.write_text(WRONG)
    before = snapshot(namespace)
    refused = meshnet(command, str(path), "--netns", name_of(namespace))
    assert refused.code == 2 and refused.out == ""
    lines = sorted(int(line.split(":")[1]) for line in refused.words if line.startswith(f"{path}:"))
    assert lines == [4, 5, 5, 6, 6, 7, 8], refused.err
    assert "outbound" in refused.err
    assert snapshot(namespace) == before
    from_input = meshnet(command, "-", "--netns", name_of(namespace), "-o", "json", text=WRONG)
    assert from_input.code == 2
    assert from_input.data["error"]["kind"] == "spec"
    assert all(line.startswith("<stdin>:") for line in from_input.words)


@pytest.mark.parametrize(
    "words",
    [
        ("aply", "-"),
        ("apply", "-", "--nets", "a"),
        ("apply", "-", "--backend", "ipfw"),
        ("apply",),
        ("apply", "/nowhere/pod.yaml"),
        ("remove", "--pid", "0"),
        ("remove", "--pid", "self"),
        ("diff", "-", "-o", "xml"),
        ("--what",),
    ],
)
def test_wrong_usage(words: tuple[str, ...]) -> None:
    refused = meshnet(*words, text=TPROXY)
    assert refused.code == 2 and refused.out == "" and refused.err


def test_rules_of_ours_in_the_other_variant_go(namespace: Namespace, pod_file: str) -> None:
    """Applied with legacy, then with nft: one set is in force, and the answer says that the other one went."""
    here = ("--netns", name_of(namespace), "-o", "json")
    before = snapshot(namespace)
    assert meshnet("apply", pod_file, *here, "--backend", "iptables-legacy").code == 0
    moved = meshnet("apply", pod_file, *here, "--backend", "iptables-nft")
    assert moved.code == 0 and any("iptables-legacy" in notice for notice in moved.data["notices"])
    assert "MESHNET" not in run(namespace, "iptables-legacy-save")
    assert meshnet("remove", *here).code == 0
    assert snapshot(namespace) == before
