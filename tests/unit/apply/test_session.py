from __future__ import annotations

from meshnet.apply.session import _joined, adapter
from meshnet.model.plan import ChangeSet, Step

ONE = ChangeSet((Step("drop", 4, "raw"),), ("- one",))
TWO = ChangeSet((Step("drop", 6, "nat"),), ("- two",))


def test_the_adapter_speaks_the_backend_that_was_asked_for():
    assert adapter("iptables-nft").name == "iptables-nft"
    assert adapter("iptables-legacy").name == "iptables-legacy"


def test_work_elsewhere_comes_after_the_work_here():
    assert _joined(ONE, (TWO, ONE)) == ChangeSet((*ONE.steps, *TWO.steps, *ONE.steps), ("- one", "- two", "- one"))
    assert _joined(ChangeSet(), ()).empty
