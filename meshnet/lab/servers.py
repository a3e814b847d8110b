"""Real servers in a namespace: Envoy as the sidecar, nginx as the application. Started, awaited, counted, ended.

Each has an empty /dev/shm of its own (``launch``), where its files lie: nothing of it reaches the host, and nothing
is left when it is killed. The lab reads them through /proc.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import socket
import sys
from pathlib import Path

import meshnet
from meshnet.kernel.mounts import SHARED_MEMORY
from meshnet.lab.installed import envoy_binary, nginx_binary
from meshnet.lab.process import Child, start, start_sidecar
from meshnet.model.errors import ToolError
from meshnet.model.value import value
from meshnet.sidecar.envoy import Envoy, bootstrap
from meshnet.sidecar.privilege import CAP_NET_ADMIN, CAP_NET_BIND_SERVICE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Literal

    from meshnet.lab.process import Enterable
    from meshnet.model.cidr import Family
    from meshnet.sidecar.config import Settings

    Behind = Literal["nothing", "proxy-protocol", "x-forwarded-for"]

ADMIN = f"{SHARED_MEMORY}/admin.sock"
ACCESS_LOG = f"{SHARED_MEMORY}/access.log"
OPEN_FILES = 8192
ANSWER_SECONDS = 5.0
LISTEN = "0A"
"""TCP_LISTEN of net/tcp_states.h, as /proc/net/tcp prints it."""

_numbers = itertools.count()


@value
class Counts:
    """What a sidecar counted since its start: connections taken, and those that it refused or could not pass on."""

    inbound: int = 0
    outbound: int = 0
    loops: int = 0
    failures: int = 0

    def since(self, before: Counts) -> Counts:
        return Counts(
            self.inbound - before.inbound,
            self.outbound - before.outbound,
            self.loops - before.loops,
            self.failures - before.failures,
        )


class Sidecar:
    """A running sidecar of either kind. A context manager: leaving it stops the process."""

    def __init__(self, kind: str, child: Child, count: Callable[[Child], Counts]) -> None:
        self.kind = kind
        self.child = child
        self._count = count

    def counts(self) -> Counts:
        return self._count(self.child)

    def stop(self) -> None:
        self.child.stop()

    def __enter__(self) -> Sidecar:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def embedded(settings: Settings, namespace: Enterable) -> Sidecar:
    """The embedded sidecar, listening. Errors: ToolError."""
    return Sidecar("embedded", start_sidecar(settings, namespace), _embedded_counts)


def envoy(told: Envoy, namespace: Enterable) -> Sidecar:
    """Real Envoy with its bootstrap, as the settings' uid and gid, with CAP_NET_ADMIN. MissingToolError, ToolError."""
    text = json.dumps(bootstrap(told))
    # Two in one namespace would meet at the abstract sockets of a base id; memory is each one's own.
    number = os.getpid() % 100_000 * 1000 + next(_numbers) % 1000
    argv = [envoy_binary(), "-c", "bootstrap.json", "--base-id", str(number), "--concurrency", "1", "-l", "warning"]
    settings = told.settings
    child = launched(
        "envoy",
        argv,
        namespace,
        files={"bootstrap.json": text},
        uid=settings.uid,
        gid=settings.gid,
        capabilities=(CAP_NET_ADMIN,),
        ready=_admin_says_ready,
    )
    return Sidecar("envoy", child, _envoy_counts)


def nginx(
    namespace: Enterable,
    *,
    port: int = 80,
    uid: int | None = None,
    gid: int | None = None,
    families: Sequence[Family] = (4, 6),
    behind: Behind = "nothing",
    trusted: Sequence[str] = (),
) -> Child:
    """nginx that answers with the client's address and logs it. ``behind`` is what it believes, of ``trusted``.

    One process: a worker would outlive a master that was killed. MissingToolError, ToolError.
    """
    argv = [nginx_binary(), "-p", f"{SHARED_MEMORY}/", "-e", "stderr", "-c", "nginx.conf"]
    return launched(
        "nginx",
        argv,
        namespace,
        files={"nginx.conf": nginx_configuration(port, families, behind, trusted)},
        folders=("temporary",),
        uid=uid,
        gid=gid,
        capabilities=(CAP_NET_BIND_SERVICE,),
        ready=lambda child: listens(child.pid, port),
    )


def nginx_configuration(port: int, families: Sequence[Family], behind: Behind, trusted: Sequence[str]) -> str:
    """The text of nginx.conf."""
    proxied = " proxy_protocol" if behind == "proxy-protocol" else ""
    hosts = {4: f"{port}", 6: f"[::]:{port} ipv6only=on"}
    believed = [f"set_real_ip_from {block};" for block in trusted]
    if behind != "nothing":
        header = "proxy_protocol" if behind == "proxy-protocol" else "X-Forwarded-For"
        believed.append(f"real_ip_header {header};")
    return "\n".join(
        (
            "daemon off; master_process off; pid nginx.pid; error_log stderr warn;",
            "events { worker_connections 1024; }",
            "http {",
            "client_body_temp_path temporary/body; proxy_temp_path temporary/proxy; fastcgi_temp_path temporary/f;",
            "uwsgi_temp_path temporary/u; scgi_temp_path temporary/s;",
            "log_format lab '$remote_addr \"$request\" $status';",
            "access_log access.log lab;",
            "server {",
            *(f"listen {hosts[family]}{proxied};" for family in families),
            *believed,
            'location / { default_type text/plain; return 200 "$remote_addr"; }',
            "}",
            "}",
            "",
        )
    )


def launched(
    name: str,
    argv: Sequence[str],
    namespace: Enterable,
    *,
    ready: Callable[[Child], bool],
    files: Mapping[str, str] = {},
    folders: Sequence[str] = (),
    uid: int | None = None,
    gid: int | None = None,
    capabilities: Sequence[int] = (),
    within: float = 30.0,
) -> Child:
    """Start a program by ``launch``, with files in its own /dev/shm, and wait until it is ``ready``. ToolError."""
    told = {
        "argv": list(argv),
        "files": dict(files),
        "folders": list(folders),
        "files_open": OPEN_FILES,
        "uid": uid,
        "gid": gid,
        "capabilities": list(capabilities),
        "parent": os.getpid(),
    }
    folder = str(Path(meshnet.__file__).resolve().parent.parent)
    script = str(Path(__file__).with_name("launch.py"))
    command = [sys.executable, "-I", "-S", script, folder, json.dumps(told)]
    return start(name, command, namespace, ready=ready, ready_within=within)


def file_of(child: Child, path: str) -> str:
    """The text of a file in a running server's own /dev/shm; empty when it has none."""
    try:
        return Path(f"/proc/{child.pid}/root{path}").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def listens(pid: int, port: int) -> bool:
    """Whether anything in the network namespace of a process listens on a TCP port. Asked of /proc, not by a call."""
    for name in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/{pid}/net/{name}").read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            words = line.split()
            if words[3] == LISTEN and int(words[1].rpartition(":")[2], 16) == port:
                return True
    return False


def _embedded_counts(child: Child) -> Counts:
    found = child.stats()
    loops = found["loops_refused"] + found["direct_refused"]
    return Counts(found["accepted_inbound"], found["accepted_outbound"], loops, found["upstream_failures"])


def _envoy_counts(child: Child) -> Counts:
    found = json.loads(_admin(child, "/stats?format=json&type=Counters&usedonly"))["stats"]
    numbers = {item["name"]: int(item["value"]) for item in found if "value" in item}
    failed = ("upstream_cx_connect_fail", "upstream_cx_connect_timeout")
    return Counts(
        numbers.get("listener.inbound.downstream_cx_total", 0),
        numbers.get("listener.outbound.downstream_cx_total", 0),
        sum(number for name, number in numbers.items() if name.endswith("downstream_global_cx_overflow")),
        sum(number for name, number in numbers.items() if name.rpartition(".")[2] in failed),
    )


def _admin_says_ready(child: Child) -> bool:
    with contextlib.suppress(OSError, ToolError):
        return _admin(child, "/ready").strip() == "LIVE"
    return False


def _admin(child: Child, path: str) -> str:
    """An answer of Envoy's admin interface, by its socket in its own /dev/shm."""
    with socket.socket(socket.AF_UNIX) as made:
        made.settimeout(ANSWER_SECONDS)
        made.connect(f"/proc/{child.pid}/root{ADMIN}")
        made.sendall(f"GET {path} HTTP/1.1\r\nHost: admin\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: made.recv(65536), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    if b"chunked" in head.lower():
        body = _unchunked(body)
    if b" 200 " not in head.split(b"\r\n")[0] and path != "/ready":
        raise ToolError("envoy's admin interface gave no good answer", detail=answer.decode(errors="replace")[:400])
    return body.decode(errors="replace")


def _unchunked(body: bytes) -> bytes:
    """RFC 9112 section 7.1, without trailers."""
    whole = b""
    while body:
        size, _, rest = body.partition(b"\r\n")
        length = int(size.split(b";")[0], 16)
        if not length:
            break
        whole += rest[:length]
        body = rest[length + 2 :]
    return whole
