"""The Kubernetes API, as much of it as a node's plugin needs: a kubeconfig, one pod, the pods of a node.

On ``http.client`` and ``ssl``, loaded when a request is made: a client library takes longer to load than a whole ADD.
"""

from __future__ import annotations

import os
import time

from meshnet.cni.protocol import NOT_AVAILABLE, TRY_LATER, CniError
from meshnet.model.value import value
from meshnet.spec.jsontext import NotJson, decode, encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from types import TracebackType
    from typing import Any

PATIENCE = 15.0
"""Seconds for one question, all tries together: kubelet gives a sandbox two minutes, and asks again afterwards."""

ONE_TRY = 5.0
"""Seconds until one connection or answer counts as lost."""

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0
LARGEST = 64 * 1024 * 1024
"""Bytes of an answer: a node holds some hundred pods of at most 1.5 MB each, and mostly a thousandth of it."""


@value
class Access:
    """Where the API is and how to get in. Files are read at each request: a service account's token lives an hour."""

    server: str
    authority_file: str = ""
    authority: str = ""
    token_file: str = ""
    token: str = ""
    certificate_file: str = ""
    certificate: str = ""
    key_file: str = ""
    key: str = ""
    insecure: bool = False


class ApiError(Exception):
    """The API's answer is a refusal; ``status`` is HTTP's."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(said)
        self.status = status


def read_kubeconfig(path: str) -> Access:
    """The access that the file's current context names. CniError 50 when it can't be read or understood.

    JSON, as ``meshnet cni install`` writes it, is read without loading a YAML reader.
    """
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        data = _plain(text)
        contexts, clusters, users = (_by_name(data, key) for key in ("contexts", "clusters", "users"))
        current = data.get("current-context") or next(iter(contexts))
        context = contexts[current]["context"]
        cluster = clusters[context["cluster"]]["cluster"]
        user = users[context["user"]].get("user") or {} if context.get("user") else {}
        return _access(cluster, user, path.rpartition("/")[0])
    except OSError as error:
        raise CniError(NOT_AVAILABLE, f"can't read the kubeconfig {path}: {error.strerror}") from error
    except (KeyError, TypeError, AttributeError, StopIteration, ValueError) as error:
        said = f"{type(error).__name__}: {str(error)[:120]}"
        raise CniError(NOT_AVAILABLE, f"the kubeconfig {path} can't be understood", said) from error


def _plain(text: str) -> dict[str, Any]:
    if text.lstrip()[:1] == "{":
        try:
            found = decode(text)
        except NotJson as error:
            raise ValueError(str(error)) from None
    else:
        import yaml

        try:
            found = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ValueError(str(error).replace("\n", " ")) from None
    if not isinstance(found, dict):
        raise ValueError("no keys and values")
    return found


def _by_name(data: dict[str, Any], key: str) -> dict[str, dict[str, Any]]:
    return {item["name"]: item for item in data.get(key) or []}


def _access(cluster: dict[str, Any], user: dict[str, Any], folder: str) -> Access:
    def path(inside: dict[str, Any], key: str) -> str:
        word = str(inside.get(key) or "")
        return word if not word or word.startswith("/") else f"{folder}/{word}"

    def from_base64(inside: dict[str, Any], key: str) -> str:
        if not inside.get(key):
            return ""
        from binascii import a2b_base64

        return a2b_base64(str(inside[key])).decode("ascii")

    server = str(cluster["server"])
    if not server.startswith(("https://", "http://")):
        raise ValueError(f"server is no address of the web ({server})")
    return Access(
        server.rstrip("/"),
        path(cluster, "certificate-authority"),
        from_base64(cluster, "certificate-authority-data"),
        path(user, "tokenFile"),
        str(user.get("token") or ""),
        path(user, "client-certificate"),
        from_base64(user, "client-certificate-data"),
        path(user, "client-key"),
        from_base64(user, "client-key-data"),
        cluster.get("insecure-skip-tls-verify") is True,
    )


class Api:
    """Asks the API, again and again within ``patience`` seconds when it doesn't answer or says that it can't now."""

    def __init__(self, access: Access, patience: float = PATIENCE) -> None:
        self._access = access
        self._patience = patience

    def pod(self, namespace: str, name: str, uid: str = "") -> dict[str, Any]:
        """One pod. CniError 11 when it can't be had in time: the runtime asks again.

        ``uid``: a pod of the same name from before counts as not there yet, for the API's cache may be behind kubelet.
        """

        def ask() -> dict[str, Any]:
            found = self._request("GET", f"/api/v1/namespaces/{namespace}/pods/{name}")
            if uid and (found.get("metadata") or {}).get("uid") not in (uid, None):
                raise ApiError(404, f"the pod {namespace}/{name} that the API knows is another one (uid)")
            return found

        return self._patiently(ask, f"the pod {namespace}/{name}")

    def pods_of(self, node: str) -> list[dict[str, Any]]:
        """The pods of a node, as the API's cache has them."""
        query = f"fieldSelector=spec.nodeName%3D{node}&resourceVersion=0"
        found = self._patiently(lambda: self._request("GET", f"/api/v1/pods?{query}"), f"the pods of {node}")
        items = found.get("items")
        return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []

    def label(self, namespace: str, name: str, labels: dict[str, str]) -> None:
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        self._patiently(lambda: self._request("PATCH", path, {"metadata": {"labels": labels}}), path)

    def delete(self, namespace: str, name: str, uid: str) -> None:
        """Delete that very pod: the precondition keeps its successor of the same name alive."""
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
        self._patiently(lambda: self._request("DELETE", path, body), path)

    def untaint(self, node: str, key: str) -> bool:
        """Take a taint off a node; whether it was there."""
        path = f"/api/v1/nodes/{node}"
        found = self._patiently(lambda: self._request("GET", path), path)
        taints = (found.get("spec") or {}).get("taints") or []
        kept = [taint for taint in taints if taint.get("key") != key]
        if len(kept) == len(taints):
            return False
        version = (found.get("metadata") or {}).get("resourceVersion")
        body = {"metadata": {"resourceVersion": version}, "spec": {"taints": kept}}
        self._patiently(lambda: self._request("PATCH", path, body), path)
        return True

    def _patiently(self, ask: Any, what: str) -> dict[str, Any]:
        deadline = time.monotonic() + self._patience
        pause = FIRST_PAUSE
        while True:
            try:
                found: dict[str, Any] = ask()
                return found
            except ApiError as error:
                # 401: the token was just replaced, and is read anew; 404: the API's cache is behind kubelet.
                lasting = error.status not in (401, 404, 408, 429) and error.status < 500
                said = f"{error.status} {error}"
            except (OSError, ValueError) as error:
                lasting, said = False, str(error) or type(error).__name__
            if lasting or time.monotonic() + pause > deadline:
                raise CniError(TRY_LATER, f"the Kubernetes API doesn't give {what}", said[:500])
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _request(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        from http.client import HTTPConnection, HTTPException, HTTPSConnection

        scheme, _, rest = self._access.server.partition("://")
        host, slash, prefix = rest.partition("/")
        headers = {"Accept": "application/json", "User-Agent": "meshnet-cni", "Connection": "close"}
        if token := self._token():
            headers["Authorization"] = f"Bearer {token}"
        if body is not None:
            merge = "application/merge-patch+json"
            headers["Content-Type"] = merge if method == "PATCH" else "application/json"
        if scheme == "https":
            made: HTTPConnection = HTTPSConnection(host, timeout=ONE_TRY, context=self._context())
        else:
            made = HTTPConnection(host, timeout=ONE_TRY)
        try:
            made.request(method, f"{slash}{prefix}{path}", encode(body) if body is not None else None, headers)
            answer = made.getresponse()
            text = answer.read(LARGEST + 1)
        except HTTPException as error:
            raise OSError(f"no HTTP from {host}: {type(error).__name__}") from error
        finally:
            made.close()
        return _understood(answer.status, text)

    def _token(self) -> str:
        if not self._access.token_file:
            return self._access.token
        with open(self._access.token_file, encoding="ascii") as file:
            return file.read().strip()

    def _context(self) -> ssl.SSLContext:
        import ssl

        access = self._access
        context = ssl.create_default_context(
            cafile=access.authority_file or None, cadata=access.authority if access.authority else None
        )
        if access.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if access.certificate:
            # The library takes files alone, and a private key is not to lie in one for that.
            with _Memory(access.certificate) as certificate, _Memory(access.key) as key:
                context.load_cert_chain(certificate, key if access.key else access.key_file or None)
        elif access.certificate_file:
            context.load_cert_chain(access.certificate_file, access.key_file or None)
        return context


class _Memory:
    """A text as a file that is nowhere; as a context manager its path."""

    def __init__(self, text: str) -> None:
        self._fd = os.memfd_create("meshnet-credential")
        os.write(self._fd, text.encode("ascii"))

    def __enter__(self) -> str:
        return f"/proc/self/fd/{self._fd}"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._fd)


def _understood(status: int, text: bytes) -> dict[str, Any]:
    try:
        found = decode(text.decode("utf-8"))
    except (NotJson, UnicodeDecodeError):
        found = None
    if status >= 300:
        said = found.get("message") if isinstance(found, dict) else None
        raise ApiError(status, str(said or "no word about why")[:300])
    if not isinstance(found, dict):
        raise ValueError("an answer that is no object")
    return found
