"""What the plugin says about its work: lines on standard error, and the same in a file that can't fill a disk."""

from __future__ import annotations

import fcntl
import os
import time

from meshnet.cni.config import LEVELS

LARGEST = 2 * 1024 * 1024
"""Bytes of the file; one older file of that size is kept beside it. A line for each call: some ten thousand pods."""

LONGEST = 2000
"""Letters of one line. What stands in an annotation may be as long as somebody likes."""


class Journal:
    """``about`` is put in front of every line. A file that can't be written is told once, on standard error."""

    def __init__(self, about: str = "", level: str = "info", file: str = "") -> None:
        self.about = about
        self._least = LEVELS.index(level)
        self._file = file

    def debug(self, line: str) -> None:
        self._say("debug", line)

    def info(self, line: str) -> None:
        self._say("info", line)

    def warn(self, line: str) -> None:
        self._say("warn", line)

    def error(self, line: str) -> None:
        self._say("error", line)

    def _say(self, level: str, line: str) -> None:
        if LEVELS.index(level) < self._least:
            return
        cut = line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
        clean = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in cut)
        said = f"{level}: {f'{self.about}: ' if self.about else ''}{clean}\n"
        _write(2, f"meshnet-cni: {said}")
        if self._file:
            try:
                self._keep(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {os.getpid()} {said}")
            except OSError as error:
                _write(2, f"meshnet-cni: warn: no log in {self._file}: {error.strerror}\n")
                self._file = ""

    def _keep(self, line: str) -> None:
        # Without a link followed and without a FIFO waited for: the folder may be somebody else's to write to.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        fd = os.open(self._file, flags, 0o640)
        try:
            _write(fd, line)
            if os.fstat(fd).st_size > LARGEST:
                self._turn(fd)
        finally:
            os.close(fd)

    def _turn(self, fd: int) -> None:
        """Put the full file aside. Of several plugins at once one does it; the others see that it is done."""
        fcntl.flock(fd, fcntl.LOCK_EX)
        there = os.stat(self._file, follow_symlinks=False)
        if (there.st_dev, there.st_ino) == (os.fstat(fd).st_dev, os.fstat(fd).st_ino):
            os.replace(self._file, f"{self._file}.1")


def _write(fd: int, text: str) -> None:
    try:
        os.write(fd, text.encode("utf-8", "backslashreplace"))
    except OSError:
        if fd != 2:
            raise  # nobody reads standard error: that is no reason to leave a pod without its rules
