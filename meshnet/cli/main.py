"""``meshnet``: the group of commands. A command's module is loaded when the command is called."""

from __future__ import annotations

import sys

import click

from meshnet import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

COMMANDS = {
    "apply": (
        "meshnet.cli.namespace",
        "apply",
        "Make a namespace do what a spec says; the second run changes nothing.",
    ),
    "cni": ("meshnet.cli.cni", "cni", "Put the CNI plugin on a node or into a cluster, and find pods that it missed."),
    "compare": ("meshnet.cli.compare", "compare", "Say whether two specs or rule sets treat every packet alike."),
    "compile": ("meshnet.cli.program", "compile_command", "Print exactly what would be applied, and touch nothing."),
    "completion": ("meshnet.cli.completion", "completion", "Print the completion script of a shell."),
    "demo": ("meshnet.cli.demo", "demo", "Show which client address an application sees, four ways, both families."),
    "diff": ("meshnet.cli.namespace", "diff", "Show what differs between a spec and a namespace; exit 1 if anything."),
    "doctor": (
        "meshnet.cli.doctor",
        "doctor",
        "Say what is wrong with rules: loops, lost replies, rules that nothing reaches.",
    ),
    "envoy": ("meshnet.cli.envoy", "envoy", "Print Envoy's bootstrap for a spec, or Istio's EnvoyFilter."),
    "explain": (
        "meshnet.cli.explain",
        "explain",
        "Tell what happens to a packet, and why, for a spec or for anybody's saved rules.",
    ),
    "lab": ("meshnet.cli.lab", "lab", "Reproduce the original-source bugs and their cures with real servers."),
    "init-container": ("meshnet.cli.cni", "init_container", "Print the part of a Pod that writes its rules by itself."),
    "remove": ("meshnet.cli.namespace", "remove", "Take everything of meshnet out of a namespace; needs no spec."),
    "schema": ("meshnet.cli.program", "schema", "Print the JSON Schema of a spec."),
    "sidecar": ("meshnet.cli.sidecar", "sidecar", "Run the embedded transparent proxy for a spec."),
    "trace": ("meshnet.cli.trace", "trace", "Send a packet and show its real path beside the predicted one."),
    "verify": ("meshnet.cli.verify", "verify", "Send packets and show that a namespace does what a spec says."),
}

EXIT_CODES = """\b
Exit codes:
  0  fine
  1  a negative finding: drift, a probe that landed elsewhere, a difference, a doctor's finding
  2  wrong usage, or a wrong spec
  3  the kernel or a tool refused
  4  not permitted, or not supported here"""


class Commands(click.Group):
    """Knows the names and one-line helps without importing what is behind them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        from importlib import import_module

        module, name, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][2]) for name in sorted(COMMANDS)])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, 1)
            meant = f" Did you mean {near[0]}?" if near else ""
            raise click.UsageError(f"No such command: {args[0]}.{meant}", ctx)
        return super().resolve_command(ctx, args)


@click.group(
    cls=Commands,
    epilog=EXIT_CODES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(__version__, "-V", "--version", prog_name="meshnet")
def meshnet() -> None:
    """Transparent traffic interception on Linux: compile a spec to netfilter rules and policy routes, apply them to a
    network namespace, and prove with packets that they do what the spec says."""


def run(arguments: list[str] | None = None) -> None:
    """The console script: every way to fail ends in a line and an exit code, none in a traceback."""
    sys.exit(call(arguments))


def call(arguments: list[str] | None = None) -> int:
    """Run a command line and return its exit code."""
    from meshnet.cli import output
    from meshnet.model.errors import REFUSED, WRONG_USAGE, MeshnetError

    words = sys.argv[1:] if arguments is None else arguments
    try:
        code: Any = meshnet.main(words, prog_name="meshnet", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        output.say(error.format_message())
        return WRONG_USAGE
    except click.ClickException as error:
        error.show()
        return WRONG_USAGE
    except MeshnetError as error:
        output.complain(error, _form(words))
        return error.exit_code
    except (KeyboardInterrupt, click.exceptions.Abort):
        output.say("meshnet: interrupted")
        return 130
    except SystemExit:
        return 0  # click's way to end when the reader of our output went away; it raises this for nothing else here
    except BrokenPipeError:
        # The reader of our output went away (`meshnet compile … | head`): nobody is left to tell.
        sys.stderr.close()
        return 0
    except OSError as error:
        output.say(f"meshnet: {error}")
        return REFUSED


def _form(words: list[str]) -> str:
    """Whether the answer was wanted as JSON, also when the command line was never parsed to its end."""
    wanted = any(
        word in ("-ojson", "--output=json") or (word in ("-o", "--output") and words[place + 1 : place + 2] == ["json"])
        for place, word in enumerate(words)
    )
    return "json" if wanted else "text"
