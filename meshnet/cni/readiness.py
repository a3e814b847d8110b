"""Whether this node can apply rules: they are applied, to a namespace that is made for it and ends with the look.

A list of modules to look for would say what one kernel of one day needs; the tool that refuses a line says what lacks.
"""

from __future__ import annotations

import os

from meshnet.cni.protocol import CniError
from meshnet.cni.selection import interception
from meshnet.cni.visit import visit
from meshnet.kernel import netns
from meshnet.kernel.run import find, run
from meshnet.model.errors import MeshnetError
from meshnet.model.spec import Dns, Inbound, Spec
from meshnet.model.value import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.cni.config import Config
    from meshnet.model.cidr import Family

IPV6 = "/proc/sys/net/ipv6"


def missing(config: Config) -> list[str]:
    """What keeps ADD from working, a line each; nothing when it would work."""
    problems = [] if find("ip") else ["ip is not installed: apt-get install iproute2"]
    if config.kubeconfig:
        from meshnet.cni.kubernetes import read_kubeconfig

        try:
            access = read_kubeconfig(config.kubeconfig)
            if access.token_file and not os.access(access.token_file, os.R_OK):
                problems.append(f"{access.token_file}: no token there that can be read")
        except CniError as error:
            problems.append(": ".join(part for part in (error.message, error.details) if part))
    families: tuple[Family, ...] = (4, 6) if os.path.isdir(IPV6) else (4,)
    try:
        with netns.unnamed() as namespace:
            with namespace.entered():
                run(["ip", "link", "set", "lo", "up"])  # a new one's is down, and a route by it would be refused
            for spec in _to_try(config, families):
                visit(namespace, lambda session, spec=spec: [session.apply(spec).backend])  # type: ignore[misc]
    except MeshnetError as error:
        problems.append(" ".join(line.strip() for line in error.lines()))
    except CniError as error:
        problems.append(" ".join(error.details.split("\n")) or error.message)
    return problems


def _to_try(config: Config, families: tuple[Family, ...]) -> list[Spec]:
    """With the network's own words what every pod gets; where pods decide, both modes, and captured queries."""
    if config.interception is not None and not config.kubeconfig and config.annotations is None:
        spec, _ = interception(config)
        return [replace(spec, families=families) if spec.families == "auto" else spec]
    everything = Spec(families=families, dns=Dns("all"))
    return [everything, replace(everything, inbound=Inbound(mode="redirect"))]
