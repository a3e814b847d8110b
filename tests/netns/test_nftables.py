"""What the backend for nftables alone has to answer for: whose table it is, which nft, moving there and back."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from meshnet.apply import apply as changes
from meshnet.apply.session import Session
from meshnet.kernel.netns import where
from meshnet.model.errors import MeshnetError
from tests.netns import foreign
from tests.netns.commands import meshnet, meshnet_init
from tests.netns.interrupted import killed_at, refuse, stopped_session
from tests.netns.snapshot import run, snapshot
from tests.netns.specs import pod_spec

if TYPE_CHECKING:
    from pathlib import Path

    from meshnet.kernel.netns import Namespace
    from meshnet.model.plan import Receipt
    from meshnet.model.spec import Spec

HEAD = "apiVersion: meshnet/v1\nkind: Interception\n"
OTHERS = "table inet meshnet {\n\tchain keep {\n\t\ttcp dport 7 counter drop\n\t}\n}\n"
TPROXY = pod_spec("tproxy")
FIRST = ("iptables-nft", "iptables-legacy", "libiptc")


def apply(namespace: Namespace, wanted: Spec, backend: str = "nftables") -> Receipt:
    with Session(where(namespace.where.text), backend) as session:  # type: ignore[arg-type]
        return session.apply(wanted)


def remove(namespace: Namespace, backend: str = "auto") -> Receipt:
    with Session(where(namespace.where.text), backend) as session:  # type: ignore[arg-type]
        return session.remove()


def test_one_table_and_nothing_beside_it(namespace: Namespace) -> None:
    foreign.settle(namespace, "nftables")
    before = snapshot(namespace)
    apply(namespace, TPROXY)
    now = snapshot(namespace)
    added = set(now["nft tables"].splitlines()) - set(before["nft tables"].splitlines())
    assert added == {"table inet meshnet"}
    for what in ("iptables-nft", "ip6tables-nft", "iptables-legacy", "ip6tables-legacy", "table inet stranger"):
        assert now[what] == before[what]


@pytest.mark.parametrize("command", ["apply", "diff", "verify"])
def test_somebody_else_s_table_of_that_name_is_refused(namespace: Namespace, command: str) -> None:
    run(namespace, "nft", "-f", "-", text=OTHERS)
    before = snapshot(namespace)
    words = ("--netns", namespace.where.text, "--backend", "nftables")
    answer = meshnet(command, "-", *words, text=HEAD)
    assert (answer.code, "table inet meshnet that isn't meshnet's" in answer.err) == (3, True), answer.err
    assert "nftables.table" in answer.err
    assert snapshot(namespace) == before


def test_removing_leaves_somebody_else_s_table_of_that_name(namespace: Namespace) -> None:
    run(namespace, "nft", "-f", "-", text=OTHERS)
    before = snapshot(namespace)
    assert remove(namespace, "nftables").changes.empty
    assert remove(namespace).changes.empty
    assert snapshot(namespace) == before


def with_nft(folder: Path, script: str) -> dict[str, str]:
    """An environment in which ``nft`` is a script, and everything else where it was."""
    path = folder / "nft"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("nftables v0.9.0 (Fearless Fosdick)", "nft 0.9.0 has no tproxy: 0.9.1 or later"),
        ("nftables v0.9.6 (Capital Idea #2)", "nft 0.9.6 has no comments on tables: 0.9.7 or later"),
        ("what?", "nft 0.0.0"),
    ],
)
@pytest.mark.parametrize("command", ["apply", "remove"])
def test_an_nft_that_is_too_old_writes_nothing(
    namespace: Namespace, tmp_path: Path, command: str, version: str, said: str
) -> None:
    if command == "remove":
        apply(namespace, TPROXY)
    before = snapshot(namespace)
    env = with_nft(tmp_path, f'[ "$1" = --version ] && echo "{version}" || exit 9')
    words = ("-",) if command == "apply" else ()
    here = ("--netns", namespace.where.text, "--backend", "nftables")
    answer = meshnet(command, *words, *here, text=HEAD, env=env)
    assert (answer.code, said in answer.err) == (4, True), answer.err
    assert snapshot(namespace) == before


WITHOUT_NFT = (
    'for folder in /usr/sbin /sbin /usr/bin /bin /usr/local/sbin; do tool="$folder/nft"; '
    '[ -f "$tool" ] && mount --bind /dev/null "$(readlink -f "$tool")"; done; exec "$@"'
)
STRANGE = "add counter inet meshnet mine; add rule inet meshnet nat_out meta length 33 counter name mine"


def test_what_nft_can_not_print_is_seen_and_repaired(namespace: Namespace, tmp_path: Path) -> None:
    """Versions before 1.1 die of sets that later ones wrote; and to see a difference no nft is needed."""
    env = with_nft(tmp_path, 'case "$*" in *list*) kill -SEGV $$;; esac; exec /usr/sbin/nft "$@"')
    here = ("--netns", namespace.where.text, "--backend", "nftables")
    before = snapshot(namespace)
    apply(namespace, TPROXY)
    run(namespace, "nft", STRANGE)
    blind = meshnet("diff", "-", *here, text=HEAD, before=("unshare", "-m", "sh", "-c", WITHOUT_NFT, "sh"))
    assert (blind.code, "objects or flow tables" in blind.out) == (1, True), blind.err
    for command, code in (("diff", 1), ("apply", 0), ("diff", 0)):
        answer = meshnet(command, "-", *here, text=HEAD, env=env)
        assert answer.code == code, answer.err
    run(namespace, "nft", STRANGE)
    assert meshnet("remove", *here, env=env).code == 0
    assert snapshot(namespace) == before


@pytest.mark.parametrize("word", ["counter", "set"])
def test_a_table_can_not_have_a_name_that_means_something_to_nft(namespace: Namespace, word: str) -> None:
    before = snapshot(namespace)
    here = ("--netns", namespace.where.text, "--backend", "nftables")
    answer = meshnet("apply", "-", *here, text=f"{HEAD}nftables: {{table: {word}}}\n")
    assert (answer.code, "next: is that name a word of nft's own?" in answer.err) == (3, True), answer.err
    assert snapshot(namespace) == before


def test_a_missing_nft_writes_nothing(namespace: Namespace) -> None:
    before = snapshot(namespace)
    without = ("unshare", "-m", "sh", "-c", WITHOUT_NFT, "sh")
    here = ("--netns", namespace.where.text, "--backend", "nftables")
    answer = meshnet("apply", "-", *here, text=HEAD, before=without)
    assert (answer.code, "nft is not installed" in answer.err, "nftables" in answer.err) == (4, True, True), answer.err
    assert snapshot(namespace) == before


def test_no_iptables_at_all_is_no_matter(namespace: Namespace) -> None:
    hide = (
        "for folder in /usr/sbin /sbin /usr/bin /bin /usr/local/sbin /usr/local/bin; do "
        'for tool in "$folder"/ip*tables* "$folder"/xtables*; do '
        'real=$(readlink -f "$tool"); [ -f "$real" ] && mount --bind /dev/null "$real"; '
        'done; done 2>/dev/null; exec "$@"'
    )
    without = ("unshare", "-m", "sh", "-c", hide, "sh")
    before = snapshot(namespace)
    here = ("--netns", namespace.where.text)
    applied = meshnet("apply", "-", *here, "--backend", "nftables", text=HEAD, before=without)
    assert applied.code == 0, applied.err
    assert meshnet("diff", "-", *here, text=HEAD, before=without).code == 0
    assert meshnet("remove", *here, before=without).code == 0
    assert snapshot(namespace) == before


def test_auto_goes_where_our_table_is(namespace: Namespace) -> None:
    foreign.settle(namespace, "iptables-legacy")
    apply(namespace, TPROXY)
    with Session(where(namespace.where.text)) as session:
        assert (session.backend, session.reason) == ("nftables", "table inet meshnet is ours")
        assert session.changes(TPROXY).empty


def test_auto_is_not_drawn_by_others_tables(namespace: Namespace) -> None:
    run(namespace, "nft", "-f", "-", text=foreign.TABLE)
    with Session(where(namespace.where.text)) as session:
        assert session.backend != "nftables"


@pytest.mark.parametrize("other", FIRST)
@pytest.mark.parametrize("mode", ["redirect", "tproxy"])
def test_moving_there_and_back(namespace: Namespace, other: str, mode: str) -> None:
    """In one apply each: rules on one backend alone afterwards, routing untouched, and said."""
    before = snapshot(namespace)
    wanted = pod_spec(mode)
    apply(namespace, wanted, other)
    at_first = snapshot(namespace)
    moved = apply(namespace, wanted)
    name = "iptables-nft" if other == "iptables-nft" else "iptables-legacy"
    assert any(f"rules of ours were in {name} too" in notice for notice in moved.notices)
    now = snapshot(namespace)
    assert "MESHNET" not in "".join(text for key, text in now.items() if "tables-" in key)
    assert "table inet meshnet" in now
    back = apply(namespace, wanted, other)
    assert any("rules of ours were in nftables too" in notice for notice in back.notices)
    assert snapshot(namespace) == at_first
    remove(namespace)
    assert snapshot(namespace) == before


@pytest.mark.parametrize("other", FIRST)
def test_both_at_once_are_found(namespace: Namespace, other: str) -> None:
    """A move that was killed when the new rules stood and the old ones did too."""
    apply(namespace, TPROXY, other)
    at = 0
    while killed_at(namespace, "nftables", at, lambda session: session.apply(TPROXY)):
        at += 1
    apply(namespace, TPROXY, other)
    assert killed_at_the_clearing(namespace)
    answer = meshnet("diff", "-", "--netns", namespace.where.text, "-o", "json", text=HEAD)
    assert (answer.code, answer.data["backend"]) == (1, "nftables")
    assert "rules of ours are in" in answer.data["reason"]
    assert any("iptables" in line for line in answer.data["differences"])
    apply(namespace, TPROXY, "auto")
    with Session(where(namespace.where.text)) as session:
        assert session.changes(TPROXY).empty


def killed_at_the_clearing(namespace: Namespace) -> bool:
    """Apply, and be gone ahead of taking the other backend's rules away."""
    pid = os.fork()
    if pid == 0:
        with Session(where(namespace.where.text), "nftables") as session:
            session._clear_elsewhere = lambda: os._exit(0)  # type: ignore[assignment, method-assign]
            session.apply(TPROXY)
        os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.parametrize("what", ["limit rate 5/second accept", "ip saddr 10.0.0.1 meta priority set 3"])
def test_a_roll_back_puts_back_what_we_have_no_words_for(namespace: Namespace, what: str) -> None:
    """Somebody's rule in our table; the apply that would take it away fails behind the table's step."""
    apply(namespace, pod_spec("tproxy", more="routing: {table: 200}"))
    run(namespace, "nft", "insert", "rule", "inet", "meshnet", "mangle_pre", *what.split())
    before = snapshot(namespace)
    failed = 0
    for at in range(20):
        with stopped_session(namespace, "nftables", at, refuse, True) as session:
            try:
                session.apply(pod_spec("redirect"))
            except MeshnetError as error:
                assert "as it was" in error.message
                failed += 1
            else:
                break
        assert snapshot(namespace) == before, f"step {at}"
    assert failed > 1


def test_a_table_of_another_name(namespace: Namespace) -> None:
    """The spec names it; ours is known whatever it is called, and one apply moves from one name to another."""
    run(namespace, "nft", "-f", "-", text=OTHERS)
    before = snapshot(namespace)
    named = pod_spec("tproxy", more="nftables: {table: pod-1}\n")
    apply(namespace, named)
    with Session(where(namespace.where.text)) as session:
        assert session.backend == "nftables" and session.changes(named).empty
    moved = apply(namespace, pod_spec("redirect", more="nftables: {table: pod-2}\n"))
    assert sum(step.tool == "nft" for step in moved.changes.steps) == 1
    assert "pod-1" not in run(namespace, "nft", "list", "tables")
    remove(namespace)
    assert snapshot(namespace) == before


def test_rules_are_led_back_to_the_spec(namespace: Namespace, tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(f"{HEAD}outbound:\n  excludePorts: [1, 3]\n  groups: [5]\ndns: {{capture: all}}\n")
    found = meshnet("compile", str(path), "--backend", "nftables", "-o", "json").data
    rules = found["rules"]
    assert {rule["line"] for rule in rules if rule["origin"] == "outbound.excludePorts"} == {4}
    assert all(rule["family"] == "inet" and rule["table"] == "meshnet" for rule in rules)
    text = meshnet("compile", str(path), "--backend", "nftables").out
    assert all(rule["rule"] in text for rule in rules)
    nft = "\n".join(step["text"] for step in found["steps"] if step["tool"] == "nft")
    run(namespace, "nft", "-f", "-", text=nft)


@pytest.mark.parametrize("family", ["4", "6"])
def test_one_family_is_compiled_alone(family: str) -> None:
    text = meshnet("compile", "-", "--backend", "nftables", "--family", family, text=HEAD).out
    mine, other = ("ip ", "ip6 ") if family == "4" else ("ip6 ", "ip ")
    assert f"\t\t{mine}saddr" in text and f"\t\t{other}saddr" not in text
    assert f"meta nfproto ipv{family} counter jump nat_out" in text
    assert f"# ip -{family} -batch" in text and text.count("# ip ") == 1


@pytest.mark.parametrize("profile", ["istio", "meshnet"])
@pytest.mark.parametrize("mode", ["REDIRECT", "TPROXY"])
def test_meshnet_init(namespace: Namespace, profile: str, mode: str) -> None:
    before = snapshot(namespace)
    flags = ("-m", mode, "-i", "*", "-b", "*", "--dual-stack", "--profile", profile, "--native-nftables")
    here = ("--network-namespace", namespace.where.text, "--output", "json")
    assert meshnet_init(*here, *flags).data["changed"]
    assert "table inet meshnet" in snapshot(namespace)
    again = meshnet_init(*here, *flags)
    assert (again.data["changed"], again.data["backend"]) == (False, "nftables")
    traced = meshnet_init(*here, *flags, "--iptables-trace-logging")
    assert traced.data["changed"]
    assert 'log prefix "nat.out' in run(namespace, "nft", "list", "table", "inet", "meshnet")
    assert not meshnet_init(*here, *flags, "--iptables-trace-logging").data["changed"]
    assert meshnet_init(*here, env={"NATIVE_NFTABLES": "true"}).data["backend"] == "nftables"
    assert meshnet_init(*here, "--cleanup-only").data["changed"]
    assert snapshot(namespace) == before


def test_meshnet_init_takes_the_variant_s_rules_along(namespace: Namespace) -> None:
    here = ("--network-namespace", namespace.where.text)
    meshnet_init(*here, "-b", "*")
    moved = meshnet_init(*here, "-b", "*", "--native-nftables", "--output", "json")
    assert json.loads(moved.out)["changed"]
    assert "ISTIO" not in run(namespace, "iptables-nft-save")


def test_meshnet_init_prints_the_table_for_whoever_may_not_look(namespace: Namespace) -> None:
    around = ("ip", "netns", "exec", namespace.where.text, "setpriv", "--reuid=1337", "--clear-groups")
    dry = meshnet_init("-b", "*", "-n", "--native-nftables", before=around)
    assert (dry.code, "chain nat_istio_output" in dry.out) == (0, True), dry.err


def test_a_chain_that_somebody_put_in_goes_when_tproxy_takes_over(namespace: Namespace) -> None:
    """For a moment nat's old rules stand beside mangle's new ones, with all that they lead to."""
    before = snapshot(namespace)
    apply(namespace, pod_spec("redirect"))
    lines = "add chain inet meshnet theirs; add chain inet meshnet more; add rule inet meshnet theirs goto more; "
    run(namespace, "nft", f"{lines} insert rule inet meshnet nat_out jump theirs")
    apply(namespace, TPROXY)
    with Session(where(namespace.where.text)) as session:
        assert session.changes(TPROXY).empty
    remove(namespace)
    assert snapshot(namespace) == before


@pytest.mark.parametrize("other", ["iptables-nft", "iptables-legacy"])
@pytest.mark.parametrize("command", ["apply", "remove"])
def test_when_nothing_can_be_taken_away_elsewhere_nothing_is_done_here(
    namespace: Namespace, command: str, other: str
) -> None:
    """nft is gone since: with the new rules left beside the old ones, the two would be in force."""
    apply(namespace, TPROXY)
    if command == "remove":
        with Session(where(namespace.where.text), other) as session:  # type: ignore[arg-type]
            changes.apply(session.host, session.compile(pod_spec("redirect")).plan)
    before = snapshot(namespace)
    words = ("-",) if command == "apply" else ()
    without = ("unshare", "-m", "sh", "-c", WITHOUT_NFT, "sh")
    here = ("--netns", namespace.where.text, "--backend", other)
    answer = meshnet(command, *words, *here, text=HEAD, before=without)
    assert (answer.code, "nft is not installed; the namespace is as it was" in answer.err) == (4, True), answer.err
    assert snapshot(namespace) == before


@pytest.mark.parametrize("other", ["iptables-nft", "iptables-legacy"])
def test_a_dry_run_of_a_move_names_the_tool_of_each_step(namespace: Namespace, other: str) -> None:
    apply(namespace, TPROXY, other)
    for backend in {"nftables", "iptables-nft", "iptables-legacy"} - {other}:
        here = ("--netns", namespace.where.text, "--backend", backend)
        said = meshnet("apply", "-", *here, "-n", text=HEAD)
        assert f"# {other}-restore --noflush" in said.out.splitlines(), said.out
        said = meshnet("diff", "-", *here, "-o", "json", text=HEAD)
        lost = [line for line in said.data["differences"] if line.startswith("- ")]
        assert lost and all(line.startswith(("- iptables-", "- ip6tables-")) for line in lost)
        assert {step["backend"] for step in said.data["steps"]} == {backend, other}


def test_tables_that_no_tool_can_read_are_told(namespace: Namespace) -> None:
    """An image with nft alone, and a pod whose rules an earlier one wrote: both may be in force."""
    apply(namespace, TPROXY, "iptables-nft")
    hide = 'mount --bind /dev/null "$(readlink -f /usr/sbin/iptables-nft-save)"; exec "$@"'
    here = ("--netns", namespace.where.text, "--backend", "nftables")
    for command in (("apply", "-"), ("diff", "-"), ("remove",)):
        answer = meshnet(*command, *here, text=HEAD, before=("unshare", "-m", "sh", "-c", hide, "sh"))
        assert answer.code == 0 and "rules of ours may be in force there" in answer.err, answer.err
