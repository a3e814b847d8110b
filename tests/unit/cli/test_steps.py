from __future__ import annotations

from meshnet.cli.steps import steps_text
from meshnet.model.plan import ChangeSet, Step


def test_steps_are_shown_as_what_would_be_run() -> None:
    steps = (
        Step("ip", 4, "rule add fwmark 1\n"),
        Step("restore", 6, "*nat\nCOMMIT\n"),
        Step("drop", 4, "raw"),
    )
    assert steps_text("iptables-nft", ChangeSet(steps, ())).splitlines() == [
        "# ip -4 -batch -",
        "rule add fwmark 1",
        "",
        "# ip6tables-nft-restore --noflush",
        "*nat",
        "COMMIT",
        "",
        "# take the empty IPv4 table raw away",
    ]
