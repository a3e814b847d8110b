"""Every way in which meshnet says no. Code branches on the class, people read what, where and what next."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

FINE, NEGATIVE, WRONG_USAGE, REFUSED, NOT_HERE = 0, 1, 2, 3, 4


class Wrong(ValueError):
    """A word that is not a value: ``what`` is wrong with it, and what ``right`` looks like."""

    def __init__(self, what: str, right: str) -> None:
        super().__init__(f"{what}: {right}")
        self.what = what
        self.right = right


class MeshnetError(Exception):
    """The root. ``exit_code`` is what a command ends with; ``hint`` is the next step for a person."""

    exit_code = REFUSED
    kind = "error"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        """The message as it is now: a roll-back adds to it that the namespace is as it was."""
        return self.message

    def lines(self) -> list[str]:
        """What a person is shown, one entry a line."""
        return [self.message, *([f"  next: {self.hint}"] if self.hint else [])]


class SpecError(MeshnetError):
    """A document that is no spec, with all of its problems at once."""

    exit_code = WRONG_USAGE
    kind = "spec"

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(f"{len(problems)} problem{'s' if len(problems) != 1 else ''} in the spec")
        self.problems = tuple(problems)

    def lines(self) -> list[str]:
        return list(self.problems)


class UsageError(MeshnetError):
    """Flags or arguments that contradict each other or name nothing."""

    exit_code = WRONG_USAGE
    kind = "usage"


class RulesError(MeshnetError):
    """A text that is no rule set, or a rule set that no kernel would take; all problems at once, with their lines."""

    exit_code = WRONG_USAGE
    kind = "rules"

    def __init__(self, problems: Sequence[str], *, hint: str = "") -> None:
        super().__init__(problems[0] if len(problems) == 1 else f"{len(problems)} problems in the rules", hint=hint)
        self.problems = tuple(problems)

    def lines(self) -> list[str]:
        return [*self.problems, *([f"  next: {self.hint}"] if self.hint else [])]


class ToolError(MeshnetError):
    """A tool or the kernel refused; ``detail`` holds its own words."""

    kind = "tool"

    def __init__(self, message: str, *, hint: str = "", detail: str = "") -> None:
        super().__init__(message, hint=hint)
        self.detail = detail

    def lines(self) -> list[str]:
        said = [f"  said: {line}" for line in self.detail.strip().splitlines()[:20]]
        head, *rest = super().lines()
        return [head, *said, *rest]


class BusyError(ToolError):
    """Somebody else holds the lock, and the bounded wait is over."""

    kind = "busy"


class MissingToolError(ToolError):
    """A program that the work needs is not installed."""

    exit_code = NOT_HERE
    kind = "missing-tool"


class NamespaceError(MeshnetError):
    """No such namespace, or it can't be entered."""

    kind = "namespace"


class PermissionMissing(MeshnetError):
    """The process lacks a capability that the work needs. Told in one line, the next step behind it."""

    exit_code = NOT_HERE
    kind = "permission"

    def lines(self) -> list[str]:
        return [f"{self.message}: {self.hint}" if self.hint else self.message]


class UnsupportedError(MeshnetError):
    """This backend, kernel or build can't do what is asked; all reasons at once."""

    exit_code = NOT_HERE
    kind = "unsupported"

    def __init__(self, reasons: Sequence[str], *, hint: str = "") -> None:
        super().__init__("; ".join(reasons), hint=hint)
        self.reasons = tuple(reasons)
