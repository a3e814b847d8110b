"""Keeps the plugin installed: who rewrites the network's configuration, as an update does, takes our entry out."""

from __future__ import annotations

import time

from meshnet.cni.conflist import NotReady
from meshnet.model.errors import MeshnetError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from meshnet.cni.installer import Installer

PAUSE = 1.0
"""Seconds between two looks: some stat calls each."""

LONGEST_BACK_OFF = 60.0


class Watcher:
    """Looks, puts back, and backs off from somebody who rewrites again and again: two writers who insist would wear the
    disk out and give every other pod the wrong chain. ``wait`` sleeps some seconds and says whether to go on."""

    def __init__(
        self,
        installer: Installer,
        say: Callable[[str], None],
        wait: Callable[[float], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._installer = installer
        self._say = say
        self._wait = wait
        self._clock = clock
        self._seen: tuple[object, ...] | None = None
        self._said = ""
        self._back_off = 0.0
        self._last_write: float | None = None

    def run(self) -> None:
        """Until ``wait`` says no."""
        while True:
            self.look()
            if not self._wait(PAUSE):
                return

    def look(self) -> bool:
        """One look; whether everything is in place after it."""
        now = self._clock()
        signature = self._installer.signature()
        if signature == self._seen and not self._said:
            return True
        if self._last_write is not None and now < self._last_write + self._back_off:
            return False
        try:
            wrote = self._installer.install()
        except (NotReady, MeshnetError) as error:
            self._tell(f"waiting: {error}")
            self._seen = signature
            return False
        self._tell("")
        if wrote:
            self._wrote(now)
        # What was there before the look is what was looked at. Taken afterwards it could be of a file that its owner
        # wrote in between, and nobody would look at that one; so after a write of ours there is another look.
        self._seen = None if wrote else signature
        return True

    def _wrote(self, now: float) -> None:
        """Twice as long a pause for each writing that comes soon after the one before."""
        if self._last_write is not None:
            soon = now - self._last_write < 4 * max(self._back_off, PAUSE)
            self._back_off = min(max(2 * self._back_off, PAUSE), LONGEST_BACK_OFF) if soon else 0.0
            if self._back_off:
                self._say(f"somebody rewrites the network's configuration: the next look in {self._back_off:g} s")
        self._last_write = now

    def _tell(self, said: str) -> None:
        """Once, and again when it is another reason."""
        if said and said != self._said:
            self._say(said)
        self._said = said
