"""What ends a run early leaves no trace: exceptions, writes and types are those of plain Python."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.capture import element_loops
from fuser.element_loops.code import Constant, For, If, inner, may_end_in
from fuser.element_loops.kinds import NotTypedError
from fuser.element_loops.translate import translated
from tests.fuser.comparing import faults, same
from tests.fuser.element_loops.random_programs import outcome


def _past_the_end(x: Any, n: int) -> None:
    """Writes, and then an index outside."""
    for i in range(n):
        x[i] = x[i] + 1


def _divides(x: Any, d: int) -> int:
    """A Python quotient after a write."""
    total = 0
    for i in range(len(x)):
        x[i] += 1
        total += 10 // (d - i)
    return total


def _grows(x: Any) -> int:
    """An integer beyond 64 bits."""
    product = 1
    for v in x:
        product *= int(v)
    return product


def _narrow(x: Any, y: Any) -> None:
    """A Python integer that an element cannot hold."""
    for i in range(len(x)):
        x[i] = int(y[i]) + 200


def _unbound(x: Any, n: int) -> Any:
    """A name that no iteration sets."""
    for i in range(n):
        last = x[i]
    return last


def _asserts(x: Any) -> float:
    """An assertion in the middle."""
    total = 0.0
    for v in x:
        x[0] = total
        assert v < 3
        total += v
    return total


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (_past_the_end, (np.ones(4), 6)),
        (_past_the_end, (np.ones(4), 4)),
        (_divides, (np.zeros(3), 2)),
        (_divides, (np.zeros(3), 9)),
        (_grows, (np.full(40, 9.0),)),
        (_grows, (np.full(4, 9.0),)),
        (_narrow, (np.zeros(3, np.uint8), np.array([1, 2, 90]))),
        (_unbound, (np.ones(3), 0)),
        (_unbound, (np.ones(3), 2)),
        (_asserts, (np.array([1.0, 2.0, 5.0]),)),
    ],
)
def test_what_python_raises(function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """The same exception, the same writes; three calls each."""
    fused = fuser.fuse(function, fallback="allow")
    for _ in range(3):
        found = []
        for each in (function, fused):
            given = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]
            try:
                result = each(*given)
            except (ArithmeticError, LookupError, NameError, AssertionError) as error:
                result = type(error).__name__
            found.append((result, *given))
        assert same(*found), found


def _spins(x: Any) -> float:
    """Runs until somebody stops it."""
    total = 0.0
    while x[0] < 1:
        total = total * 0.5 + 1.0
    return total


def _goes_far(x: Any) -> float:
    """Takes minutes without a loop in its loop."""
    total = 0.0
    for i in range(10**11 if x[0] < 1 else 3):
        total = total * 0.5 + i
    return total


def _goes_far_inside(x: Any) -> float:
    """A long loop in a short one."""
    total = 0.0
    for k in range(3):
        for i in range(10**11 if x[0] < 1 else k):
            total = total * 0.5 + i
    return total


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("function", [_spins, _goes_far, _goes_far_inside])
def test_a_loop_can_be_interrupted(function: Callable[..., Any]) -> None:
    """Ctrl-C ends a loop without end."""
    fused = fuser.fuse(function, fallback="error")
    fused(np.ones(1))
    main = threading.main_thread().ident
    assert main is not None
    timer = threading.Timer(0.2, lambda: signal.pthread_kill(main, signal.SIGINT))
    timer.start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        fused(np.zeros(1))
    assert time.monotonic() - start < 5


def test_explain_shows_the_loop() -> None:
    """Where it is, and what it reads and writes."""
    shown = str(fuser.fuse(_past_the_end).explain(np.ones(4), 3))
    assert "loop over elements" in shown
    assert "test_region.py" in shown
    assert "x" in shown


def _code(source: str, **bindings: str) -> Any:
    return translated(source, tuple(bindings.items()), ())[0]


def test_indices_are_looked_at_before_all_loops() -> None:
    """Where the bounds of loops tell of each, the whole is there twice, and may be sure."""
    source = "for i in range(n):\n    for j in range(i, n):\n        x[i, j - i] = x[n - j - 1, i]"
    code = _code(source, x="float64[2]", n="pyint")
    (choice,) = code.body
    assert isinstance(choice, If)
    assert choice.test == code.sure
    assert not may_end_in(choice.then)
    assert may_end_in(choice.other)


def test_some_indices_are_looked_at_later() -> None:
    """Those in branches, and those that elements tell."""
    source = "for i in range(n):\n    if i > 1:\n        y[i - 2] += x[k[i]]\n    x[i] = 1"
    code = _code(source, x="float64[1]", y="float64[1]", k="int64[1]", n="pyint")
    (choice,) = code.body
    assert isinstance(choice, If)
    assert code.sure == Constant("bool", False)
    assert may_end_in(choice.then)


def test_indices_are_looked_at_before_an_innermost_loop() -> None:
    """Where others are not known, it is there twice: with and without checks."""
    source = "for m in range(len(k)):\n    for i in range(k[m]):\n        x[i + 1] = x[i]"
    found: list[Any] = list(_code(source, x="float64[1]", k="int64[1]").body)
    while found and not (isinstance(found[0], If) and isinstance(found[0].then[:1], tuple)
                         and isinstance(next(iter(found[0].then), None), For)):  # fmt: skip
        found = [*(part for each in inner(found[0]) for part in each), *found[1:]]
    choice = found[0]
    assert isinstance(choice.then[0], For)
    assert isinstance(choice.other[0], For)


def _steps(x: Any, first: int, last: int, step: int) -> int:
    count = 0
    for i in range(first, last, step):
        x[i] += 1
        count += i
    return count


def test_ranges_whose_steps_are_computed() -> None:
    """Of any sign; of zero, and of large numbers."""
    fused = fuser.fuse(_steps, fallback="allow")
    for first, last, step in [
        (0, 9, 2), (1, 10, 3), (0, 10, 11), (5, 5, 2), (7, 2, 2), (9, 0, -2), (0, 9, 2), (0, 9, 0),
        (0, 12, 4), (0, 10, 2**62), (0, 10, 2**63), (-3, 4, 2), (2**61, 2**61 + 3, 1),
    ]:  # fmt: skip
        found = []
        for each in (_steps, fused):
            x = np.zeros(10)
            try:
                result: Any = each(x, first, last, step)
            except (ValueError, IndexError) as error:
                result = type(error).__name__
            found.append((result, x))
        assert same(*found), (first, last, step)


def _counts_up(x: Any, least: int) -> tuple[int, int, int]:
    i = count = 0
    j = len(x) - 1
    while i < len(x) and j >= 0 and not x[i] > 5:
        if x[j] > least >= 0 or i > 3:
            count -= 1
        i += 1
        j -= 1
        x[i - j if i > j else 0] += 0.5
    return i, j, count


def test_bounds_of_numbers_are_known_by_conditions() -> None:
    """In branches, loops and parts of conditions, and of what is counted."""
    fused = fuser.fuse(_counts_up, fallback="allow")
    for seed in range(40):
        one = np.random.default_rng(seed).integers(0, 7, seed % 9).astype(float)
        other = one.copy()
        assert same(outcome(_counts_up, [one, seed % 4 - 1]), outcome(fused, [other, seed % 4 - 1]))
        assert same(one, other)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_division_by_constants(dtype: str) -> None:
    """Rounded down, of all signs, by powers of two and by others."""

    def divides(x: Any, out: Any) -> None:
        for i in range(len(x)):
            out[i, 0] = x[i] // 8
            out[i, 1] = x[i] % 8
            out[i, 2] = x[i] // 7
            out[i, 3] = x[i] % 7
            out[i, 4] = int(x[i]) // 16 - int(x[i]) % 16 + int(x[i]) // 10 - int(x[i]) % 10
            out[i, 5] = x[i] // 1 + x[i] % 1

    info = np.iinfo(dtype)
    ends = [info.min, info.min + 1, info.max, info.max - 1]
    x = np.array([*range(-100, 101), *ends], dtype)
    fused = fuser.fuse(divides, fallback="error")
    one, other = np.zeros((len(x), 6), np.int64), np.zeros((len(x), 6), np.int64)
    divides(x, one)
    fused(x, other)
    assert same(one, other)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("for i in range(n):\n    x = x[i]", "number"),
        ("for i in range(n):\n    y = print(i)", "print"),
        ("while n:\n    n = [n]", "n is a number, then none"),
        ("while n:\n    n = {n}", "Set"),
        ("for i in range(n):\n    x[0.5] = 1", "integer"),
    ],
)
def test_what_is_not_in_the_language(source: str, told: str) -> None:
    """It says why."""
    with pytest.raises(NotTypedError, match=told):
        translated(source, (("x", "float64[1]"), ("n", "pyint")), ())


def _sorts_inside(x: Any) -> Any:
    """A loop over elements that is none, in another that is unrolled."""
    for _ in range(6):
        x = np.sort(x)
        for i in range(2):
            x[i] = np.linalg.norm(x) - i
    return x


def test_what_is_none_is_translated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that is no loop over elements is not tried again by iterations around it."""
    tried = []
    written = element_loops._Source

    def noted(*args: Any) -> Any:
        tried.append(args[1].where)
        return written(*args)

    monkeypatch.setattr(element_loops, "_Source", noted)
    x = np.array([3.0, 1.0, 2.0])
    found = fuser.fuse(_sorts_inside, fallback="allow")(x.copy())
    np.testing.assert_allclose(found, _sorts_inside(x.copy()), rtol=1e-13)  # norms are rounded
    assert 1 <= tried.count(tried[-1]) <= 2  # the function may be traced twice


def _counts(x: Any, bins: int) -> Any:
    """An array whose length is an argument."""
    found = np.zeros(bins + 1, np.int64)
    for v in x:
        found[int(v * bins)] += 1
    return found


def test_lengths_that_are_arguments() -> None:
    """Calls with one value after another, by the short way and without it."""
    fused = fuser.fuse(_counts, fallback="error")
    x = np.linspace(0, 1, 30)
    for bins in (4, 4, 4, 9, 4, 9, 9, 1, 2, 3, 5, 6, 7, 8, 10, 11, 4, 12, 12):
        assert same(_counts(x, bins), fused(x, bins))


def test_lengths_of_what_is_selected() -> None:
    """They are no lengths of the arrays that are looked at; NumPy raises for bad indices."""

    def sizes(a: Any, b: Any, n: int) -> Any:
        for t in range(n):
            if a[0] > 0:
                a[0] = a[b > 0].size + len(a[b > t]) + a[b < 0].shape[0]
                break
        return a

    fused = fuser.fuse(sizes, fallback="allow")
    for trips in (1, 4):
        a, b = np.abs(np.random.default_rng(1).standard_normal(12)), np.arange(-5.0, 7.0)
        np.testing.assert_array_equal(fused(a.copy(), b, trips), sizes(a, b, trips))


def _over_rows(m: Any) -> Any:
    out = np.zeros(m.shape[0])
    for i, row in enumerate(m):
        s = 0.0
        for v in row:
            s += v * v
        out[i] = s
    for row in m[::-2]:
        row[0] = -row[-1]
    return out


def _over_rows_of_planes(m: Any) -> Any:
    s = 0.0
    for plane in m:
        for one, other in zip(plane, reversed(plane), strict=False):
            for k in range(len(one)):
                if one[k] > other[k]:
                    s += one[k]
    return s


def _over_numbers(m: Any) -> Any:
    count = 0
    for y in range(m.shape[0]):
        for x in range(m.shape[1]):
            for dy, dx in ((0, 1), (1, 0), (0, -1), (-1, 0)):
                if y + dy >= m.shape[0] or x + dx >= m.shape[1]:
                    continue
                if m[y + dy, x + dx] > 0.9:
                    break
                for k in [1, 2.5]:
                    count += 1 if m[y, x] * k > 0.5 else 0
            else:
                count += 100
    return count


@pytest.mark.parametrize(
    ("function", "shape"),
    [(_over_rows, (5, 3)), (_over_rows_of_planes, (3, 4, 2)), (_over_numbers, (6, 7))],
)
def test_what_loops_go_over(function: Callable[..., Any], shape: tuple[int, ...]) -> None:
    """Rows of arrays, which may be written into, and numbers that are written down."""
    fused = fuser.fuse(function, fallback="error")
    for seed in range(4):
        one = np.random.default_rng(seed).random(shape)
        other = one.copy()
        assert same(function(one), fused(other))
        assert same(one, other)
    assert fused.explain(np.ones(shape)).loops


def _into_new_arrays(x: Any, k: int) -> Any:
    near, wide = np.empty(len(x) - k), np.empty((len(x), 3), np.float32)
    alike = np.empty_like(x)
    for i in range(len(x) - k):
        near[i] = x[i + k, 0] - x[i, 0]
    for i in range(len(x)):
        alike[i, 0] = alike[i, 1] = x[i, 1]
        for j in range(3):
            wide[i, j] = x[i, 0] * j
    return near, wide, alike


def _of_numbers(n: int) -> Any:
    found = np.empty(n)
    x = 1
    for i in range(n):
        x = (x * 1103515245 + 12345) % 2147483648
        found[i] = x
    return found


def test_new_arrays_without_values() -> None:
    """What `np.empty` makes, a loop that writes into it takes as it is: no kernel fills it."""
    fused = fuser.fuse(_into_new_arrays, fallback="error")
    counted = fuser.fuse(_of_numbers, fallback="error")
    for rows in (9, 9, 9, 2, 40_000):
        x = np.random.default_rng(rows).random((rows, 2))
        for given in (x, np.asfortranarray(x), x[::-1]):
            assert same(_into_new_arrays(given, 2), fused(given, 2))
        assert same(_of_numbers(rows), counted(rows))
        assert fused(np.asfortranarray(x), 2)[2].strides == np.asfortranarray(x).strides
    explained = fused.explain(x, 2)
    assert not explained.groups
    assert "makes and writes near" in str(explained)
    with pytest.raises(ValueError, match="negative dimensions"):
        fuser.fuse(_into_new_arrays, fallback="allow")(x[:1], 2)


def _bits(x: Any) -> Any:
    code = 0
    for k in range(4):
        if x[k] > 0.5:
            code = 2 * code + 1
    return x + code


def test_arrays_meet_a_number_that_a_loop_leaves() -> None:
    """It is read when the loop has run: the next call compiles nothing for another one."""
    fused = fuser.fuse(_bits, fallback="error")
    for x in (np.array([1.0, 0.0, 1.0, 1.0]), np.zeros(4), np.ones(4)):
        assert same(_bits(x), fused(x))


def test_what_arrays_without_axes_tell_of_their_shape() -> None:
    """In a function that a loop calls: its rank is 0, its size 1."""

    def less(a: Any, b: Any) -> Any:
        if a.ndim == 1:
            return a.sum() + b
        return a.T - b * a.size + len(a.shape)

    def function(x: Any, y: Any) -> Any:
        t = y
        for _ in range(x.shape[0] % 4):
            t = less(y, x[0])
        return t

    fused, before = fuser.fuse(function), faults()
    for n in (33, 32, 34):
        x, y = np.full(n, 3.0, np.float32), np.array(2.5, np.float32)
        assert same(function(x, y), fused(x, y))
    assert faults() == before
