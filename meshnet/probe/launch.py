"""Sockets that send what leaves the pod: as a given uid and gid, from a given address, with a given mark."""

from __future__ import annotations

import errno
import os
import socket
import struct

from meshnet.model.cidr import LOOPBACK, address_text
from meshnet.model.errors import PermissionMissing
from meshnet.probe.craft import DNS_QUERY
from meshnet.probe.listen import AF, make_transparent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from meshnet.model.flow import Flow


class Launched:
    """A connection under way; ``problem`` says why it couldn't even be sent."""

    def __init__(self, flow: Flow, port: int) -> None:
        self.problem = ""
        kind = socket.SOCK_STREAM if flow.transport == "tcp" else socket.SOCK_DGRAM
        self.socket = _as_owner(flow, kind)
        # Closed with a reset, so that no TIME_WAIT keeps the source port from the next verify.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        try:
            self._aim(flow, port)
        except OSError as error:
            if error.errno != errno.EINPROGRESS:
                self.problem = error.strerror or str(error)

    def _aim(self, flow: Flow, port: int) -> None:
        if flow.mark:
            self.socket.setsockopt(
                socket.SOL_SOCKET, socket.SO_MARK, struct.pack("=I", flow.mark)
            )  # an int would be signed
            if not LOOPBACK[flow.family].holds(flow.family, flow.source):
                make_transparent(self.socket, flow.family)
        self.socket.bind((address_text(flow.family, flow.source), port))
        target = (address_text(flow.family, flow.destination), flow.port)
        self.socket.connect(target)
        if flow.transport == "udp":
            self.socket.send(DNS_QUERY)

    def heard(self) -> str:
        """What came back so far: a listener's name, ``refused`` for a reset, empty while there is nothing."""
        try:
            said = self.socket.recv(64)
        except BlockingIOError:
            return ""
        except ConnectionRefusedError:
            return "refused"
        except OSError as error:
            return "" if error.errno in (errno.ENOTCONN, errno.EAGAIN) else "refused"
        return said.decode("ascii", "replace") or "refused"

    def close(self) -> None:
        self.socket.close()


def _as_owner(flow: Flow, kind: socket.SocketKind) -> socket.socket:
    """A socket that belongs to the flow's uid, gid and groups: xt_owner looks at the credentials of who opened it.

    Only these change, and only for this call, so the process stays what it is. Supplementary groups don't count for
    ``--gid-owner`` without ``--suppl-groups``; a user namespace without a say in them keeps those it has.
    """
    uid, gid, groups = os.geteuid(), os.getegid(), os.getgroups()
    joined = _join(flow.groups)
    try:
        if flow.gid is not None:
            os.setegid(flow.gid)
        if flow.uid is not None:
            os.seteuid(flow.uid)
        return socket.socket(AF[flow.family], kind | socket.SOCK_NONBLOCK)
    finally:
        os.seteuid(uid)
        os.setegid(gid)
        if joined:
            _join(groups)


def _join(groups: Sequence[int]) -> bool:
    """setgroups(2); False where it isn't allowed, as under ``unshare -r``, and nobody asked for any."""
    try:
        os.setgroups(groups)
    except PermissionError as error:
        if groups:
            raise PermissionMissing(
                "sending with supplementary groups needs CAP_SETGID", hint="run it as root"
            ) from error
        return False
    return True
