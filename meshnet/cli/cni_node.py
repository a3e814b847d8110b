"""What the commands of ``cni`` share: the node's folders, our entry as it is written and as it is found there."""

from __future__ import annotations

from meshnet.cli import output
from meshnet.cni.places import PROFILES, Places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from meshnet.cni.config import Config
    from meshnet.cni.installer import Installer, Wanted
    from meshnet.cni.kubernetes import Access


class Taint:
    """A taint that keeps pods off the node until it is ready; taken off once."""

    def __init__(self, key: str, node: str, places: Places, root: str) -> None:
        self._key, self._node, self._places, self._root = key, node, places, root
        self._said = ""

    def look(self) -> None:
        if not self._key or not_ready(self._places, self._root):
            return
        from meshnet.cni.kubernetes import Api
        from meshnet.cni.protocol import CniError
        from meshnet.model.errors import MeshnetError

        try:
            access = access_of(config_of_node(self._places, self._root), self._root)
            if Api(access, patience=3.0).untaint(self._node, self._key):
                output.say(f"meshnet: the taint {self._key} is off {self._node}")
            self._key = ""
        except (CniError, MeshnetError) as error:  # our entry may have been taken out since not_ready saw it
            if error.message != self._said:
                output.say(f"meshnet: the taint {self._key} stays for now: {error.message}")
            self._said = error.message


def places_of(profile: str, binaries: str | None, networks: str | None) -> Places:
    """The folders of a distribution, but for those that are named."""
    usual = PROFILES[profile]
    return Places(binaries or usual.binaries, networks or usual.networks)


def wanted_of(places: Places, root: str, entry: str | None, packed: str, service_account: bool) -> Wanted:
    """What is to be on the node. SpecError for an entry that the plugin would refuse."""
    from meshnet.cni.installer import SERVICE_ACCOUNT, Wanted

    account = SERVICE_ACCOUNT if service_account else ""
    return Wanted(places, entry_of_file(entry), packed.rstrip("/"), account, root.rstrip("/"))


def installer_of(wanted: Wanted) -> Installer:
    from meshnet.cni.installer import Installer

    return Installer(wanted, lambda line: output.say(f"meshnet: {line}"))


def entry_of_file(file: str | None) -> dict[str, Any]:
    """The entry's words, judged as the plugin would judge them: a node whose plugin refuses starts no pod."""
    from meshnet.cni.config import read_config, read_object
    from meshnet.cni.protocol import NEWEST, CniError
    from meshnet.model.errors import SpecError

    if file is None:
        return {"interception": {}}
    from meshnet.cli.options import read_text

    text, name = read_text(file, "entry")
    try:
        found = read_object(text.encode())
        judged = {"cniVersion": NEWEST, "name": "any", **found}
        if isinstance(found.get("kubernetes"), dict):
            judged["kubernetes"] = {"kubeconfig": "/any", **found["kubernetes"]}
        read_config("ADD", judged)
    except CniError as error:
        raise SpecError([f"{name}: {': '.join(part for part in (error.message, error.details) if part)}"]) from None
    _judged(found.get("interception") or {}, name)
    return found


def body_of(file: str | None) -> dict[str, Any] | None:
    """The fields of a spec from a file in YAML or JSON. SpecError."""
    if file is None:
        return None
    import yaml

    from meshnet.cli.options import read_text
    from meshnet.model.errors import SpecError

    text, name = read_text(file, "interception")
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise SpecError([f"{name}: not YAML: {str(error).splitlines()[0]}"]) from None
    _judged(found, name)
    body: dict[str, Any] = found
    return body


def _judged(body: object, name: str) -> None:
    from meshnet.spec.load import load_body

    load_body(body, f"{name}: interception")


def config_of_node(places: Places, root: str) -> Config:
    """The plugin's configuration as the node has it now. ToolError when our entry isn't there."""
    from meshnet.cni.config import read_config
    from meshnet.cni.conflist import NotReady, entry_of, members
    from meshnet.cni.installer import Installer, Wanted
    from meshnet.cni.protocol import NEWEST, CniError
    from meshnet.model.errors import ToolError

    path = f"{root}{places.networks}"
    try:
        path = f"{path}/{Installer(Wanted(places, {}, root=root), output.say).primary()}"
        with open(path, encoding="utf-8") as file:
            text = file.read()
        entry = entry_of(text)
        if entry is None:
            raise ToolError(f"{path} has no entry of ours", hint="meshnet cni install")
        keys = members(text)
        given: dict[str, Any] = {key: keys[key].data for key in ("name", "cniVersion") if key in keys}
        return read_config("ADD", {"cniVersion": NEWEST, **entry, **given})
    except NotReady as error:
        raise ToolError(f"{path} has no entry of ours: {error}", hint="meshnet cni install") from None
    except CniError as error:
        raise ToolError(error.message, detail=error.details) from None


def access_of(config: Config, root: str) -> Access:
    """How the node's plugin gets at the API. CniError for a kubeconfig that is none, ToolError where none is named."""
    from meshnet.cni.kubernetes import read_kubeconfig
    from meshnet.model.errors import ToolError

    if not config.kubeconfig:
        raise ToolError("our entry on the node names no kubeconfig", hint="kubernetes: {kubeconfig: …} in the entry")
    return read_kubeconfig(f"{root.rstrip('/')}{config.kubeconfig}")


def not_ready(places: Places, root: str) -> str:
    """Why the node can't be given pods yet; empty when it can. The plugin is asked there, with the node's own tools."""
    from meshnet.kernel.run import run
    from meshnet.model.errors import MeshnetError
    from meshnet.spec.jsontext import encode

    try:
        config = config_of_node(places, root.rstrip("/"))
        asked = {**config.raw, "cniVersion": "1.1.0"}  # which STATUS came with, whatever the list says
        argv = [*(["chroot", root] if root else []), f"{places.binaries}/meshnet-cni"]
        ran = run(argv, text=encode(asked), env={"CNI_COMMAND": "STATUS", "CNI_PATH": places.binaries}, timeout=20)
    except (MeshnetError, OSError) as error:
        return str(error)
    if ran.ok:
        return ""
    said = ran.out.strip() or ran.err.strip() or f"it ended with {ran.code}"
    return f"the plugin says on the node: {said}"


def put_metrics(text: str, path: str | None) -> None:
    """To a file, or to standard output."""
    if path is None:
        output.answer(None, text, "text")
        return
    import os
    from pathlib import Path

    half = Path(f"{path}.{os.getpid()}")  # a collector that looks meanwhile sees the old file or the new one
    try:
        half.write_text(text, encoding="utf-8")
        half.replace(path)
    except OSError:
        half.unlink(missing_ok=True)
        raise


def yaml_text(objects: list[dict[str, Any]]) -> str:
    """Documents for a person: nothing by reference, and a text of several lines on several lines."""
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: object) -> bool:
            del data
            return True

    def text(dumper: Dumper, word: str) -> yaml.ScalarNode:
        return dumper.represent_scalar("tag:yaml.org,2002:str", word, style="|" if "\n" in word else None)

    Dumper.add_representer(str, text)
    said: str = yaml.dump_all(objects, Dumper=Dumper, sort_keys=False, explicit_start=len(objects) > 1, width=120)
    return said
