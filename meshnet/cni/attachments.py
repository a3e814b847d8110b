"""What the node keeps about each attachment that got rules: one small file, for CHECK, GC, and a repeated ADD.

Removal goes by tags in the namespace and needs none of it. But GC is told which attachments live, and somebody has to
know which ones died and where; and CHECK compares with what ADD was asked for, not with what a pod says today.
"""

from __future__ import annotations

import os

from meshnet.cni.protocol import IO_FAILURE, CniError
from meshnet.model.value import value
from meshnet.spec.jsontext import NotJson, decode, encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

FORM = 1
"""Of the files; one of another form is passed over, as what a newer or older plugin left."""

SUFFIX = ".json"
HALF = "half."
"""In front of the process id, of a file that is being written."""


@value
class Attachment:
    """A container's interface in a network, the namespace behind it, and the spec's document that it got.

    ``pod`` is ``namespace/name`` where the runtime told it.
    """

    network: str
    container: str
    interface: str
    netns: str
    device: int
    inode: int
    pod: str = ""
    spec: dict[str, Any] | None = None

    @property
    def key(self) -> tuple[str, str]:
        return (self.container, self.interface)

    def is_in(self, device: int, inode: int) -> bool:
        return (self.device, self.inode) == (device, inode)


class Attachments:
    """The files of one node. Nothing is made before the first ``keep``. CniError 5 when the folder can't be used.

    A file's name says which namespace is meant, so that a look for the neighbours of a pod reads one folder and not
    the files of every pod on the node.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def keep(self, attachment: Attachment) -> None:
        """Write an attachment, in one go: whoever looks finds the old file, the new one or none."""
        folder = f"{self.folder}/{attachment.network}"
        path = f"{folder}/{_file_name(attachment)}"
        text = encode({"form": FORM, **{name: getattr(attachment, name) for name in _names()}})
        try:
            os.makedirs(folder, 0o700, exist_ok=True)
            half = f"{folder}/{HALF}{os.getpid()}"
            with open(half, "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(half, path)
        except OSError as error:
            raise CniError(IO_FAILURE, f"can't keep {path}: {error.strerror}") from error
        for name in self._named(attachment.network, *attachment.key):
            if name != _file_name(attachment):
                _remove(f"{folder}/{name}")  # the same interface in another namespace: that one is gone

    def find(self, network: str, container: str, interface: str) -> Attachment | None:
        found = (self._read(f"{self.folder}/{network}/{name}") for name in self._named(network, container, interface))
        return next((item for item in found if item is not None), None)

    def drop(self, network: str, container: str, interface: str) -> None:
        """Forget an attachment; without a network's name, as half a configuration has none, in all of them."""
        for place in [network] if network else _listed(self.folder):
            for name in self._named(place, container, interface):
                _remove(f"{self.folder}/{place}/{name}")

    def of_network(self, network: str) -> Iterator[Attachment]:
        """The attachments of a network; half-written files of a killed plugin are swept on the way."""
        folder = f"{self.folder}/{network}"
        for name in _listed(folder):
            if name.startswith(HALF):
                if not os.path.exists(f"/proc/{name.removeprefix(HALF)}"):
                    _remove(f"{folder}/{name}")
            elif _parts(name) and (found := self._read(f"{folder}/{name}")):
                yield found

    def others_in(self, device: int, inode: int, mine: tuple[str, str, str]) -> list[Attachment]:
        """Who else has rules in a namespace; ``mine`` is (network, container, interface), the first may be empty."""
        found = []
        for network in _listed(self.folder):
            for name in _listed(f"{self.folder}/{network}"):
                parts = _parts(name)
                same = parts[2:] == mine[1:] and mine[0] in ("", network)
                if parts[:2] == (str(device), str(inode)) and not same:
                    found.append(self._read(f"{self.folder}/{network}/{name}"))
        return [item for item in found if item is not None]

    def _named(self, network: str, container: str, interface: str) -> list[str]:
        names = _listed(f"{self.folder}/{network}")
        return [name for name in names if _parts(name)[2:] == (container, interface)]

    def _read(self, path: str) -> Attachment | None:
        try:
            with open(path, encoding="utf-8") as file:
                found = decode(file.read())
        except (FileNotFoundError, NotJson, UnicodeDecodeError):
            return None
        except OSError as error:
            raise CniError(IO_FAILURE, f"can't read {path}: {error.strerror}") from error
        if not isinstance(found, dict) or found.pop("form", None) != FORM or set(found) != set(_names()):
            return None
        return Attachment(**found)


def _file_name(attachment: Attachment) -> str:
    where = f"{attachment.device}.{attachment.inode}"
    return f"{where}.{attachment.container}@{attachment.interface}{SUFFIX}"


def _parts(name: str) -> tuple[str, ...]:
    """(device, inode, container, interface) of a file's name, or nothing. No container id has an @ in it."""
    device, _, rest = name.removesuffix(SUFFIX).partition(".")
    inode, _, rest = rest.partition(".")
    container, at, interface = rest.partition("@")
    whole = name.endswith(SUFFIX) and device.isdigit() and inode.isdigit() and at
    return (device, inode, container, interface) if whole else ()


def _names() -> tuple[str, ...]:
    return Attachment.__match_args__


def _listed(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise CniError(IO_FAILURE, f"can't look into {folder}: {error.strerror}") from error


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass  # another one was quicker
    except OSError as error:
        raise CniError(IO_FAILURE, f"can't remove {path}: {error.strerror}") from error
