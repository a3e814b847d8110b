"""linkerd2-proxy-init's flags to a Spec (linkerd/linkerd2-proxy-init, proxy-init/cmd/root.go and pkg/iptables).

Its rules leave everything alone that the proxy sends, calls to the own pod too: the proxy hands connections over to
the address that the client called. Ignored subnets are those of clients.
"""

from __future__ import annotations

from meshnet.model.ports import read_port, read_ports
from meshnet.model.spec import ALL, Inbound, Outbound, Sidecar, Spec
from meshnet.model.value import value
from meshnet.spec import readers
from meshnet.spec.dialects.istio import read_block
from meshnet.spec.dialects.istio_options import read_truth
from meshnet.spec.dialects.plain import Places, Translated
from meshnet.spec.nearest import nearest
from meshnet.spec.nodes import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Literal

    from meshnet.model.spec import Families

    Takes = Literal["word", "list", "flag"]
    Says = Literal["traffic", "work"]


@value
class Flag:
    name: str
    short: str = ""
    takes: Takes = "word"
    says: Says = "traffic"

    @property
    def label(self) -> str:
        return f"--{self.name} (-{self.short})" if self.short else f"--{self.name}"


FLAGS: tuple[Flag, ...] = (
    Flag("incoming-proxy-port", "p"),
    Flag("outgoing-proxy-port", "o"),
    Flag("proxy-uid", "u"),
    Flag("proxy-gid", "g"),
    Flag("ports-to-redirect", "r", "list"),
    Flag("inbound-ports-to-ignore", "", "list"),
    Flag("outbound-ports-to-ignore", "", "list"),
    Flag("subnets-to-ignore", "", "list"),
    Flag("ipv6", "", "flag"),
    Flag("netns"),
    Flag("timeout-close-wait-secs"),
    Flag("simulate", "", "flag", "work"),
    Flag("use-wait-flag", "w", "flag", "work"),
    Flag("iptables-mode", "", "word", "work"),
    Flag("firewall-bin-path", "", "word", "work"),
    Flag("firewall-save-bin-path", "", "word", "work"),
    Flag("log-format", "", "word", "work"),
    Flag("log-level", "", "word", "work"),
)
BY_NAME = {flag.name: flag for flag in FLAGS}
BY_SHORT = {flag.short: flag for flag in FLAGS if flag.short}

WHERE = {
    "sidecar": "--proxy-uid (-u), --proxy-gid (-g)",
    "inbound.port": BY_NAME["incoming-proxy-port"].label,
    "outbound.port": BY_NAME["outgoing-proxy-port"].label,
    "inbound.excludeSources": BY_NAME["subnets-to-ignore"].label,
}


def spec_of(arguments: Sequence[str]) -> Translated:
    """The Spec for a command line without the program's name. SpecError names everything wrong at once."""
    read = _Reader(arguments)
    redirected = read.many("ports-to-redirect", lambda word: read_ports(read_port(word)))
    spec = Spec(
        name="linkerd",
        families=_families(read),
        sidecar=Sidecar(read.identity("proxy-uid"), read.identity("proxy-gid")),
        inbound=Inbound(
            mode="redirect",
            port=read_ports(read.port("incoming-proxy-port", Inbound().port.first)),
            ports=redirected or ALL,
            exclude_ports=read.many("inbound-ports-to-ignore", read_ports),
            exclude_sources=read.many("subnets-to-ignore", read_block),
            tunnel_port=None,
            original_source=False,
            own_pod=False,
        ),
        outbound=Outbound(
            port=read.port("outgoing-proxy-port", Outbound().port),
            exclude_ports=read.many("outbound-ports-to-ignore", read_ports),
        ),
    )
    if netns := read.words.get("netns"):
        read.wrong("--netns", f"where to work, not what for ({printable(netns[-1])})", "meshnet's own --netns")
    if read.words.get("timeout-close-wait-secs", ["0"])[-1] != "0":
        seconds = printable(read.words["timeout-close-wait-secs"][-1])
        right = "leave it out, and set net.netfilter.nf_conntrack_tcp_timeout_close_wait in the pod"
        read.wrong("--timeout-close-wait-secs", f"a setting of the kernel and not of rules ({seconds})", right)
    aside = tuple(f"--{name}" for name in read.words if BY_NAME[name].says == "work")
    return Translated(read.judged(spec, WHERE), aside)


def _families(read: _Reader) -> Families:
    """Not given, its default depends on its version; so the families are then those that the namespace has."""
    if "ipv6" not in read.words:
        return "auto"
    return (4, 6) if read.truth("ipv6") else (4,)


class _Reader(Places):
    """The words of each flag as the original's parser (spf13/pflag) takes them: -p 1, -p1, -p=1, --name 1, --name=1."""

    def __init__(self, arguments: Sequence[str]) -> None:
        super().__init__()
        self.words: dict[str, list[str]] = {}
        rest = list(arguments)
        while rest:
            word = rest.pop(0)
            if word.startswith("--") and len(word) > 2:
                self._long(word, rest)
            elif word.startswith("-") and len(word) > 1:
                self._short(word, rest)
            else:
                self.wrong(printable(word) or '""', "a word that belongs to no flag", "--name word, or --name=word")

    def port(self, name: str, default: int) -> int:
        flag = BY_NAME[name]
        if name not in self.words:
            self.wrong(flag.label, "missing", "the port on which the proxy takes these connections")
            return default
        return self.read(flag.label, self.words[name][-1], read_port) or default

    def identity(self, name: str) -> tuple[int, ...]:
        """One id, or none: the original takes 0 and -1 for "none given"."""
        word = self.words.get(name, ["-1"])[-1].strip()
        found = None if word in ("-1", "0") else self.read(BY_NAME[name].label, word, readers.read_id)
        return () if found is None else (found,)

    def many(self, name: str, read: Callable[[str], Any]) -> tuple[Any, ...]:
        given = [text for text in self.words.get(name, ()) if text]
        items = [item.strip() for text in given for item in text.split(",")]
        found = [self.read(BY_NAME[name].label, item, read) for item in items]
        return tuple(dict.fromkeys(item for item in found if item is not None))

    def truth(self, name: str) -> bool:
        return bool(self.read(BY_NAME[name].label, self.words[name][-1], read_truth))

    def _long(self, word: str, rest: list[str]) -> None:
        name, equals, text = word[2:].partition("=")
        flag = BY_NAME.get(name)
        if flag is None:
            near = nearest(name, BY_NAME)
            right = f"--{near}" if near else f"one of {', '.join(f'--{known}' for known in BY_NAME)}"
            self.wrong(f"--{printable(name)}", "no flag of linkerd2-proxy-init", right)
            if not equals and rest and not rest[0].startswith("-"):
                rest.pop(0)  # most likely its word
        else:
            self._keep(flag, text if equals else None, rest)

    def _short(self, word: str, rest: list[str]) -> None:
        letters = word[1:]
        while letters:
            flag, letters = BY_SHORT.get(letters[0]), letters[1:]
            if flag is None:
                known = ", ".join(f"-{short}" for short in BY_SHORT)
                self.wrong(printable(word), "no flag of linkerd2-proxy-init", f"one of {known}, or a long one")
                return
            if flag.takes == "flag" and not letters.startswith("="):
                self._keep(flag, None, rest)
                continue
            self._keep(flag, letters.removeprefix("=") if letters else None, rest)
            return

    def _keep(self, flag: Flag, text: str | None, rest: list[str]) -> None:
        if text is None and flag.takes == "flag":
            text = "true"
        elif text is None and not rest:
            self.wrong(flag.label, "nothing is given", f"--{flag.name}=…")
            return
        given = rest.pop(0) if text is None else text
        if flag.takes == "flag":
            self.read(flag.label, given, read_truth)
        self.words.setdefault(flag.name, []).append(given)
