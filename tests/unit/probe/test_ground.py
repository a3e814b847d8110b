from __future__ import annotations

from typing import Any

from meshnet.kernel import links
from meshnet.probe.ground import NAMES, Ground
from tests.unit.probe.scenes import spec


def test_the_cable_s_name_is_free_and_in_no_list(monkeypatch: Any) -> None:
    """A name that the spec excludes would change what is proven; the kernel is not asked for more than the names."""
    monkeypatch.setattr(links, "names", lambda _: {"lo", NAMES[1]})
    given: Any = object()
    wanted = spec('interfaces: {exclude: ["mn+"]}\n')
    assert Ground(given, wanted, (4,), given)._free_name() == NAMES[2]
    assert Ground(given, spec(), (4,), given)._free_name() == NAMES[0]
