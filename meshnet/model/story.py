"""A whole conversation: client, sidecar and application, packet by packet, and what the application sees of it."""

from __future__ import annotations

from meshnet.model import names
from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.model.flow import Disposition
    from meshnet.model.trace import Trace


@value
class Conduct:
    """How a sidecar runs and how it passes an inbound connection on.

    ``dials`` is (address, port), or None for where the client wanted to go. ``bind`` is the source address that it
    takes; ``spoofs`` that it takes the client's, with ``mark`` on the socket; ``own_mark`` is on all its other calls.
    ``transparent`` listeners can be reached by TPROXY.
    """

    uid: int = names.SIDECAR_ID
    gid: int = names.SIDECAR_ID
    groups: tuple[int, ...] = ()
    inbound_port: int = names.INBOUND_PORT
    outbound_port: int = names.OUTBOUND_PORT
    transparent: bool = True
    dials: tuple[int, int] | None = None
    bind: int | None = None
    spoofs: bool = False
    mark: int = 0
    own_mark: int = 0


@value
class Step:
    """One packet of the conversation: who sends what to whom, in words, and its path."""

    title: str
    trace: Trace


@value
class Story:
    """``app_sees`` is the address that the application reads from its connection, None where it never gets one."""

    steps: tuple[Step, ...]
    disposition: Disposition
    sentence: str
    app_sees: int | None = None
    port: int = 0
