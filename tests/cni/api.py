"""A Kubernetes API server as far as the plugin asks one: pods, labels, deletion, nodes; with a token and faults."""

from __future__ import annotations

import json
import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from pathlib import Path

TOKEN = "first-token"


class FakeApi:
    """``pods`` by ``namespace/name``. ``failing``: statuses that the next requests get instead of their answer."""

    def __init__(self) -> None:
        self.pods: dict[str, dict[str, Any]] = {}
        self.nodes: dict[str, dict[str, Any]] = {}
        self.token = TOKEN
        self.failing: list[int] = []
        self.requests: list[str] = []
        self.deleted: list[dict[str, Any]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def over_tls(self, key: Path, certificate: Path, *, asks_client: bool = False) -> str:
        """From now on by TLS; the new address."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        if asks_client:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(certificate)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        return self.url.replace("http:", "https:")

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def put(self, pod: dict[str, Any]) -> None:
        metadata = pod["metadata"]
        self.pods[f"{metadata['namespace']}/{metadata['name']}"] = pod

    def kubeconfig(self, folder: Path) -> str:
        """A kubeconfig with a token's file beside it, as the installer leaves one."""
        (folder / "token").write_text(TOKEN)
        path = folder / "kubeconfig"
        cluster = {"server": self.url}
        path.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [{"name": "local", "cluster": cluster}],
                    "users": [{"name": "agent", "user": {"tokenFile": str(folder / "token")}}],
                    "contexts": [{"name": "agent@local", "context": {"cluster": "local", "user": "agent"}}],
                    "current-context": "agent@local",
                }
            )
        )
        return str(path)

    def answer(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        parts = urlsplit(path)
        words = parts.path.strip("/").split("/")
        if parts.path == "/api/v1/pods":
            node = parse_qs(parts.query)["fieldSelector"][0].removeprefix("spec.nodeName=")
            return 200, {"items": [pod for pod in self.pods.values() if pod["spec"].get("nodeName") == node]}
        found = self.nodes.get(words[-1]) if words[-2] == "nodes" else self.pods.get(f"{words[-3]}/{words[-1]}")
        if found is None:
            return 404, {"kind": "Status", "message": f"{words[-1]} not found"}
        if method == "PATCH":
            for key in ("labels",):
                found["metadata"].setdefault(key, {}).update(body.get("metadata", {}).get(key, {}))
            found["spec"].update(body.get("spec", {}))
        if method == "DELETE":
            self.deleted.append(body | {"name": words[-1]})
            del self.pods[f"{words[-3]}/{words[-1]}"]
        return 200, found


def _handler(api: FakeApi) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def _any(self) -> None:
            api.requests.append(f"{self.command} {self.path}")
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
            if self.headers.get("Authorization") != f"Bearer {api.token}":
                status, said = 401, {"kind": "Status", "message": "Unauthorized"}
            elif api.failing:
                status, said = api.failing.pop(0), {"kind": "Status", "message": "not now"}
            else:
                status, said = api.answer(self.command, self.path, body)
            text = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_PATCH = do_DELETE = _any  # noqa: N815 (the library looks for these names)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def certified(folder: Path) -> tuple[Path, Path]:
    """A key and a certificate for 127.0.0.1 that certifies itself."""
    key, certificate = folder / "key", folder / "certificate"
    subject = ("-subj", "/CN=api", "-addext", "subjectAltName=IP:127.0.0.1")
    argv = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", *subject)
    subprocess.run((*argv, "-keyout", key, "-out", certificate, "-days", "1"), check=True, capture_output=True)
    return key, certificate


def injected(name: str = "web", namespace: str = "shop", **annotations: str) -> dict[str, Any]:
    """A pod that Istio's injector has been at."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "labels": {},
            "annotations": {"sidecar.istio.io/status": '{"containers":["istio-proxy"]}', **annotations},
        },
        "spec": {
            "nodeName": "here",
            "containers": [
                {"name": "application"},
                {
                    "name": "istio-proxy",
                    "args": ["proxy", "sidecar"],
                    "env": [],
                    "securityContext": {"runAsUser": 1337, "runAsGroup": 1337},
                },
            ],
        },
        "status": {"phase": "Running"},
    }
