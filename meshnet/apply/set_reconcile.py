"""The difference of sets: made ahead of the rules that look into them, taken away behind those that did."""

from __future__ import annotations

from meshnet.model.plan import Step
from meshnet.render.ipset_text import BESIDE, destroyed, exchanged, made

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.model.plan import SetText


def reconcile_sets(
    wanted: tuple[SetText, ...], there: tuple[SetText, ...]
) -> tuple[list[Step], tuple[Step, ...], list[str]]:
    """The step ahead of the tables, the one behind everything, and what differs.

    Each is one call of ipset or none. A set that was made and that nobody's rule leads to yet does nothing; so a kill
    in between leaves what the next look finds by its name.
    """
    held = {item.name: item for item in there}
    texts: list[str] = []
    lines: list[str] = []
    exchanging = any(held.get(item.name, item) != item for item in wanted)
    if BESIDE in held and exchanging:  # under its name another content is made ready
        texts.append(destroyed([BESIDE]))
        lines.append(f"- ipset {BESIDE}")
    for item in wanted:
        old = held.get(item.name)
        if old is None:
            texts.append(made(item))
            lines.append(f"+ ipset {item.name} {item.type}, {len(item.members)} members")
        elif _kind(old) != _kind(item):
            # The kernel swaps sets of one kind only. Somebody made this one, so none of our rules looks into it yet.
            texts.append(destroyed([item.name]) + made(item))
            lines.append(f"+ ipset {item.name} {_kind(item)} in place of {_kind(old)}")
        elif old != item:
            texts.append(exchanged(item))
            lines += _changed(old, item)
    kept = {item.name for item in wanted}
    gone = [name for name in held if name not in kept and not (name == BESIDE and exchanging)]
    lines += [f"- ipset {name}" for name in gone]
    fresh = [Step("ipset", "inet", "".join(texts))] if texts else []
    stale = (Step("ipset destroy", "inet", destroyed(gone)),) if gone else ()
    return fresh, stale, lines


def _kind(item: SetText) -> str:
    return f"{item.type} of IPv{item.family}" if item.family else item.type


def _changed(old: SetText, new: SetText) -> list[str]:
    lost, more = len(set(new.members) - set(old.members)), len(set(old.members) - set(new.members))
    found = [f"+ ipset {new.name}: {lost} members missing"] if lost else []
    return found + ([f"- ipset {new.name}: {more} members too many"] if more else [])
