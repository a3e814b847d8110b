from __future__ import annotations

import pytest

from meshnet.apply.host import LiveHost
from meshnet.kernel.fake import FakeXtables
from meshnet.model.plan import Step

MARKED = "*raw\n:MESHNET_NEW_TABLE - [0:0]\nCOMMIT\n"


@pytest.fixture
def host() -> LiveHost:
    return LiveHost(FakeXtables("iptables-nft"), (4,))


def test_it_bears_the_backend_s_name(host):
    assert (host.name, host.families) == ("iptables-nft", (4,))


def test_a_restore_goes_to_the_backend(host):
    host.begin(Step("restore", 4, MARKED)).finish()
    assert "MESHNET_NEW_TABLE" in host.save()[4]
    assert host.tables.save(6) == ""


def test_an_empty_table_is_dropped(host):
    host.begin(Step("restore", 4, MARKED)).finish()
    host.begin(Step("drop", 4, "raw")).finish()
    assert host.save()[4] == ""


def test_a_table_that_others_use_by_now_loses_only_our_mark(host):
    host.begin(Step("restore", 4, MARKED)).finish()
    host.begin(Step("restore", 4, "*raw\n-A OUTPUT -j ACCEPT\nCOMMIT\n")).finish()
    host.begin(Step("drop", 4, "raw")).finish()
    assert "-A OUTPUT -j ACCEPT" in host.save()[4]
    assert "MESHNET_NEW_TABLE" not in host.save()[4]


def test_what_was_seen_already_stands_for_the_first_save_only(host):
    seen = LiveHost(host.tables, (4,), {4: MARKED})
    assert seen.save() == {4: MARKED}
    assert seen.save() == {4: ""}


def test_what_was_seen_has_no_counters(host):
    assert LiveHost(host.tables, (4,), {4: MARKED}).save(counters=True) == {4: ""}


def test_what_was_seen_is_nothing_any_more_after_a_step(host):
    seen = LiveHost(host.tables, (4,), {4: "*nat\nCOMMIT\n"})
    seen.begin(Step("restore", 4, MARKED)).finish()
    assert "*raw" in seen.save()[4]
