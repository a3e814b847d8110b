"""The result of the plugins before us, passed on in the version that was asked for (section 5, "ADD Success")."""

from __future__ import annotations

from meshnet.cni.protocol import BAD_CONFIG, VERSIONS, CniError, require_version

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def previous(raw: Mapping[str, Any]) -> dict[str, Any]:
    """``prevResult``; CniError 7 without one: this plugin makes no interface, so it is never the first of a chain."""
    found = raw.get("prevResult")
    if not isinstance(found, dict):
        what = "is missing" if found is None else "is no object"
        raise CniError(BAD_CONFIG, f"prevResult {what}: meshnet-cni stands behind the plugin that makes the interface")
    version = found.get("cniVersion")
    if version is not None:
        if not isinstance(version, str):
            raise CniError(BAD_CONFIG, "prevResult.cniVersion is no text")
        require_version("ADD", version)
    for key in ("ips", "interfaces", "routes"):
        entries = found.get(key)
        if entries is not None and not (isinstance(entries, list) and all(isinstance(item, dict) for item in entries)):
            raise CniError(BAD_CONFIG, f"prevResult.{key} is no list of objects")
    return found


def passed_on(found: dict[str, Any], version: str) -> dict[str, Any]:
    """The result in another version's form: until 0.4.0 each address names its family (``"version": "4"``), and from
    1.0.0 on none does. What is newer than a version stays: older readers pass over it."""
    said = {**found, "cniVersion": version}
    if isinstance(found.get("ips"), list):
        old = VERSIONS.index(version) < VERSIONS.index("1.0.0")
        said["ips"] = [_address(item, old) for item in found["ips"]]
    return said


def _address(item: dict[str, Any], old: bool) -> dict[str, Any]:
    if not old:
        return {key: word for key, word in item.items() if key != "version"}
    return {"version": "6" if ":" in str(item.get("address", "")) else "4", **item}
