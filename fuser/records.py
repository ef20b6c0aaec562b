"""Classes of named fields, as dataclasses are, but made without running the compiler at import.

The standard decorator writes and compiles up to eight methods for each class when its module is
imported, half a millisecond a class: with fifty classes that is most of the time of `import
fuser`. Here a class's `__init__` is compiled when its first instance is made, and the other
methods are shared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, field
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform, overload

Record = TypeVar("Record")
_Class = TypeVar("_Class", bound=type[Any])


@overload
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: _Class) -> _Class: ...
@overload
def record(
    *, frozen: bool = ..., slots: bool = ..., eq: bool = ..., weakref_slot: bool = ...
) -> Callable[[_Class], _Class]: ...
def record(
    cls: Any = None,
    *,
    frozen: bool = True,
    slots: bool = True,
    eq: bool = True,
    weakref_slot: bool = False,
) -> Any:
    """Make a class of the fields that it annotates; its bases have none.

    A default that is no constant is `field(default_factory=…)`; `__post_init__` is called.

    Args:
        cls: the class; without it, `record(...)` is a decorator with options.
        frozen: instances cannot be changed.
        slots: instances have these fields and no other attributes.
        eq: instances with equal fields are equal, and hash alike if they are frozen.
        weakref_slot: with slots, instances can be referred to weakly.

    Returns:
        The class, made anew where it has slots.
    """

    def make(plain: Any) -> Any:
        return _made(plain, frozen, slots, eq, weakref_slot)

    return make if cls is None else make(cls)


def changed(value: Record, **fields: Any) -> Record:
    """A record like this one but for some fields.

    Args:
        value: a record whose fields are all arguments of its class.
        fields: new values.
    """
    names = type(value).__match_args__  # type: ignore[attr-defined] # every record has it
    kept = {name: getattr(value, name) for name in names}
    return type(value)(**{**kept, **fields})


def _made(cls: Any, frozen: bool, slots: bool, eq: bool, weakref_slot: bool) -> Any:
    """The class with its methods."""
    names = tuple(cls.__annotations__)
    own = dict(vars(cls))
    defaults = {name: own.pop(name) for name in names if name in own}
    methods: dict[str, Any] = {
        "__match_args__": names, "__repr__": _represented(names), "__reduce__": _reduced(names),
    }  # fmt: skip
    if eq:
        methods["__eq__"], hashed = _compared(names)
        methods["__hash__"] = hashed if frozen else None
    if frozen:
        methods.update(__setattr__=_refuse_setting, __delattr__=_refuse_deleting)
    methods = {name: method for name, method in methods.items() if name not in own}
    if slots:
        for name in ("__dict__", "__weakref__"):
            own.pop(name, None)
        own["__slots__"] = (*names, "__weakref__") if weakref_slot else names
        cls = type(cls)(cls.__name__, cls.__bases__, {**own, **methods})
    else:
        for name in defaults:
            delattr(cls, name)
        for name, method in methods.items():
            setattr(cls, name, method)
    cls.__init__ = _initialiser(cls, names, defaults, frozen)
    return cls


def _initialiser(
    cls: Any, names: tuple[str, ...], defaults: dict[str, Any], frozen: bool
) -> Callable[..., None]:
    """An `__init__` that compiles the real one, puts it in its place and calls it."""

    def first_init(self: Any, *args: Any, **kwargs: Any) -> None:
        if cls.__init__ is first_init:
            cls.__init__ = _compiled(cls, names, defaults, frozen)
        cls.__init__(self, *args, **kwargs)

    return first_init


def _compiled(
    cls: Any, names: tuple[str, ...], defaults: dict[str, Any], frozen: bool
) -> Callable[..., None]:
    """The real `__init__`: one assignment a field."""
    scope: dict[str, Any] = {"set_field": object.__setattr__, "MISSING": MISSING}
    head, lines = ["self"], []
    for name in names:
        value = name
        if name not in defaults:
            head.append(name)
        elif isinstance(defaults[name], Field):
            scope[f"make_{name}"] = defaults[name].default_factory
            head.append(f"{name}=MISSING")
            value = f"make_{name}() if {name} is MISSING else {name}"
        else:
            scope[f"default_{name}"] = defaults[name]
            head.append(f"{name}=default_{name}")
        lines.append(f"set_field(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    exec(f"def __init__({', '.join(head)}):\n  " + "\n  ".join(lines), scope)
    made: Callable[..., None] = scope["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


def _represented(names: tuple[str, ...]) -> Callable[[Any], str]:
    """A `__repr__`: the class with its fields."""

    def represent(self: Any) -> str:
        shown = ", ".join([f"{name}={getattr(self, name)!r}" for name in names])
        return f"{type(self).__qualname__}({shown})"

    return represent


def _reduced(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """A `__reduce__`: copies and pickles are made from the fields."""

    def reduce(self: Any) -> tuple[Any, ...]:
        return type(self), tuple([getattr(self, name) for name in names])

    return reduce


def _compared(names: tuple[str, ...]) -> tuple[Callable[..., Any], Callable[..., int]]:
    """An `__eq__` and a `__hash__`: by class and fields, and by fields."""
    values: Callable[[Any], Any] = attrgetter(*names)

    def equal(self: Any, other: Any) -> Any:
        if type(other) is not type(self):
            return NotImplemented
        return values(self) == values(other)

    def hashed(self: Any) -> int:
        return hash(values(self))

    return equal, hashed


def _refuse_setting(self: Any, name: str, value: Any) -> None:
    """Refuse a change."""
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deleting(self: Any, name: str) -> None:
    """Refuse a change."""
    raise FrozenInstanceError(f"cannot delete field {name!r}")
