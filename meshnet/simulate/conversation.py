"""Client, sidecar and application together: every packet until the application's answer is with the client, or not.

A connection is followed by its handshake and one segment each way. A sidecar that gets a connection makes one of its
own, and so on, until the application is reached, an answer is lost, or the sidecar does what it has done before.
"""

from __future__ import annotations

from meshnet.model.cidr import address_text
from meshnet.model.story import Step, Story
from meshnet.simulate.packet import ACK, SYN, TCP, Packet, Sock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.model.cidr import Family
    from meshnet.model.flow import Disposition, Flow
    from meshnet.model.story import Conduct
    from meshnet.model.trace import Trace
    from meshnet.simulate.packet import Ends
    from meshnet.simulate.walk import Arrival, Pod

FIRST_PORT = 50000
"""The sidecar's own connections count up from here; it never gets its client's port, since it doesn't ask for one."""

INBOUND, OUTBOUND = "the sidecar's inbound listener", "the sidecar's outbound listener"
APPLICATION = "the application"


class _Over(Exception):
    """The story has come to its end."""

    def __init__(self, sentence: str, disposition: Disposition | None = None, seen: int | None = None) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.disposition = disposition
        self.seen = seen


class _Caller:
    """Who began a connection: a socket of the pod, or somebody outside behind a link. ``ends`` are as it knows them."""

    def __init__(self, name: str, ends: Ends, sock: Sock | None, link: str) -> None:
        self.name = name
        self.ends = ends
        self.sock = sock
        self.link = link


class _Connected:
    """A connection whose handshake is through: who called, and the socket that took the call (None: outside)."""

    def __init__(self, caller: _Caller, sock: Sock | None, name: str, dialled: tuple[int, int]) -> None:
        self.caller = caller
        self.sock = sock
        self.name = name
        self.dialled = dialled


def converse(pod: Pod, flow: Flow, conduct: Conduct) -> Story:
    """The story of a connection that ``flow`` begins, with a sidecar that behaves as ``conduct`` says."""
    return _Conversation(pod, flow, conduct).tell()


class _Conversation:
    def __init__(self, pod: Pod, flow: Flow, conduct: Conduct) -> None:
        self._pod = pod
        self._flow = flow
        self._family: Family = flow.family
        self._conduct = conduct
        self._steps: list[Step] = []
        self._port = FIRST_PORT
        self._done: list[tuple[str, tuple[int, int], int]] = []
        self._open: list[_Connected] = []

    def tell(self) -> Story:
        pod, flow = self._pod, self._flow
        pod.forget()
        packet, sock = pod.first(flow)
        if sock is not None:
            pod.sockets.connect(sock)
        who = "the client" if flow.way == "in" else APPLICATION
        caller = _Caller(who, packet.ends(), sock, flow.interface)
        arrival = pod.receive(packet, flow.interface) if sock is None else pod.send(packet, sock)
        first = self._note(f"{who} calls {self._at(flow.destination, flow.port)}", arrival)
        try:
            self._follow(arrival, caller)
        except _Over as over:
            disposition = over.disposition or first.disposition
            return Story(tuple(self._steps), disposition, over.sentence, over.seen, first.port)
        raise AssertionError("a conversation without an end")

    def _follow(self, arrival: Arrival, caller: _Caller) -> None:
        """From a connection's first packet on, call by call."""
        while True:
            made = self._handshake(arrival, caller)
            self._open.append(made)
            if made.name not in (INBOUND, OUTBOUND):
                self._finish(made)
            arrival, caller = self._dial(made)

    def _handshake(self, arrival: Arrival, caller: _Caller) -> _Connected:
        trace = self._steps[-1].trace
        match arrival.end:
            case "delivered" if arrival.sock is not None:
                return self._inside(arrival, caller)
            case "delivered":
                raise _Over(f"{caller.name} {arrival.reason}, and is refused", "rejected")
            case "left" | "forwarded" if caller.sock is not None:
                return self._outside(arrival, caller)
            case _:
                raise _Over(f"the call of {caller.name} {arrival.reason}", trace.disposition)

    def _inside(self, arrival: Arrival, caller: _Caller) -> _Connected:
        """Somebody in the pod takes the call: the answer goes back, the caller confirms it."""
        packet, listener = arrival.packet, arrival.sock
        assert listener is not None
        name = self._who(arrival)
        taken = Sock(
            listener.name,
            self._family,
            packet.protocol,
            packet.destination,
            packet.port,
            peer=packet.source,
            peer_port=packet.source_port,
            transparent=listener.transparent,
            uid=listener.uid,
            gid=listener.gid,
            mark=listener.mark,
        )
        dialled = self._dialled(arrival, taken)
        self._pod.sockets.connect(taken)
        made = _Connected(caller, taken, name, dialled)
        self._back(made, SYN | ACK, f"{name} answers {self._at(packet.source, packet.source_port)}")
        self._forth(made, f"{caller.name} confirms")
        return made

    def _dialled(self, arrival: Arrival, taken: Sock) -> tuple[int, int]:
        """Where the caller wanted to go: SO_ORIGINAL_DST, which looks in the default zone, or the socket's own address
        (getorigdst in nf_conntrack_proto.c)."""
        connection = arrival.packet.connection
        if connection is None or connection.zones[0] or arrival.packet.assigned is not None:
            assert taken.address is not None
            return taken.address, taken.port
        return connection.original[3], connection.original[4]

    def _outside(self, arrival: Arrival, caller: _Caller) -> _Connected:
        """The call leaves the pod; whoever is there answers."""
        packet = arrival.packet
        link = packet.out_link
        made = _Connected(caller, None, "the server", (packet.destination, packet.port))
        protocol, source, source_port, destination, port = packet.ends()
        answer = Packet(self._family, protocol, destination, port, source, source_port, SYN | ACK)
        back = self._pod.receive(answer, link)
        self._note(f"the server at {self._at(destination, port)} answers", back)
        if back.sock is not caller.sock:
            raise _Over(f"the server's answer never reaches {caller.name}: it {back.reason}", "lost-reply")
        return made

    def _back(self, made: _Connected, flags: int, title: str) -> None:
        """A segment to the caller; if it doesn't get there, nobody waits for it where it goes."""
        sock, caller = made.sock, made.caller
        assert sock is not None and sock.address is not None and sock.peer is not None
        ends = (self._family, sock.protocol, sock.address, sock.port, sock.peer, sock.peer_port)
        arrival = self._pod.send(Packet(*ends, flags, sock.mark), sock)
        self._note(title, arrival)
        packet = arrival.packet
        if caller.sock is not None:
            if arrival.sock is caller.sock:
                return
            way = f"leaves by {packet.out_link}" if arrival.end == "left" else arrival.reason
            raise _Over(f"the answer of {made.name} never reaches {caller.name}: it {way}", "lost-reply")
        if arrival.end not in ("left", "forwarded"):
            raise _Over(f"the answer of {made.name} never reaches {caller.name}: it {arrival.reason}", "lost-reply")
        _, source, source_port, destination, port = caller.ends
        if (packet.source, packet.source_port, packet.destination, packet.port) != (
            destination,
            port,
            source,
            source_port,
        ):
            seen = self._at(packet.source, packet.source_port)
            raise _Over(
                f"the answer of {made.name} reaches {caller.name} as from {seen}, whom it never called", "lost-reply"
            )

    def _forth(self, made: _Connected, title: str) -> None:
        """A segment from the caller to who took the call."""
        caller = made.caller
        protocol, source, source_port, destination, port = caller.ends
        packet = Packet(self._family, protocol, source, source_port, destination, port, ACK)
        if caller.sock is None:
            arrival = self._pod.receive(packet, caller.link)
        else:
            packet.mark = caller.sock.mark
            arrival = self._pod.send(packet, caller.sock)
        self._note(title, arrival)
        if arrival.sock is not made.sock:
            raise _Over(f"{caller.name} is answered, but what it sends next {arrival.reason}", "dropped")

    def _finish(self, made: _Connected) -> None:
        """The application, or a server outside, has the connection: its answer goes back through all of them."""
        for one in reversed(self._open):
            if one.sock is not None:
                self._back(one, ACK, f"{one.name} sends data to {one.caller.name}")
        if made.sock is None:
            raise _Over(f"{made.caller.name} reaches the server at {self._at(*made.dialled)}")
        seen = made.sock.peer
        assert seen is not None
        by = "" if len(self._open) == 1 else ", by way of the sidecar"
        raise _Over(f"{made.name} gets the connection{by}, and sees {address_text(self._family, seen)}", seen=seen)

    def _dial(self, made: _Connected) -> tuple[Arrival, _Caller]:
        """The sidecar's own connection for one that it got."""
        conduct, inbound = self._conduct, made.name == INBOUND
        to = conduct.dials if inbound and conduct.dials is not None else made.dialled
        spoofs = inbound and conduct.spoofs
        bind = conduct.bind if inbound else None
        mark = conduct.mark if spoofs else conduct.own_mark
        assert made.sock is not None and made.sock.peer is not None
        source = made.sock.peer if spoofs else bind if bind is not None else self._own_source(to[0], mark)
        done = (made.name, to, source)
        if done in self._done:
            count = len(self._done)
            again = f"{made.name} gets its own connection again" if self._own_call(made) else "it comes round again"
            raise _Over(f"{again}, after {count} call{'s' if count > 1 else ''} of its own: a loop without end", "loop")
        self._done.append(done)
        sock = Sock(
            "the sidecar",
            self._family,
            TCP,
            source,
            self._port,
            peer=to[0],
            peer_port=to[1],
            transparent=spoofs,
            uid=conduct.uid,
            gid=conduct.gid,
            groups=conduct.groups,
            mark=mark,
        )
        self._port += 1
        self._pod.sockets.connect(sock)
        packet = Packet(self._family, TCP, source, sock.port, to[0], to[1], SYN, mark)
        arrival = self._pod.send(packet, sock)
        caller = _Caller("the sidecar", (TCP, source, sock.port, *to), sock, "")
        who = f"uid {conduct.uid}, gid {conduct.gid}{f', mark {mark:#x}' if mark else ''}"
        title = f"the sidecar ({who}) calls {self._at(*to)} from {address_text(self._family, source)}"
        self._note(title, arrival)
        return arrival, caller

    def _own_call(self, made: _Connected) -> bool:
        return made.caller.name == "the sidecar"

    def _own_source(self, destination: int, mark: int) -> int:
        source = self._pod.routing(self._family).source_of_call(destination, mark, self._conduct.uid)
        return destination if source is None else source

    def _who(self, arrival: Arrival) -> str:
        """Who takes a call, by the port that it comes in at."""
        sock = arrival.sock
        assert sock is not None
        if sock.port == self._conduct.inbound_port:
            return INBOUND
        if sock.port == self._conduct.outbound_port:
            return OUTBOUND
        return sock.name if sock.name and sock.name != "application" else APPLICATION

    def _note(self, title: str, arrival: Arrival) -> Trace:
        trace = self._pod.trace(arrival)
        self._steps.append(Step(title, trace))
        return trace

    def _at(self, address: int, port: int) -> str:
        text = address_text(self._family, address)
        return f"[{text}]:{port}" if self._family == 6 else f"{text}:{port}"
