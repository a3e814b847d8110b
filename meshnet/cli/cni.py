"""``cni``: the plugin on a node and in a cluster; ``init-container``: the way without one."""

from __future__ import annotations

import click

from meshnet.cli import output
from meshnet.cli.cni_node import (
    Taint,
    access_of,
    body_of,
    config_of_node,
    installer_of,
    not_ready,
    places_of,
    put_metrics,
    wanted_of,
    yaml_text,
)
from meshnet.cli.options import SECONDS, form_option
from meshnet.cni.places import PROFILES
from meshnet.cni.repair import POLICIES
from meshnet.model.errors import FINE, NEGATIVE
from meshnet.model.names import SIDECAR_ID

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from meshnet.cni.repair import Policy

    F = TypeVar("F", bound=Callable[..., Any])

IMAGE = "meshnet:latest"


@click.group()
def cni() -> None:
    """Put the CNI plugin on a node or into a cluster, keep it there, and find pods that it missed."""


def place_options(command: F) -> F:
    for option in (
        click.option("--root", metavar="DIR", default="", help="Where the node's file system is mounted."),
        click.option("--networks", metavar="DIR", help="The node's folder of network configurations."),
        click.option("--binaries", metavar="DIR", help="The node's folder of CNI plugins."),
        click.option(
            "--profile",
            type=click.Choice(sorted(PROFILES)),
            default="standard",
            show_default=True,
            help="A distribution, for the folders that aren't named.",
        ),
    ):
        command = option(command)
    return command


def install_options(command: F) -> F:
    for option in (
        click.option("--entry", metavar="FILE", help="JSON: our plugin's configuration, without type."),
        click.option("--packed", metavar="DIR", default="", help="What `make cni-binary` made, to be copied."),
        click.option("--service-account", is_flag=True, help="Write a kubeconfig from the pod's service account."),
    ):
        command = option(command)
    return command


@cni.command()
@place_options
@install_options
@click.option("--wait", type=SECONDS, default=0.0, metavar="SECONDS", help="For a network to be there.")
def install(
    profile: str,
    binaries: str | None,
    networks: str | None,
    root: str,
    entry: str | None,
    packed: str,
    service_account: bool,
    wait: float,
) -> int:
    """Put our entry behind the last plugin of the primary network; the second time changes nothing.

    The primary network is the lexicographically first configuration. One that is broken or half-written is never
    written to; exit code 1 says that it is still so after --wait.

    \b
    Examples:
      meshnet cni install --entry entry.json --packed dist/meshnet-cni
      meshnet cni install --profile k3s --entry entry.json --wait 120
    """
    import time

    from meshnet.cni.conflist import NotReady

    installer = installer_of(wanted_of(places_of(profile, binaries, networks), root, entry, packed, service_account))
    deadline = time.monotonic() + wait
    said = ""
    while True:
        try:
            wrote = installer.install()
        except NotReady as error:
            if str(error) != said:
                output.say(f"meshnet: not ready: {error}")
                said = str(error)
            if time.monotonic() >= deadline:
                return NEGATIVE
            time.sleep(0.5)
            continue
        output.answer(None, "installed" if wrote else "nothing to do: already as it should be", "text")
        return FINE


@cni.command()
@place_options
def uninstall(profile: str, binaries: str | None, networks: str | None, root: str) -> int:
    """Take the entry, then the kubeconfig and the binary away: what was there before is there again, byte by byte.

    \b
    Example:
      meshnet cni uninstall --profile k3s
    """
    installer_of(wanted_of(places_of(profile, binaries, networks), root, None, "", False)).uninstall()
    output.answer(None, "uninstalled", "text")
    return FINE


@cni.command()
@place_options
@install_options
@click.option("--uninstall-at-end", is_flag=True, help="Take everything away when SIGTERM comes.")
@click.option("--remove-taint", metavar="KEY", default="", help="Take this taint off the node once it is ready.")
@click.option("--node", metavar="NAME", default="", help="The node's name, for the taint.")
def watch(
    profile: str,
    binaries: str | None,
    networks: str | None,
    root: str,
    entry: str | None,
    packed: str,
    service_account: bool,
    uninstall_at_end: bool,
    remove_taint: str,
    node: str,
) -> int:
    """Install, and put back whatever somebody takes out, with a back-off; until SIGTERM or SIGINT.

    \b
    Example:
      meshnet cni watch --root /host --entry entry.json --packed /opt/meshnet/meshnet-cni --service-account
    """
    import signal
    import threading

    from meshnet.cni.watcher import Watcher

    if remove_taint and not node:
        raise click.UsageError("--remove-taint without --node: off which node?")
    places = places_of(profile, binaries, networks)
    installer = installer_of(wanted_of(places, root, entry, packed, service_account))
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    taint = Taint(remove_taint, node, places, root)

    def wait(seconds: float) -> bool:
        taint.look()
        return not ended.wait(seconds)

    Watcher(installer, output.say, wait).run()
    if uninstall_at_end:
        installer.uninstall()
    return FINE


@cni.command()
@place_options
def ready(profile: str, binaries: str | None, networks: str | None, root: str) -> int:
    """Whether the node's primary network has our entry and the plugin says on the node that it can work (STATUS).

    Exit code 1 says no, and a line why.

    \b
    Example:
      meshnet cni ready --root /host
    """
    problem = not_ready(places_of(profile, binaries, networks), root)
    if problem:
        output.say(f"meshnet: {problem}")
        return NEGATIVE
    output.answer(None, "ready", "text")
    return FINE


@cni.command()
@place_options
@click.option("--node", metavar="NAME", required=True, help="Whose pods are looked at.")
@click.option("--policy", type=click.Choice(POLICIES), default="report", show_default=True, help="What is done.")
@click.option("--every", type=SECONDS, default=0.0, metavar="SECONDS", help="Again and again.")
@click.option("--metrics-file", metavar="FILE", help="For a collector of text files; else to standard output.")
def repair(
    profile: str,
    binaries: str | None,
    networks: str | None,
    root: str,
    node: str,
    policy: Policy,
    every: float,
    metrics_file: str | None,
) -> int:
    """Find running pods of a node that should be captured and aren't: report, re-apply, label or delete them.

    The answer is metrics in Prometheus' text format; exit code 1 when a pod is still uncaptured.

    \b
    Example:
      meshnet cni repair --node "$NODE_NAME" --policy apply
    """
    import time

    from meshnet.cni.kubernetes import Api
    from meshnet.cni.protocol import CniError
    from meshnet.cni.repair import metrics
    from meshnet.cni.repair import repair as look
    from meshnet.model.errors import ToolError

    while True:
        try:
            config = config_of_node(places_of(profile, binaries, networks), root)
            checked = look(Api(access_of(config, root)), config, node, policy)
        except CniError as error:
            raise ToolError(error.message, detail=error.details) from None
        for item in checked:
            if item.said:
                output.say(f"meshnet: {item.namespace}/{item.name}: {item.state}: {item.said}")
        put_metrics(metrics(checked, node), metrics_file)
        if not every:
            return FINE if all(item.good for item in checked) else NEGATIVE
        time.sleep(every)


@cni.command()
@click.option("--image", default=IMAGE, show_default=True, help="What scripts/Containerfile makes.")
@click.option("--namespace", default="kube-system", show_default=True, help="Where the agent runs.")
@click.option("--profile", type=click.Choice(sorted(PROFILES)), default="standard", show_default=True)
@click.option("--interception", metavar="FILE", help="YAML or JSON: a spec's fields, the defaults of all pods.")
@click.option("--exclude-namespace", multiple=True, default=("kube-system",), show_default=True)
@click.option("--log-level", type=click.Choice(["debug", "info", "warn", "error"]), default="info")
@click.option("--taint", metavar="KEY", default="", help="Have this taint taken off a node that is ready.")
@click.option("--repair", type=click.Choice(POLICIES), help="Run `meshnet cni repair` with this policy.")
@form_option
def manifests(
    image: str,
    namespace: str,
    profile: str,
    interception: str | None,
    exclude_namespace: tuple[str, ...],
    log_level: str,
    taint: str,
    repair: str | None,
    form: str,
) -> int:
    """Print what a cluster needs: an agent on each node that installs and watches, with the rights that it takes.

    \b
    Examples:
      meshnet cni manifests | kubectl apply -f -
      meshnet cni manifests --profile gke --taint node.example.com/no-mesh --repair delete
    """
    from meshnet.cni.manifests import Cluster
    from meshnet.cni.manifests import manifests as objects

    cluster = Cluster(
        image,
        namespace,
        PROFILES[profile],
        body_of(interception),
        exclude_namespace,
        log_level,
        taint,
        repair or "",
    )
    found = objects(cluster)
    output.answer({"apiVersion": "v1", "kind": "List", "items": found}, yaml_text(found), form)
    return FINE


@click.command(name="init-container", context_settings={"ignore_unknown_options": True})
@click.option("--image", default=IMAGE, show_default=True, help="What scripts/Containerfile makes.")
@click.argument("flags", nargs=-1, type=click.UNPROCESSED)
@form_option
def init_container(image: str, flags: tuple[str, ...], form: str) -> int:
    """Print the part of a Pod that writes its rules by itself, with the capabilities that this takes.

    FLAGS stand behind two hyphens: those of meshnet-init.

    \b
    Example:
      meshnet init-container -- -p 15001 -z 15006 -u 1337 -m REDIRECT -i '*' -b '*' -d 15090,15021,15020
    """
    from meshnet.cli.init_flags import read, require_words
    from meshnet.cni.manifests import init_container as snippet
    from meshnet.spec.dialects.istio import Directory, spec_of

    # A wrong flag is said here and not by a pod that doesn't start. Users by name are the image's to know.
    settings = read(flags, {})
    require_words(settings)
    profile: Any = settings.text("profile", "istio")
    spec_of(settings.given, profile=profile, families=(4, 6), directory=Directory(_of_image, _of_image))
    found = snippet(image, list(flags))
    output.answer(found, yaml_text([found]), form)
    return FINE


def _of_image(name: str) -> int:
    del name
    return SIDECAR_ID
