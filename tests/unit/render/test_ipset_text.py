from __future__ import annotations

import pytest

from meshnet.model.plan import SetText
from meshnet.render.ipset_text import BESIDE, destroyed, exchanged, made

FOUR = SetText("MESHNET_A", "hash:net", 4, ((0x0A000000, 8), (0, 0)))
SIX = SetText("MESHNET_B", "hash:net", 6, ((0xFD << 120, 8),))
PORTS = SetText("MESHNET_C", "bitmap:port", 0, ((80, 80), (0, 9), (65535, 65535)))


def test_a_set_of_blocks_is_made_emptied_and_filled():
    assert made(FOUR).splitlines() == [
        "create -exist MESHNET_A hash:net family inet hashsize 1024 maxelem 65536",
        "flush MESHNET_A",
        "add MESHNET_A 10.0.0.0/8",
        "add MESHNET_A 0.0.0.0/0",
    ]
    assert "family inet6" in made(SIX) and "add MESHNET_B fd00::/8\n" in made(SIX)


def test_a_set_of_ports():
    assert made(PORTS).splitlines()[2:] == ["add MESHNET_C 80", "add MESHNET_C 0-9", "add MESHNET_C 65535"]


@pytest.mark.parametrize(
    ("count", "size", "most"), [(0, 1024, 65536), (1024, 1024, 65536), (1025, 2048, 65536), (70000, 131072, 70000)]
)
def test_a_hash_has_room_for_all_its_members(count, size, most):
    head = made(SetText("A", "hash:net", 4, tuple((number, 32) for number in range(count)))).splitlines()[0]
    assert head.endswith(f"hashsize {size} maxelem {most}")


def test_another_content_is_made_beside_and_swapped():
    lines = exchanged(FOUR).splitlines()
    assert lines[0].startswith(f"create -exist {BESIDE} ")
    assert lines[-2:] == [f"swap {BESIDE} MESHNET_A", f"destroy {BESIDE}"]
    assert all("MESHNET_A" not in line for line in lines[:-2])


def test_every_line_ends():
    for text in (made(FOUR), exchanged(PORTS), destroyed(["a", "b"])):
        assert text.endswith("\n") and "\n\n" not in text
    assert destroyed(()) == ""
