from __future__ import annotations

from meshnet.cli.verify import _text
from meshnet.probe.flows import probes
from meshnet.probe.verify import Seen, Verified
from tests.unit.probe.scenes import scene, spec


def test_the_table_says_what_is_wrong_and_what_was_not_probed() -> None:
    found = probes(spec(), scene(families=(4,)))
    seen = (Seen(found[0], "dropped"), *(Seen(item, item.predicted.disposition) for item in found[1:]))
    untouched = ({"family": 6, "table": "nat", "id": "nat.x", "rule": "-A MESHNET_OUT -j RETURN"},)
    lines = _text(Verified(seen, (("eth5", "leads elsewhere"),)), untouched).splitlines()
    assert lines[0].split() == ["flow", "predicted", "seen", "ok"]
    assert lines[1].endswith("NO") and all(line.endswith("yes") for line in lines[2 : len(seen) + 1])
    assert any(line.startswith("wrong: in by mnprobe0") for line in lines)
    assert "not probed: interface eth5: leads elsewhere" in lines
    assert "untouched: IPv6 nat -A MESHNET_OUT -j RETURN" in lines
    assert lines[-1] == f"{len(seen) - 1} of {len(seen)} probes landed where the spec says"
