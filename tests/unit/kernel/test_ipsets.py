"""What the kernel (6.18) said of sets, recorded byte for byte, and what is asked of ``ipset``."""

from __future__ import annotations

import errno

import pytest

from meshnet.kernel import ipsets
from meshnet.kernel.run import Ran
from meshnet.model.errors import PermissionMissing, ToolError
from meshnet.model.plan import SetText
from tests.unit.kernel.datagrams import listed, play, refused

NAME0 = (  # MESHNET_6_1
    "020000000500010006000000100002004d4553484e45545f365f31000d000300686173683a6e657400000000050005000a0000000500"
    "0400070000003c00078008001240000004000800134000010000050015000c000000080011403d05cc58080019400000000008001a40"
    "000005680800184000000002"
)
NAME1 = (  # MESHNET_P_1
    "020000000500010006000000100002004d4553484e45545f505f3100100003006269746d61703a706f72740005000500000000000500"
    "0400030000002c000780060004400000000006000540ffff0000080019400000000008001a40000020480800184000000002"
)
NAME2 = (  # OTHER
    "0200000005000100060000000a0002004f544845520000000c000300686173683a697000050005000200000005000400060000003c00"
    "078008001240000004000800134000010000050015000c00000008001140e54dad0b080019400000000008001a40000000d808001840"
    "00000000"
)
NET6 = (  # hash:net of fd00::/8 and ::1
    "020000000500010006000000100002004d4553484e45545f365f31000d000300686173683a6e657400000000050005000a0000000500"
    "0400070000003c00078008001240000004000800134000010000050015000c000000080011403d05cc58080019400000000008001a40"
    "0000056808001840000000024c0008802400078018000180140002000000000000000000000000000000000105000300800000002400"
    "07801800018014000200fd0000000000000000000000000000000500030008000000"
)
PORTS = (  # bitmap:port of 80-81
    "020000000500010006000000100002004d4553484e45545f505f3100100003006269746d61703a706f72740005000500000000000500"
    "0400030000002c000780060004400000000006000540ffff0000080019400000000008001a400000204808001840000000021c000880"
    "0c00078006000440005000000c0007800600044000510000"
)


@pytest.fixture(autouse=True)
def _made_once(monkeypatch):
    monkeypatch.setattr(ipsets, "MODULE", "/")


def test_sets_of_ours(monkeypatch):
    script = play(monkeypatch, *listed(NAME0, NAME1, NAME2), *listed(NET6), *listed(PORTS))
    assert ipsets.read("MESHNET_") == (
        SetText("MESHNET_6_1", "hash:net", 6, ((1, 128), (0xFD << 120, 8))),
        SetText("MESHNET_P_1", "bitmap:port", 0, ((80, 81),)),
    )
    assert len(script.asked) == 3, "nobody else's set is read"


def test_no_look_where_no_set_ever_was(monkeypatch):
    monkeypatch.setattr(ipsets, "MODULE", "/sys/module/no-such-module")
    script = play(monkeypatch)
    assert ipsets.read("MESHNET_") == () and script.asked == []


@pytest.mark.parametrize("code", ipsets.ABSENT)
def test_a_kernel_without_sets(monkeypatch, code):
    play(monkeypatch, refused(code))
    assert ipsets.read("MESHNET_") == ()


def test_without_capability(monkeypatch):
    play(monkeypatch, refused(errno.EPERM))
    with pytest.raises(PermissionMissing):
        ipsets.read("M")
    play(monkeypatch, refused(errno.EIO))
    with pytest.raises(ToolError):
        ipsets.read("M")


class Kernel:
    """What answers a request to take a set away: with ``codes``, and then with 0."""

    def __init__(self, monkeypatch, **codes):
        self.codes, self.asked, self.clock = codes, [], 0.0
        monkeypatch.setattr(ipsets, "Netlink", lambda *_: self)
        monkeypatch.setattr(ipsets.time, "sleep", self.sleep)
        monkeypatch.setattr(ipsets.time, "monotonic", lambda: self.clock)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def carry_out(self, request):
        name = ipsets.text(ipsets.attributes(request, 20)[ipsets.NAME])  # behind the headers of netlink and netfilter
        self.asked.append(name)
        codes = self.codes.get(name, [])
        return codes.pop(0) if codes else 0

    def sleep(self, seconds):
        self.clock += seconds


def test_a_set_that_a_rule_lets_go_of_late_is_tried_again_alone(monkeypatch):
    kernel = Kernel(monkeypatch, b=[errno.EBUSY] * 2)
    ipsets.destroy(("a", "b", "c"))
    assert kernel.asked == ["a", "b", "c", "b", "b"]


def test_a_set_that_somebody_still_looks_into_stays(monkeypatch):
    kernel = Kernel(monkeypatch, a=[errno.EBUSY] * 10_000)
    ipsets.destroy(("a",))
    assert kernel.clock >= ipsets.PATIENCE
    assert len(kernel.asked) < 1000


def test_a_set_that_is_gone_already_is_gone(monkeypatch):
    kernel = Kernel(monkeypatch, a=[errno.ENOENT])
    ipsets.destroy(("a",))
    assert kernel.asked == ["a"]


def test_no_set_to_destroy_asks_nobody(monkeypatch):
    kernel = Kernel(monkeypatch)
    ipsets.destroy(())
    assert kernel.asked == []


def test_taking_a_set_away_without_the_capability(monkeypatch):
    Kernel(monkeypatch, a=[errno.EPERM])
    with pytest.raises(PermissionMissing):
        ipsets.destroy(("a",))


@pytest.mark.parametrize("code", [0, 1])
def test_a_refusal_has_the_tool_s_words(monkeypatch, code):
    class Started:
        def wait(self):
            return Ran(("ipset",), code, "", "Error in line 3")

    monkeypatch.setattr(ipsets, "start", lambda argv, text: Started() if text == "create x" else None)
    work = ipsets.begin("create x")
    if not code:
        assert work.finish() is None
        return
    with pytest.raises(ToolError) as refused_:
        work.finish()
    assert refused_.value.detail == "Error in line 3"
