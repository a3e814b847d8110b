"""Spec to Program: what the facts decide, then the passes of the spec's profile, in their order.

Each profile's list of passes is loaded when it is asked for: a pod's start needs one of them.
"""

from __future__ import annotations

from meshnet.compile.draft import Draft
from meshnet.compile.resolve import resolve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.model.facts import Facts
    from meshnet.model.program import Program
    from meshnet.model.spec import Spec


def compile_spec(spec: Spec, facts: Facts) -> Program:
    """The program of a spec in a namespace with these facts; raises SpecError where the facts leave it undecided."""
    resolved, families = resolve(spec, facts)
    draft = Draft(resolved, families)
    if spec.profile == "istio":
        from meshnet.compile.istio.order import PASSES as ISTIO

        for step in ISTIO:
            step(draft)
        return draft.finish_as_written()
    from meshnet.compile.passes.order import PASSES

    for step in PASSES:
        step(draft)
    return draft.finish()
