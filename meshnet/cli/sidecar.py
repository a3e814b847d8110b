"""``sidecar``: the embedded proxy, for trying a spec where no other one is installed."""

from __future__ import annotations

import os
import sys

import click

from meshnet.cli.options import netns_options, place_of, read_document, spec_argument


@click.command()
@spec_argument
@netns_options
@click.option(
    "--dials",
    type=click.Choice(["original", "loopback"]),
    default="original",
    show_default=True,
    help="Where inbound connections go on to: whom the client meant, or 127.0.0.1, which hides the client.",
)
def sidecar(spec: str, netns: str | None, pid: int | None, dials: str) -> None:
    """Run the embedded transparent proxy for SPEC in a namespace, as the spec's first sidecar uid and gid.

    It prints `ready` when it listens, ends with SIGTERM, and prints its counters as JSON on standard error then.

    \b
    Example:
      meshnet sidecar pod.yaml --netns pod
    """
    from meshnet.compile.resolve import resolve
    from meshnet.kernel.facts import gather
    from meshnet.kernel.netns import open_namespace, require_capabilities
    from meshnet.model.value import replace
    from meshnet.sidecar.config import settings_of

    require_capabilities(("CAP_NET_ADMIN", "CAP_SYS_ADMIN"), "a transparent proxy in a network namespace")
    document = read_document(spec)
    place = place_of(netns, pid)
    with open_namespace(place) as namespace, namespace.entered():
        _, families = resolve(document.spec, gather(place))
        settings = replace(settings_of(document.spec, families), dials=dials)
        os.execv(sys.executable, [sys.executable, "-m", "meshnet.sidecar", settings.to_json()])  # noqa: S606
