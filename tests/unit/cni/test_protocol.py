from __future__ import annotations

import pytest

from meshnet.cni.protocol import CniError, is_interface, is_name, read_call, require_version

GOOD = {"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "c-1_x.y", "CNI_IFNAME": "eth0", "CNI_NETNS": "/run/netns/x"}


def test_a_call_is_its_variables() -> None:
    call = read_call(GOOD | {"CNI_ARGS": "IgnoreUnknown=1;K8S_POD_NAME=web;;odd;=x;A=b=c"})
    assert (call.verb, call.container, call.interface, call.netns) == ("ADD", "c-1_x.y", "eth0", "/run/netns/x")
    assert call.arguments == {"IgnoreUnknown": "1", "K8S_POD_NAME": "web", "A": "b=c"}


@pytest.mark.parametrize("verb", ["VERSION", "STATUS", "GC"])
def test_verbs_without_a_container(verb: str) -> None:
    assert read_call({"CNI_COMMAND": verb}).verb == verb


def test_everything_that_is_missing_is_named_at_once() -> None:
    with pytest.raises(CniError) as refused:
        read_call({"CNI_COMMAND": "ADD"})
    assert refused.value.code == 4
    for name in ("CNI_CONTAINERID", "CNI_IFNAME", "CNI_NETNS"):
        assert name in refused.value.message


def test_del_needs_no_namespace() -> None:
    assert read_call({**GOOD, "CNI_COMMAND": "DEL", "CNI_NETNS": ""}).netns == ""


@pytest.mark.parametrize("word", ["a", "A9", "0.a_b-c", "z" * 150])
def test_names(word: str) -> None:
    assert is_name(word)


@pytest.mark.parametrize("word", ["", "-a", ".a", "_a", "a/b", "a b", "a\n", "ä", "..", "../a", "a;b"])
def test_no_names(word: str) -> None:
    assert not is_name(word)


@pytest.mark.parametrize("word", ["eth0", "a-b_c.d", "x" * 15, "@", "ö"])
def test_interfaces(word: str) -> None:
    assert is_interface(word)


@pytest.mark.parametrize("word", ["", ".", "..", "a/b", "a:b", "a b", "a\tb", "x" * 16, "ö" * 8, "\ud800"])
def test_no_interfaces(word: str) -> None:
    assert not is_interface(word)


@pytest.mark.parametrize(
    ("verb", "version", "fine"),
    [
        ("ADD", "0.3.1", True),
        ("CHECK", "0.3.1", False),
        ("CHECK", "0.4.0", True),
        ("GC", "1.0.0", False),
        ("STATUS", "1.0.0", False),
        ("STATUS", "1.1.0", True),
        ("ADD", "0.3.0", False),
        ("ADD", "", False),
        ("DEL", "2.0.0", False),
    ],
)
def test_versions(verb: str, version: str, fine: bool) -> None:
    if fine:
        require_version(verb, version)
        return
    with pytest.raises(CniError) as refused:
        require_version(verb, version)
    assert refused.value.code == 1
