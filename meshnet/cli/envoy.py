"""``envoy``: the configuration of a real sidecar for a spec."""

from __future__ import annotations

import click

from meshnet.cli import output
from meshnet.cli.options import read_document, spec_argument

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from meshnet.model.cidr import Family


@click.command()
@spec_argument
@click.option("--envoyfilter", "istio", is_flag=True, help="Istio's EnvoyFilter and the pod's patch instead.")
@click.option("--http", "http", multiple=True, type=click.IntRange(1, 65535), help="A port that speaks HTTP (again).")
@click.option("--tcp", "tcp", multiple=True, type=click.IntRange(1, 65535), help="A declared port that speaks TCP.")
@click.option(
    "--dials",
    type=click.Choice(["original", "loopback"]),
    default="original",
    show_default=True,
    help="Where inbound connections go on to: whom the client meant, or 127.0.0.1 at a declared port.",
)
@click.option(
    "--carries",
    type=click.Choice(["nothing", "proxy-protocol", "x-forwarded-for"]),
    default="nothing",
    show_default=True,
    help="How declared ports are told of the client beside the address of the packets.",
)
@click.option("--admin", default="127.0.0.1:15000", show_default=True, help="HOST:PORT or the path of a unix socket.")
@click.option("--access-log", default="/dev/stdout", show_default=True, help="File of the HTTP access log.")
@click.option("--connections", type=click.IntRange(1, 1_000_000), help="Bound of open connections; none by default.")
@click.option("-o", "--output", "form", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True)
def envoy(spec: str, istio: bool, form: str, admin: str, **words: Any) -> None:
    """Print Envoy's bootstrap for SPEC: the inbound and the outbound listener that the rules of SPEC lead to.

    Families that the spec leaves open are both. Run it with a --base-id of its own, as the spec's sidecar user or
    group, with CAP_NET_ADMIN (ambient, where the user isn't root).

    \b
    Examples:
      meshnet envoy pod.yaml --http 80 >bootstrap.yaml && envoy -c bootstrap.yaml --base-id 7
      meshnet envoy pod.yaml --envoyfilter | kubectl apply -f -
    """
    from meshnet.model.errors import UsageError, Wrong
    from meshnet.sidecar.envoy import bootstrap
    from meshnet.sidecar.envoyfilter import envoyfilter, pod_patch

    document = read_document(spec)
    try:
        if istio:
            made = [envoyfilter(document.spec), pod_patch(document.spec)]
        else:
            made = [bootstrap(_envoy(document.spec, _place(admin), **words))]
    except Wrong as error:
        raise UsageError(error.what, hint=error.right) from error
    output.answer(made[0] if len(made) == 1 else made, _yaml(made, istio), "json" if form == "json" else "text")


def _envoy(
    spec: Any,
    admin: str,
    http: tuple[int, ...],
    tcp: tuple[int, ...],
    dials: str,
    carries: str,
    access_log: str,
    connections: int | None,
) -> Any:
    from meshnet.model.value import replace
    from meshnet.sidecar.config import settings_of
    from meshnet.sidecar.envoy import Declared, Envoy

    families: tuple[Family, ...] = (4, 6) if spec.families == "auto" else spec.families
    settings = replace(settings_of(spec, families), dials=dials)
    declared = (*(Declared(number) for number in http), *(Declared(number, "tcp") for number in tcp))
    return Envoy(settings, declared, carries, admin, access_log, connections)  # type: ignore[arg-type]


def _place(word: str) -> str:
    """The word, when Envoy can listen there: it takes an address and looks no name up."""
    from meshnet.model.cidr import read_address
    from meshnet.model.errors import Wrong
    from meshnet.model.ports import read_port

    if not word.startswith("/"):
        host, _, number = word.rpartition(":")
        if not host:
            raise Wrong(f"no place of an admin interface ({word})", "127.0.0.1:15000, or an absolute path")
        read_address(host[1:-1] if host[0] + host[-1] == "[]" else host)
        read_port(number)
    return word


def _yaml(made: list[Any], istio: bool) -> str:
    import yaml

    parts = [yaml.safe_dump(item, sort_keys=False, width=120) for item in made]
    if not istio:
        return str(parts[0])
    comment = (
        "# kubectl apply takes the document above. It is for every sidecar of its namespace: where other pods have\n"
        "# other rules, give it a spec.workloadSelector. The one below is a patch of the pod's template:\n"
    )
    indented = "".join(f"# {line}\n" for line in parts[1].splitlines())
    return f"{parts[0]}---\n{comment}{indented}"
