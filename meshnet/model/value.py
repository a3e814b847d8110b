"""How meshnet writes its nouns: frozen, slotted classes with the shape of a dataclass.

A type checker reads ``@value`` as ``@dataclass(frozen=True, slots=True)``. At run time it is this module and not
``dataclasses``, because an init container pays for the start of the process on every pod: importing ``dataclasses``
costs as much as the bare interpreter (it loads inspect, ast, dis and re), and each frozen slotted class another
millisecond. This decorator costs a fiftieth of that and gives the same behaviour: positional and keyword
construction, defaults, ``__post_init__``, equality and hash by class and fields, ``match`` patterns, no assignment.
"""

from __future__ import annotations

from _operator import attrgetter  # ``operator`` itself is a module of Python around it, which nothing else needs

TYPE_CHECKING = False  # a type checker takes this name as true; ``typing`` itself costs a third of a bare start
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar, dataclass_transform
    from typing import assert_never as assert_never

    T = TypeVar("T")

    @dataclass_transform(frozen_default=True)
    def value(cls: type[T]) -> type[T]: ...

else:

    def assert_never(item):
        """The end of a ``match`` that a type checker has found complete."""
        raise AssertionError(f"nobody knows what to do with {item!r}")

    def value(cls):
        """Turn an annotated class into a frozen, slotted value (fields in order of annotation; no inheritance)."""
        namespace = dict(cls.__dict__)
        names = tuple(namespace.get("__annotations__", ()))
        defaults = {name: namespace.pop(name) for name in names if name in namespace}
        for key in ("__dict__", "__weakref__"):
            namespace.pop(key, None)
        if namespace.get("__hash__") is None:  # a class body that defines __eq__ alone sets __hash__ to None
            namespace["__hash__"] = _hash
        namespace = {
            "__eq__": _eq,
            "__repr__": _repr,
            **namespace,
            "__slots__": names,
            "__match_args__": names,
            "__setattr__": _refuse,
            "__delattr__": _refuse,
            "__reduce__": _reduce,
            "_fields": staticmethod(_reader(names)),
        }
        made = type(cls)(cls.__name__, cls.__bases__, namespace)
        made.__init__ = _init(made, names, defaults, "__post_init__" in namespace)
        return made


def replace(item: T, **changes: Any) -> T:
    """A copy of a value with some fields changed; it checks itself again like any new value."""
    names: tuple[str, ...] = type(item).__match_args__  # type: ignore[attr-defined]
    fields = {name: getattr(item, name) for name in names}
    unknown = sorted(set(changes) - set(names))
    if unknown:
        raise TypeError(f"{type(item).__name__} has no field {', '.join(unknown)}")
    return type(item)(**{**fields, **changes})


def _reader(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    if not names:
        return lambda _: ()
    get = attrgetter(*names)
    return get if len(names) > 1 else lambda item: (get(item),)


def _init(made: type, names: tuple[str, ...], defaults: dict[str, Any], checks: bool) -> Callable[..., None]:
    """A closure and not generated source: to compile that takes 60 us a class, and a start meets 66 classes."""
    setters = tuple(made.__dict__[name].__set__ for name in names)
    count = len(names)
    needed = count
    while needed and names[needed - 1] in defaults:
        needed -= 1
    rest = tuple(defaults[name] for name in names[needed:])

    def __init__(self: Any, *given: Any, **named: Any) -> None:  # noqa: N807 (it becomes the class's own)
        if named or not needed <= len(given) <= count:
            given = _fields_of(made.__name__, names, defaults, given, named)
        elif len(given) < count:
            given += rest[len(given) - needed :]
        for put, item in zip(setters, given):  # noqa: B905 (of equal length by now)
            put(self, item)
        if checks:
            self.__post_init__()

    return __init__


def _fields_of(
    kind: str, names: tuple[str, ...], defaults: dict[str, Any], given: tuple[Any, ...], named: dict[str, Any]
) -> tuple[Any, ...]:
    """All fields in order, from what was given by place, by name and by default; TypeError when that isn't all."""
    if len(given) > len(names):
        raise TypeError(f"{kind} takes {len(names)} fields, not {len(given)}")
    rest = names[len(given) :]
    if strange := [name for name in named if name not in rest]:
        raise TypeError(f"{kind} takes no {', '.join(strange)} here")
    if missing := [name for name in rest if name not in named and name not in defaults]:
        raise TypeError(f"{kind} needs {', '.join(missing)}")
    return (*given, *(named[name] if name in named else defaults[name] for name in rest))


def _refuse(self: Any, name: str, *_: Any) -> None:
    raise AttributeError(f"{type(self).__name__} is frozen: {name} can't change")


def _eq(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return self._fields(self) == self._fields(other)


def _hash(self: Any) -> int:
    return hash((self.__class__, self._fields(self)))


def _repr(self: Any) -> str:
    inside = ", ".join(f"{name}={getattr(self, name)!r}" for name in type(self).__match_args__)
    return f"{type(self).__name__}({inside})"


def _reduce(self: Any) -> tuple[type, tuple[Any, ...]]:
    return type(self), self._fields(self)
