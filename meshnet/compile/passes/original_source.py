"""The application sees its client: the sidecar's spoofed connection goes out by ``lo``, and so do the replies.

The sidecar binds the client's address and sets the inbound mark. Its packets are let through everywhere; the mark is
kept on the connection, and the application's replies, addressed to the client, get it back before they are routed:
the policy rule then delivers them to the sidecar and not to eth0. The first RETURN in nat's OUTPUT is what rule sets
in use today lack: a sidecar that isn't root matches its own "sidecar to own pod" rule, is sent back to itself, and
again. It works under REDIRECT as under TPROXY, since neither decides about the second connection.
"""

from __future__ import annotations

from meshnet.compile.draft import OUT
from meshnet.compile.phrases import TCP, keeps_source
from meshnet.model.program import ConnmarkIs, CtDirection, MarkIs, RestoreMark, Return, SaveMark

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.compile.draft import Draft
    from meshnet.model.program import Match


def keep(draft: Draft) -> None:
    if not keeps_source(draft.spec):
        return
    origin = "inbound.originalSource"
    mark = draft.spec.marks.inbound_mark
    spoofed: list[Match] = [TCP, MarkIs(mark)]
    draft.add(("mangle", OUT), "out.original-source.save", spoofed, SaveMark(mark.mask), origin)
    draft.add(("mangle", OUT), "out.original-source.done", spoofed, Return(), origin)
    reply: list[Match] = [TCP, ConnmarkIs(mark), CtDirection("REPLY")]
    draft.add(("mangle", OUT), "out.original-source.restore", reply, RestoreMark(mark.mask), origin)
    draft.add(("nat", OUT), "out.original-source.done", spoofed, Return(), origin)
