"""Finds meshnet's own compiled modules with two looks at the disk each, for the programs that start with every pod.

The interpreter's finder makes a dozen: it looks for modules in C, lists folders, and asks for each source twice. Over
sixty modules that is a fifth of a bare start. What isn't plain, a source that was changed or never compiled, is left to
it, and so is everything that isn't meshnet's. To import this module is to put it to work.
"""

from __future__ import annotations

import marshal
import posix
import sys
from _frozen_importlib_external import MAGIC_NUMBER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec
    from types import ModuleType
else:  # importlib is a package in Python, and not loaded yet
    Loader, ModuleSpec = object, type(__spec__)

ENDING = f".{sys.implementation.cache_tag}.pyc"
HEADER = 16
DATED = MAGIC_NUMBER + bytes(4)
"""How a compiled file begins that is valid by its source's time and size, which follow (PEP 552)."""

LONGEST = 1 << 16
"""Bytes that are read of a compiled file, in one go. None that is needed at a start comes near."""


class Finder(Loader):
    """Finder and loader in one: the methods that importlib.abc.MetaPathFinder and importlib.abc.Loader have."""

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if path is None or not name.startswith("meshnet."):
            return None
        place = f"{path[0]}/{name.rpartition('.')[2]}"
        return self._spec(name, path[0], place) or self._spec(name, place, f"{place}/__init__", (place,))

    def create_module(self, spec: ModuleSpec) -> None:  # noqa: ARG002
        return None  # an ordinary one

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        assert spec is not None
        code = marshal.loads(spec.loader_state)  # noqa: S302 (what every import does)
        spec.loader_state = None  # the next file's bytes take the place of these
        exec(code, module.__dict__)  # noqa: S102

    def _spec(self, name: str, folder: str, place: str, parts: tuple[str, ...] = ()) -> ModuleSpec | None:
        """The module whose source is ``place``.py; None when it has no compiled file that is as new."""
        source, compiled = f"{place}.py", f"{folder}/__pycache__/{place.rpartition('/')[2]}{ENDING}"
        try:
            fd = posix.open(compiled, posix.O_RDONLY | posix.O_CLOEXEC)
            try:
                body = posix.read(fd, LONGEST)
            finally:
                posix.close(fd)
            seen = posix.stat(source)
        except OSError:
            return None
        made_of = int.from_bytes(body[8:12], "little"), int.from_bytes(body[12:HEADER], "little")
        if not body.startswith(DATED) or len(body) == LONGEST or made_of != (int(seen.st_mtime), seen.st_size):
            return None
        spec = ModuleSpec(name, self, origin=source, loader_state=memoryview(body)[HEADER:])
        spec.has_location = True
        spec.cached = compiled
        if parts:
            spec.submodule_search_locations = list(parts)
        return spec


sys.meta_path.insert(0, Finder())
