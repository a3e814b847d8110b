"""``completion``: the script that a shell sources."""

from __future__ import annotations

import click


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of SHELL.

    \b
    Example:
      eval "$(meshnet completion bash)"
    """
    from click.shell_completion import get_completion_class

    from meshnet.cli.main import meshnet

    found = get_completion_class(shell)
    if found is None:
        raise click.UsageError(f"no completion for {shell}")
    click.echo(found(meshnet, {}, "meshnet", "_MESHNET_COMPLETE").source())
