"""Rules that no packet can reach, and the rules ahead of them that take everything."""

from __future__ import annotations

from meshnet.doctor.advice import in_words_of
from meshnet.doctor.finding import Finding, Report, where
from meshnet.simulate.around import elsewhere
from meshnet.simulate.reach import unreached

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.doctor.finding import Where
    from meshnet.doctor.patient import Patient
    from meshnet.simulate.reach import Unreached


def shadows(patient: Patient) -> Report:
    """Findings, and a note for each rule that packets can't be shown for and that isn't judged."""
    findings, notes = [], []
    _, host = patient.hosts[0]
    hosts = (host, elsewhere(patient.rules, host)) if patient.assumed else (host,)
    for item in unreached(patient.rules, hosts):
        at = where(patient.rules, item.place.table, item.place.chain, item.place.number)
        if item.doubt:
            notes.append(f"IPv{at.family}: whether {at} is reached can't be told: {item.doubt} ({at.words})")
        else:
            findings.append(_finding(patient, item, at))
    return Report(tuple(findings), tuple(notes))


def _finding(patient: Patient, item: Unreached, at: Where) -> Finding:
    family = patient.rules.family
    jump = in_words_of(patient.rules, "-j", "jump")
    if item.loose:
        return Finding(
            "unreachable",
            family,
            f"nothing leads to chain {at.chain} of {at.table}",
            ("the chain has rules, and no rule that is reached jumps there",),
            f"delete the chain, or put a rule with {jump} {at.chain} where it belongs",
            at,
        )
    if not item.takers:
        return Finding(
            "unreachable",
            family,
            f"no packet fits {at}",
            ("nothing that comes to its chain has all that it asks for",),
            "delete it, or ask for less",
            at,
        )
    takers = tuple(where(patient.rules, taker.table, taker.chain, taker.number) for taker in item.takers)
    several = len(takers) > 1
    return Finding(
        "shadowed",
        family,
        f"no packet reaches {at}",
        (f"{'rules' if several else 'a rule'} ahead of it take{'' if several else 's'} all its packets",),
        f"delete it, which changes nothing, or move it ahead of {takers[0]}",
        at,
        takers,
    )
