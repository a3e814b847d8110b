"""Links, addresses, routes and neighbours of a namespace, and its sysctls: what labs and probes are built from.

Each function enters the namespace, asks the kernel over one netlink socket of its own, and is back out: the socket
belongs to the namespace that it was opened in, so no helper process is needed. ToolError carries the kernel's words.
"""

from __future__ import annotations

import os
import socket

from meshnet.kernel.netns import Entered, Namespace
from meshnet.model.errors import ToolError
from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

SCOPES = {0: "global", 200: "site", 253: "link", 254: "host", 255: "nowhere"}
"""rtnetlink(7), enum rt_scope_t."""

IFA_F_NODAD = 0x02
"""linux/if_addr.h. An IPv6 address without it is tentative for a second, and binding to it fails that long."""


@value
class Address:
    """An address that a link has, with its prefix length and scope (``global``, ``link``, ``host``)."""

    link: str
    family: int
    address: str
    prefix: int
    scope: str


class _Netlink:
    """A netlink socket inside a namespace for the length of a ``with``; the kernel's refusal becomes a ToolError."""

    __slots__ = ("_entered", "_socket", "_what")

    def __init__(self, namespace: Namespace, what: str) -> None:
        self._entered = Entered(namespace)
        self._what = f"{namespace.where}: {what}"
        self._socket: Any = None

    def __enter__(self) -> Any:
        from pyroute2 import IPRoute

        self._entered.__enter__()
        try:
            self._socket = IPRoute()
        except BaseException:
            self._entered.__exit__(None, None, None)
            raise
        return self._socket

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._socket.close()
        finally:
            self._entered.__exit__(kind, error, trace)
        code = getattr(error, "code", None)
        if isinstance(error, Exception) and isinstance(code, int) and not isinstance(error, ToolError):
            raise ToolError(f"{self._what}: {os.strerror(code)}") from error


def veth(here: Namespace, name: str, there: Namespace, peer: str) -> None:
    """A pair of virtual cables: ``name`` in one namespace, ``peer`` in the other. Both come without addresses, down."""
    with _Netlink(here, f"making the pair {name} and {peer}") as netlink:
        netlink.link("add", ifname=name, kind="veth", peer={"ifname": peer, "net_ns_fd": there.fd})


def bridge(namespace: Namespace, name: str, ports: tuple[str, ...] = ()) -> None:
    """A bridge with links of the same namespace as its ports."""
    with _Netlink(namespace, f"making the bridge {name}") as netlink:
        netlink.link("add", ifname=name, kind="bridge")
        number = _index(name)
        for port in ports:
            netlink.link("set", index=_index(port), master=number)


def delete_link(namespace: Namespace, link: str) -> None:
    with _Netlink(namespace, f"deleting {link}") as netlink:
        netlink.link("del", index=_index(link))


def up(namespace: Namespace, *names: str) -> None:
    """Switch links on."""
    with _Netlink(namespace, f"switching on {', '.join(names)}") as netlink:
        for link in names:
            netlink.link("set", index=_index(link), state="up")


def address(namespace: Namespace, link: str, block: str) -> None:
    """Give a link an address such as ``10.0.0.1/24``; IPv6 ones without duplicate detection, usable at once."""
    family, host, prefix = _block(block)
    with _Netlink(namespace, f"adding {block} to {link}") as netlink:
        flags = {"flags": IFA_F_NODAD} if family == socket.AF_INET6 else {}
        netlink.addr("add", index=_index(link), address=host, prefixlen=prefix, family=family, **flags)


def delete_address(namespace: Namespace, link: str, block: str) -> None:
    family, host, prefix = _block(block)
    with _Netlink(namespace, f"taking {block} from {link}") as netlink:
        netlink.addr("del", index=_index(link), address=host, prefixlen=prefix, family=family)


def route(namespace: Namespace, destination: str, *, via: str = "", dev: str = "") -> None:
    """A route to a block (``default``, ``default6``, or a CIDR) through a gateway, a link, or both."""
    family = socket.AF_INET6 if ":" in destination + via or destination == "default6" else socket.AF_INET
    target = {"default": "", "default6": ""}.get(destination, destination)
    with _Netlink(namespace, f"adding the route to {destination}") as netlink:
        words: dict[str, Any] = {
            "family": family,
            "dst": target or ("::/0" if family == socket.AF_INET6 else "0.0.0.0/0"),
        }
        if via:
            words["gateway"] = via
        if dev:
            words["oif"] = _index(dev)
        netlink.route("add", **words)


def delete_route(namespace: Namespace, destination: str) -> None:
    """Take a route to a block away."""
    family, host, prefix = _block(destination)
    with _Netlink(namespace, f"taking the route to {destination} away") as netlink:
        netlink.route("del", dst=f"{host}/{prefix}", family=family)


def neighbour(namespace: Namespace, link: str, host: str, hardware: str) -> None:
    """A permanent neighbour entry, so that the first packet needs no ARP or neighbour discovery."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with _Netlink(namespace, f"naming {host} on {link}") as netlink:
        number = _index(link)
        netlink.neigh("replace", dst=host, lladdr=hardware, ifindex=number, family=family, state="permanent")


def names(namespace: Namespace) -> tuple[str, ...]:
    """The links of a namespace, in the kernel's order."""
    with _Netlink(namespace, "listing links") as netlink:
        return tuple(link.get("ifname") for link in netlink.link("dump"))


def mac(namespace: Namespace, link: str) -> str:
    """The hardware address of a link."""
    with _Netlink(namespace, f"looking at {link}") as netlink:
        found = netlink.link("get", index=_index(link))
        return str(found[0].get("address"))


def addresses(namespace: Namespace) -> tuple[Address, ...]:
    """All addresses of both families, loopback included, in the kernel's order."""
    with _Netlink(namespace, "listing addresses") as netlink:
        known = {link["index"]: link.get("ifname") for link in netlink.link("dump")}
        return tuple(
            Address(
                known.get(item["index"], str(item["index"])),
                6 if item["family"] == socket.AF_INET6 else 4,
                # of a point-to-point link, ``address`` is the other end's
                item.get("local") or item.get("address"),
                item["prefixlen"],
                SCOPES.get(item["scope"], str(item["scope"])),
            )
            for item in netlink.addr("dump")
        )


def sysctl(namespace: Namespace, key: str, word: str | int) -> None:
    """Write a sysctl of the namespace, such as ``net.ipv4.ip_forward``. ToolError when the kernel has no such key."""
    try:
        with namespace.entered(), open(_sysctl_path(key), "w", encoding="utf-8") as file:
            file.write(f"{word}\n")
    except OSError as error:
        raise ToolError(f"{namespace.where}: can't set {key} to {word}: {error.strerror}") from error


def read_sysctl(namespace: Namespace, key: str) -> str:
    """Read a sysctl of the namespace. ToolError when the kernel has no such key."""
    try:
        with namespace.entered(), open(_sysctl_path(key), encoding="utf-8") as file:
            return file.read().strip()
    except OSError as error:
        raise ToolError(f"{namespace.where}: can't read {key}: {error.strerror}") from error


def quiet_ipv6(namespace: Namespace) -> None:
    """No duplicate detection and no router advertisements on links made from now on: a lab decides alone."""
    for scope in ("all", "default"):
        sysctl(namespace, f"net.ipv6.conf.{scope}.accept_dad", 0)
        sysctl(namespace, f"net.ipv6.conf.{scope}.accept_ra", 0)


def _sysctl_path(key: str) -> str:
    """``net.ipv4.conf.eth0.rp_filter`` as a path; a name with dots in it, like a VLAN, can be given with slashes."""
    return "/proc/sys/" + (key if "/" in key else key.replace(".", "/"))


def _block(block: str) -> tuple[int, str, int]:
    host, _, prefix = block.partition("/")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return family, host, int(prefix) if prefix else (128 if family == socket.AF_INET6 else 32)


def _index(link: str) -> int:
    try:
        return socket.if_nametoindex(link)
    except OSError as error:
        raise ToolError(f"there is no link {link}") from error
