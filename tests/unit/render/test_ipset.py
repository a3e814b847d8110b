from __future__ import annotations

from meshnet.model.cidr import read_cidr
from meshnet.model.plan import SetText
from meshnet.render.ipset_text import destroyed, exchanged, made
from meshnet.render.plan import render
from tests.unit.compile.compiling import program

BLOCKS = [f"10.{n}.0.0/17" for n in range(120)]


def plan(blocks, field="excludeCidrs", backend="", **more):
    listed = ", ".join(f'"{block}"' for block in blocks)
    return render(program(f"outbound: {{{field}: [{listed}]}}\n"), backend, **more)


def test_a_long_list_is_one_set_for_all_rules():
    found = plan(BLOCKS)
    (made_set,) = found.sets
    assert (made_set.type, made_set.family, len(made_set.members)) == ("hash:net", 4, 120)
    assert made_set.name.startswith("MESHNET_4_") and len(made_set.name) < 32
    rules = [rule for rule in found.rules() if "exclude.cidrs" in rule]
    comment = '-m comment --comment "meshnet:{}.exclude.cidrs" -j RETURN'
    assert rules == [f"-m set --match-set {made_set.name} dst {comment.format(w)}" for w in ("mangle.self", "nat.out")]


def test_neighbours_are_joined_first():
    """A list that is short when its neighbours are one needs no set: a rule for each entry as it was written."""
    halves = [f"10.{n // 2}.{128 * (n % 2)}.0/17" for n in range(120)]
    assert plan(halves).sets == ()
    many = [f"10.{n // 2}.{128 * (n % 2)}.0/17" for n in range(400)]
    assert len(plan(many).sets) == 0
    apart = [*BLOCKS, "10.0.128.0/17"]
    (found,) = plan(apart).sets
    assert len(found.members) == 120 and (read_cidr("10.0.0.0/16").network, 16) in found.members


def test_the_name_tells_the_content():
    one, same, other = plan(BLOCKS), plan(list(reversed(BLOCKS))), plan([*BLOCKS, "192.0.2.0/24"])
    assert one.sets[0].name == same.sets[0].name != other.sets[0].name


def test_no_sets_where_there_may_be_none():
    assert plan(BLOCKS, sets=False).sets == ()
    assert sum("exclude.cidrs" in rule for rule in plan(BLOCKS, sets=False).rules()) == 240
    assert plan(BLOCKS, backend="nftables").sets == ()
    assert plan(BLOCKS[:99]).sets == ()


def test_every_address_is_no_set():
    assert plan([*BLOCKS, "0.0.0.0/0"]).sets == ()


def test_ports():
    listed = ", ".join(str(1000 + 2 * n) for n in range(100))
    found = render(program(f"outbound: {{excludePorts: [{listed}]}}\n"))
    (made_set,) = found.sets
    assert (made_set.type, made_set.family, made_set.members[0]) == ("bitmap:port", 0, (1000, 1000))
    rules = [rule for rule in found.rules() if "nat.out.exclude.ports" in rule]
    assert len(rules) == 2 and all(rule.startswith(f"-p tcp -m set --match-set {made_set.name} dst") for rule in rules)


NET = SetText("MESHNET_6_1", "hash:net", 6, ((1, 128), (2 << 112, 16)))
PORT = SetText("MESHNET_P_1", "bitmap:port", 0, ((80, 80), (90, 95)))


def test_texts():
    assert made(NET).splitlines() == [
        "create -exist MESHNET_6_1 hash:net family inet6 hashsize 1024 maxelem 65536",
        "flush MESHNET_6_1",
        "add MESHNET_6_1 ::1/128",
        "add MESHNET_6_1 2::/16",
    ]
    assert exchanged(PORT).splitlines() == [
        "create -exist MESHNET_BESIDE bitmap:port range 0-65535",
        "flush MESHNET_BESIDE",
        "add MESHNET_BESIDE 80",
        "add MESHNET_BESIDE 90-95",
        "swap MESHNET_BESIDE MESHNET_P_1",
        "destroy MESHNET_BESIDE",
    ]
    assert destroyed(["a", "b"]) == "destroy a\ndestroy b\n"
    many = SetText("MESHNET_4_2", "hash:net", 4, tuple((n << 8, 24) for n in range(70000)))
    assert "hashsize 131072 maxelem 70000" in made(many).splitlines()[0]
