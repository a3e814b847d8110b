"""Ports and port ranges, read strictly: decimal, 1 to 65535, nothing else means a port."""

from __future__ import annotations

from meshnet.model.errors import Wrong
from meshnet.model.value import value

HIGHEST = 65535


@value
class PortRange:
    """Ports ``first`` to ``last``, both included; a single port has ``first == last``."""

    first: int
    last: int

    def __post_init__(self) -> None:
        if not 1 <= self.first <= self.last <= HIGHEST:
            raise Wrong(
                f"no port range ({self.first}-{self.last})", "1 to 65535, the lower end first, such as 80 or 9000-9100"
            )

    @property
    def single(self) -> bool:
        return self.first == self.last

    def covers(self, port: int) -> bool:
        return self.first <= port <= self.last

    def __str__(self) -> str:
        return str(self.first) if self.single else f"{self.first}-{self.last}"


def number(text: str) -> int | None:
    """A plain decimal number without sign, blank or leading zero; None for anything else."""
    if not text.isascii() or not text.isdigit() or (len(text) > 1 and text[0] == "0") or len(text) > 20:
        return None
    return int(text)


def read_port(word: object) -> int:
    """One port from a spec's number or text. Service names, octal, blanks and 0 are refused, never looked up."""
    read = word if isinstance(word, int) and not isinstance(word, bool) else None
    if isinstance(word, str):
        read = number(word)
    if read is None:
        raise Wrong(f"not a port number ({word})", "a decimal number from 1 to 65535, such as 80")
    if not 1 <= read <= HIGHEST:
        raise Wrong(f"outside the ports ({read})", "1 to 65535")
    return read


def read_ports(word: object) -> PortRange:
    """A port or ``first-last``, from a spec's number or text."""
    if isinstance(word, str) and "-" in word:
        first, _, last = word.partition("-")
        low, high = number(first), number(last)
        if low is None or high is None:
            raise Wrong(f"not a port range ({word})", "two decimal numbers, such as 9000-9100")
        if low > high:
            raise Wrong(f"a range that ends before it begins ({word})", f"the lower end first, {high}-{low}")
        if low < 1 or high > HIGHEST:
            raise Wrong(f"outside the ports ({word})", "1 to 65535")
        return PortRange(low, high)
    port = read_port(word)
    return PortRange(port, port)
