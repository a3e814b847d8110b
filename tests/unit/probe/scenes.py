"""A scene without a kernel: a pod's ordinary cable, an excluded interface's and a guest's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshnet.model.cidr import read_address
from meshnet.probe.scene import Lane, Scene
from meshnet.spec.load import load_text

if TYPE_CHECKING:
    from meshnet.model.spec import Spec

RICH = """\
families: [ipv4, ipv6]
sidecar: {uids: [1337, 1338], gids: [1339], mark: 0x53b}
inbound: {mode: tproxy, ports: [80, "9000-9100"], excludePorts: [9050], excludeSources: [198.51.100.0/24, "fd05::/64"]}
outbound:
  cidrs: [10.96.0.0/12, "fd00:96::/64", 127.0.0.128/25]
  excludeCidrs: [10.96.5.0/24, "fd00:96::5:0/112"]
  ports: [443]
  excludePorts: [9443, "9500-9600"]
  groups: [0, 2000]
  excludeGroups: [3000]
dns: {capture: resolvers, resolvers: [10.96.0.10, "fd00:96::a"]}
interfaces: {exclude: [net5], guest: [tap+]}
"""


def spec(text: str = "") -> Spec:
    return load_text(f"apiVersion: meshnet/v1\nkind: Interception\n{text}", "test.yaml").spec


def number(text: str) -> int:
    return read_address(text)[1]


def lane(interface: str, place: int) -> Lane:
    def both(last: int) -> dict[int, int]:
        return {4: number(f"198.18.{place}.{last}"), 6: number(f"fd6d:{place}::{last}")}

    return Lane(
        interface, both(1), both(2), {4: number(f"203.0.113.{16 + place}"), 6: number(f"2001:db8::{16 + place}")}
    )


def scene(*others: str, families: tuple[int, ...] = (4, 6)) -> Scene:
    return Scene(families, tuple(lane(name, place) for place, name in enumerate(("mnprobe0", *others))))
