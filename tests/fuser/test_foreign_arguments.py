"""Arguments of every kind: a fused function takes what the plain function takes."""

from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any
from unittest.mock import MagicMock, Mock

import numpy as np
import pytest

import fuser

X = np.arange(6.0)
asked: list[str] = []


def refusing(*names: str) -> Callable[[], Any]:
    """A class whose special methods note that they run, and raise."""

    def refuse(name: str) -> Any:
        def method(self: Any, *args: Any) -> Any:
            asked.append(name)
            raise KeyError(name)

        return method

    return type("Refusing", (), {"k": 2.0, **{name: refuse(name) for name in names}})


def lying(kind: type) -> Callable[[], Any]:
    """A class whose objects say that they are of another one."""

    def told(self: Any) -> type:
        asked.append("__class__")
        return kind

    return type("Lying", (), {"k": 2.0, "__class__": property(told)})


class Proxy:
    """It loads what it stands for at the first question; `k` is known before."""

    def __getattribute__(self, name: str) -> Any:
        if name == "k":
            return 2.0
        asked.append(name)
        return getattr(X, name)


class Meta(type):
    """A class of classes that cannot be compared, hashed or asked."""

    def __getattr__(cls, name: str) -> Any:
        asked.append(name)
        raise KeyError(name)

    def __eq__(cls, other: object) -> bool:
        raise KeyError("__eq__")

    def __hash__(cls) -> int:
        raise KeyError("__hash__")


class OfMeta(metaclass=Meta):
    """Such a class."""

    k = 2.0


def mock(kind: type) -> Callable[[], Any]:
    """A mock that has every attribute."""
    return lambda: kind(k=2.0)


FOREIGN: dict[str, Callable[[], Any]] = {
    "__getattr__": refusing("__getattr__"),
    "__eq__": refusing("__eq__"),
    "__hash__": refusing("__hash__", "__eq__"),
    "truth": refusing("__bool__", "__len__", "__iter__", "__index__", "__float__", "__repr__"),
    "proxy": Proxy, "metaclass": OfMeta, "class": lambda: OfMeta,
    "Mock": mock(Mock), "MagicMock": mock(MagicMock),
    **{kind.__name__: lying(kind) for kind in
       (int, float, tuple, list, dict, type, np.ndarray, np.float64, FunctionType, ModuleType)},
}  # fmt: skip


@pytest.mark.parametrize("name", FOREIGN)
def test_no_code_of_an_argument_runs(name: str) -> None:
    """But what the function itself asks for; results are the plain function's."""
    for nest in (lambda value: value, lambda value: [value], lambda value: {"a": value}):
        fused = fuser.fuse(lambda x, o: x * 2 + 1, fallback="allow")
        for value in [FOREIGN[name]()] * 2 + [FOREIGN[name]()]:
            asked.clear()
            assert (fused(X, nest(value)) == X * 2 + 1).all()
            assert (fused(X, o=nest(value)) == X * 2 + 1).all()
            fused.explain(X, nest(value))
            assert asked == []
        assert fused.fallbacks == [] or name in ("Mock", "MagicMock")  # which have many names


@pytest.mark.parametrize("name", list(FOREIGN))
def test_arguments_that_are_used_and_given_back(name: str) -> None:
    """An attribute is read; the result is the very object that was given."""
    used = fuser.fuse(lambda x, o: x * o.k, fallback="allow")
    back = fuser.fuse(lambda x, o: (x + 1, o), fallback="allow")
    for value in [FOREIGN[name]()] * 2 + [FOREIGN[name](), FOREIGN[name]()]:
        assert (used(X, value) == X * 2).all()
        assert back(X, value)[1] is value


def test_protocols_that_raise() -> None:
    """A type has the attribute, and asking for it fails."""
    for protocol in ("__array_interface__", "__cuda_array_interface__", "__dlpack_device__"):
        kind = refusing()
        setattr(kind, protocol, property(refusing("__call__")()))
        assert (fuser.fuse(lambda x, o: x * o.k)(X, kind()) == X * 2).all()
        inside = refusing()()
        vars(inside)[protocol] = refusing("__call__")()
        assert (fuser.fuse(lambda x, o: x * o.k)(X, inside) == X * 2).all()


def test_objects_that_say_that_they_are_equal() -> None:
    """What they hold decides, to the last bit."""

    class Equal:
        def __init__(self, k: Any) -> None:
            self.k = k

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 1

    fused, given = fuser.fuse(lambda x, o: x * o.k), fuser.fuse(lambda x, c: x * c)
    for k in (1.0, 2.0, 0.0, -0.0, 1, True, np.float32(3)):
        assert fused(X, Equal(k)).tobytes() == (X * k).tobytes()
    for number in (complex(1, 0.0), complex(1, -0.0), complex(1, 0.0)):
        assert given(X, number).tobytes() == (X * number).tobytes()


def test_arguments_that_nest_without_end() -> None:
    """NumPy runs them, and the reason says why."""
    deep: list[Any] = [X]
    for _ in range(2000):
        deep = [deep]
    itself: list[Any] = [X]
    itself.append(itself)
    many = [X] * 20_000
    for value in (deep, itself, many):
        fused = fuser.fuse(lambda x, o: x + len(o), fallback="allow")
        for _ in range(2):
            assert (fused(X, value) == X + len(value)).all()
            assert (fused(X, o=value) == X + len(value)).all()
        assert [reason.code for reason in fused.fallbacks] == ["unsupported-array"]
        assert fused.explain(X, value).fallbacks[0].code == "unsupported-array"
        with pytest.raises(fuser.FusionError):
            fused.source(X, value)
        with pytest.raises(fuser.FusionError):
            fuser.trace(lambda x, o: x, X, value)
        with pytest.raises(fuser.FusionError):
            fuser.fuse(lambda x, o: x, fallback="error")(X, value)


def test_values_made_anew_are_traced_once() -> None:
    """Objects whose class has a hash of its own; methods, slices and numbers, too."""
    from dataclasses import dataclass

    @dataclass(frozen=True)
    class Settings:
        scale: float

        def scaled(self, x: Any) -> Any:
            return x * self.scale

    fused = fuser.fuse(lambda x, o, *_: x * o.scale)
    settings = Settings(2.0)
    for _ in range(5):
        fused(X, Settings(2.0), slice(0, 3), 1j, settings.scaled)
    assert len(fused._signatures) == 1


class Nowhere:
    """A class whose module is a property that raises, as is any other attribute."""

    @property
    def __module__(self) -> str:  # type: ignore[override]
        raise KeyError("__module__")


class Deaf:
    """An object that raises whatever it is asked for."""

    def __getattribute__(self, name: str) -> Any:
        raise KeyError(name)


@pytest.mark.parametrize("make", [Nowhere, Deaf])
def test_objects_by_name_and_as_arguments_need_not_answer(make: Callable[[], Any]) -> None:
    """What a function only hands on is asked nothing, wherever it comes from."""
    thing = make()

    def held(x: Any) -> Any:
        return x + 1 if thing is not None else x

    fused, other = (fuser.fuse(f, fallback="allow") for f in (held, lambda x, t: x + 1))
    for _ in range(3):
        np.testing.assert_array_equal(fused(X), X + 1)
        np.testing.assert_array_equal(other(X, thing), X + 1)
