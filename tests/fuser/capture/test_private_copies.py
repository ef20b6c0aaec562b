"""Arrays that functions reach by names: fused and plain functions see the same, however held."""

import functools
import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.capture.private_copies import Copies, is_fused

#: What is done with the array.
USES = {
    "mixed": "x * {W} + np.exp({W})",
    "reduced": "x * np.exp({W}).sum()",
    "operators": "-x * ({W} * 2 + 1)",
    "transposed": "x * {W}.T",
    "reversed": "x * {W}[::-1]",
    "an element": "x * {W}[1]",
    "a float": "x * float({W}[1])",
    "an integer": "x * int({W}[1])",
    "decides": "x * 2 if {W}.sum() > 1.7 * len({W}) else x + 1",
    "any": "x * 2 if ({W} > 2.9).any() else x",
    "largest": "x * {W}.max()",
    "length": "x * len({W}) + {W}.shape[0]",
    "a product": "x * ({W} @ {W})",
    "a copy": "x + {W}.copy()",
    "as an array": "x * np.asarray({W}).mean()",
    "a list": "x * sum({W}.tolist()[:3])",
    "a memoryview": "x * memoryview({W})[1]",
    "a loop": "sum([x * w for w in {W}[:3]])",
    "alone": "np.exp({W})",
    "itself": "{W}",
    "an item": "x * {W}.item(1)",
    "sorted": "x + np.sort({W})",
    "a text": "x * len(str({W}[0]))",
}
#: Those that are tried with large arrays, too.
LARGE = ("mixed", "reduced", "operators", "an element", "a float", "decides", "length", "itself",
         "a memoryview", "sorted")  # fmt: skip
_PLAIN = "def f(x):\n    return {U}\n"
_CLASS = "class C:\n    def __init__(self): self.W = None\nobj = C()\n"
#: How the array is held: source, how the function spells it, what is fused, where it is set.
HOLDS = {
    "a global": ("W = None\n" + _PLAIN, "W", "f", "W"),
    "a closure": (
        "def make(W):\n    def f(x):\n        return {U}\n    return f\nf = make(None)\n",
        "W", "f", "f.__closure__[0].cell_contents",
    ),
    "a default": ("def f(x, W=None):\n    return {U}\n", "W", "f", "f.__defaults__"),
    "a keyword": ("def f(x, *, W=None):\n    return {U}\n", "W", "f", "f.__kwdefaults__['W']"),
    "a module": (
        "import types\nmod = types.ModuleType('usermodule')\nmod.W = None\n" + _PLAIN,
        "mod.W", "f", "mod.W",
    ),
    "self": (
        _CLASS + "C.f = lambda self, x: {U}\n", "self.W", "obj.f", "obj.W",
    ),
    "a class": (
        "class C:\n    W = None\n    def f(self, x): return {U}\nobj = C()\n",
        "self.W", "obj.f", "C.W",
    ),
    "a class by name": ("class C:\n    W = None\n" + _PLAIN, "C.W", "f", "C.W"),
    "its class": (
        "class C:\n    W = None\n    def f(self, x): return {U}\nobj = C()\n",
        "type(self).W", "obj.f", "C.W",
    ),
    "an object": (_CLASS + _PLAIN, "obj.W", "f", "obj.W"),
    "slots": (
        "class C:\n    __slots__ = ('W',)\nobj = C()\n" + _PLAIN, "obj.W", "f", "obj.W",
    ),
    "a namespace": (
        "import types\nobj = types.SimpleNamespace(W=None)\n" + _PLAIN, "obj.W", "f", "obj.W",
    ),
    "a dataclass": (
        "import dataclasses\n@dataclasses.dataclass\nclass D:\n    W: object\nobj = D(None)\n"
        + _PLAIN, "obj.W", "f", "obj.W",
    ),
    "a dict": ("P = dict(W=None)\n" + _PLAIN, "P['W']", "f", "P['W']"),
    "a list": ("P = [None]\n" + _PLAIN, "P[0]", "f", "P[0]"),
    "an ordered dict": (
        "import collections\nP = collections.OrderedDict(W=None)\n" + _PLAIN,
        "P['W']", "f", "P['W']",
    ),
    "a user's dict": (
        "import collections\nP = collections.UserDict(W=None)\n" + _PLAIN,
        "P['W']", "f", "P['W']",
    ),
    "nested": (
        "P = dict(a=[(dict(W=None),)])\n" + _PLAIN,
        "P['a'][0][0]['W']", "f", "P['a'][0][0]['W']",
    ),
    "a helper": (
        "W = None\ndef h(x):\n    return {U}\ndef f(x):\n    return h(x) * 1.5\n", "W", "f", "W",
    ),
    "a helper's result": (
        "W = None\ndef g():\n    return W\ndef f(x):\n    V = g()\n    return {U}\n",
        "V", "f", "W",
    ),
    "a fused helper": (
        "W = None\n@fuse\ndef h(x):\n    return {U}\ndef f(x):\n    return h(x) * 1.5\n",
        "W", "f", "W",
    ),
    "functions in a list": (
        "W = None\nFS = [lambda x: {U}]\ndef f(x):\n    for g in FS: x = g(x)\n    return x\n",
        "W", "f", "W",
    ),
    "a partial": (
        "import functools\nW = [None]\ndef h(P, x):\n    return {U}\nf = functools.partial(h, W)\n",
        "P[0]", "f", "W[0]",
    ),
    "a method": (
        _CLASS + "C.w = lambda self: self.W\nC.__call__ = lambda self, x: {U}\n",
        "self.w()", "obj", "obj.W",
    ),
    "a method's global": (
        "W = None\nclass C:\n    def w(self): return W\nobj = C()\n" + _PLAIN,
        "obj.w()", "f", "W",
    ),
    "a property": (
        _CLASS.replace("self.W", "self.V") + "C.W = property(lambda self: self.V)\n" + _PLAIN,
        "obj.W", "f", "obj.V",
    ),
    "an attribute of the function": (_PLAIN + "f.W = None\n", "f.W", "f", "f.W"),
    "a computed name": (
        "class C:\n    def f(self, x): return {U}\nobj = C()\nobj.W1 = None\n",
        "getattr(self, 'W%d' % 1)", "obj.f", "obj.W1",
    ),
    "a computed global": ("W1 = None\n" + _PLAIN, "globals()['W%d' % 1]", "f", "W1"),
    "beside a global statement": (
        "W = None\ndef f(x):\n    global N\n    N = 0\n    return {U}\nN = 0\n", "W", "f", "W",
    ),
    "an array of objects": (
        "import numpy\nP = numpy.empty(1, object)\n" + _PLAIN, "P[0]", "f", "P[0]",
    ),
    "a method of a dict": ("P = dict(W=None)\nget = P.get\n" + _PLAIN, "get('W')", "f", "P['W']"),
}  # fmt: skip
#: What stays in NumPy where it is large: it is reached past all stand-ins.
PAST = {
    "a class by name", "its class", "an attribute of the function", "beside a global statement",
    "an array of objects", "a method of a dict",
}  # fmt: skip


class Held:
    """A function that reaches an array, and where the array is."""

    def __init__(self, hold: str, use: str) -> None:
        """Run the source."""
        source, spelled, fused, self.place = HOLDS[hold]
        self.names: dict[str, Any] = {"np": np, "fuse": fuser.fuse, "__name__": "usermodule"}
        exec(source.replace("{U}", USES[use].replace("{W}", spelled)), self.names)
        self.function = fused

    def give(self, array: Any) -> None:
        """Put another array there."""
        self.names["_new"] = (array,) if self.place.endswith("__defaults__") else array
        exec(f"{self.place} = _new", self.names)

    def get(self) -> Any:
        """The array."""
        found = eval(self.place, self.names)
        return found[0] if type(found) is tuple else found

    def run(self) -> Any:
        """What is fused."""
        return eval(self.function, self.names)


def outcome(function: Any, x: Any) -> Any:
    """What a call gives, or raises."""
    try:
        return function(x)
    except Exception as error:  # noqa: BLE001 - whatever it is
        return error


def check(plain: Any, fused: Any, x: Any, told: Any) -> None:
    """Call both, several times."""
    wanted = outcome(plain, x)
    for _ in range(3):
        found = outcome(fused, x)
        if isinstance(wanted, Exception):
            assert isinstance(found, type(wanted)), told
            continue
        assert type(found) is type(wanted), (told, found)
        np.testing.assert_allclose(found, wanted, rtol=1e-10, err_msg=str(told))


def uses_of(hold: str, uses: Iterable[str]) -> list[str]:
    """The uses that a way to hold an array is tried with: three ways with all, others with a third.

    How it is held and how it is used are looked at by different code.
    """
    turn = list(HOLDS).index(hold)
    every = hold in ("a global", "self", "a dict")
    return [use for k, use in enumerate(uses) if every or (k + turn) % 3 == 0]


@pytest.mark.parametrize("hold", HOLDS)
@pytest.mark.parametrize("size", [3, 100_000])
def test_calls_never_use_yesterday_s_values(hold: str, size: int) -> None:
    """After writes, rebinding and resizing, in whatever way the array is used."""
    x = np.linspace(0, 1, size)
    for use in uses_of(hold, USES if size == 3 else LARGE):
        held = Held(hold, use)
        held.give(np.linspace(1, 2, size).copy())
        plain = held.run()
        fused = fuser.fuse(plain, fallback="allow")
        check(plain, fused, x, (use, "first"))
        held.get()[:] = np.linspace(1, 3, size)
        check(plain, fused, x, (use, "written"))
        held.get().__iadd__(1)
        check(plain, fused, x, (use, "added"))
        held.give(np.linspace(2, 2.5, size).copy())
        check(plain, fused, x, (use, "replaced"))
        held.get()[1] = 7
        check(plain, fused, x, (use, "an element"))
        held.get().resize(size - 1, refcheck=False)
        check(plain, fused, x, (use, "resized"))
        held.give(np.arange(size))
        check(plain, fused, x, (use, "integers"))


@pytest.mark.parametrize(("hold", "size"), itertools.product(HOLDS, [3, 100_000]))
def test_most_of_it_is_fused(hold: str, size: int) -> None:
    """Large arrays that are reached past all stand-ins are not."""
    for use in ("mixed", "reduced", "operators", "an element", "length", "a loop"):
        held = Held(hold, use)
        held.give(np.linspace(1, 2, size).copy())
        fused = fuser.fuse(held.run(), fallback="allow")
        fused(np.linspace(0, 1, size))
        codes = [reason.code for reason in fused.fallbacks]
        if hold in PAST and (size > 3 or hold == "an array of objects"):
            assert codes == ["array-conversion" if hold != "an array of objects"
                             else "unsupported-dtype"], (use, fused.fallbacks)  # fmt: skip
        else:
            assert not codes, (use, fused.fallbacks)


# -- arguments that are captured, too ---------------------------------------------------------


def kept(x: Any) -> Any:
    """Read both."""
    return x * SHARED + np.exp(-SHARED)


def read_then_written(x: Any) -> Any:
    """Read, write, read."""
    before = SHARED * 2
    x[1:] = x[:-1] + 1
    return before + SHARED


def written(x: Any) -> Any:
    """Write into what is no argument."""
    SHARED[::2] = x[::2] * 0.5
    return SHARED + x


def added(x: Any) -> Any:
    """In place, under another name."""
    shared = SHARED
    shared += x
    return shared * x


SHARED = np.zeros(0)


@pytest.mark.parametrize("size", [6, 100_000])
@pytest.mark.parametrize("function", [kept, read_then_written, written, added])
@pytest.mark.parametrize("first", ["apart", "same", "overlapping"])
def test_captured_arrays_that_are_arguments_too(
    function: Any, first: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In any order of calls, with the same array, a part of it, or another one."""
    fused = fuser.fuse(function, fallback="allow")
    for way in (first, "apart", "same", "overlapping", "same", "apart", first):
        results = []
        for called in (function, fused):
            memory = np.linspace(0, 1, size + 2)
            monkeypatch.setitem(globals(), "SHARED", memory[1:-1])
            places = {"apart": memory[1:-1] * 3, "same": SHARED, "overlapping": memory[2:]}
            results.append([called(places[way]), memory, places[way]])
        for one, other in zip(*results, strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-14)


# -- private copies ---------------------------------------------------------------------------


class Node:
    """An object that may lead to itself."""

    def __init__(self, **attributes: Any) -> None:
        """With attributes."""
        vars(self).update(attributes)


def copies() -> Copies:
    """With a text in place of each array."""
    return Copies(lambda value: "stand-in" if isinstance(value, np.ndarray) else value)


def test_what_leads_to_arrays_or_may_be_changed_is_copied() -> None:
    """The rest stays what it is."""
    plain, fixed = Node(a=[1]), (1, ("two", frozenset([3])))
    leading = Node(w=np.ones(3), plain=plain, fixed=fixed, kind=Node)
    private = copies()
    made = private.of([plain, leading])
    assert made[0] is made[1].plain
    assert made[0] is not plain
    assert made[0].a == plain.a
    assert made[0].a is not plain.a
    assert made[1].w == "stand-in"
    assert made[1].fixed is fixed
    assert made[1].kind is Node
    assert type(made[1]) is Node
    assert isinstance(leading.w, np.ndarray)
    assert private.leads(leading)
    assert not private.leads(plain)


def test_copies_lead_to_each_other_as_originals_do() -> None:
    """Cycles, keys and members of sets."""
    node = Node(w=np.ones(3))
    node.me, node.all = node, {node: [node]}
    private = copies()
    made = private.of(node)
    assert made.me is made
    assert made.all[made] == [made]
    assert made in private.of({node})
    assert private.original(made) is node
    assert private.original(node) is node


def test_changes_of_copies_are_noticed() -> None:
    """By attribute, or in a container."""
    node, held = Node(w=np.ones(3)), [np.ones(3)]
    private = copies()
    made, inside = private.of(node), private.of(held)
    assert not list(private.changed())
    made.n = 1
    inside.append(2)
    found = list(private.changed())
    assert [original for original, *_ in found] == [node, held]
    assert found[0][1] is not None
    assert found[1][1] is None
    assert not hasattr(node, "n")
    assert len(held) == 1


def test_objects_that_hold_more_are_no_copies() -> None:
    """Those with a finaliser, errors, and what remembers results by object."""

    class Closing(Node):
        def __del__(self) -> None: ...

    class Remembering(Node):
        @functools.lru_cache  # noqa: B019 - that is what is tried
        def get(self) -> Any: ...

    error = ValueError()
    error.w = np.ones(3)  # type: ignore[attr-defined]
    for thing in (Closing(w=np.ones(3)), Remembering(w=np.ones(3)), error):
        assert copies().of(thing) is thing


def test_fused_functions_are_known() -> None:
    """By their class."""
    assert is_fused(fuser.fuse(kept))
    assert not is_fused(kept)


STATE = {"n": 0, "w": np.ones(3)}


def counting(x: Any) -> Any:
    """Change a container that leads to an array."""
    STATE["n"] += 1
    return x * STATE["w"] * STATE["n"]


def test_what_a_function_changes_is_changed_at_every_call() -> None:
    """As NumPy would have it, with the reason."""
    fused = fuser.fuse(counting, fallback="allow")
    STATE["n"] = 0
    for count in range(1, 4):
        np.testing.assert_array_equal(fused(np.ones(3)), np.full(3, float(count)))
    assert STATE["n"] == 3
    assert [reason.code for reason in fused.fallbacks] == ["side-effect"]


def test_errors_that_captured_arrays_led_to_are_not_remembered() -> None:
    """The array may have another length at the next call."""
    held = np.ones(3)
    fused = fuser.fuse(lambda x: x * held)
    for size in (3, 2, 3, 4, 3):
        held.resize(size, refcheck=False)
        held[:] = size
        for _ in range(2):
            if size == 3:
                np.testing.assert_array_equal(fused(np.ones(3)), np.full(3, 3.0))
            else:
                with pytest.raises(ValueError, match="shapes"):
                    fused(np.ones(3))


def test_only_arrays_that_are_used_are_parameters() -> None:
    """Of a container of many."""
    held = {str(place): np.full(3, float(place)) for place in range(50)}
    graph = fuser.trace(lambda x: x * held["7"] + len(held["8"]), np.ones(3))
    assert sum(parameter.captured for parameter in graph.parameters) == 2


class Model:
    """An object whose methods reach arrays in all ways."""

    scale = np.full(50_000, 2.0)

    def __init__(self) -> None:
        """With a weight."""
        self.weight = np.ones(50_000)

    def bend(self, x: Any) -> Any:
        """By a global, an attribute, and what the class has."""
        return np.tanh(x * self.weight) * self.scale + np.exp(-BENDING)

    def run(self, x: Any) -> Any:
        """By another method."""
        return self.bend(x) + self.weight


BENDING = np.zeros(50_000)
SMALL = np.ones(3)


class Base:
    """A class whose method is called by one that hides it."""

    def bend(self, x: Any) -> Any:
        """By a global."""
        return x * self.weight + np.exp(-SMALL)  # type: ignore[attr-defined]


class Derived(Base):
    """The class that hides it."""

    weight = np.ones(3)

    def bend(self, x: Any) -> Any:
        """Twice."""
        return super().bend(x) * 2


def test_what_a_hidden_method_reaches_is_followed() -> None:
    """By `super`."""
    thing = Derived()
    fused = fuser.fuse(lambda x: thing.bend(x), fallback="allow")
    for value in (1.0, 2.0, 3.0):
        SMALL[:] = value
        thing.weight[:] = value + 1
        for _ in range(2):
            np.testing.assert_allclose(fused(np.ones(3)), thing.bend(np.ones(3)), rtol=1e-14)


def test_copies_have_the_identity_of_their_originals() -> None:
    """For what is looked up by it."""
    node = Node(w=np.ones(3))
    table = {id(node): 2.0}
    fused = fuser.fuse(lambda x: x * node.w * table.get(id(node), 1.0), fallback="allow")
    np.testing.assert_array_equal(fused(np.ones(3)), np.full(3, 2.0))


def test_methods_are_fused_with_large_arrays() -> None:
    """Of the object, its class and globals."""
    model = Model()
    fused = fuser.fuse(model.run, fallback="error")
    x = np.linspace(0, 1, 50_000)
    for value in (0.0, 1.0, 2.0):
        model.weight[:] = Model.scale[:] = BENDING[:] = value
        np.testing.assert_allclose(fused(x), model.run(x), rtol=1e-13)
    Model.scale = np.full(50_000, 5.0)
    np.testing.assert_allclose(fused(x), model.run(x), rtol=1e-13)
