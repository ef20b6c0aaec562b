"""The twin of a function's code, in which loops ask what to do next."""

from __future__ import annotations

import ast
import functools
import operator
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from types import FunctionType
from typing import Any

import pytest

from fuser.capture import liveness, staging
from fuser.capture.element_staging import is_group
from fuser.capture.staging import LoopSource


class _AsPython:
    """Has a loop do what Python does, and notes what the twin asks."""

    test = also = True

    def __init__(self, source: Any, function: Any, args: tuple[Any, ...]) -> None:
        if source == staging.WALK:
            self._iterator = iter(function(*args))
            return
        self.source = source
        over = count() if getattr(source, "tested", False) else ()
        rows = args[0] if args else over
        self._iterator = iter(rows if function is None else function(*args))
        self._stopped = False
        self._choices: list[bool] = []

    def __iter__(self) -> Iterator[Any]:
        """What is inside of `zip` and the like."""
        return self._iterator

    def taken(self) -> bool:
        """Loops over elements run as they stand, too."""
        return False

    def again(self) -> bool:
        """The next iteration."""
        if self._stopped or not self.test or not self.also:
            return False
        self.also = True
        for index in self._iterator:
            self.index = index
            return True
        return False

    def open(self) -> bool:
        """Whether what follows `and` is asked."""
        return bool(self.test)

    def compared(self, name: str, one: Any, other: Any) -> Any:
        """A comparison in a test."""
        return getattr(operator, name)(one, other)

    def truth(self, function: Any, *args: Any, **options: Any) -> Any:
        """A call in a test."""
        return function(*args, **options)

    def tests(self) -> bool:
        """Whether the test is asked."""
        return not self._stopped

    def decide(self, place: int, test: Any) -> None:
        """A decision; its names are known."""
        assert self.source.decisions[place].names is not None
        self._choices.append(bool(test))

    def takes(self) -> bool:
        """The first branch."""
        return self._choices[-1]

    def turns(self) -> bool:
        """The second branch."""
        return not self._choices[-1]

    def merge(self) -> None:
        """The end of both."""
        self._choices.pop()

    def stop(self, way: int) -> None:
        """`break` or `return`."""
        assert self.source.ways[way] is not None
        self._stopped = True

    def binds(self, name: str) -> bool:
        """No name gets another value."""
        assert name in {*self.source.assigned, *self.source.lists}
        return False

    def append(self, name: str, to: list[Any], item: Any) -> None:
        """An item of a list."""
        assert name in self.source.lists
        to.append(item)

    def unbinds(self, name: str) -> bool:
        """Nothing was bound before its time."""
        return False

    def failed(self, error: BaseException) -> bool:
        """What the body raises is the function's own."""
        return False


def _run(function: Callable[..., Any], *args: Any) -> Any:
    """Run a function's twin, each loop as Python would."""
    assert isinstance(function, FunctionType)
    found = staging.staged(function.__code__)
    assert found is not None
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    names = {**function.__globals__, staging.LOOPS: _AsPython}
    closure = tuple(cells[name] for name in found.code.co_freevars)
    twin = FunctionType(found.code, names, "twin", function.__defaults__, closure)
    return twin(*args)


def _loops(function: Any) -> tuple[LoopSource, ...]:
    """What the source says of a function's loops; nothing where it is not staged."""
    found = staging.staged(function.__code__)
    loops = () if found is None else found.loops
    return tuple(loop for loop in loops if isinstance(loop, LoopSource))


def _collatz(start: int, steps: int = 5) -> list[int]:
    """A function with a default and nested loops."""
    seen = []
    value = start
    for k in range(steps):
        for _ in range(k % 2):
            value = value * 3 + 1
        half = value // 2
        value = half + k
        seen.append(value)
    return [*seen, k, half]


def test_a_twin_does_what_the_function_does() -> None:
    """Nested loops, names that outlive them, defaults and lists."""
    for start in (0, 3, 10):
        assert _run(_collatz, start) == _collatz(start)
        assert _run(_collatz, start, 1) == _collatz(start, 1)


def test_what_a_loop_changes_is_known_from_the_source() -> None:
    """Carried, set and read later, set and dropped, read alone."""
    outer, inner = _loops(_collatz)
    assert outer.index == "k"
    assert outer.index_read
    assert outer.carried == ("value",)
    assert outer.later == ("half",)
    assert inner.carried == ("value",)
    assert not inner.index_read
    assert outer.where.endswith(f"test_staging.py:{_collatz.__code__.co_firstlineno + 4}")


def test_cells_and_lines_stay() -> None:
    """Free names are cells of the twin, and errors come from the lines that raise them."""
    scale = 3

    def multiplied(x: int, n: int) -> int:
        for _ in range(n):
            x = x * scale
        return x // (scale - 3)

    found = staging.staged(multiplied.__code__)
    assert found is not None
    assert found.code.co_freevars == ("scale",)
    assert found.code.co_qualname == multiplied.__code__.co_qualname
    with pytest.raises(ZeroDivisionError) as raised:
        _run(multiplied, 2, 2)
    last = raised.traceback[-1]
    assert last.lineno + 1 == multiplied.__code__.co_firstlineno + 3
    assert staging.plain(found.code) is multiplied.__code__
    assert staging.plain(_loops.__code__) is _loops.__code__


@functools.lru_cache(maxsize=4)
def _decorated(n: int) -> int:
    """A function with a decorator."""
    total = 0
    for k in range(n):
        total = total + k
    return total


class _Held:
    """A class with a method."""

    def method(self, n: int) -> int:
        """A method with a loop."""
        total = 0
        for k in range(n):
            total += k
        return total


def test_decorated_functions_and_methods_are_found() -> None:
    """Their source begins elsewhere than their `def`."""
    assert _run(_decorated.__wrapped__, 5) == 10
    assert _run(_Held.method, _Held(), 5) == 10


def _breaks(n: int) -> int:
    """A loop that ends early."""
    for k in range(n):
        if k == 3:
            break
    return n


def _breaks_and_else(n: int) -> int:
    """What comes after it depends on how it ends."""
    for k in range(n):
        if k == 3:
            break
    else:
        n = 0
    return n


def _returns(n: int) -> int:
    """A loop that returns."""
    for k in range(n):
        if k == 3:
            return k
    return n


def _with_else(n: int) -> int:
    """A loop with `else`."""
    for _ in range(n):
        n = n + 1
    else:
        n = 0
    return n


def _tested(n: int) -> int:
    """`while`, with decisions that jump."""
    total = 0
    while n > 0 and total < 100:
        n -= 1
        if n % 3 == 0:
            continue
        if n == 2:
            total += 50
            break
        total += n
    return total


def _over_a_list(n: int) -> int:
    """No range."""
    for k in [n, n]:
        n = n + k
    return n


def _sets_an_attribute(held: Any, n: int) -> None:
    """An object is changed."""
    for k in range(n):
        held.value = k


def _makes_functions(n: int) -> Any:
    """A function that keeps a name of the loop."""
    for _ in range(n):
        n = n + 1
    return lambda: n


def _looks_at_its_names(n: int) -> Any:
    """The function asks for its own variables."""
    for _ in range(n):
        n = n + 1
    return locals()


def _tries(n: int) -> int:
    """`try` in the body."""
    for k in range(n):
        try:
            n = n // k
        except ZeroDivisionError:
            n = 1
    return n


def _writes_a_global(n: int) -> None:
    """A name that is not the function's own."""
    global _SEEN
    for k in range(n):
        _SEEN = k


_SEEN = 0


@pytest.mark.parametrize(
    "function",
    [_over_a_list, _sets_an_attribute, _makes_functions,
     _looks_at_its_names, _tries],
)  # fmt: skip
def test_other_loops_are_left_as_they_are(function: Any) -> None:
    """What a body of assignments and calls cannot say."""
    assert _loops(function) == ()


@pytest.mark.parametrize("function", [_breaks, _breaks_and_else, _returns, _with_else, _tested])
def test_loops_that_end_early_and_loops_with_a_test(function: Any) -> None:
    """`break`, `continue`, `while` and decisions are the loop's; Python does what it always did."""
    assert len(_loops(function)) == 1
    for n in (0, 1, 5):
        assert _run(function, n) == function(n)


def test_code_that_is_not_its_source_is_left_as_it_is(tmp_path: Any) -> None:
    """No file, a file that has changed since, or another function of that name."""
    text = "def f(x, n):\n    for _ in range(n):\n        x = x + 1\n    return x\n"
    names: dict[str, Any] = {}
    exec(text, names)
    assert staging.staged(names["f"].__code__) is None
    path = tmp_path / "changing.py"
    path.write_text(text)
    exec(compile(text, str(path), "exec"), names)
    assert staging.staged(names["f"].__code__) is not None
    other = text.replace("x + 1", "x + 2")
    exec(compile(other, str(path), "exec"), names)
    assert staging.staged(names["f"].__code__) is None


@pytest.mark.parametrize(
    ("body", "asks"),
    [
        ("for s in range(n):\n    x = x * y + y", False),
        ("for s in range(n):\n    x[1:-1] = x[:-2] + x[2:]", False),
        ("for s in range(x.shape[0]):\n    x = x[..., None] + np.exp(y)", False),
        ("for s in range(n):\n    x[s] = x[s] + 1", True),
        ("for s in range(n):\n    x[:s] = x[:s] + 1", True),
        ("for s in range(n):\n    x[0] = y[1] + 1", True),
        ("for s in range(n):\n    n = n + other(x, y)", True),
        ("for s in range(n):\n    n = n + module.other(x, s)", True),
        ("for v in x:\n    n = n + v", True),
        ("while n > 1:\n    n = n / y", True),
    ],
)
def test_which_loops_may_be_over_elements(body: str, asks: bool) -> None:
    """Those that name elements, or call what may; and those that a condition alone ends."""
    assert is_group(ast.parse(body).body) is asks


def test_loops_over_whole_arrays_import_no_translator() -> None:
    """What translates loops over elements is there when some loop is one."""
    code = (
        "import sys, numpy as np, fuser\n"
        "from tests.fuser.capture.test_staging import halves, sums\n"
        "x = np.ones(3)\n"
        "fused = fuser.fuse(halves, fallback='error')\n"
        "assert fused(x).tolist() == halves(x).tolist()\n"
        "assert 'fuser.capture.loops' in sys.modules\n"
        "assert 'fuser.element_loops.translate' not in sys.modules\n"
        "fused = fuser.fuse(sums, fallback='error')\n"
        "assert fused(x) == sums(x)\n"
        "assert 'fuser.element_loops.translate' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def halves(x: Any) -> Any:
    """A loop of whole arrays that a condition ends."""
    while abs(x).max() > 0.25:
        x = x * 0.5
    return x


def sums(x: Any) -> Any:
    """A loop over elements."""
    total = 0.0
    for v in x:
        total += v
    return total


def _nested(depth: int) -> ast.FunctionDef:
    """Loops in loops, each of which reads and sets a name of its own."""
    text = ["def nested(x, n):"]
    for k in range(depth):
        text += ["    " * (k + 1) + f"for i{k} in range(n):", "    " * (k + 2) + f"a{k} = x + i{k}"]
    text += ["    " * (depth + 1) + "x = x + a0", "    return x + late"]
    function = ast.parse("\n".join(text)).body[0]
    assert isinstance(function, ast.FunctionDef)
    return function


def test_nested_loops_are_looked_at_a_few_times_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not twice as often with each loop around them."""
    looked = []
    plain = liveness._live

    def counted(*args: Any) -> frozenset[str]:
        looked.append(args)
        return plain(*args)

    monkeypatch.setattr(liveness, "_live", counted)
    function = _nested(14)
    found = liveness.live_after(function)
    assert len(looked) < 14 * 14 * 4
    inner: Any = function.body[0]
    while isinstance(inner.body[-1], ast.For):
        inner = inner.body[-1]
    assert found[id(inner.body[-1])] >= {"x", "n", "late"}
