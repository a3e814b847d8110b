from __future__ import annotations

from pathlib import Path

import meshnet.compile.istio
from meshnet.compile.istio.order import PASSES
from tests.unit.compile.istio.written import program


def test_every_pass_is_in_the_list_once() -> None:
    """A public function of a module here that takes a draft and nothing else is a pass."""
    folder = Path(meshnet.compile.istio.__file__).parent
    defined = {
        (path.stem, line.partition("(")[0].removeprefix("def "))
        for path in folder.glob("*.py")
        for line in path.read_text().splitlines()
        if line.startswith("def ") and not line.startswith("def _") and "(draft: Draft)" in line
    }
    listed = [(step.__module__.rpartition(".")[2], step.__name__) for step in PASSES]
    assert set(listed) == defined
    assert len(listed) == len(defined)


def test_every_rule_tells_where_in_the_spec_it_comes_from() -> None:
    made = program(
        b="*", i="*", m="TPROXY", c="eth8", k="vm0", q="1", o="2", x="10.0.0.0/8", drop_invalid="true",
        redirect_dns="true", capture_all_dns="true", istio_outbound_owner_groups_exclude="7",
    )  # fmt: skip
    assert all(rule.origin for rule in made.rules())
    assert all(entry.rule.origin for entry in made.entries)
