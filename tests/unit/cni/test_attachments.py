from __future__ import annotations

import os
from pathlib import Path

import pytest

from meshnet.cni.attachments import Attachment, Attachments
from meshnet.cni.protocol import CniError
from meshnet.model.value import replace

ONE = Attachment("net", "one.a-b", "eth0", "/run/netns/x", 4, 4026532000, "shop/web", {"name": "x"})


@pytest.fixture
def kept(tmp_path: Path) -> Attachments:
    return Attachments(str(tmp_path / "state"))


def test_what_is_kept_is_found(kept: Attachments) -> None:
    assert kept.find("net", "one.a-b", "eth0") is None
    kept.keep(ONE)
    kept.keep(ONE)
    assert kept.find("net", "one.a-b", "eth0") == ONE
    assert list(kept.of_network("net")) == [ONE]
    assert list(kept.of_network("other")) == []
    kept.drop("net", "one.a-b", "eth0")
    kept.drop("net", "one.a-b", "eth0")
    assert list(kept.of_network("net")) == []


def test_a_new_namespace_takes_the_old_one_s_place(kept: Attachments) -> None:
    kept.keep(ONE)
    kept.keep(replace(ONE, inode=7))
    assert [found.inode for found in kept.of_network("net")] == [7]


def test_neighbours_in_a_namespace_are_found_across_networks(kept: Attachments) -> None:
    second, third = replace(ONE, network="second"), replace(ONE, interface="net@1", network="third")
    for item in (ONE, second, third, replace(ONE, container="elsewhere", inode=5)):
        kept.keep(item)
    assert kept.others_in(4, 4026532000, ("net", "one.a-b", "eth0")) == [second, third]


def test_what_a_killed_plugin_left_is_swept_and_what_others_wrote_is_let_be(kept: Attachments, tmp_path: Path) -> None:
    kept.keep(ONE)
    folder = tmp_path / "state" / "net"
    for name in ("half.999999999", f"half.{os.getpid()}", "4.5.broken@eth0.json", "notes.txt"):
        (folder / name).write_text("{")
    assert list(kept.of_network("net")) == [ONE]
    assert not (folder / "half.999999999").exists()
    assert (folder / f"half.{os.getpid()}").exists()
    assert (folder / "notes.txt").exists()


@pytest.mark.parametrize("text", ["", "[]", '{"form": 1}', '{"form": 2, "network": "net"}'])
def test_a_file_of_another_form_is_passed_over(kept: Attachments, tmp_path: Path, text: str) -> None:
    kept.keep(ONE)
    (path,) = (tmp_path / "state" / "net").iterdir()
    path.write_text(text)
    assert kept.find("net", "one.a-b", "eth0") is None


def test_a_folder_that_can_t_be_used_is_an_i_o_failure(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    with pytest.raises(CniError) as refused:
        Attachments(str(tmp_path / "state")).keep(ONE)
    assert refused.value.code == 5


def test_the_longest_names_fit_a_file_s_name(kept: Attachments) -> None:
    long = replace(ONE, network="n" * 200, container="c" * 200, interface="i" * 15, device=2**32, inode=2**32)
    kept.keep(long)
    assert list(kept.of_network("n" * 200)) == [long]
