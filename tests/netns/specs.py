"""Specs of the kernel tests, from documents as a user writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshnet.spec.load import load_text

if TYPE_CHECKING:
    from meshnet.model.spec import Spec

FAMILIES = {"4": "[ipv4]", "6": "[ipv6]", "both": "[ipv4, ipv6]"}


def spec(text: str = "") -> Spec:
    return load_text(f"apiVersion: meshnet/v1\nkind: Interception\n{text}", "test.yaml").spec


def pod_spec(mode: str, families: str = "both", *, ports: str = '"*"', more: str = "", source: bool = True) -> Spec:
    """A sidecar's usual spec: inbound by ``mode``, all of outbound, the client's address kept if ``source``."""
    inbound = f"{{mode: {mode}, ports: {ports}, originalSource: {str(source).lower()}}}"
    return spec(f"families: {FAMILIES[families]}\ninbound: {inbound}\n{more}")
