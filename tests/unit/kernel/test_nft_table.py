from __future__ import annotations

import errno

import pytest

from meshnet.kernel import nft_table
from meshnet.kernel.netlink import ERROR, text_attribute
from meshnet.model.errors import PermissionMissing, ToolError
from tests.unit.kernel.datagrams import done, listed, play, refused, said
from tests.unit.kernel.tables import TABLE


def chain(table: str, name: str) -> bytes:
    return bytes(4) + text_attribute(nft_table.CHAIN_TABLE, table) + text_attribute(nft_table.CHAIN_NAME, name)


def test_a_table_s_name_and_comment(monkeypatch):
    script = play(monkeypatch, *listed(TABLE))
    assert nft_table.inet_tables() == (("t", "meshnet:table"),)
    assert script.asked == [(nft_table.GET_TABLE, bytes((nft_table.INET, 0, 0, 0)))]


@pytest.mark.parametrize(("family", "number"), [(4, 2), (6, 10)])
def test_tables_of_a_family(monkeypatch, family, number):
    script = play(monkeypatch, *listed(TABLE))
    assert nft_table.tables(family) == ("t",)
    assert script.asked[0][1][0] == number


@pytest.mark.parametrize("code", nft_table.ABSENT)
def test_a_kernel_without_nf_tables(monkeypatch, code):
    play(monkeypatch, refused(code))
    assert nft_table.tables(4) == ()


@pytest.mark.parametrize(("code", "error"), [(errno.EPERM, PermissionMissing), (errno.EIO, ToolError)])
def test_what_can_t_be_listed(monkeypatch, code, error):
    play(monkeypatch, refused(code))
    with pytest.raises(error):
        nft_table.tables(4)


def deleted(monkeypatch, answer, chains=("OUTPUT", "MESHNET_NEW_TABLE")):
    there = said(7, chain("nat", "OUTPUT"), chain("nat", "theirs"), chain("mangle", "OUTPUT"))
    script = play(monkeypatch, there, done(), answer)
    found = nft_table.delete_table(4, "nat", chains)
    return found, script


def test_a_table_goes_with_the_chains_that_it_has_of_those_that_were_named(monkeypatch):
    found, script = deleted(monkeypatch, said(ERROR, bytes(20)))
    (_, batch) = script.asked[1]
    assert found
    assert batch.count(b"OUTPUT\0") == 1, "that of mangle stays"
    assert b"theirs" not in batch and b"MESHNET_NEW_TABLE" not in batch


@pytest.mark.parametrize("code", [errno.EBUSY, errno.ENOENT])
def test_a_table_that_somebody_uses_or_took_away_is_none_of_ours(monkeypatch, code):
    assert not deleted(monkeypatch, refused(code))[0]


@pytest.mark.parametrize(("code", "error"), [(errno.EPERM, PermissionMissing), (errno.EOPNOTSUPP, ToolError)])
def test_what_can_t_be_deleted(monkeypatch, code, error):
    with pytest.raises(error):
        deleted(monkeypatch, refused(code))


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"", ""),
        (b"\0\x03ab\0", "ab"),
        (b"\x05\x01x\0\x02a\0", "a"),
        (b"\x05\x01x", ""),
        (b"\0", ""),
        (b"\0\x00", ""),
        (b"\x05\xff\0\x02a\0", ""),
        (b"\0\xffab", "ab"),
    ],
)
def test_a_comment_among_user_data_and_data_that_are_cut_off(data, found):
    assert nft_table.comment(data) == found
