"""All checks on one family's rules, in the order of what hurts most."""

from __future__ import annotations

from meshnet.doctor.calls import own_calls, stories
from meshnet.doctor.finding import Report
from meshnet.doctor.loop import loops
from meshnet.doctor.reply import lost_replies, undecided
from meshnet.doctor.shadow import shadows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.doctor.patient import Patient


def examine(patient: Patient) -> Report:
    """Loops, lost replies, and rules that nothing reaches. RulesError for rules that no kernel takes."""
    told, own = tuple(stories(patient)), tuple(own_calls(patient))
    shadowed = shadows(patient)
    family = patient.rules.family
    doubts = dict.fromkeys(f"IPv{family}: {item.flow}: {item.story.sentence}" for item in told if undecided(item.story))
    notes = [*list(doubts)[:1], *([f"IPv{family}: and {len(doubts) - 1} more such calls"] if len(doubts) > 1 else [])]
    return Report(
        (*loops(patient, told, own), *lost_replies(patient, told), *shadowed.findings),
        (*notes, *shadowed.notes),
    )
