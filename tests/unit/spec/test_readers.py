from __future__ import annotations

import pytest

from meshnet.model.errors import Wrong
from meshnet.spec import readers


@pytest.mark.parametrize(
    "name", ["eth0", "net+", "a", "lo0", "lo0+", "abcdefghijklmno", "abcdefghijklmn+", "a+b", "wg.1", "e@2", "k6t-x"]
)
def test_interface_names(name: str) -> None:
    assert readers.read_interface(name) == name


@pytest.mark.parametrize("word", ["meshnet", "a", "pod-1", "a_b", "a" * 63])
def test_names_of_tables(word: str) -> None:
    assert readers.read_nft_table(word) == word


@pytest.mark.parametrize("word", ["", "1a", "-a", "_a", "A", "a b", "a;b", "a\nb", "ä", "a" * 64])
def test_no_names_of_tables(word: str) -> None:
    with pytest.raises(Wrong, match="not a name of a table"):
        readers.read_nft_table(word)


@pytest.mark.parametrize(("word", "number"), [("0", 0), ("1337", 1337), ("4294967294", 4294967294)])
def test_ids(word: str, number: int) -> None:
    assert readers.read_id(word) == number


@pytest.mark.parametrize(("word", "ends"), [("0", (0, 0)), ("106-108", (106, 108)), ("5-5", (5, 5))])
def test_ranges_of_ids(word: str, ends: tuple[int, int]) -> None:
    found = readers.read_ids(word)
    assert (found.first, found.last) == ends


@pytest.mark.parametrize("word", ["", "-", "-5", "1-2-3", "01-2", "1:2", "1 - 2", "root"])
def test_no_ranges_of_ids(word: str) -> None:
    with pytest.raises(Wrong, match="not a"):
        readers.read_ids(word)


@pytest.mark.parametrize(
    ("word", "number"), [("1", 1), ("1337", 1337), ("0x539", 1337), ("0xFFFFFFFF", 0xFFFFFFFF), ("0x0000000001", 1)]
)
def test_marks(word: str, number: int) -> None:
    assert readers.read_mark(word) == number


@pytest.mark.parametrize(
    "word", ["0X539", "0x", "0xg", "-1", "0b1", "0o17", "017", " 1", "1 ", "0x" + "f" * 17, "0x5_39"]
)
def test_no_marks(word: str) -> None:
    with pytest.raises(Wrong, match="not a mark"):
        readers.read_mark(word)


@pytest.mark.parametrize("word", ["1", "133", "252", "256", "4294967295"])
def test_tables(word: str) -> None:
    assert readers.read_table(word) == int(word)


@pytest.mark.parametrize("table", sorted(readers.KERNEL_TABLES))
def test_the_kernels_tables_are_the_kernels(table: int) -> None:
    with pytest.raises(Wrong, match=readers.KERNEL_TABLES[table]):
        readers.read_table(str(table))


@pytest.mark.parametrize("name", ["a", "0", "a-b", "a" * 63, "nginx-2"])
def test_names(name: str) -> None:
    assert readers.read_name(name) == name


@pytest.mark.parametrize("name", ["", "a" * 64, "a-", "-a", "A", "a.b", "a_b", "\u00e4", "\u0663"])
def test_no_names(name: str) -> None:
    with pytest.raises(Wrong, match="not a name"):
        readers.read_name(name)


@pytest.mark.parametrize("word", ["127.0.0.0", "127.255.255.255", "128.0.0.1", "::7f00:6"])
def test_no_passthrough_addresses(word: str) -> None:
    with pytest.raises(Wrong, match="not a loopback address"):
        readers.read_passthrough4(word)


def test_a_choice_of_one_word() -> None:
    with pytest.raises(Wrong, match=r"unknown word \(b\): a"):
        readers.choice("a")("b")
