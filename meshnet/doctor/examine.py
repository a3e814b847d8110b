"""All checks on one family's rules, in the order of what hurts most."""

from __future__ import annotations

from meshnet.doctor.calls import own_calls, stories
from meshnet.doctor.finding import Report
from meshnet.doctor.loop import loops
from meshnet.doctor.reply import lost_replies
from meshnet.doctor.shadow import shadows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.doctor.patient import Patient


def examine(patient: Patient) -> Report:
    """Loops, lost replies, and rules that nothing reaches. RulesError for rules that no kernel takes."""
    told, own = tuple(stories(patient)), tuple(own_calls(patient))
    shadowed = shadows(patient)
    undecided = sorted(
        {
            f"IPv{patient.rules.family}: {item.flow}: {item.story.sentence}"
            for item in told
            if item.story.disposition == "undecided"
        }
    )
    notes = [*undecided[:1], *([f"and {len(undecided) - 1} other calls"] if len(undecided) > 1 else [])]
    return Report(
        (*loops(patient, told, own), *lost_replies(patient, told), *shadowed.findings),
        (*notes, *shadowed.notes),
    )
