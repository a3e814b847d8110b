from __future__ import annotations

import pytest

from meshnet.kernel.fake import FakeXtables
from meshnet.model.errors import BusyError

NAT = "*nat\n:MESHNET_A - [0:0]\nCOMMIT\n"


def test_a_failure_can_be_ordered_for_the_nth_restore():
    fake = FakeXtables()
    fake.failures[2] = BusyError("taken")
    fake.restore(4, NAT)
    with pytest.raises(BusyError):
        fake.restore(6, NAT)
    fake.restore(6, NAT)
    assert [family for family, _ in fake.texts] == [4, 6, 6]
    assert "MESHNET_A" in fake.save(6)


def test_legacy_tables_stay():
    fake = FakeXtables("iptables-legacy", keeps_tables=True)
    fake.restore(4, "*nat\nCOMMIT\n")
    assert not fake.delete_empty_table(4, "nat")
    assert fake.save(4).startswith("*nat\n")


def test_it_is_a_packet_filter():
    from meshnet.kernel.xtables import Xtables
    from meshnet.kernel.xtables_legacy import LegacyLibrary

    for kind in (FakeXtables, Xtables, LegacyLibrary):
        assert all(hasattr(kind, word) for word in ("save", "restore", "begin", "delete_empty_table"))
