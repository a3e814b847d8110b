"""What the embedded sidecar is told: one value, derived from a spec, handed to a child process as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal, get_args

from meshnet.model.cidr import read_address
from meshnet.model.errors import Wrong
from meshnet.model.marks import FULL
from meshnet.model.names import INBOUND_MARK, OUTBOUND_PORT, PASSTHROUGH4, PASSTHROUGH6, SIDECAR_ID
from meshnet.model.ports import PortRange, read_port, read_ports
from meshnet.model.spec import Spec, port
from meshnet.model.value import value

if TYPE_CHECKING:
    from meshnet.model.cidr import Family
    from meshnet.model.spec import InboundMode, OutboundMode

Dials = Literal["original", "loopback"]

HIGHEST_ID = 4294967294
"""(uid_t)-1 means "leave as it is" to setresuid(2), so it is nobody's id."""


@value
class Settings:
    """Everything that decides what the sidecar listens on, dials and runs as.

    ``inbound_mark`` goes on an upstream socket that keeps the client's address, ``outbound_mark`` on outbound ones
    when the sidecar's identity is a mark. ``dials`` is ``original`` (the destination that the client meant) or
    ``loopback``: 127.0.0.1 / ::1 at the same port, the classic way that hides the pod's address and the client's.
    ``uid`` and ``gid`` of None stay as they are. ``connections`` bounds the open ones, ``connect_seconds`` a dial.
    ``segment_sizes`` (inbound, outbound) are announced by the listeners, so that a capture shows who answered.
    """

    inbound_mode: InboundMode = "tproxy"
    inbound_ports: PortRange = port(15006)
    outbound_mode: OutboundMode = "redirect"
    outbound_port: int = OUTBOUND_PORT
    original_source: bool = True
    inbound_mark: int = INBOUND_MARK
    outbound_mark: int | None = None
    passthrough4: str = PASSTHROUGH4
    passthrough6: str = PASSTHROUGH6
    uid: int | None = SIDECAR_ID
    gid: int | None = SIDECAR_ID
    families: tuple[Family, ...] = (4, 6)
    dials: Dials = "original"
    connections: int = 512
    connect_seconds: float = 5.0
    segment_sizes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.families or any(family not in (4, 6) for family in self.families):
            raise Wrong(f"not address families ({list(self.families)})", "[4], [6] or [4, 6]")
        for word, family in ((self.passthrough4, 4), (self.passthrough6, 6)):
            if read_address(word)[0] != family:
                raise Wrong(f"not an IPv{family} address ({word})", PASSTHROUGH4 if family == 4 else PASSTHROUGH6)
        if self.listens_inbound and self.listens_outbound and self.inbound_ports.covers(self.outbound_port):
            raise Wrong(f"port {self.outbound_port} is inbound and outbound", "two different ports")
        if not 1 <= self.connections <= 100_000 or not 0 < self.connect_seconds <= 3600:
            raise Wrong("a bound out of bounds", "1 to 100000 connections, up to 3600 seconds")
        if self.segment_sizes and (len(self.segment_sizes) != 2 or not all(n > 87 for n in self.segment_sizes)):
            raise Wrong(f"not two segment sizes ({list(self.segment_sizes)})", "such as [1386, 1387]")

    @property
    def listens_inbound(self) -> bool:
        return self.inbound_mode != "none"

    @property
    def listens_outbound(self) -> bool:
        return self.outbound_mode != "none"

    @property
    def transparent(self) -> bool:
        """Listeners take connections to addresses and ports that are not theirs (ip(7), IP_TRANSPARENT)."""
        return self.inbound_mode == "tproxy"

    @property
    def own_ports(self) -> frozenset[int]:
        """Every port that this sidecar listens on."""
        inbound = range(self.inbound_ports.first, self.inbound_ports.last + 1) if self.listens_inbound else ()
        return frozenset((*inbound, *((self.outbound_port,) if self.listens_outbound else ())))

    def passthrough(self, family: Family) -> str:
        return self.passthrough4 if family == 4 else self.passthrough6

    def to_json(self) -> str:
        """One line that ``from_json`` reads back to an equal value."""
        fields: dict[str, Any] = {name: getattr(self, name) for name in _READERS}
        lists = {"families": list(self.families), "segment_sizes": list(self.segment_sizes)}
        return json.dumps({**fields, "inbound_ports": str(self.inbound_ports), **lists})

    @staticmethod
    def from_json(text: str) -> Settings:
        """Settings from JSON; what is left out has its default. Errors: ``Wrong``, for an unknown key as well."""
        try:
            found = json.loads(text)
        except ValueError as error:
            raise Wrong(f"not JSON ({error})", "an object, as written by to_json") from error
        if not isinstance(found, dict):
            raise Wrong("not a JSON object", "an object, as written by to_json")
        unknown = sorted(set(found) - set(_READERS))
        if unknown:
            raise Wrong(f"unknown settings ({', '.join(unknown)})", ", ".join(_READERS))
        return Settings(**{name: _READERS[name](name, word) for name, word in found.items()})


def settings_of(spec: Spec, families: tuple[Family, ...]) -> Settings:
    """The sidecar that a spec describes; ``families`` are resolved ones, since ``auto`` needs a look at the host.

    With several uids or gids the first is taken: the rules know them all, a process has one of each.
    """
    sidecar = spec.sidecar
    return Settings(
        inbound_mode=spec.inbound.mode if spec.inbound.active else "none",
        inbound_ports=spec.inbound.port,
        outbound_mode=spec.outbound.mode if spec.outbound.active else "none",
        outbound_port=spec.outbound.port,
        original_source=spec.inbound.original_source,
        inbound_mark=spec.marks.inbound_mark.put(0),
        outbound_mark=sidecar.mark,
        passthrough4=spec.passthrough.ipv4.address,
        passthrough6=spec.passthrough.ipv6.address,
        uid=sidecar.uids[0] if sidecar.uids else None,
        gid=sidecar.gids[0] if sidecar.gids else None,
        families=families,
    )


def _one_of(*words: str) -> Any:
    def read(name: str, word: object) -> object:
        if word not in words:
            raise Wrong(f"{name}: none of its words ({word})", ", ".join(words))
        return word

    return read


def _number(low: int, high: int, *, absent: bool = False) -> Any:
    def read(name: str, word: object) -> object:
        if word is None and absent:
            return None
        if not isinstance(word, int) or isinstance(word, bool) or not low <= word <= high:
            raise Wrong(f"{name}: not a number in its range ({word})", f"{low} to {high}")
        return word

    return read


def _flag(name: str, word: object) -> bool:
    if not isinstance(word, bool):
        raise Wrong(f"{name}: neither true nor false ({word})", "true or false")
    return word


def _families(name: str, word: object) -> tuple[object, ...]:
    if not isinstance(word, list):
        raise Wrong(f"{name}: not a list ({word})", "[4], [6] or [4, 6]")
    return tuple(word)


def _sizes(name: str, word: object) -> tuple[int, ...]:
    if not isinstance(word, list) or not all(isinstance(item, int) and 0 < item < 65536 for item in word):
        raise Wrong(f"{name}: not a list of sizes ({word})", "such as [1386, 1387], or []")
    return tuple(word)


def _seconds(name: str, word: object) -> float:
    if not isinstance(word, int | float) or isinstance(word, bool):
        raise Wrong(f"{name}: not a number ({word})", "seconds, such as 5.0")
    return float(word)


def _address(name: str, word: object) -> str:
    if not isinstance(word, str):
        raise Wrong(f"{name}: not an address ({word})", PASSTHROUGH4)
    return word


_READERS: dict[str, Any] = {
    "inbound_mode": _one_of("redirect", "tproxy", "none"),
    "inbound_ports": lambda _, word: read_ports(word),
    "outbound_mode": _one_of("redirect", "none"),
    "outbound_port": lambda _, word: read_port(word),
    "original_source": _flag,
    "inbound_mark": _number(0, FULL),
    "outbound_mark": _number(0, FULL, absent=True),
    "passthrough4": _address,
    "passthrough6": _address,
    "uid": _number(0, HIGHEST_ID, absent=True),
    "gid": _number(0, HIGHEST_ID, absent=True),
    "families": _families,
    "dials": _one_of(*get_args(Dials)),
    "connections": _number(1, 100_000),
    "connect_seconds": _seconds,
    "segment_sizes": _sizes,
}
