"""Namespaces, links, addresses and locks on the real kernel."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from meshnet.kernel import links, netns
from meshnet.kernel.detect import choose, evidence
from meshnet.kernel.run import run
from meshnet.kernel.savetext import sections
from meshnet.kernel.xtables import Xtables, foreign_to_tools, legacy_tables
from meshnet.kernel.xtables_legacy import LegacyLibrary
from meshnet.model.errors import BusyError, NamespaceError, ToolError
from tests.netns import vocabulary


def here():
    return Path("/proc/thread-self/ns/net").stat().st_ino


def test_one_namespace_by_three_names(namespace):
    name = namespace.where.text
    holder = subprocess.Popen(["nsenter", f"--net=/run/netns/{name}", "sleep", "60"])
    try:
        deadline = time.monotonic() + 10
        while Path(f"/proc/{holder.pid}/ns/net").stat().st_ino != namespace.inode and time.monotonic() < deadline:
            time.sleep(0.01)
        for place in (netns.where(name), netns.where(f"/var/run/netns/{name}"), netns.where(pid=holder.pid)):
            with netns.open_namespace(place) as other:
                assert (other.inode, other.is_current, other.is_initial) == (namespace.inode, False, False)
    finally:
        holder.kill()
        holder.wait()


def test_in_and_out_again_also_after_an_exception(namespace):
    before = here()
    with namespace.entered():
        assert here() == namespace.inode
        assert namespace.is_current
        assert not netns.in_birthplace()
        with namespace.entered():
            assert here() == namespace.inode
        assert here() == namespace.inode
        assert f"net:[{namespace.inode}]" in run(["readlink", "/proc/self/ns/net"]).out
    assert here() == before
    with pytest.raises(ZeroDivisionError), namespace.entered():
        raise ZeroDivisionError
    assert here() == before
    assert netns.in_birthplace()


def test_only_the_calling_thread_moves(scratch):
    one, two = scratch(), scratch()
    seen = {}
    both = threading.Barrier(2)

    def stay(namespace):
        with namespace.entered():
            both.wait(10)
            seen[namespace.inode] = (here(), run(["readlink", "/proc/self/ns/net"]).out.strip())

    threads = [threading.Thread(target=stay, args=(item,)) for item in (one, two)]
    before = here()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {item.inode: (item.inode, f"net:[{item.inode}]") for item in (one, two)}
    assert here() == before


def test_made_and_deleted_by_name():
    name = f"mkk{os.getpid()}made"
    netns.create(name)
    try:
        assert name in run(["ip", "netns", "list"]).out
        with pytest.raises(NamespaceError, match="exists already"):
            netns.create(name)
    finally:
        netns.delete(name)
    assert name not in run(["ip", "netns", "list"]).out
    with pytest.raises(NamespaceError, match="no network namespace"):
        netns.delete(name)


def test_a_name_left_behind_is_no_namespace():
    path = Path(f"/run/netns/mkk{os.getpid()}left")
    path.touch()
    try:
        with pytest.raises(NamespaceError, match="is no namespace"):
            netns.open_namespace(netns.where(path.name))
    finally:
        path.unlink()


def test_two_processes_by_two_paths_exclude_each_other(namespace):
    program = (
        "import sys\n"
        "from meshnet.kernel import netns\n"
        "from meshnet.model.errors import BusyError\n"
        "try:\n"
        "    with netns.open_namespace(netns.where(sys.argv[1])) as found, netns.held(found, 0.1): print('in')\n"
        "except BusyError: print('busy')\n"
    )

    def other():
        argv = [sys.executable, "-c", program, f"/proc/{os.getpid()}/fd/{namespace.fd}"]
        return run(argv).out.strip()

    with netns.held(namespace, 1):
        assert other() == "busy"
    assert other() == "in"


def test_without_capabilities_the_missing_one_is_named(namespace):
    program = (
        "import sys\n"
        "from meshnet.kernel import netns\n"
        "from meshnet.model.errors import PermissionMissing\n"
        "print(netns.missing_capabilities(('CAP_NET_ADMIN', 'CAP_SYS_ADMIN')))\n"
        "try:\n"
        "    with netns.open_namespace(netns.where(sys.argv[1])).entered(): print('in')\n"
        "except PermissionMissing as error: print(error.message)\n"
    )
    argv = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin", sys.executable, "-c", program]
    done = run([*argv, namespace.where.text])
    assert done.out.splitlines() == ["('CAP_SYS_ADMIN',)", f"entering {namespace.where} needs CAP_SYS_ADMIN"]


def test_a_cable_with_addresses_is_usable_at_once(scratch):
    client, pod = scratch(), scratch()
    before = sorted(Path("/proc/self/fd").iterdir()), sorted(Path("/proc/self/task").iterdir())
    for namespace in (client, pod):
        links.quiet_ipv6(namespace)
    links.veth(client, "eth0", pod, "eth1")
    for namespace, link, last in ((client, "eth0", 1), (pod, "eth1", 2)):
        links.address(namespace, link, f"10.9.0.{last}/24")
        links.address(namespace, link, f"fd09::{last}/64")
        links.up(namespace, "lo", link)
    links.address(pod, "lo", "::6/128")
    links.route(client, "default", via="10.9.0.2")
    links.route(client, "default6", via="fd09::2")
    links.route(client, "fd10::/16", dev="eth0")
    links.neighbour(client, "eth0", "fd09::2", links.mac(pod, "eth1"))
    found = {(item.link, item.address, item.prefix, item.scope) for item in links.addresses(pod)}
    assert {
        ("lo", "127.0.0.1", 8, "host"),
        ("lo", "::6", 128, "global"),
        ("eth1", "10.9.0.2", 24, "global"),
        ("eth1", "fd09::2", 64, "global"),
    } <= found
    assert links.names(pod) == ("lo", "eth1")
    assert links.read_sysctl(pod, "net.ipv6.conf.eth1.accept_dad") == "0"
    with pod.entered():
        server = socket.create_server(("fd09::2", 80), family=10)
    with client.entered(), server, socket.create_connection(("fd09::2", 80), 5) as connection:
        assert connection.getpeername()[0] == "fd09::2"
    with client.entered():
        assert "default via 10.9.0.2 dev eth0" in run(["ip", "route"]).out
        six = run(["ip", "-6", "route"]).out
        assert "default via fd09::2" in six
        assert "fd10::/16 dev eth0" in six
    links.delete_address(pod, "lo", "::6/128")
    assert not any(item.address == "::6" for item in links.addresses(pod))
    links.bridge(pod, "br0", ("eth1",))
    links.delete_link(pod, "br0")
    links.delete_link(client, "eth0")
    assert links.names(pod) == ("lo",)
    assert (sorted(Path("/proc/self/fd").iterdir()), sorted(Path("/proc/self/task").iterdir())) == before


def test_the_kernels_refusals_are_told(namespace):
    before = here()
    for refused, words in (
        (lambda: links.up(namespace, "nosuch"), "no link nosuch"),
        (lambda: links.address(namespace, "lo", "10.0.0.1/99"), "adding 10.0.0.1/99"),
        (lambda: links.route(namespace, "10.0.0.0/8", via="10.1.1.1"), "unreachable"),
        (lambda: links.sysctl(namespace, "net.ipv4.nosuch", 1), "net.ipv4.nosuch"),
        (lambda: links.read_sysctl(namespace, "net.ipv4.nosuch"), "net.ipv4.nosuch"),
        (lambda: links.veth(namespace, "lo", namespace, "x"), "exists"),
    ):
        with pytest.raises(ToolError, match=words):
            refused()
    assert here() == before


def test_sysctls_of_a_namespace_are_its_own(namespace):
    outside = Path("/proc/sys/net/ipv4/conf/lo/route_localnet").read_text().strip()
    other = "0" if outside == "1" else "1"
    links.sysctl(namespace, "net.ipv4.conf.lo.route_localnet", other)
    assert links.read_sysctl(namespace, "net/ipv4/conf/lo/route_localnet") == other
    assert Path("/proc/sys/net/ipv4/conf/lo/route_localnet").read_text().strip() == outside


@pytest.fixture
def taken(tmp_path):
    path = tmp_path / "lock"
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield str(path)


@pytest.mark.parametrize("kind", ["legacy", "libiptc"])
def test_a_lock_that_another_holds_is_waited_for_a_bounded_time(kind, inside, taken):
    makers = {"legacy": lambda: Xtables("legacy", lock_wait=1, lock_path=taken)}
    makers["libiptc"] = lambda: LegacyLibrary(lock_wait=1, lock_path=taken)
    begun = time.monotonic()
    with pytest.raises(BusyError, match="xtables lock"):
        makers[kind]().restore(4, "*nat\n-A OUTPUT -j ACCEPT\nCOMMIT\n")
    assert 0.9 < time.monotonic() - begun < 5
    assert legacy_tables(4) == ()


@pytest.mark.parametrize("kind", ["legacy", "libiptc"])
def test_pods_do_not_wait_for_the_hosts_lock(kind, inside, taken, monkeypatch):
    monkeypatch.setenv("XTABLES_LOCKFILE", taken)
    begun = time.monotonic()
    (Xtables("legacy") if kind == "legacy" else LegacyLibrary()).restore(4, "*nat\n-A OUTPUT -j ACCEPT\nCOMMIT\n")
    assert time.monotonic() - begun < 4


@pytest.mark.parametrize("family", [4, 6])
def test_the_library_does_exactly_what_the_tool_does(family, scratch):
    with scratch().entered():
        Xtables("legacy").restore(family, vocabulary.text(family))
        by_tool = vocabulary.plain(Xtables("legacy").save(family))
    with scratch().entered():
        LegacyLibrary().restore(family, vocabulary.text(family))
        assert vocabulary.plain(Xtables("legacy").save(family)) == by_tool
        assert vocabulary.plain(LegacyLibrary().save(family)) == by_tool
        counted = vocabulary.plain(Xtables("legacy").save(family, counters=True))
        assert vocabulary.plain(LegacyLibrary().save(family, counters=True)) == counted


@pytest.mark.parametrize("variant", ["nft", "legacy"])
def test_both_variants_print_the_same_rules(variant, inside):
    Xtables(variant).restore(4, vocabulary.text(4))
    assert vocabulary.rules(Xtables(variant).save(4)) == vocabulary.rules(vocabulary.text(4))


def test_the_library_creates_only_the_tables_it_is_given(inside):
    LegacyLibrary().restore(4, "*nat\n:MESHNET_A - [0:0]\n-A OUTPUT -j MESHNET_A\nCOMMIT\n")
    assert legacy_tables(4) == ("nat",)
    assert legacy_tables(6) == ()


def test_many_rules_are_not_quadratic(inside):
    def seconds(count):
        rules = "".join(
            f"-A MESHNET_B -d 10.{number >> 8}.{number & 255}.0/24 -p tcp -m tcp --dport {number % 999 + 1} -j RETURN\n"
            for number in range(count)
        )
        begun = time.monotonic()
        LegacyLibrary().restore(4, f"*nat\n:MESHNET_B - [0:0]\n{rules}COMMIT\n")
        taken = time.monotonic() - begun
        assert LegacyLibrary().save(4).count("\n-A ") == count
        return taken

    assert seconds(20_000) < 30 * seconds(2_000)


def test_evidence_is_gathered_without_a_trace_and_counts(inside):
    seen = evidence()
    assert legacy_tables(4) == ()
    assert run(["nft", "list", "tables"]).out == ""
    assert all(item.usable and not found.ours and not found.foreign for item in seen for found in item.found)
    Xtables("legacy").restore(4, vocabulary.text(4) + "*filter\n-A INPUT -j ACCEPT\nCOMMIT\n")
    Xtables("nft").restore(6, "*filter\n-A INPUT -j ACCEPT\n-A INPUT -j ACCEPT\nCOMMIT\n")
    seen = evidence()
    legacy, nft = seen[0].of("legacy"), seen[1].of("nft")
    assert (legacy.ours, legacy.foreign) == (vocabulary.text(4).count("\n-A "), 1)
    assert (nft.ours, nft.foreign) == (0, 2)
    assert choose(seen).backend == "iptables-legacy"


def test_an_empty_nft_table_leaves_nothing_behind_and_a_used_one_stays(inside):
    nft = Xtables("nft")
    nft.restore(4, "*nat\n-A OUTPUT -j ACCEPT\nCOMMIT\n*nat\n-D OUTPUT -j ACCEPT\nCOMMIT\n")
    assert run(["nft", "-f", "-"], text="add set ip nat theirs { type ipv4_addr; }").ok
    assert not nft.delete_empty_table(4, "nat")
    assert "set theirs" in run(["nft", "list", "table", "ip", "nat"]).out
    assert run(["nft", "delete", "set", "ip", "nat", "theirs"]).ok
    nft.restore(4, "*nat\nCOMMIT\n")
    assert nft.delete_empty_table(4, "nat") or run(["nft", "list", "tables"]).out == ""
    assert run(["nft", "list", "tables"]).out == ""


def test_a_table_with_chains_that_the_tool_cannot_print_is_left_alone(inside):
    text = "table ip mangle {\n chain theirs {\n type filter hook prerouting priority -150\n }\n}\n"
    assert run(["nft", "-f", "-"], text=text).ok
    before = run(["nft", "list", "ruleset"]).out
    nft = Xtables("nft")
    assert all(section.empty for section in sections(nft.save(4)))
    assert foreign_to_tools(nft.save(4), "mangle")
    assert not nft.delete_empty_table(4, "mangle")
    assert run(["nft", "list", "ruleset"]).out == before


def test_a_library_that_dies_is_told_in_words(inside):
    from meshnet.kernel.xtables_legacy import working

    with pytest.raises(ToolError, match="ended by signal 9"):
        working(lambda: str(os.kill(os.getpid(), 9))).finish()
    with pytest.raises(ToolError, match="ended with status 42"):
        working(lambda: os._exit(42)).finish()
