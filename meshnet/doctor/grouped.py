"""Calls that end alike for the same reason are one finding, told by the first of them."""

from __future__ import annotations

from meshnet.doctor.finding import Where
from meshnet.model.story import Step
from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from meshnet.model.flow import Flow
    from meshnet.model.story import Conduct


@value
class Group:
    """A call that went wrong; ``others`` like it did as well, and ``only`` is the setting under which they do."""

    flow: Flow
    sidecar: Conduct
    setting: str
    where: Where | None
    sentence: str
    steps: tuple[Step, ...]
    others: int = 0
    only: str = ""

    def more(self) -> tuple[str, ...]:
        lines = [f"the call: {self.flow}"]
        if self.others:
            several = self.others > 1
            lines.append(f"{self.others} other kind{'s of calls end' if several else ' of call ends'} the same way")
        if self.only:
            lines.append(f"only with {self.only}")
        return tuple(lines)


def grouped(found: Iterable[Group | None], settings: int) -> list[Group]:
    """One of each identity and place. ``settings``: of how many namespaces they come."""
    from meshnet.model.value import replace

    groups: dict[object, list[Group]] = {}
    for item in found:
        if item is not None:
            at = item.where
            place = None if at is None else (at.table, at.chain, at.number)
            groups.setdefault((item.sidecar.uid, item.sidecar.gid, place), []).append(item)
    told = []
    for alike in groups.values():
        seen = list(dict.fromkeys(item.setting for item in alike))
        only = seen[0] if len(seen) == 1 and settings > 1 else ""
        flows = {str(item.flow) for item in alike}
        told.append(replace(alike[0], others=len(flows) - 1, only=only))
    return told
