"""What the spec leaves to the namespace: the families, and the resolvers."""

from __future__ import annotations

from meshnet.model.errors import SpecError
from meshnet.model.spec import Spec
from meshnet.model.value import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.model.cidr import Family
    from meshnet.model.facts import Facts


def resolve(spec: Spec, facts: Facts) -> tuple[Spec, tuple[Family, ...]]:
    """The spec with the namespace's resolvers in place of an empty list, and the families to write rules for."""
    families = facts.families if spec.families == "auto" else spec.families
    if spec.dns.capture == "resolvers" and not spec.dns.resolvers:
        if not facts.resolvers and spec.profile == "istio":
            return spec, families  # and captures none, as the original does
        if not facts.resolvers:
            raise SpecError(
                [
                    f"dns.resolvers: empty, and {facts.resolvers_from} names no server to capture: "
                    "list the resolvers' addresses, or use dns.capture: all"
                ]
            )
        spec = replace(spec, dns=replace(spec.dns, resolvers=facts.resolvers))
    return spec, families
