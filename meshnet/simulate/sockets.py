"""Who gets a packet: connected sockets by all four numbers, listening ones by the best fit (inet_hashtables.c)."""

from __future__ import annotations

from meshnet.simulate.packet import NUMBERS, TCP, Sock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.model.cidr import Family
    from meshnet.model.host import Host


class Sockets:
    def __init__(self, host: Host) -> None:
        self._listening: dict[tuple[int, int], list[Sock]] = {}
        self._connected: dict[tuple[int, int, int, int, int], Sock] = {}
        self._assume = host.assume
        for item in host.listeners:
            sock = Sock(
                item.name,
                item.family,
                NUMBERS[item.transport],
                item.address,
                item.port,
                transparent=item.transparent,
                uid=item.uid,
                gid=item.gid,
            )
            self._listening.setdefault((sock.protocol, sock.port), []).append(sock)

    def connect(self, sock: Sock) -> None:
        """From now on packets between these ends are this socket's."""
        assert sock.address is not None and sock.peer is not None
        self._connected[sock.protocol, sock.address, sock.port, sock.peer, sock.peer_port] = sock

    def forget(self) -> None:
        """All connections are gone; who listens stays."""
        self._connected.clear()

    def connected(self, protocol: int, peer: int, peer_port: int, address: int, port: int) -> Sock | None:
        return self._connected.get((protocol, address, port, peer, peer_port))

    def listening(self, family: Family, protocol: int, address: int, port: int) -> Sock | None:
        """A socket on the very address goes before the wildcard, and one of the family alone before one of both."""
        best, best_score = None, -1
        for sock in self._listening.get((protocol, port), ()):
            if sock.family not in (family, None) or sock.address not in (address, None):
                continue
            score = (2 if sock.address is not None else 0) + (1 if sock.family is not None else 0)
            if score > best_score:
                best, best_score = sock, score
        return best

    def owner(self, family: Family, protocol: int, peer: int, peer_port: int, address: int, port: int) -> Sock | None:
        """Whose packet it is."""
        found = self._connected.get((protocol, address, port, peer, peer_port)) if self._connected else None
        if found is not None:
            return found
        return self.listening(family, protocol, address, port) if self._listening else None

    def receiver(
        self, family: Family, protocol: int, peer: int, peer_port: int, address: int, port: int
    ) -> Sock | None:
        """Who gets a packet that has come to its end."""
        found = self.owner(family, protocol, peer, peer_port, address, port)
        return found or self.assumed(family, protocol, port)

    def for_tproxy(
        self, family: Family, protocol: int, peer: int, peer_port: int, address: int, port: int, on: tuple[int, int]
    ) -> Sock | None:
        """What TPROXY finds: a connection between the packet's own ends, else who listens ``on`` address and port."""
        found = self._connected.get((protocol, address, port, peer, peer_port))
        if found is None:
            found = self.listening(family, protocol, *on)
        if found is None and self._assume:
            found = Sock("", family, protocol, None, on[1], transparent=True)
        return found

    def assumed(self, family: Family, protocol: int, port: int) -> Sock | None:
        """Somebody on a port that nobody is known for, where the host's facts are only assumptions."""
        if not self._assume:
            return None
        return Sock("application" if protocol == TCP else "", family, protocol, None, port)
