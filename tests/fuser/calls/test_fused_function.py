"""Calls: out=, keywords, methods, nesting, pickling, size-free kernels and threads."""

import functools
import inspect
import pickle
import pydoc
import sys
import threading
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.calls.fused_function import PATIENCE
from fuser.calls.trace_cache import VALUE_LIMIT
from fuser.capture import captures
from tests.fuser.comparing import assert_same, compare, difference, independent, unlike
from tests.requirements import needs_native_entry
from tests.threads import on_threads, running

CHANCE = np.random.default_rng(2)


def whole(*shape: int, dtype: Any = np.float32) -> Any:
    """Small whole numbers."""
    return CHANCE.integers(-5, 6, shape).astype(dtype)


X, Y, LONG = whole(4, 5), whole(4, 5), whole(30)


def into(function: Any, args: tuple[Any, ...], out: Any) -> None:
    """Compare `out=` with computing first and copying then, on equal copies of all arrays."""
    plain, given = independent([*args, out]), independent([*args, out])
    wanted = function(*plain[:-1])
    pairs = zip(wanted, plain[-1], strict=True) if isinstance(out, tuple) else [(wanted, plain[-1])]
    for value, target in pairs:
        np.copyto(target, value, casting="same_kind")
    found = fuser.fuse(function, fallback="allow")(*given[:-1], out=given[-1])
    assert found is given[-1]
    for one, other in zip(
        fuser.base.trees.flatten(plain)[1], fuser.base.trees.flatten(given)[1], strict=True
    ):
        assert difference(one, other) == ""


def scale_add(x: Any, y: Any) -> Any:
    """Two operations."""
    return x * 2 + y


@pytest.mark.parametrize(
    "out",
    [
        np.empty((4, 5), np.float32),
        np.empty((5, 4), np.float32).T,
        np.empty((8, 10), np.float32)[::2, ::2],
        np.empty((4, 5), np.float32)[::-1, ::-1],
        np.empty((4, 5), np.float64),
        np.empty((4, 5), np.float16),
        np.empty(81, np.uint8)[1:].view(np.float32).reshape(4, 5),
        np.lib.stride_tricks.as_strided(np.zeros(5, np.float32), (4, 5), (0, 4)),
        X,
        Y,
        X[::-1],
    ],
    ids="fresh F strided reversed wider narrower misaligned repeated x y x-reversed".split(),
)
def test_out_takes_every_array(out: Any) -> None:
    """Any layout, same-kind dtypes, the inputs themselves."""
    into(scale_add, (X, Y), out)


def test_out_may_overlap_inputs() -> None:
    """The result is as if it did not."""
    square = whole(4, 4)
    into(lambda x: x.T * 2, (square,), square)
    into(lambda x: x * 2, (square,), square.T)
    into(lambda x: x + x.T, (square,), square)
    into(lambda x: x * 2, (LONG[:-1],), LONG[1:])
    into(lambda x: x * 2, (LONG[1:],), LONG[:-1])
    into(lambda x: x * 2, (LONG,), LONG[::-1])
    into(lambda x: x[1:] - x[:-1], (LONG,), LONG[1:])
    into(lambda x: x[1:] - x[:-1], (LONG,), LONG[:-1])
    into(lambda x: np.concatenate([x[2:], x[:2]]), (LONG,), LONG)
    into(lambda x: np.roll(x, 3), (LONG,), LONG)
    into(lambda x, y: x * y, (X, X[1:2]), X)
    into(lambda x: x.astype(np.int32), (LONG,), LONG.view(np.int32))
    into(lambda x: x.astype(np.int16), (LONG[:15].view(np.int32) % 9,), LONG.view(np.int16)[:15])


def test_out_of_several_results() -> None:
    """A tuple of arrays, also ones that are inputs or overlap each other."""
    both = lambda x, y: (x + y, x - y)  # noqa: E731
    for out in ((X, Y), (Y, X), (np.empty_like(X), X)):
        into(both, (X, Y), out)
    into(both, (LONG[:10], LONG[10:20]), (LONG[5:15], LONG[12:22]))
    into(lambda x: ((x + 1).T, x * 2), (X,), (np.empty((5, 4), np.float32), np.empty_like(X)))


@pytest.mark.parametrize(
    ("out", "error"),
    [
        (np.zeros((5, 4), np.float32), ValueError),
        (np.zeros((4, 4), np.float32), ValueError),
        (np.zeros((1, 4, 5), np.float32), ValueError),
        (np.zeros(0, np.float32), ValueError),
        (np.zeros((4, 5), np.int32), TypeError),
        (np.broadcast_to(np.zeros(5, np.float32), (4, 5)), ValueError),
        ((np.zeros((4, 5), np.float32),) * 2, TypeError),
        ([1, 2], TypeError),
    ],
    ids="turned small deeper empty dtype read-only two list".split(),
)
def test_out_that_does_not_fit_is_refused(out: Any, error: type[Exception]) -> None:
    """An exception, and nothing written."""
    with pytest.raises(error):
        fuser.fuse(scale_add, fallback="allow")(X, Y, out=out)
    assert isinstance(out, list) or not np.any(out)


def test_out_stays_untouched_when_numpy_raises() -> None:
    """Integers to negative integer powers raise at run time."""
    room = np.full(3, 9)
    with pytest.raises(ValueError, match="negative"):
        fuser.fuse(lambda x, y: x**y, fallback="allow")(
            np.arange(3), np.array([1, -1, 2]), out=room
        )
    np.testing.assert_array_equal(room, 9)


def test_a_parameter_called_out_is_the_functions_own() -> None:
    """`out` is an ordinary argument where the function has one."""
    assert_same(lambda x, out: x + out, X, out=Y)


def test_ways_to_pass_arguments() -> None:
    """Keywords, defaults, static values, dtypes, None."""
    assert_same(lambda x, *, y: x + y, X, y=Y)
    assert_same(lambda x, k=2: x * k, X)
    assert_same(lambda x, k=2: x * k, X, 3.5)
    assert_same(lambda *a, **k: a[0] + k["z"], X, z=Y)
    assert_same(lambda x, mode: x + 1 if mode == "a" else x - 1, X, "a")
    assert_same(lambda x, w=None: x if w is None else x * w, X, None)
    assert_same(lambda x, d: x.astype(d), X, np.float16)
    assert_same(lambda x, d: x.astype(d), X, np.dtype("i4"))
    with pytest.raises(TypeError):
        fuser.fuse(scale_add, fallback="allow")(X)


class Model:
    """A fused method."""

    def __init__(self) -> None:
        """A scale and weights."""
        self.scale, self.weights = 2.0, np.ones(5, np.float32)

    @fuser.fuse
    def apply(self, x: Any) -> Any:
        """Scale and shift."""
        return x * self.scale + self.weights

    @fuser.fuse(fallback="error")
    def again(self, x: Any) -> Any:
        """A fused method that calls another."""
        return self.apply(x) * 2


def test_methods() -> None:
    """Bound, with attributes that change; two instances; one method in another."""
    one, other = Model(), Model()
    other.scale = 9.0
    for _ in range(2):
        for model in (one, other):
            np.testing.assert_array_equal(model.apply(X), X * model.scale + model.weights)
            np.testing.assert_array_equal(model.again(X), (X * model.scale + model.weights) * 2)
        one.scale = 4.0
        one.weights[:] = 3
        other.weights = np.zeros(5, np.float32)


INNER = fuser.fuse(scale_add)


def test_nested_fused_functions_are_one_kernel() -> None:
    """A fused function inside another is traced through."""
    outer = fuser.fuse(lambda x, y: INNER(x, y) - INNER(y, x), fallback="error")
    assert compare(outer, X, Y) == ""
    assert len(outer.explain(X, Y).groups) == 1


def test_a_fused_function_looks_like_the_function() -> None:
    """Name, documentation, signature, pickling by reference."""
    import inspect

    assert INNER.__name__ == "scale_add"
    assert INNER.__doc__ == "Two operations."
    assert list(inspect.signature(INNER).parameters) == ["x", "y"]
    assert pickle.loads(pickle.dumps(fuser.fuse(scale_add)))(X, Y).shape == (4, 5)
    assert "scale_add" in repr(INNER)


def kernels_and_specs() -> tuple[int, int]:
    """Both counters."""
    return fuser.n_compiled_kernels(), fuser.debug_num_cached_kernel_specs()


def grown(before: tuple[int, int]) -> tuple[int, int]:
    """How far the counters went since."""
    kernels, specs = kernels_and_specs()
    return kernels - before[0], specs - before[1]


def test_a_hundred_sizes_and_ten_scalars_are_one_kernel() -> None:
    """Lengths 0, 1 and 2 first, and values of every size after them."""
    fused = fuser.fuse(lambda a, b, s: a * s + np.sqrt(abs(b)) - a / 2, fallback="error")
    before = kernels_and_specs()
    for size in [*range(90), 1000, 1001, 4096, 9999, 12345, 77, 7, 1, 0, 2]:
        assert compare(fused, whole(size), whole(size), 2.0) == ""
    for number in range(10):
        assert compare(fused, LONG, LONG, number * 1.5) == ""
    assert grown(before) == (1, 1)


def test_odd_shapes_are_no_kernels_of_their_own() -> None:
    """(1, n), (n, 1) and empty ones in two dimensions; and their transposes together."""
    fused = fuser.fuse(lambda a, b: a * 3 + b * b, fallback="error")
    before = kernels_and_specs()
    for shape in [(3, 4), (1, 4), (4, 1), (1, 1), (0, 4), (4, 0), (0, 0), (2, 2), (50, 1), (1, 50)]:
        assert compare(fused, whole(*shape), whole(*shape)) == ""
        assert compare(fused, whole(*shape).T, whole(*shape).T) == ""
    assert grown(before) == (1, 1)
    assert compare(fused, whole(8, 6), whole(6, 8).T) == ""
    assert compare(fused, whole(2, 9), whole(9, 2).T) == ""
    assert grown(before) == (2, 1)


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda x: (x[1:] - x[:-1]) * 2, [(n,) for n in range(40)]),
        (
            lambda x: x[1:-1, 1:-1] * 4 - x[:-2, 1:-1] - x[2:, 1:-1] - x[1:-1, :-2] - x[1:-1, 2:],
            [(5, 6), (3, 3), (3, 9), (9, 3), (2, 2), (2, 9), (1, 1), (0, 0), (4, 3), (40, 50)],
        ),
        (lambda x: x[::-1] + x / x.shape[0], [(n,) for n in range(1, 20)]),
        (lambda x: np.concatenate([x * 2, x + 1]), [(n,) for n in range(20)]),
        (lambda x: np.subtract(*np.split(x, 2)), [(n,) for n in range(2, 40, 2)]),
        (lambda x: (x.reshape(2, -1) * 2).reshape(-1), [(n,) for n in range(2, 40, 2)]),
        (lambda x: x[:, None] + x[None], [(n,) for n in range(8)]),
    ],
    ids="stencil laplacian flip join split reshape outer".split(),
)
def test_views_are_size_free(function: Any, shapes: list[tuple[int, ...]]) -> None:
    """One kernel for every length, short ones included."""
    fused = fuser.fuse(function, fallback="error")
    before = kernels_and_specs()
    for shape in shapes:
        assert compare(fused, whole(*shape)) == ""
    assert grown(before) == (1, 1)


def test_sixteen_threads_compile_once() -> None:
    """All call a new function at the same moment: one compile, sixteen right answers."""
    fused = fuser.fuse(lambda x, y: x * y + 17.25, fallback="error")
    before, found, gate = kernels_and_specs(), [None] * 16, threading.Barrier(16)

    def call(place: int) -> None:
        """Wait for the others, then call."""
        gate.wait()
        found[place] = fused(LONG + place, LONG)

    on_threads(call, 16)
    assert grown(before) == (1, 1)
    for place, value in enumerate(found):
        np.testing.assert_array_equal(value, (LONG + place) * LONG + 17.25)


def test_caches_are_cleared_under_eight_threads() -> None:
    """No crash and no wrong answer."""
    fused = fuser.fuse(lambda x, k: (x * 2 + k) * x, fallback="error")
    end, wrong = time.monotonic() + 2, []

    def call(place: int) -> None:
        """Call until the end."""
        values = LONG + place
        while time.monotonic() < end:
            if not np.array_equal(fused(values, place), (values * 2 + place) * values):
                wrong.append(place)

    with running(call, 8):
        while time.monotonic() < end:
            fuser.clear_caches()
            time.sleep(0.002)
    assert not wrong


def test_one_function_called_in_every_way_in_any_order() -> None:
    """Short ways of repeated calls are taken only by calls that fit them."""
    fused = fuser.fuse(lambda x, y, s: x * s + y, fallback="allow")
    five, wide = whole(5), whole(5, dtype=np.float64)
    calls: list[tuple[Any, ...]] = [
        (five, five, 1.0),
        (five, five, 2.0),
        (five, whole(4), 1.0),
        (five, whole(1), 1.0),
        (whole(1), five, 1.0),
        (five, five, 1),
        (five, wide, 1.0),
        (wide, five, 1.0),
        (whole(10)[::2], five, 1.0),
        (five, whole(10)[::-2], 1.0),
        (five[::-1], five, 1.0),
        (X, Y, 1.0),
        (X.T, Y.T, 2.0),
        (whole(5, 4).T, X, 1.0),
        (X, five, 1.0),
        (whole(0), whole(0), 1.0),
        (whole(1), whole(1), 1.0),
        (five, five.astype(">f4"), 1.0),
        (five, five, True),
        (five, [1, 2, 3, 4, 5], 1.0),
        (five, 2.0, 1.0),
        (np.float32(2), five, 1.0),
        (five, five, np.float64(2)),
        (five, five, "a"),
        (np.array(2.0), np.array(3.0), 1.0),
    ]
    for _ in range(3):
        for place in CHANCE.permutation(len(calls)):
            assert compare(fused, *calls[place]) == ""


def test_the_plain_function_meets_no_exception_of_ours() -> None:
    """Where NumPy runs a call, nothing is being handled: neither for `raise` nor as a context."""

    def bare(x: Any) -> Any:
        x += 1
        raise

    def own(x: Any) -> Any:
        x += 1
        if float(x[0]) > 0:
            raise KeyError(sys.exc_info()[0])

    for function, kind in ((bare, RuntimeError), (own, KeyError)):
        fused = fuser.fuse(function, fallback="allow")
        for _ in range(3):
            x = np.zeros(3)
            with pytest.raises(kind) as raised:
                fused(x)
            assert raised.value.__context__ is None
            assert (x == 1).all()


def test_writes_before_shapes_that_do_not_fit_remain() -> None:
    """Also those of the first call, whose trace finds that the shapes do not fit."""
    seen: list[int] = []

    def wrong(x: Any) -> Any:
        x += 1
        return x + np.ones(3)

    def noting(x: Any) -> Any:
        seen.append(1)
        return x + np.ones(3)

    for function in (wrong, noting):
        fused = fuser.fuse(function, fallback="allow")
        x = np.zeros(5)
        for _ in range(3):
            with pytest.raises(ValueError, match="broadcast"):
                fused(x)
        assert (x == 3).all() or len(seen) == 3


def test_lengths_beyond_every_limit_are_a_reason() -> None:
    """Joins of joins whose length takes more text than an expression may have."""

    def joins(x: Any) -> Any:
        for _ in range(12):
            x = np.concatenate([x[:3], np.concatenate([x[3:7] * 2, x[7:] + 1]), x[:2]])
        return x

    fused = fuser.fuse(joins, fallback="allow")
    x = np.linspace(0, 1, 64)
    for _ in range(3):
        np.testing.assert_array_equal(fused(x), joins(x))
    assert [reason.code for reason in fused.fallbacks] == ["too-large"]


def test_a_quotient_is_no_length() -> None:
    """NumPy refuses `np.zeros(len(x) / 2)`."""
    fused = fuser.fuse(lambda x: np.zeros(len(x) / 2), fallback="allow")  # type: ignore[call-overload]
    for _ in range(2):
        with pytest.raises(TypeError):
            fused(np.zeros(4))


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((X, 1), {"n": 2}),
        ((X, (1, [X])), {}),
        ((X, {"a": X}), {}),
        ((X, object()), {}),
        (([X] * 300,), {}),
        (([1.5] * 20_000,), {}),
    ],
    ids=["keywords", "nested", "dict", "object", "long", "too-many"],
)
def test_refused_calls_of_any_kind_are_the_plain_functions(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Whatever the arguments are, each is counted, with its one reason."""

    def drawing(*args: Any, **kwargs: Any) -> Any:
        return np.random.rand(3), type(args[0])  # noqa: NPY002 - it cannot be traced

    fused = fuser.fuse(drawing, fallback="allow")
    before = fuser.stats().get("fallbacks", 0)
    for _ in range(2 * PATIENCE):
        assert fused(*args, **kwargs)[1] is type(args[0])
    assert fuser.stats().get("fallbacks", 0) == before + 2 * PATIENCE
    assert len(fused.fallbacks) == 1


@needs_native_entry
@pytest.mark.parametrize("function", [lambda x: x.imag, lambda x: float(x[0, 0])])
def test_what_numpy_does_at_once_is_numpys(function: Any) -> None:
    """Python would take longer to put the result together, or to read a number."""
    fused = fuser.fuse(function, fallback="allow")
    for _ in range(2 * PATIENCE):
        assert np.array_equal(fused(X), function(X))
    assert [reason.code for reason in fused.fallbacks] == ["no-gain"]


class Sum:
    """An attribute that calls assign."""

    def __init__(self) -> None:
        self.total = 0.0

    def add(self, x: Any) -> Any:
        """Add to it."""
        self.total = self.total + x * 0.5
        return self.total


def _halved(x: Any) -> Any:
    for _ in range(len(x) % 7):
        x = x * 0.5 + 1
    return x


def _nested(x: Any) -> Any:
    for i in range(len(x) % 7):
        for j in range(i + 1):
            x = x * 0.5 + j
    return x


@functools.lru_cache
def _kept(number: int) -> float:
    return number * 0.5


def _refused(x: Any) -> Any:
    if (x > 0).any():
        raise ValueError("above 0")
    return x * 2


@needs_native_entry
@pytest.mark.parametrize(
    ("made", "small", "large"),
    [
        (lambda: lambda x: (max(x[:3]), min(x[:3])), ["no-gain"], ["no-gain"]),
        (lambda: Sum().add, ["no-gain"], []), (lambda: _halved, ["no-gain"], []),
        (lambda: lambda x: (x * 2, [len(x[:k]) for k in range(1, 12)]), ["no-gain"], []),
        (lambda: lambda x: x * 2 + 1, [], []), (lambda: lambda x: x * _kept(3), ["no-gain"], []),
        (lambda: lambda x: x[np.argsort(x)], ["no-gain", "unsupported-function"],
         ["unsupported-function"]),
    ],
)  # fmt: skip
def test_where_steps_take_longer_than_numpy(made: Any, small: Any, large: Any) -> None:
    """By an estimate of both, for the lengths of these calls; `error` has kernels all the same."""
    for length, codes in ((4, small), (100_000, large)):
        fused, plain = fuser.fuse(made(), fallback="allow"), made()
        for turn in range(3 * PATIENCE):
            x = np.arange(1.0 * length) + turn
            assert unlike(plain(x), fused(x)) == ""
        assert sorted(reason.code for reason in fused.fallbacks) == codes
        shown = [reason.code for reason in fused.explain(np.arange(1.0 * length)).fallbacks]
        assert "no-gain" not in codes or shown == codes
    if "unsupported-function" not in small:
        strict = fuser.fuse(made(), fallback="error")
        for _ in range(2 * PATIENCE):
            strict(np.arange(4.0))
        assert not strict.fallbacks


def test_loops_in_loops_are_estimated() -> None:
    """The inner one's iterations are known in the outer one alone."""
    fused = fuser.fuse(_nested, fallback="allow")
    for turn in range(3 * PATIENCE):
        x = np.arange(4.0) + turn
        assert np.array_equal(fused(x), _nested(x))


@needs_native_entry
def test_what_raises_after_a_decision_is_decided_once() -> None:
    """Small calls that raise again and again are the plain function's, the others are fused."""
    fused = fuser.fuse(_refused, fallback="allow")
    for _ in range(3 * PATIENCE):
        with pytest.raises(ValueError, match="above 0"):
            fused(np.ones(4))
        assert fused(-np.ones(4)).tolist() == [-2.0] * 4
    before = fuser.stats().get("decisions", 0)
    with pytest.raises(ValueError, match="above 0"):
        fused(np.ones(4))
    assert fused(-np.ones(4)).tolist() == [-2.0] * 4
    assert fuser.stats().get("decisions", 0) <= before + 1


MANY = {str(number): float(number) for number in range(60)}


@needs_native_entry
def test_small_calls_that_compare_much_are_numpys() -> None:
    """Comparing a dict takes longer than NumPy does; with long arrays it does not."""
    fused = fuser.fuse(lambda x: x * MANY["3"], fallback="allow")
    for _ in range(2 * PATIENCE):
        np.testing.assert_array_equal(fused(X), X * 3.0)
    assert [reason.code for reason in fused.fallbacks] == ["no-gain"]
    long, before = np.ones(100_000), fuser.stats().get("fallbacks", 0)
    for _ in range(2 * PATIENCE):
        np.testing.assert_array_equal(fused(long), long * 3.0)
    assert fuser.stats().get("fallbacks", 0) == before


def test_a_refusal_is_looked_at_again_where_an_object_changes() -> None:
    """An attribute of an argument may have been the reason."""
    thing = SimpleNamespace(draws=True)

    def sometimes(x: Any, thing: Any) -> Any:
        return x + np.random.rand(4, 5) if thing.draws else x + 1  # noqa: NPY002

    fused = fuser.fuse(sometimes, fallback="allow")
    for _ in range(3):
        fused(X, thing)
    thing.draws = False
    before = fuser.stats().get("fallbacks", 0)
    np.testing.assert_array_equal(fused(X, thing), X + 1)
    assert fuser.stats().get("fallbacks", 0) == before


def test_warmup_compiles_and_does_not_run() -> None:
    """The call that follows compiles nothing; arguments are untouched."""
    fused = fuser.fuse(_adds_one)
    x = np.arange(6.0)
    before = fuser.n_compiled_kernels()
    fused.warmup(x)
    compiled = fuser.n_compiled_kernels()
    assert (x == np.arange(6.0)).all()
    fused(x)
    assert (x == np.arange(1.0, 7.0)).all()
    assert compiled == fuser.n_compiled_kernels() > before


def _adds_one(x: Any) -> None:
    """Its kernel is of no other test."""
    x += 1 + 0 * np.tanh(x)


def test_warmup_says_what_is_not_fused() -> None:
    """As the call would: a warning, nothing, or an error."""
    def values(x: Any) -> Any:
        return len(str(x)) + x

    with pytest.warns(fuser.FallbackWarning, match="array-conversion"):
        fuser.fuse(values).warmup(np.ones(3))
    silent = fuser.fuse(values, fallback="allow")
    silent.warmup(np.ones(3))
    assert [reason.code for reason in silent.fallbacks] == ["array-conversion"]
    with pytest.raises(fuser.FusionError, match="array-conversion"):
        fuser.fuse(values, fallback="error").warmup(np.ones(3))


def test_reasons_are_counted_by_function() -> None:
    """Also those of calls that are known to be refused."""
    fused = fuser.fuse(lambda x: len(str(x)) + x, fallback="allow")
    for _ in range(5):
        fused(np.ones(3))
    assert list(fused.fallback_counts.values()) == [5]
    assert list(fused.fallback_counts) == fused.fallbacks


def test_two_functions_on_one_line_warn_each() -> None:
    """A reason is said once for each function."""
    one, two = (fuser.fuse(make) for make in (_first, _second))
    for fused in (one, two):
        with pytest.warns(fuser.FallbackWarning):
            fused(np.ones(3))


def _first(x: Any) -> Any:
    return _value(x) + x


def _second(x: Any) -> Any:
    return _value(x) - x


def _value(x: Any) -> float:
    return float(len(str(x)))


def test_generated_text_prints_as_text() -> None:
    """The mapping from kernels to texts, not one escaped line."""
    found = fuser.fuse(lambda x: x * 3 + 1).source(np.ones(3))
    assert isinstance(found, dict)
    assert str(found).count("\n") > 5
    assert repr(found) == str(found)


def test_help_is_the_functions() -> None:
    """Signature and docstring are those of the plain function."""

    @fuser.fuse
    def scaled(x: Any, *, scale: float = 2.0) -> Any:
        """Scale."""
        return x * scale

    text = pydoc.plain(pydoc.render_doc(scaled))
    assert "scale: float = 2.0" in text
    assert "Scale." in text
    assert str(inspect.signature(scaled)) == str(inspect.signature(scaled.__wrapped__))


def test_parameters_of_any_name() -> None:
    """Also of those names that a fused function has itself."""
    fused = fuser.fuse(lambda self, **more: self * len(more), fallback="error")
    for _ in range(2):
        np.testing.assert_array_equal(fused(self=np.ones(3), out=1, args=2), np.full(3, 2.0))


def test_a_function_that_calls_itself_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few of the calls in it are traced, though what it reaches is another list in each."""
    calls: list[None] = []
    fused = fuser.fuse(lambda x: again(x), fallback="allow")

    def again(x: Any) -> Any:
        calls.append(None)
        return fused(x + 1)

    looks: list[None] = []
    look = captures.look_around
    monkeypatch.setattr(captures, "look_around", lambda *a: (looks.append(None), look(*a))[1])
    for _ in range(2):
        with pytest.raises(RecursionError):
            fused(np.ones(3))
    assert len(calls) < 5000
    assert len(looks) <= VALUE_LIMIT + 1


def test_attributes_that_functions_have_are_the_plain_functions() -> None:
    """Its code, defaults, closure and globals; what is set on them shows at the next call."""

    def scaled(x: Any, k: float = 2.0, *, shift: float = 1.0) -> Any:
        return x * k + shift

    fused, x = fuser.fuse(scaled, fallback="error"), np.arange(3.0)
    assert fused(x).tolist() == [1.0, 3.0, 5.0]
    for name in ("__code__", "__defaults__", "__kwdefaults__", "__closure__", "__globals__"):
        assert getattr(fused, name) is getattr(scaled, name)
    fused.__defaults__ = (3.0,)
    fused.__kwdefaults__ = {"shift": 0.0}
    assert fused(x).tolist() == scaled(x).tolist() == [0.0, 3.0, 6.0]
    assert not hasattr(fuser.fuse(np.add), "__code__")
    fused.__dict__ = {"told": 1, "_latest": None}  # so IPython's autoreload changes functions
    assert fused.told == vars(fused)["told"] == 1
    assert fused(x).tolist() == [0.0, 3.0, 6.0]
