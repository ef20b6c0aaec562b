"""What a function reads besides its arguments: a change is noticed at the next call."""

import dataclasses
import enum
import functools
import random
import re
import sys
import time
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.capture.captures import look_around
from tests.fuser.comparing import compare

ONES = np.ones(3)


def check(function: Any, *changes: Callable[[], Any], args: tuple[Any, ...] = (ONES,)) -> None:
    """Call before and after every change; each answer is that of the plain function."""
    fused = fuser.fuse(function, fallback="error")
    for change in (lambda: None, *changes):
        change()
        assert compare(fused, *args) == ""
        assert compare(fused, *args) == ""


SCALE = 2.0
WEIGHTS = np.full(3, 2.0)
PARAMETERS: dict[str, Any] = {"w": np.full(3, 2.0), "l": [np.ones(3), {"b": np.zeros(3)}], "s": 1.0}
FUNCTIONS: list[Any] = [lambda x: x + 1]


def helper(x: Any) -> Any:
    """Used by others."""
    return x * SCALE


def set_global(name: str, value: Any) -> Callable[[], None]:
    """Rebind a global later."""
    return lambda: globals().__setitem__(name, value)


class Base:
    """Attributes at every level."""

    factor = 3.0

    def __init__(self) -> None:
        """An instance attribute."""
        self._hidden = 1.0

    @property
    def shown(self) -> float:
        """Computed from another attribute."""
        return self._hidden * 2

    @staticmethod
    def static(x: Any) -> Any:
        """Reads a global."""
        return x * SCALE

    @classmethod
    def bound(cls, x: Any) -> Any:
        """Reads a class attribute."""
        return x * cls.factor


class Derived(Base):
    """Inherits everything."""


class Slotted:
    """No namespace."""

    __slots__ = ("k",)

    def __init__(self) -> None:
        """One slot."""
        self.k = 1.0


class Layer:
    """Called as a function."""

    def __init__(self, w: float) -> None:
        """A weight."""
        self.w = w

    def __call__(self, x: Any) -> Any:
        """Apply."""
        return x * self.w


class Net:
    """Layers in a list."""

    def __init__(self) -> None:
        """Two layers."""
        self.layers = [Layer(2.0), Layer(3.0)]

    def forward(self, x: Any) -> Any:
        """Apply all."""
        for layer in self.layers:
            x = layer(x)
        return x


@dataclasses.dataclass
class Settings:
    """A data class."""

    a: float = 1.0


class Mode(enum.Enum):
    """A choice."""

    ONE = 1
    TWO = 2


MODE = Mode.ONE


def test_globals() -> None:
    """Rebound scalars, arrays, functions and enumerators."""
    check(lambda x: x * SCALE, set_global("SCALE", 3.0), set_global("SCALE", 3))
    check(lambda x: helper(x) + 1, set_global("SCALE", 7.0), set_global("helper", lambda x: x - 1))
    check(lambda x: x * WEIGHTS, set_global("WEIGHTS", np.full(3, 9.0)))
    check(lambda x: x if MODE is Mode.ONE else -x, set_global("MODE", Mode.TWO))
    check(lambda x: x * globals()["SCALE"], set_global("SCALE", 11.0))


def test_captured_arrays_are_read_by_reference() -> None:
    """Changed in place later: seen, without another trace."""
    weights = np.ones(3)
    fused = fuser.fuse(lambda x: x * weights + weights[::-1], fallback="error")
    fused(ONES)
    before = fuser.stats()["specs"]
    weights[:] = [1, 2, 3]
    np.testing.assert_array_equal(fused(ONES), weights + weights[::-1])
    assert fuser.stats()["specs"] == before


def test_arrays_made_inside_are_constants() -> None:
    """`np.array([...])` in the function, which is another object at each call."""
    check(lambda x: x + np.array([1.0, 2.0, 3.0]) + np.arange(3))


def test_closures() -> None:
    """Rebound and mutated."""
    factor, weights, parts = 1.0, np.ones(3), [2.0]

    def change() -> None:
        """Rebind."""
        nonlocal factor
        factor = 5.0

    check(
        lambda x: x * factor * weights + parts[0],
        change,
        lambda: weights.__imul__(4),
        lambda: parts.__setitem__(0, 9.0),
        lambda: parts.insert(0, 1.5),
    )


def test_containers() -> None:
    """Entries of dicts and lists, nested, with arrays and functions in them."""
    check(
        lambda x: (
            x * PARAMETERS["w"] + PARAMETERS["l"][0] + PARAMETERS["l"][1]["b"] * PARAMETERS["s"]
        ),
        lambda: PARAMETERS.__setitem__("w", np.full(3, 5.0)),
        lambda: PARAMETERS["w"].__imul__(2),
        lambda: PARAMETERS["l"].__setitem__(0, np.full(3, 7.0)),
        lambda: PARAMETERS["l"][1].__setitem__("b", np.ones(3)),
        lambda: PARAMETERS.__setitem__("s", 4.0),
    )
    check(lambda x: FUNCTIONS[0](x), lambda: FUNCTIONS.__setitem__(0, lambda x: x + 2))
    chosen = {1, 2}
    check(lambda x: x * len(chosen), lambda: chosen.add(3))


def test_attributes() -> None:
    """Of instances, classes, parents, slots, data classes, modules; by getattr too."""
    thing, module = Derived(), types.ModuleType("somewhere")
    module.c = 1.0  # type: ignore[attr-defined]
    check(
        lambda x: x * thing.factor,
        lambda: setattr(Base, "factor", 4.0),
        lambda: setattr(thing, "factor", 5.0),
        lambda: delattr(thing, "factor"),
        lambda: setattr(Derived, "factor", 6.0),
        lambda: delattr(Derived, "factor"),
    )
    check(lambda x: x * thing.shown, lambda: setattr(thing, "_hidden", 5.0))
    check(lambda x: x * getattr(thing, "_hidden"), lambda: setattr(thing, "_hidden", 6.0))  # noqa: B009
    check(lambda x: thing.static(x), set_global("SCALE", 13.0))
    check(lambda x: Derived.bound(x), lambda: setattr(Base, "factor", 8.0))
    slotted, settings = Slotted(), Settings()
    check(lambda x: x * slotted.k, lambda: setattr(slotted, "k", 2.0))
    check(lambda x: x * settings.a, lambda: setattr(settings, "a", 3.0))
    check(lambda x: x * module.c, lambda: setattr(module, "c", 3.0))


def test_objects_as_arguments() -> None:
    """The same object with other attributes."""
    net, thing = Net(), Base()
    check(lambda x, n: n.forward(x), lambda: setattr(net.layers[0], "w", 9.0), args=(ONES, net))
    check(lambda x, t: x * t.factor, lambda: setattr(thing, "factor", 9.0), args=(ONES, thing))
    check(
        net.forward, lambda: setattr(net.layers[1], "w", 7.0), lambda: net.layers.append(Layer(2.0))
    )


def test_defaults() -> None:
    """Changed defaults are another function."""

    def plain(x: Any, k: float = 2.0, *, j: float = 1.0) -> Any:
        """With defaults."""
        return x * k + j

    check(
        plain,
        lambda: setattr(plain, "__defaults__", (7.0,)),
        lambda: plain.__kwdefaults__.__setitem__("j", 5.0),
    )


def test_nan_is_itself() -> None:
    """A NaN in a closure does not retrace for ever."""
    missing = float("nan")
    fused = fuser.fuse(lambda x: x * missing, fallback="error")
    fused(ONES)
    before = fuser.stats()["specs"]
    fused(ONES)
    assert fuser.stats()["specs"] == before


def test_too_many_names_are_refused() -> None:
    """Nothing is left unwatched silently."""
    table = {f"k{n}": Base() for n in range(2000)}
    fused = fuser.fuse(lambda x: x * table["k1"].factor * table["k1"]._hidden, fallback="allow")
    fused(ONES)
    assert [reason.code for reason in fused.fallbacks] == ["not-traceable"]


COUNT = 0


def counting(x: Any) -> Any:
    """Count calls in a global."""
    global COUNT
    COUNT += 1
    return x + COUNT


CALLS: list[int] = []


def listing(x: Any) -> Any:
    """Count calls in a list."""
    CALLS.append(1)
    return x + len(CALLS)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + np.random.rand(),  # noqa: NPY002 - the old generator is what is tested
        lambda x: x + np.random.default_rng().random(3),
        lambda x: x * random.random(),
        lambda x: x + time.perf_counter(),
    ],
)
def test_impure_functions_are_refused(function: Any) -> None:
    """Random numbers and clocks: reason "impure", and every call is fresh."""
    fused = fuser.fuse(function, fallback="allow")
    first, second = fused(ONES), fused(ONES)
    assert [reason.code for reason in fused.fallbacks] == ["impure"]
    assert (first != second).all()


@pytest.mark.parametrize(("function", "changed"), [(counting, "COUNT"), (listing, "CALLS")])
def test_functions_that_change_their_surroundings_are_refused(function: Any, changed: str) -> None:
    """A reason of its own names what changes; every call changes it."""
    fused = fuser.fuse(function, fallback="allow")
    first, second = fused(ONES), fused(ONES)
    assert [reason.code for reason in fused.fallbacks] == ["side-effect"]
    assert fused.fallbacks[0].found == changed
    assert (first != second).all()


def test_methods_of_arrays_are_no_globals() -> None:
    """`x.copy()` reads nothing of a module `copy` that the file imports, nor of what that names."""
    space = {"copy": sys.modules["copy"], "sum": None, "np": np, "size": [1]}
    exec("def function(x):\n    return x.copy().sum() + x.size\n", space)
    code = "__code__"
    assert [guard.name for guard in look_around(space["function"])[0]] == [code]  # type: ignore[arg-type]
    exec("def function(x):\n    return copy.copy(x) * size[0]\n", space)
    names = [guard.name for guard in look_around(space["function"])[0]]  # type: ignore[arg-type]
    assert names == ["size", code]
    check(eval("lambda x: x * globals()['size'][0]", space), lambda: space.update(size=[3]))


def test_globals_beyond_the_256th_name() -> None:
    """Instructions whose argument takes two bytes."""
    space: dict[str, Any] = {f"g{place}": float(place) for place in range(300)}
    total = " + ".join(space)
    exec(f"def function(x):\n    return x * ({total})\n", space)
    check(space["function"], lambda: space.update(g299=0.5))


def test_what_the_fuser_itself_stores_is_no_change_of_the_function() -> None:
    """A function that uses `re`, whose cache is used while it is traced."""

    def function(x: Any, name: str) -> Any:
        y = x.copy()
        y[1:] = y[1:] * len(re.findall("a", name))
        return y[:-1] + x[1:]

    re.purge()
    fused = fuser.fuse(function, fallback="error")
    np.testing.assert_array_equal(fused(ONES, "banana"), function(ONES, "banana"))


def _imports(x: Any) -> Any:
    import tests.weights as weights  # type: ignore[import-not-found]

    return x * weights.w[:2].sum() * weights.scale


def _imports_from(x: Any) -> Any:
    from tests.weights import scale, w

    return x * w[:2].sum() * scale


def _asks(x: Any) -> Any:
    module = __import__("tests.weights", fromlist=["w"])
    return x * module.w[:2].sum() * module.scale


class _Named(type):
    w: Any = property(lambda cls: cls._w)


@pytest.mark.parametrize("function", [_imports, _imports_from, _asks])
def test_modules_that_a_function_imports(
    function: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are names like others: what they hold is read again, or guarded."""
    module = types.ModuleType("tests.weights")
    module.w, module.scale = np.ones(5), 1.0  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(sys.modules["tests"], "weights", module, raising=False)

    def write() -> None:
        module.w[:] = 5

    def replace() -> None:
        module.w = np.arange(7.0)  # type: ignore[attr-defined]

    def scale() -> None:
        module.scale = -2.0  # type: ignore[attr-defined]

    fused = fuser.fuse(function, fallback="allow")
    changes: tuple[Callable[[], Any], ...] = (lambda: None, write, replace, scale)
    for change in changes:
        change()
        for _ in range(2):
            np.testing.assert_array_equal(fused(ONES), function(ONES))


def test_arrays_of_exceptions_and_by_properties_of_metaclasses() -> None:
    """Neither has a name of its own; both are read again at each call."""
    error = ValueError(np.ones(5))
    kind = _Named("kind", (), {"_w": np.ones(5)})
    remembered = functools.lru_cache(lambda: np.ones(5))
    functions: tuple[Any, ...] = (
        lambda x: x * error.args[0][:3].sum(),
        lambda x: x * kind.w[:3].sum(),
        lambda x: x * remembered()[:3].sum(),
    )
    for function in functions:
        fused = fuser.fuse(function, fallback="allow")
        for factor in (1, 2, -3):
            for array in (error.args[0], kind._w, remembered()):  # type: ignore[attr-defined]
                array *= factor
            for _ in range(2):
                np.testing.assert_array_equal(fused(ONES), function(ONES))


def test_results_that_are_kept_are_asked_for_again() -> None:
    """Arrays of any size are inputs; what is kept no more is computed again, once."""
    calls: list[int] = []

    @functools.lru_cache
    def kept(length: int) -> Any:
        calls.append(length)
        return np.full(length, float(len(calls)))

    fused = fuser.fuse(lambda x: x * kept(len(x)) + 1, fallback="allow")
    x = np.ones(20_000)
    for wanted, change in ((2.0, lambda: None), (8.0, lambda: kept(20_000).fill(7)),
                           (3.0, kept.cache_clear)):  # fmt: skip
        change()
        for _ in range(3):
            np.testing.assert_array_equal(fused(x), np.full(20_000, wanted))
    assert calls == [20_000, 20_000]
    assert not {reason.code for reason in fused.fallbacks} - {"impure"}  # while it was made


def test_another_namespace_of_an_object() -> None:
    """What the old one holds is no longer the object's."""
    thing: Any = type("Thing", (), {})()
    thing.k, thing.large = 2.0, np.ones(100_000)
    fused = fuser.fuse(lambda x: x * thing.k, fallback="error")
    for wanted in (2.0, 3.0, 4.0):
        thing.__dict__ = {"k": wanted, "large": thing.large}
        for _ in range(2):
            np.testing.assert_array_equal(fused(ONES), np.full(3, wanted))


async def doubled(x: Any) -> Any:
    """Twice x, later."""
    return x * 2


@pytest.mark.parametrize("function", [doubled, lambda x: doubled(x)])
def test_coroutines_are_made_once(function: Any) -> None:
    """A trace makes none that nobody awaits, which Python would warn of."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        made = fuser.fuse(function, fallback="allow")(ONES)
        with pytest.raises(StopIteration) as stopped:
            made.send(None)
    assert stopped.value.value.tolist() == [2.0, 2.0, 2.0]
    assert not told
