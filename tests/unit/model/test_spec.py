from __future__ import annotations

import pytest

from meshnet.model.cidr import read_cidr
from meshnet.model.errors import Wrong
from meshnet.model.ports import PortRange
from meshnet.model.spec import IdRange, Inbound, Marks, Outbound, Passthrough, Sidecar, Spec, port
from meshnet.spec.check import problems


def test_the_default_is_a_good_spec() -> None:
    assert problems(Spec()) == []
    assert Spec().inbound.active and Spec().outbound.active and Spec().sidecar.known


@pytest.mark.parametrize(
    "nothing", [Inbound(mode="none"), Inbound(ports=()), Outbound(mode="none"), Outbound(cidrs=())]
)
def test_what_captures_nothing_is_not_active(nothing: Inbound | Outbound) -> None:
    assert not nothing.active


@pytest.mark.parametrize(
    "something", [Inbound(mode="redirect"), Inbound(ports=(port(80),)), Outbound(cidrs=(), ports=(PortRange(1, 2),))]
)
def test_what_captures_something_is_active(something: Inbound | Outbound) -> None:
    assert something.active


@pytest.mark.parametrize(
    ("sidecar", "known"),
    [
        (Sidecar((), ()), False), (Sidecar((0,), ()), True), (Sidecar((), (0,)), True), (Sidecar((), (), 1), True),
    ],
)  # fmt: skip
def test_who_the_sidecar_is(sidecar: Sidecar, known: bool) -> None:
    assert sidecar.known is known


def test_marks_carry_their_mask() -> None:
    marks = Marks(1, 2, 3)
    assert (str(marks.inbound_mark), str(marks.outbound_mark)) == ("0x1/0x3", "0x2/0x3")


def test_passthrough_by_family() -> None:
    assert Passthrough().of(4) == read_cidr("127.0.0.6")
    assert Passthrough().of(6) == read_cidr("::6")


@pytest.mark.parametrize("ends", [(2, 1), (-1, 1), (0, 4294967295)])
def test_no_range_of_ids(ends: tuple[int, int]) -> None:
    with pytest.raises(Wrong, match="no range of ids"):
        IdRange(*ends)


def test_a_range_of_ids() -> None:
    assert [IdRange(5, 7).covers(number) for number in (4, 5, 7, 8)] == [False, True, True, False]
    assert (str(IdRange(5, 7)), str(IdRange(5, 5))) == ("5-7", "5")
