"""``python -m meshnet``, and the console script: what makes every command quicker, ahead of all imports."""

from __future__ import annotations

import atexit
import gc
import sys

import meshnet.finder  # noqa: F401 (which puts it to work)

MANY = 100_000
"""Objects that are made before anybody looks for garbage among them. A command's start makes a quarter of that, and
hardly any garbage; with the interpreter's 700 the looks cost a third of a bare start."""


def run() -> None:
    """Run the command line. Half of a short command's time goes into loading it, so Ctrl-C may come that early too."""
    gc.set_threshold(MANY)
    # The last look, at everything that was loaded, costs a whole bare start, and all of it goes with the process.
    atexit.register(gc.freeze)
    try:
        from meshnet.cli.main import run as command_line

        command_line()
    except KeyboardInterrupt:
        sys.stderr.write("meshnet: interrupted\n")
        sys.exit(130)


if __name__ == "__main__":
    run()
