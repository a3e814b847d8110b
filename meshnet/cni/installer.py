"""Puts the plugin on a node, and takes it away: the binary, a kubeconfig, and an entry in the primary network.

Whatever is written is written beside its place and renamed, so that a runtime that looks meanwhile sees the old file or
the new one. In order: what an entry needs is there before the entry, and goes after it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil

from meshnet.cni.conflist import TYPE, NotReady, entry_of, list_of, plain_of, with_entry, without_entry
from meshnet.model.errors import ToolError
from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from meshnet.cni.places import Places

ENDINGS = (".conf", ".conflist", ".json")
"""What libcni takes for a configuration; the lexicographically first of them is a runtime's primary network."""

ASIDE = ".before-meshnet"
"""Behind the name of a plain configuration that a list stands for now. Runtimes pass over such a name."""

KUBECONFIG = "meshnet-cni.kubeconfig"
HALF = ".meshnet-half."
PROGRAM = "meshnet-cni"
VERSIONED = ".meshnet-cni-"
"""In front of a digest: the folder of one version of the plugin. What runs of an older one may still read from it."""

SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


@value
class Wanted:
    """What is to be on the node. ``entry`` is our plugin's configuration, but for ``type`` and the kubeconfig.

    ``packed`` is the folder that ``make cni-binary`` makes; empty when the binary is brought by somebody else.
    ``account`` is the folder of a service account's token; empty for a network that needs no API. ``root`` is where
    the node's file system is mounted, since the kubeconfig's path has to be the node's.
    """

    places: Places
    entry: dict[str, Any]
    packed: str = ""
    account: str = ""
    root: str = ""


class Installer:
    """``say`` is told each thing that is done."""

    def __init__(self, wanted: Wanted, say: Callable[[str], None]) -> None:
        self._wanted = wanted
        self._say = say
        self._networks = wanted.root + wanted.places.networks
        self._binaries = wanted.root + wanted.places.binaries

    def install(self) -> bool:
        """Put everything in place; whether the entry had to be written. The second time changes nothing.

        NotReady when there is no primary network that an entry can be put into yet. ToolError.
        """
        try:
            if self._wanted.packed:
                self._put_binary()
            if self._wanted.account:
                self._put_kubeconfig()
            return self._put_entry()
        except OSError as error:
            raise _refused(error) from error

    def uninstall(self) -> None:
        """Take everything away that is ours: the entries first, then what they need. ToolError."""
        try:
            for name in _names(self._networks):
                self._take_entry(name)
            for name in _all_names(self._networks):
                if name == KUBECONFIG or name.startswith(HALF):
                    self._remove(f"{self._networks}/{name}")
            for name in _all_names(self._binaries):
                if name == PROGRAM or name.startswith(VERSIONED):
                    self._remove(f"{self._binaries}/{name}")
        except OSError as error:
            raise _refused(error) from error

    def primary(self) -> str:
        """The name of the configuration that runtimes take. NotReady when there is none."""
        names = _names(self._networks)
        if not names:
            raise NotReady(f"{self._networks} has no network yet")
        return names[0]

    def signature(self) -> tuple[object, ...]:
        """Something that is equal as long as nobody has changed what an installation looks at."""
        paths = [f"{self._networks}/{name}" for name in _names(self._networks)]
        if self._wanted.account:
            paths += [f"{self._wanted.account}/token", f"{self._networks}/{KUBECONFIG}"]
        if self._wanted.packed:
            paths.append(f"{self._binaries}/{PROGRAM}")
        return tuple((path, _stamp(path)) for path in paths)

    def _put_entry(self) -> bool:
        name = self.primary()
        path = f"{self._networks}/{name}"
        text = _text(path)
        entry = self._entry()
        target = f"{path[: path.rindex('.')]}.conflist"
        try:
            plain = not name.endswith(".conflist") and not _is_list(text)
            if plain and _there(target) and entry_of(_text(target)) is None:
                raise NotReady(f"{target} is somebody else's, and a list made of this file would take its place")
            if not plain and entry_of(text) == entry:
                return False
            new = list_of(text, entry) if plain else with_entry(text, entry)
        except NotReady as error:
            raise NotReady(f"{path}: {error}") from None
        if not plain:
            self._write(path, new.encode(), like=path)
            self._say(f"{path}: our entry is its last plugin now")
            return True
        self._write(target, new.encode(), like=path)
        # The plain file's name comes first, so that a runtime takes it until the moment in which it goes.
        os.replace(path, path + ASIDE)
        _sync_folder(self._networks)
        self._say(f"{target} stands for {path} now, with our entry as its last plugin")
        return True

    def _take_entry(self, name: str) -> None:
        path = f"{self._networks}/{name}"
        try:
            text = _text(path)
            new = without_entry(text)
        except NotReady:
            return
        if new == text:
            return
        aside = next((old for old in (f"{path[: path.rindex('.')]}{end}{ASIDE}" for end in ENDINGS) if _there(old)), "")
        if aside and self._stands_for(text, aside):
            back = aside.removesuffix(ASIDE)
            if not _there(back):  # else its owner has written it anew
                os.replace(aside, back)
            os.unlink(path)
            self._remove(aside)
            _sync_folder(self._networks)
            self._say(f"{back} is back as it was")
            return
        self._write(path, new.encode(), like=path)
        self._remove(aside)
        self._say(f"{path}: our entry is taken out")

    @staticmethod
    def _stands_for(text: str, aside: str) -> bool:
        """Whether a list is still what was made from the file that lies aside."""
        try:
            return plain_of(text).strip() == _text(aside).strip()
        except NotReady:
            return False

    def _entry(self) -> dict[str, Any]:
        entry: dict[str, Any] = {"type": TYPE, **self._wanted.entry}
        if self._wanted.account:
            path = f"{self._wanted.places.networks}/{KUBECONFIG}"
            entry["kubernetes"] = {"kubeconfig": path, **self._wanted.entry.get("kubernetes", {})}
        return entry

    def _put_kubeconfig(self) -> None:
        """With the token in it: the node doesn't see the pod's files. It is written anew whenever the token is."""
        path = f"{self._networks}/{KUBECONFIG}"
        text = kubeconfig(self._wanted.account)
        if _there(path) and _text(path) == text:
            return
        self._write(path, text.encode())
        self._say(f"{path}: written with the service account's token")

    def _put_binary(self) -> None:
        """A folder for each version and a link that is switched: a plugin that runs keeps what it was started from."""
        digest = _digest(self._wanted.packed)
        folder = f"{self._binaries}/{VERSIONED}{digest}"
        link = f"{self._binaries}/{PROGRAM}"
        target = f"{VERSIONED}{digest}/{PROGRAM}"
        if os.path.islink(link) and os.readlink(link) == target and os.path.isfile(link):
            return
        half = f"{folder}{HALF}{os.getpid()}"
        os.makedirs(self._binaries, exist_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self._wanted.packed, half, symlinks=True)
        os.replace(half, folder)
        before = os.readlink(link) if os.path.islink(link) else ""
        os.symlink(target, half)
        os.replace(half, link)
        _sync_folder(self._binaries)
        self._say(f"{link}: version {digest}")
        for name in _all_names(self._binaries):
            if name.startswith(VERSIONED) and not target.startswith(f"{name}/") and not before.startswith(f"{name}/"):
                self._remove(f"{self._binaries}/{name}")

    def _write(self, path: str, content: bytes, like: str = "") -> None:
        """By a file beside it that is on the disk before it has the name; mode and owner are those of ``like``."""
        half = f"{self._networks}/{HALF}{os.getpid()}"
        fd = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            if like:
                found = os.stat(like)
                os.fchown(fd, found.st_uid, found.st_gid)
                os.fchmod(fd, found.st_mode & 0o7777)
            rest = memoryview(content)
            while rest:
                rest = rest[os.write(fd, rest) :]
            os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(half, path)
        _sync_folder(self._networks)

    def _remove(self, path: str) -> None:
        if not path or not os.path.lexists(path):
            return
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)
        if not path.endswith(ASIDE):
            self._say(f"{path}: removed")


def kubeconfig(account: str) -> str:
    """A kubeconfig in JSON, which the plugin reads without a YAML reader, for a service account's folder.

    NotReady when the token isn't there. The API's address is what every pod has in its environment.
    """
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise NotReady("KUBERNETES_SERVICE_HOST is not set: where is the API?")
    from base64 import b64encode

    try:
        token = _text(f"{account}/token").strip()
        authority = _text(f"{account}/ca.crt")
    except FileNotFoundError as error:
        raise NotReady(f"no service account in {account}: {error.filename} is missing") from None
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    data = b64encode(authority.encode()).decode()
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "local", "cluster": {"server": server, "certificate-authority-data": data}}],
            "users": [{"name": PROGRAM, "user": {"token": token}}],
            "contexts": [{"name": PROGRAM, "context": {"cluster": "local", "user": PROGRAM}}],
            "current-context": PROGRAM,
        }
    )


def _names(folder: str) -> list[str]:
    """The configurations, in the runtimes' order."""
    return [name for name in _all_names(folder) if name.endswith(ENDINGS) and not name.startswith(HALF)]


def _all_names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _is_list(text: str) -> bool:
    from meshnet.cni.conflist import members

    return "plugins" in members(text)


def _text(path: str) -> str:
    with open(path, "rb") as file:
        content = file.read()
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotReady(f"{path} is not UTF-8 (byte {error.start})") from None


def _there(path: str) -> bool:
    return os.path.lexists(path)


def _stamp(path: str) -> tuple[int, ...]:
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return (found.st_ino, found.st_size, found.st_mtime_ns)


def _digest(folder: str) -> str:
    """Twelve digits for what a folder holds, names and links too."""
    found = hashlib.sha256()
    for place, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted(files):
            path = f"{place}/{name}"
            found.update(path.removeprefix(folder).encode() + b"\0")
            if os.path.islink(path):
                found.update(os.readlink(path).encode())
                continue
            with open(path, "rb") as file:
                found.update(hashlib.file_digest(file, "sha256").digest())
    return found.hexdigest()[:12]


def _sync_folder(folder: str) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _refused(error: OSError) -> ToolError:
    return ToolError(f"{error.filename or 'the node'}: {error.strerror}", hint="mount the node's folders read-write")
