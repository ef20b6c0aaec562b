"""Methods that assign attributes: fused, and the attributes hold what plain calls leave there."""

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import fuser

CHANCE = np.random.default_rng(5)


class Optimiser:
    """State in attributes; each method is one way to keep some."""

    scale = 0.5

    def __init__(self, size: int = 6) -> None:
        self.m: Any = np.zeros(size)
        self.v: Any = np.zeros(size)
        self.first: Any = None
        self.steps = 0
        self.rate = 0.125
        self.history: list[Any] = []
        self.inner = None

    def adam(self, w: Any, g: Any) -> Any:
        """Arrays and a counter, whose power is taken."""
        self.steps += 1
        self.m = 0.5 * self.m + 0.5 * g
        self.v = 0.75 * self.v + 0.25 * g * g
        m = self.m / (1 - 0.5**self.steps)
        return w - self.rate * m / (np.sqrt(self.v / (1 - 0.75**self.steps)) + 1)

    def momentum(self, w: Any, g: Any) -> None:
        """In place, in an argument and in an attribute."""
        self.m *= 0.5
        self.m += g
        w -= self.rate * self.m

    def lazily(self, w: Any, g: Any) -> Any:
        """An attribute that is None at first, and one that is not there at first."""
        if self.first is None:
            self.first = np.zeros_like(g)
        self.first = np.maximum(self.first, g)
        self.seen = g.sum()
        return w - self.first

    def counted(self, w: Any, g: Any) -> Any:
        """Attributes that are numbers, one of them the class's at first."""
        self.scale = self.scale * 2
        self.steps = self.steps + w.shape[0]
        return w * self.scale + g

    def same(self, w: Any, g: Any) -> Any:
        """One array under two names, an argument, and a view."""
        self.m = self.v = w + g
        self.w = w
        self.part = self.m[1:]
        return self.m

    def in_parts(self, w: Any, g: Any) -> Any:
        """By another method."""
        self._add(g)
        return w - self.m

    def _add(self, g: Any) -> None:
        self.m = self.m + g

    def between(self, w: Any, g: Any) -> Any:
        """Around a function that NumPy runs."""
        self.m = np.sort(self.m + g) * 2
        return w + np.cumsum(self.m)

    def later(self, w: Any, g: Any) -> Any:
        """A further attribute after some calls."""
        self.steps += 1
        if self.steps > 2:
            self.v = self.v + g
        return w + self.v

    def slower(self, w: Any, g: Any) -> Any:
        """A number that is read, and assigned after some calls."""
        self.steps += 1
        if self.steps > 2:
            self.rate = self.rate * 0.5
        return w + self.rate * g

    def written(self, w: Any, g: Any) -> Any:
        """A part of an attribute, which is rebound, too."""
        self.m[::2] = g[::2]
        self.m = self.m + 1
        return w * 2


METHODS = [
    "adam", "momentum", "lazily", "counted", "same", "in_parts", "between", "later", "slower",
    "written",
]  # fmt: skip


def described(thing: Any) -> dict[str, Any]:
    """What an object holds, and which of it is one object or one memory."""
    held = vars(thing)
    names = [name for name, value in held.items() if isinstance(value, np.ndarray)]
    shared = [
        (a, b, held[a] is held[b], np.shares_memory(held[a], held[b])) for a in names for b in names
    ]
    return {"held": [(name, type(v).__name__, repr(v)) for name, v in held.items()], "one": shared}


@pytest.mark.usefixtures("never_brief")
@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize("name", METHODS)
def test_attributes_hold_what_the_plain_method_leaves(name: str, bound: bool) -> None:
    """After each of six calls, of two lengths: results, types, order and identities."""
    plain, kept = Optimiser(), Optimiser()
    fused = fuser.fuse(getattr(kept, name) if bound else getattr(Optimiser, name), fallback="allow")
    chance = np.random.default_rng(3)
    for _ in range(6):
        w, g = (chance.integers(-8, 8, 6).astype(np.float64) for _ in range(2))
        given, copied = (w, g), (w.copy(), g.copy())
        wanted = getattr(plain, name)(*given)
        found = fused(*copied) if bound else fused(kept, *copied)
        assert repr(found) == repr(wanted)
        assert [a.tolist() for a in given] == [a.tolist() for a in copied]
        assert described(kept) == described(plain)
        if name == "same":
            assert kept.w is copied[0]
    codes = {reason.code for reason in fused.fallbacks}
    assert codes <= ({"unsupported-function"} if name == "between" else set())


def test_steps_compile_once_and_other_rates_nothing() -> None:
    """One kernel, whatever the counter, the rate and the length are; explain tells of it."""

    class Fused(Optimiser):
        """As a decorated method."""

        adam = fuser.fuse(Optimiser.adam, fallback="error")

    first, plain = Fused(), Optimiser()
    w = CHANCE.standard_normal(6)
    first.adam(w, w)
    plain.adam(w, w)
    before = fuser.n_compiled_kernels()
    for turn in range(12):
        first.rate = plain.rate = 1 / (turn + 1)
        np.testing.assert_array_equal(first.adam(w, w * turn), plain.adam(w, w * turn))
    for size in (1, 9, 300):
        first, plain = Fused(size), Optimiser(size)
        g = CHANCE.standard_normal(size)
        for _ in range(3):
            np.testing.assert_array_equal(first.adam(g, g), plain.adam(g, g))
    assert fuser.n_compiled_kernels() == before
    text = str(Fused.adam.explain(first, g, g))
    assert "self.m" in text
    assert not Fused.adam.explain(first, g, g).fallbacks
    assert len(Fused.adam.explain(Fused(), w, w).groups) == 1
    assert Fused.adam.source(first, g, g)


def test_explain_changes_nothing() -> None:
    """Neither before the first call nor after it."""
    thing = Optimiser()
    fused = fuser.fuse(Optimiser.adam, fallback="error")
    w = np.ones(6)
    for _ in range(2):
        before = described(thing)
        assert len(fused.explain(thing, w, w).groups) == 1
        assert described(thing) == before
        fused(thing, w, w)


@pytest.mark.parametrize("mode", ["fused", "unfused", "fallback"])
def test_every_mode_and_out(mode: str) -> None:
    """`out=` takes the result; the attributes are arrays of their own."""
    thing, plain = Optimiser(), Optimiser()
    fused = fuser.fuse(Optimiser.adam, mode=mode, fallback="allow")
    room = np.empty(6)
    for turn in range(3):
        g = np.arange(6.0) + turn
        assert fused(thing, g, g, out=room) is room
        assert room.tolist() == plain.adam(g, g).tolist()
        assert described(thing) == described(plain)


@dataclass(frozen=True)
class Frozen:
    """Attributes that cannot be assigned."""

    m: Any


class Checked:
    """An attribute that is more than an entry."""

    def __init__(self) -> None:
        self._m = np.zeros(3)
        self.changes: list[str] = []

    @property
    def m(self) -> Any:
        """The value."""
        return self._m

    @m.setter
    def m(self, value: Any) -> None:
        self.changes.append("m")
        self._m = value


class Told:
    """An object that is told of assignments."""

    def __init__(self) -> None:
        self.m = np.zeros(3)

    def __setattr__(self, name: str, value: Any) -> None:
        self.__dict__["told"] = self.__dict__.get("told", 0) + 1
        self.__dict__[name] = value


class Slotted:
    """An object without a namespace."""

    __slots__ = ("m",)

    def __init__(self) -> None:
        self.m = np.zeros(3)


def _assign(thing: Any, g: Any) -> Any:
    thing.m = thing.m + g
    return thing.m * 2


def _forget(thing: Any, g: Any) -> Any:
    thing.m = g * 2
    del thing.v
    return g


def _list(thing: Any, g: Any) -> Any:
    thing.m = [g * 2, g]
    return g


def _append(thing: Any, g: Any) -> Any:
    thing.m = thing.m + g[0]
    thing.history.append(g.sum())
    return g * 2


def _arguments_list(thing: Any, g: Any, parts: Any) -> Any:
    thing.m = thing.m + g[0]
    parts[0] = g * 2
    return g + 1


OTHERS: dict[str, tuple[Any, Any, tuple[Any, ...]]] = {
    "a property": (_assign, Checked, ()),
    "__setattr__": (_assign, Told, ()),
    "slots": (_assign, Slotted, ()),
    "a deleted attribute": (_forget, Optimiser, ()),
    "a list of arrays": (_list, Optimiser, ()),
    "a list beside it": (_append, Optimiser, ()),
    "an argument's list": (_arguments_list, Optimiser, ([1, 2],)),
}


def _held(thing: Any) -> str:
    return repr(getattr(thing, "__dict__", None) or thing.m)


@pytest.mark.parametrize("name", OTHERS)
def test_what_cannot_be_handed_in_is_left_to_the_function(name: str) -> None:
    """The same attributes after each call, whether they are fused or not."""
    function, make, rest = OTHERS[name]
    plain, kept = make(), make()
    fused = fuser.fuse(function, fallback="allow")
    for turn in range(3):
        if name == "a deleted attribute":
            plain.v = kept.v = turn
        g = np.arange(3.0) + turn
        mine, theirs = copy.deepcopy(rest), copy.deepcopy(rest)
        assert repr(fused(kept, g, *mine)) == repr(function(plain, g, *theirs))
        assert _held(kept) == _held(plain)
        assert repr(mine) == repr(theirs)


def _outcome(call: Any, size: int) -> str:
    try:
        return repr(call(np.ones(size), np.ones(6)))
    except ValueError:
        return "ValueError"


def test_exceptions_leave_what_was_assigned_before_them() -> None:
    """As in the plain method; nothing holds a stand-in."""

    class Failing(Optimiser):
        """Raises after an assignment."""

        def step(self, w: Any, g: Any) -> Any:
            """Shapes that do not fit, and numbers that do not."""
            self.steps += 1
            self.m = self.m + g
            return w + self.m

    plain, kept = Failing(), Failing()
    fused = fuser.fuse(Failing.step, fallback="allow")
    for size in (6, 4, 6, 4, 6):
        outcomes = [_outcome(call, size) for call in (plain.step, lambda *a: fused(kept, *a))]
        assert outcomes[0] == outcomes[1]
        assert described(kept) == described(plain)
    with pytest.raises(Exception, match="cannot assign"):
        fuser.fuse(_assign, fallback="allow")(Frozen(np.zeros(3)), np.ones(3))


def test_attributes_changed_between_calls_are_seen() -> None:
    """Rebound, of another dtype or length, written into, and another object's."""
    plain, kept, other = Optimiser(), Optimiser(), Optimiser()
    fused = fuser.fuse(Optimiser.adam, fallback="allow")
    w = g = np.arange(6.0)

    def change(thing: Any, turn: int) -> None:
        if turn == 1:
            thing.m = np.arange(6, dtype=np.float32)
        elif turn == 2:
            thing.m[:] = 7
        elif turn == 3:
            thing.m = thing.v = 1.5
        elif turn == 4:
            thing.v = np.float64(2)
            thing.m = np.zeros((2, 6))

    for turn in range(6):
        change(plain, turn)
        change(kept, turn)
        fused(other, w, g)
        assert repr(fused(kept, w, g)) == repr(plain.adam(w, g))
        assert described(kept) == described(plain)


def test_a_fused_method_inside_a_fused_function_is_part_of_it() -> None:
    """The outer one assigns; nothing holds a stand-in."""

    class Fused(Optimiser):
        """As a decorated method."""

        step = fuser.fuse(Optimiser.adam, fallback="error")

        def twice(self, w: Any, g: Any) -> Any:
            """Two steps."""
            return self.step(self.step(w, g), g) * 2

    kept, plain = Fused(), Optimiser()
    w = g = np.arange(6.0)
    fused = fuser.fuse(Fused.twice, fallback="error")
    for _ in range(3):
        wanted = plain.adam(plain.adam(w, g), g) * 2
        assert fused(kept, w, g).tolist() == wanted.tolist()
        assert described(kept) == described(plain)
