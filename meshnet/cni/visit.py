"""A pod's namespace by the path that the runtime gave: opened once, looked at before and after entering it.

What is done to the node's own namespace cuts the node off. So the file is opened once, judged by its inode, entered by
that open file, and looked at again inside; a path that is swapped meanwhile leads nowhere.
"""

from __future__ import annotations

import os

from meshnet.apply.session import Session
from meshnet.cni.protocol import (
    BAD_NAMESPACE,
    INTERNAL,
    REFUSED,
    TRY_LATER,
    UNKNOWN_CONTAINER,
    CniError,
    OwnNamespace,
)
from meshnet.kernel import userns
from meshnet.kernel.netns import OWN, Namespace, Where, open_namespace
from meshnet.model.errors import BusyError, MeshnetError, NamespaceError, SpecError
from meshnet.spec.jsontext import decode, encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Work = Callable[[Session], list[str]]

NODE = "/proc/1/ns/net"


def open_pod(path: str) -> Namespace:
    """The open namespace. CniError 3 when nothing is there any more, 8 for no namespace and for the node's own."""
    try:
        namespace = open_namespace(Where("path", path))
    except NamespaceError as error:
        gone = not os.path.lexists(path)
        raise CniError(UNKNOWN_CONTAINER if gone else BAD_NAMESPACE, f"CNI_NETNS: {error}") from None
    except MeshnetError as error:
        raise refused(error) from None
    if namespace.is_current or namespace.is_initial or _is_node_s(namespace):
        namespace.close()
        raise OwnNamespace(path)
    return namespace


def visit(namespace: Namespace, work: Work) -> list[str]:
    """The lines that ``work`` returns from inside; CniError with the words of whatever refused.

    A namespace that a pod's own user namespace owns is entered by both, in a child.
    """
    opened = f"/proc/self/fd/{namespace.fd}"
    try:
        user = userns.owner(namespace)
        if user is None:
            return _inside(namespace, Where("path", opened), work)
        try:
            _load_what_is_needed()
            return _answer(userns.as_root_of(user, namespace, lambda: _in_child(namespace, work)))
        finally:
            os.close(user)
    except MeshnetError as error:
        error.message = error.message.replace(opened, str(namespace.where))
        raise refused(error) from None


def refused(error: MeshnetError) -> CniError:
    """A refusal in the protocol's form: 11 when another try may go well, 8 for a namespace that went away."""
    code = REFUSED
    if isinstance(error, BusyError):
        code = TRY_LATER
    elif isinstance(error, NamespaceError):
        code = BAD_NAMESPACE
    details = "\n".join(error.problems if isinstance(error, SpecError) else error.lines())
    return CniError(code, str(error), details)


def _inside(namespace: Namespace, place: Where, work: Work) -> list[str]:
    with Session(place) as session:
        inside = session.namespace
        if not inside.is_current or (inside.device, inside.inode) != (namespace.device, namespace.inode):
            raise CniError(BAD_NAMESPACE, f"{namespace.where}: another namespace was entered than was opened")
        return work(session)


def _in_child(namespace: Namespace, work: Work) -> str:
    """``work`` and its outcome as text: nothing but text comes out of the child."""
    try:
        return encode({"lines": _inside(namespace, OWN, work)})
    except MeshnetError as error:
        refusal = refused(error)
    except CniError as error:
        refusal = error
    except Exception as error:  # it has to be said, and there is nobody above to say it
        refusal = CniError(INTERNAL, f"{type(error).__name__}: {error}")
    return encode({"code": refusal.code, "message": refusal.message, "details": refusal.details})


def _answer(text: str) -> list[str]:
    found = decode(text)
    if "lines" in found:
        lines: list[str] = found["lines"]
        return lines
    raise CniError(found["code"], f"in the pod's user namespace: {found['message']}", found["details"])


def _load_what_is_needed() -> None:
    """The inner root may read less of the node's files than we do: what is loaded late is loaded before."""
    import meshnet.apply.apply
    import meshnet.apply.host
    import meshnet.compile.pipeline
    import meshnet.render.plan  # noqa: F401


def _is_node_s(namespace: Namespace) -> bool:
    try:
        found = os.stat(NODE)
    except OSError:
        return False
    return (found.st_dev, found.st_ino) == (namespace.device, namespace.inode)
