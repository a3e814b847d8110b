"""What the tools print for words that mean the same as others: whoever compares texts feeds the right-hand side."""

from __future__ import annotations

import pytest

from meshnet.kernel.fake import FakeXtables
from meshnet.kernel.savetext import sections
from meshnet.kernel.xtables import Xtables
from meshnet.kernel.xtables_legacy import LegacyLibrary

BOTH = {
    "-p tcp --dport 81 -j RETURN": "-p tcp -m tcp --dport 81 -j RETURN",
    "-p tcp -m tcp --syn -j RETURN": "-p tcp -m tcp --tcp-flags FIN,SYN,RST,ACK SYN -j RETURN",
    "-p tcp -m tcp ! --syn -j RETURN": "-p tcp -m tcp ! --tcp-flags FIN,SYN,RST,ACK SYN -j RETURN",
    "-p tcp -m tcp --dport 80:80 -j RETURN": "-p tcp -m tcp --dport 80 -j RETURN",
    "-p tcp -m tcp --dport 0:65535 -j RETURN": "-p tcp -m tcp -j RETURN",
    "-p 6 -j RETURN": "-p tcp -j RETURN",
    "-o lo -i eth0 -j RETURN": "-i eth0 -o lo -j RETURN",
    "-m mark --mark 0x539/0xffffffff -j RETURN": "-m mark --mark 0x539 -j RETURN",
    "-m owner --uid-owner 1337-1337 -j RETURN": "-m owner --uid-owner 1337 -j RETURN",
    '-m comment --comment "plain" -j RETURN': "-m comment --comment plain -j RETURN",
    '-j RETURN -m comment --comment "a:b"': '-m comment --comment "a:b" -j RETURN',
    "-m conntrack --ctstate NEW,ESTABLISHED,RELATED,INVALID -j RETURN": "-m conntrack --ctstate "
    "INVALID,NEW,RELATED,ESTABLISHED -j RETURN",
    "-j MARK --set-mark 0x1/0x1": "-j MARK --set-xmark 0x1/0x1",
    "-j CONNMARK --save-mark": "-j CONNMARK --save-mark --nfmask 0xffffffff --ctmask 0xffffffff",
}
FOUR = {
    "-s 10.1.2.3 -j RETURN": "-s 10.1.2.3/32 -j RETURN",
    "-d 0.0.0.0/0 -j RETURN": "-j RETURN",
    "-d 10.0.0.5/24 -j RETURN": "-d 10.0.0.0/24 -j RETURN",
    "-s 10.0.0.0/255.0.0.0 -j RETURN": "-s 10.0.0.0/8 -j RETURN",
    "-d 10.0.0.0/8 -s 127.0.0.1/32 -j RETURN": "-s 127.0.0.1/32 -d 10.0.0.0/8 -j RETURN",
}
SIX = {
    "-d ::ffff:0:0/96 -j RETURN": "-d ::ffff:0.0.0.0/96 -j RETURN",
    "-d ::102:304/128 -j RETURN": "-d ::1.2.3.4/128 -j RETURN",
    "-d ::6/128 -j RETURN": "-d ::6/128 -j RETURN",
    "-d FD00:0::0001 -j RETURN": "-d fd00::1/128 -j RETURN",
}
CASES = [(family, *pair) for family, more in ((4, FOUR), (6, SIX)) for pair in {**BOTH, **more}.items()]
MAKERS = {"nft": lambda: Xtables("nft"), "legacy": lambda: Xtables("legacy"), "libiptc": LegacyLibrary}


@pytest.mark.parametrize("kind", sorted(MAKERS))
@pytest.mark.parametrize("family", [4, 6])
def test_the_tools_rewrite_these_words_and_no_others(kind, family, inside):
    fed = [rule for owner, rule, _ in CASES if owner == family]
    printed = [f"-A MESHNET_A {rule}" for owner, _, rule in CASES if owner == family]
    rules = "".join(f"-A MESHNET_A {rule}\n" for rule in fed)
    filter_ = MAKERS[kind]()
    filter_.restore(family, f"*mangle\n:MESHNET_A - [0:0]\n{rules}COMMIT\n")
    assert sections(filter_.save(family))[0].lines == printed


@pytest.mark.parametrize("make", [FakeXtables, *MAKERS.values()])
def test_user_chains_are_printed_in_order_of_their_names(make, inside):
    filter_ = make()
    filter_.restore(4, "*nat\n:MESHNET_Z - [0:0]\n:MESHNET_A - [0:0]\nCOMMIT\n")
    assert list(sections(filter_.save(4))[0].chains)[-2:] == ["MESHNET_A", "MESHNET_Z"]
