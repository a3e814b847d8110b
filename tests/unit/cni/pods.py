"""A pod's namespace and the work in it without a kernel: what it holds is a list of lines, and it may refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from meshnet.cni.protocol import UNKNOWN_CONTAINER, CniError
from meshnet.cni.visit import refused
from meshnet.kernel.netns import Where
from meshnet.model.errors import MeshnetError
from meshnet.model.plan import ChangeSet, Receipt

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from meshnet.model.spec import Spec


class FakeSession:
    backend, reason = "iptables-nft", "asked for"

    def __init__(self, pod: FakePod) -> None:
        self._pod = pod

    def changes(self, spec: Spec) -> ChangeSet:
        missing = () if self._pod.rules == [spec.name] else (f"+ rules of {spec.name}",)
        return ChangeSet((), (*missing, *self._pod.drift))

    def apply(self, spec: Spec) -> Receipt:
        if self._pod.refusal is not None:
            raise self._pod.refusal
        self._pod.rules = [spec.name]
        return Receipt(self.backend, ChangeSet((), (f"+ rules of {spec.name}",)), ("a notice",))

    def remove(self) -> Receipt:
        if self._pod.refusal is not None:
            raise self._pod.refusal
        gone, self._pod.rules = self._pod.rules, []
        return Receipt(self.backend, ChangeSet((), tuple(f"- rules of {name}" for name in gone)))


class FakePod:
    """``rules``: names of the specs that it holds. ``drift``: what differs besides. ``refusal``: what steps raise."""

    def __init__(self, path: str, inode: int) -> None:
        self.where = Where("path", path)
        self.device, self.inode = 4, inode
        self.rules: list[str] = []
        self.drift: tuple[str, ...] = ()
        self.refusal: MeshnetError | None = None
        self.is_current = self.is_initial = False

    def __enter__(self) -> FakePod:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


class Pods:
    """What stands at which path; in place of ``open_pod`` and ``visit``."""

    def __init__(self) -> None:
        self.by_path: dict[str, Any] = {}

    def add(self, path: str) -> FakePod:
        made = FakePod(path, 100 + len(self.by_path))
        self.by_path[path] = made
        return made

    def open(self, path: str) -> FakePod:
        found = self.by_path.get(path, CniError(UNKNOWN_CONTAINER, f"CNI_NETNS: there is no {path}"))
        if isinstance(found, CniError):
            raise found
        return found  # type: ignore[no-any-return]

    def visit(self, pod: FakePod, work: Callable[[Any], list[str]]) -> list[str]:
        try:
            return work(FakeSession(pod))
        except MeshnetError as error:
            raise refused(error) from None
