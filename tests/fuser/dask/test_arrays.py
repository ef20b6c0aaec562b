"""Fused functions of Dask arrays: values, dtypes, chunks, passes, and what is refused."""

import importlib
import pickle
import random
import sys
from typing import Any

import cloudpickle
import numpy as np
import pytest

dask = pytest.importorskip("dask", reason="not installed: pip install 'fuser-bench[dask]'")

import dask.array as da  # noqa: E402

import fuser  # noqa: E402
from fuser import functional  # noqa: E402
from fuser.base import trees  # noqa: E402
from fuser.dask import arrays as ours  # noqa: E402
from fuser.dask.blocks import Blocks  # noqa: E402
from fuser.dask.kernels import ChunkGraph  # noqa: E402
from tests.fuser.dask.programs import Source, launches  # noqa: E402

CHANCE = np.random.default_rng(3)
X = CHANCE.random((20, 30))
WEIGHTS = np.arange(30.0)
MATRIX = CHANCE.random((20, 30))
CHUNKS = ((7, 11), ((6, 1, 13), 30))


def stencil(x: Any) -> Any:
    """Four neighbours, with the borders kept."""
    y = x * 1
    y[1:-1, 1:-1] = (x[1:-1, 2:] + x[1:-1, :-2] + x[2:, 1:-1] + x[:-2, 1:-1]) / 4
    return y


def into(make: Any, *parts: tuple[Any, Any]) -> Any:
    """A function that writes values into parts of an array: what makes each of the argument."""

    def function(x: Any) -> Any:
        y = make(x)
        for part, value in parts:
            y[part] = value(x, y) if callable(value) else value
        return y

    return function


def inner(x: Any, _: Any = None) -> Any:
    """The mean of four neighbours of each element that has them."""
    return (x[1:-1, 2:] + x[1:-1, :-2] + x[2:, 1:-1] + x[:-2, 1:-1]) / 4


INNER, S = (slice(1, -1), slice(1, -1)), slice
#: Writes into parts that are kernels: all but some elements at the ends of each axis.
WRITES: dict[str, Any] = {
    "edges are held": into(lambda x: x.copy(), (INNER, inner)),
    "edges of a number": into(np.zeros_like, (INNER, inner)),
    "an edge": into(np.ones_like, (S(3, None), lambda x, _: x[3:] - x[:-3])),
    "everything": into(np.empty_like, (S(None), lambda x, _: x * 2)),
    "a number": into(lambda x: x * 1, (S(2, -3), 0)),
    "two steps": into(
        lambda x: x * 1, (S(1, -1), lambda x, y: (y[2:] + y[:-2]) / 2),
        (S(2, -2), lambda x, y: y[4:] - y[:-4]),
    ),
    "beside a reduction": into(lambda x: x * 1, (S(1, -1), lambda x, _: x[1:-1] - x.mean(0))),
}
#: Computed by chunks: no reason is found.
BY_CHUNKS: dict[str, Any] = {
    "elementwise": lambda x: (x * 2 + np.exp(x)) * WEIGHTS,
    "several results": lambda x: (x * MATRIX, {"a": x + 1, "b": x.sum(0) + 1}),
    "sum": lambda x: (x * 2).sum(0) + 1,
    "sum of all": lambda x: (x * 2).sum() + x,
    "mean": lambda x: x.mean(-1),
    "var": lambda x: x.var(0),
    "var of all": lambda x: x.var(ddof=1),
    "softmax": lambda x: functional.softmax(x, axis=0),
    "logsumexp": lambda x: functional.logsumexp(x, axis=1),
    "layer norm": lambda x: functional.layer_norm(x, WEIGHTS, WEIGHTS),
    "standardise": lambda x: (x - x.mean(0)) / x.std(0),
    "standardise all": lambda x: (x - x.mean()) / x.std(),
    "min and max": lambda x: (x - x.min()) / (x.max() - x.min()),
    "argmax": lambda x: (x * 2).argmax(0),
    "argmin": lambda x: x.argmin(1),
    "argmax of all": lambda x: x.argmax(),
    "differences": lambda x: (x[1:] - x[:-1]) * 2,
    "np.diff": lambda x: np.diff(x, axis=1),
    "laplacian": lambda x: x[1:-1, 2:] + x[1:-1, :-2] + x[2:, 1:-1] + x[:-2, 1:-1],
    "slices of slices": lambda x: np.diff((x[1:] - x[:-1]) * MATRIX[1:], axis=0),
    "stencil": stencil,
    **WRITES,
    "what follows a write": lambda x: WRITES["edges of a number"](x).T * 2 + x.T,
    "a sum of what is written": lambda x: WRITES["a number"](x).sum(0),
    "a part of every second": into(lambda x: x * 1, (S(None, None, 2), lambda x, _: x[::2] * 3)),
    "rows at the ends": into(lambda x: x * 1, (0, 5), (-1, lambda x, y: y[-2])),
    "a row that is repeated": into(lambda x: x * 1, (S(1, -1), lambda x, _: x[0])),
    "transposed": lambda x: x.T * 2 + 1,
    "columns": lambda x: x[:, 0] + x[:, 1:2].sum(1),
    "roll": lambda x: np.roll(x, 1, 0) + x,
    "any": lambda x: (x > 1).any(0),
    "nanmean": lambda x: np.nanmean(np.where(x > 0.5, np.nan, x), axis=0),
    "prod": lambda x: x.prod(1),
    "concatenate": lambda x: np.concatenate([x, x * 2], 0) + 1,
    "reshape": lambda x: (x + 1).reshape(-1) * 2,
    "steps": lambda x: x[::2] * 2,
    "integers": lambda x: (x * 10).astype("int32").sum(1),
    "loop": lambda x: sum(x * k for k in range(3)),
    "outer": lambda x: x.sum(1)[:, None] * x.sum(0),
    "complex": lambda x: np.abs(x * 1j + 1),
    "the argument": lambda x: x,
    "a view": lambda x: x.T,
    "lengths": lambda x: (x.shape, x * 0 + x.shape[0]),
}  # fmt: skip


def compare(function: Any, values: Any, chunks: Any, rtol: float = 1e-12) -> Any:
    """Compare what a fused function gives for chunks with what the plain one gives for the array.

    Returns:
        The fused function.
    """
    fused = fuser.fuse(function, fallback="allow")
    lazy = fused(da.from_array(values, chunks=chunks))
    (found,) = dask.compute(lazy, scheduler="sync")
    found, promised, wanted = (trees.flatten(each)[1] for each in (found, lazy, function(values)))
    for got, told, right in zip(found, promised, wanted, strict=True):
        np.testing.assert_allclose(got, right, rtol=rtol, atol=1e-12)
        if hasattr(right, "dtype"):
            assert isinstance(told, da.Array)
            assert got.dtype == told.dtype == right.dtype
            assert got.shape == told.shape == right.shape
            assert told._meta.ndim == right.ndim
    return fused


@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
@pytest.mark.parametrize("name", BY_CHUNKS)
def test_values_are_those_of_the_whole_array(name: str, chunks: Any) -> None:
    """In any chunks, and nothing is refused."""
    assert compare(BY_CHUNKS[name], X, chunks).fallbacks == []


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, -0.0])
@pytest.mark.parametrize("name", ["softmax", "logsumexp", "var", "argmax", "argmin", "min and max"])
def test_special_values(name: str, special: float) -> None:
    """In one element, in a whole chunk, in whole rows."""
    function = BY_CHUNKS[name]
    for where in ((3, 4), (slice(0, 7), slice(0, 11)), (slice(None), 2), (5,)):
        values = X.copy()
        values[where] = special
        with np.errstate(all="ignore"):
            compare(function, values, (7, 11))


@pytest.mark.parametrize("name", ["var", "var of all"])
@pytest.mark.parametrize(("dtype", "away", "rtol"), [("f8", 1e8, 1e-13), ("f4", 1e3, 2e-5)])
def test_variances_far_from_zero(name: str, dtype: str, away: float, rtol: float) -> None:
    """Chunks whose means differ, all far from zero: as exact as NumPy's two passes."""
    values = (X * 8 + away).round(1 if dtype == "f8" else 3).astype(dtype)
    with np.errstate(all="ignore"):
        compare(BY_CHUNKS[name], values, (7, 11), rtol=rtol)


def test_positions_are_the_first() -> None:
    """Of equal elements in several chunks."""
    values = np.zeros((20, 30))
    values[[3, 9, 18], 5] = 1.0
    compare(lambda x: (x.argmax(0), x.argmin(0), x.argmax(1)), values, (7, 11))


@pytest.mark.parametrize(
    ("name", "passes"), [("softmax", 2), ("standardise", 2), ("layer norm", 2), ("logsumexp", 1),
                         ("var", 1), ("argmax", 1), ("elementwise", 1), ("laplacian", 1)],
)  # fmt: skip
def test_passes_over_chunks_are_few(name: str, passes: int) -> None:
    """Each chunk is read so often, whatever the function computes."""
    source = da.from_array(X, chunks=(7, 11))
    lazy = fuser.fuse(BY_CHUNKS[name])(source)
    tasks = [task for task in dict(lazy.__dask_graph__()).values()
             if isinstance(getattr(task, "func", None), ChunkGraph)]  # fmt: skip
    chunks = {key for key in dict(source.__dask_graph__()) if key[0] == source.name}
    chunks |= {key for key in dict(lazy.__dask_graph__()) if str(key[0]).startswith("overlap")}
    reads = [key for task in tasks for key in task.dependencies if key in chunks]
    assert len(reads) == 9 * passes


def test_arrays_that_are_reached_are_taken_as_they_are() -> None:
    """Dask is lazy: what is written into them later does not show."""
    weights = np.arange(30.0)
    fused = fuser.fuse(lambda x: x * weights)
    lazy = fused(da.from_array(X, chunks=(7, 11)))
    wanted = X * weights
    weights[:] = 0
    np.testing.assert_array_equal(lazy.compute(scheduler="sync"), wanted)
    assert (fused(da.from_array(X, chunks=(7, 11))).compute(scheduler="sync") == 0).all()


def test_calls_of_a_kind_share_a_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other lengths, numbers and chunks do; what names stand for, and dtypes, are noticed."""
    traced: list[str] = []
    trace = ours.trace_purely
    monkeypatch.setattr(ours, "trace_purely", lambda *of: (traced.append(of[3]), trace(*of))[1])
    factor = 2.0

    def function(x: Any, power: int) -> Any:
        return (x[1:] - x[:-1]) * factor * power

    fused = fuser.fuse(function, fallback="error")

    def check(values: Any, power: int) -> int:
        before = len(traced)
        for chunks in CHUNKS:
            lazy = fused(da.from_array(values, chunks=chunks), power)
            wanted = function(values, power)
            np.testing.assert_allclose(lazy.compute(scheduler="sync"), wanted)
            assert lazy.dtype == wanted.dtype
        return len(traced) - before

    assert check(X, 3) > 0
    assert check(X, 3) == check(X, 4) == check(np.ones((20, 30)), 5) == 0
    factor = 3.0
    assert check(X, 3) > 0
    assert check(X.astype("float32"), 3) > 0
    fused.clear()
    assert check(X, 3) > 0


def test_calls_of_a_kind_share_what_was_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other data does; other chunks, numbers (-0.0 is not 0.0) and settings of Dask's do not."""
    decided: list[Any] = []
    monkeypatch.setattr(ours, "Blocks", lambda *of: decided.append(of) or Blocks(*of))
    fused = fuser.fuse(lambda x, y, k: (np.arctan2(k, x.sum(1)), y + x - x.mean(0)))

    def check(values: Any, chunks: Any, k: float) -> int:
        before = len(decided)
        for found, wanted in zip(
            fused(da.from_array(values, chunks=chunks), WEIGHTS, k),
            (np.arctan2(k, values.sum(1)), WEIGHTS + values - values.mean(0)), strict=True,
        ):  # fmt: skip
            np.testing.assert_allclose(found.compute(scheduler="sync"), wanted, atol=1e-12)
        return len(decided) - before

    assert check(X, CHUNKS[0], 0.0) == 1
    assert check(MATRIX - 9, CHUNKS[0], 0.0) == 0
    assert check(MATRIX - 9, CHUNKS[0], -0.0) == 1
    assert check(X, CHUNKS[1], 0.0) == 1
    with dask.config.set({"array.chunk-size": "1kiB"}):
        assert check(X, CHUNKS[0], 0.0) == 1


def test_what_cannot_be_traced_is_traced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless the plain function raises, too: then nothing is known of other calls."""
    traced: list[str] = []
    trace = ours.trace_purely
    monkeypatch.setattr(ours, "trace_purely", lambda *of: (traced.append(of[3]), trace(*of))[1])
    steps = 2

    def function(x: Any) -> Any:
        return np.exp(x.rechunk(-1)).reshape(-1, 5, 30) * steps

    fused = fuser.fuse(function, fallback="allow")
    x = da.from_array(X, chunks=(7, 11))
    with pytest.raises(IndexError, match="integer-like"):
        fused(x[:3, :29])
    for _ in range(3):
        assert (fused(x).compute(scheduler="sync") == np.exp(X).reshape(-1, 5, 30) * steps).all()
        assert len(traced) == 2
    steps = 3
    assert (fused(x).compute(scheduler="sync") == np.exp(X).reshape(-1, 5, 30) * 3).all()
    assert fused.fallback_counts[fused.fallbacks[0]] == 5


def test_calls_that_ended_operation_by_operation_are_not_looked_at_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Until a name stands for something else, or chunks differ where these decide it."""
    looked: list[Any] = []
    look = ours.by_chunks
    monkeypatch.setattr(ours, "by_chunks", lambda *of: (looked.append(of), look(*of))[1])
    steps = 2

    def refused(x: Any, power: float) -> Any:
        return np.exp(x.rechunk(-1)).reshape(-1, 5, 30) * steps + power

    def rows(x: Any, power: float) -> Any:
        return (x * 2)[[5, 1, 7]] + power  # kernels would save nothing

    def check(fused: Any, values: Any, chunks: Any, power: float) -> int:
        before = len(looked)
        found = fused(da.from_array(values, chunks=chunks), power).compute(scheduler="sync")
        np.testing.assert_array_equal(found, fused.__wrapped__(da.asarray(values), power).compute())
        return len(looked) - before

    one, other = fuser.fuse(refused, fallback="allow"), fuser.fuse(rows)
    for fused, times in ((one, [1, 1]), (other, [1])):
        assert [check(fused, X, 7, 3.0) for _ in range(4)] == [*times, *[0] * (4 - len(times))]
        assert check(fused, X.astype("float32"), 7, 3.0) == 1
    assert check(one, X, (7, 11), 4.0) == 0
    assert [check(other, X, (7, 11), 3.0), check(other, X, (7, 11), 4.0)] == [1, 1]
    steps = 3
    assert check(one, X, 7, 3.0) == 1
    one.clear()
    assert check(one, X, 7, 3.0) == 1
    strict = fuser.fuse(refused, fallback="error")
    for _ in range(3):
        with pytest.raises(fuser.FusionError):
            strict(da.from_array(X, chunks=7), 3.0)


@pytest.mark.parametrize("chunks", [7, (20, 30)])
def test_results_without_axes_are_scalars_where_numpys_are(chunks: Any) -> None:
    """By whatever they are computed: kernels, the tree that joins chunks, Dask's operations."""
    def function(x: Any) -> Any:
        mean = x.mean()
        return mean, x.max() - mean, x.argmin(), x[0, 0] + 1, (x[0] * x[0]).sum(), np.array(mean)

    x = da.from_array(X, chunks=chunks)
    found = dask.compute(*fuser.fuse(function, fallback="error")(x), scheduler="sync")
    for one, wanted in zip(found, function(X), strict=True):
        assert (type(one), one.dtype) == (type(wanted), wanted.dtype)
        np.testing.assert_allclose(one, wanted)


@pytest.mark.parametrize(
    "seen", [lambda x: x[::-1], lambda x: x[::2], lambda x: np.concatenate([x, x * 2]),
             lambda x: x.reshape(-1), lambda x: x[3:17], lambda x: x[3:], lambda x: x[:, 2:-3]],
)  # fmt: skip
def test_kernels_go_by_the_chunks_that_dask_gives_what_crosses_them(seen: Any) -> None:
    """They never make one chunk of several."""
    fused = fuser.fuse(lambda x: np.exp(seen(x - 1) * 2) - np.sqrt(seen(x)), fallback="error")
    x = da.from_array(X, chunks=(7, 11))
    found = fused(x)
    assert found.chunks == seen(x).chunks
    np.testing.assert_allclose(found.compute(scheduler="sync"), fused.__wrapped__(X))


def test_results_of_one_array_have_its_chunks() -> None:
    """Beside others of it and of an array in other chunks."""
    plain = lambda x, y: (x * 2 + 1, np.exp(x * y) - y, (x - 1).argmin(axis=1), y.sum(axis=1) * 2)  # noqa: E731
    arrays = da.from_array(X, chunks=(7, 11)), da.from_array(MATRIX, chunks=(5, 30))
    found = fuser.fuse(plain, fallback="error")(*arrays)
    assert [each.chunks for each in found] == [each.chunks for each in plain(*arrays)]
    for one, wanted in zip(dask.compute(*found, scheduler="sync"), plain(X, MATRIX), strict=True):
        np.testing.assert_allclose(one, wanted)


def test_results_that_others_are_computed_of() -> None:
    """Operation by operation: each is computed, alone too."""
    fused = fuser.fuse(lambda x: ((y := x * 2 + 1), da.cumsum(y, axis=0), y - 1), fallback="allow")
    wanted = X * 2 + 1, np.cumsum(X * 2 + 1, axis=0), X * 2
    results = fused(da.from_array(X, chunks=7))
    for found in (dask.compute(*results), [each.compute() for each in results]):
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other)
    (reason,) = fused.fallbacks
    assert (reason.code, reason.operation) == ("lazy-array", "cumsum")


def test_dask_arrays_that_are_reached_are_no_arguments() -> None:
    """Dask runs the function, with kernels for what is elementwise, and the reason says why."""
    held, weights = {"them": da.from_array(X, chunks=(7, 11))}, da.from_array(X, chunks=(7, 11))
    for function in (lambda x: np.exp(x) * weights + 1, lambda x: np.exp(x) * held["them"] + 1):
        for x in (X, weights):
            fused = fuser.fuse(function, fallback="allow")
            before = launches()
            np.testing.assert_allclose(fused(x).compute(scheduler="sync"), np.exp(X) * X + 1)
            assert x is X or launches() - before == 9
            (reason,) = fused.fallbacks
            assert reason.code == "lazy-array"
            assert "pass it as one" in str(reason)
            assert fused.explain(x).fallbacks == [reason]

def test_names_are_deterministic() -> None:
    """Equal code, arrays and captured values give equal names; others do not."""
    x, scale = da.from_array(X, chunks=(7, 11)), np.full(30, 2.0)
    one, two = (fuser.fuse(lambda x: np.exp(x) * scale)(x).name for _ in range(2))
    assert one == two
    scale[0] = 3
    assert fuser.fuse(lambda x: np.exp(x) * scale)(x).name != one


def test_without_dask_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `fuser-bench` does."""
    for name in ("fuser.dask", "fuser.dask.optimization"):
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "dask", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'fuser-bench\[dask\]'"):
        importlib.import_module("fuser.dask")


def test_several_arrays_in_other_chunks() -> None:
    """Their chunks are made alike; NumPy's arrays and numbers mix with them."""
    fused = fuser.fuse(lambda x, y, z, k: (x - y.mean(0)) * z + k)
    x, y = da.from_array(X, chunks=(7, 11)), da.from_array(MATRIX, chunks=(5, 30))
    wanted = (X - MATRIX.mean(0)) * WEIGHTS + 2
    np.testing.assert_allclose(fused(x, y, WEIGHTS, 2).compute(scheduler="sync"), wanted)
    assert fused.fallbacks == []
    with pytest.raises(ValueError, match="broadcast"):
        fused(x, y[:, :7], WEIGHTS, 2)


def test_one_array_is_one_inside() -> None:
    """`x is y` holds for one Dask array."""
    fused = fuser.fuse(lambda x, y: x + 1 if x is y else x - y)
    x = da.from_array(X, chunks=(7, 11))
    np.testing.assert_array_equal(fused(x, x).compute(scheduler="sync"), X + 1)


@pytest.mark.parametrize("name", ["out=", "argument", "keyword"])
def test_writes_are_refused(name: str) -> None:
    """Nobody's array is changed, and the reason says what to do."""
    x = da.from_array(X, chunks=(7, 11))
    before = x.name

    def writes(x: Any) -> Any:
        x[0] = 1
        return x

    calls = {
        "out=": lambda: fuser.fuse(lambda x: x + 1)(x, out=x),
        "argument": lambda: fuser.fuse(writes)(x),
        "keyword": lambda: fuser.fuse(lambda x: np.add(x, 1, out=x))(x=x),
    }
    with pytest.raises(fuser.FusionError, match=r"da\.store"):
        calls[name]()
    assert x.name == before


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize(
    ("code", "function"),
    [("lazy-array", lambda x: (x * 2).cumsum(0) + 1), ("lazy-array", lambda x: x @ x.T + 1),
     ("lazy-array", lambda x: np.median(x, axis=0) * 2 + 1),
     ("lazy-array", lambda x: x[x > 0.5] * 2 + 1),
     ("lazy-array", lambda x: x[:20, :20] + x[:20, :20].T)],
)  # fmt: skip
def test_dask_does_the_rest(code: str, function: Any) -> None:
    """With its own operations, and a reason that names one."""
    fused = fuser.fuse(function)
    with pytest.warns(fuser.FallbackWarning, match=code):
        lazy = fused(da.from_array(X, chunks=(7, 11)))
    np.testing.assert_allclose(lazy.compute(scheduler="sync"), function(X))
    with pytest.raises(fuser.FusionError, match=code):
        fuser.fuse(function, fallback="error")(da.from_array(X, chunks=(7, 11)))


def test_unknown_lengths() -> None:
    """Of an array chosen by a mask: Dask's operations, with kernels for what is elementwise."""
    x = da.from_array(X, chunks=(7, 11))
    fused = fuser.fuse(lambda y: np.exp(y) * 2 + 1, fallback="allow")
    found = fused(x[x > 0.5]).compute(scheduler="sync")
    np.testing.assert_allclose(np.sort(found), np.sort(np.exp(X[X > 0.5]) * 2 + 1))
    assert "NaN" in fused.fallbacks[0].found


def test_integers_of_dask_as_indices() -> None:
    """Nobody knows them while the graph is made."""
    x, k = da.from_array(X, chunks=(7, 11)), da.from_array(np.array(3), chunks=())
    fused = fuser.fuse(lambda x, k: x * k + 1)
    np.testing.assert_allclose(fused(x, k).compute(scheduler="sync"), X * 3 + 1)


def test_nothing_is_computed_before_it_is_asked_for() -> None:
    """Nor while meta is made."""
    x = da.from_array(X, chunks=(7, 11)).map_blocks(pytest.fail, dtype="float64", meta=X[:0])
    lazy = fuser.fuse(BY_CHUNKS["standardise"])(x)
    assert lazy.chunks == x.chunks


def test_graphs_travel() -> None:
    """By pickle where functions have names, by cloudpickle in any case."""
    lazy = fuser.fuse(BY_CHUNKS["layer norm"])(da.from_array(X, chunks=(7, 11)))
    wanted = lazy.compute(scheduler="sync")
    for module in (pickle, cloudpickle):
        sent = module.loads(module.dumps(lazy))
        np.testing.assert_array_equal(sent.compute(scheduler="sync"), wanted)


def test_explain_shows_kernels_and_what_dask_does() -> None:
    """Steps in their order; of what is not computed by chunks, the reason."""
    x = da.from_array(X, chunks=(7, 11))
    fused = fuser.fuse(lambda x: np.concatenate([x - x.mean(0), x], 0))
    shown = fused.explain(x)
    text = str(shown)
    assert "kernels on 9 chunks, whose results a tree joins" in text
    assert 0 < text.index("a tree joins") < text.index("Dask's own operation: concatenate{0}")
    assert shown.fallbacks == []
    picked = fuser.fuse(lambda x: (x * 2)[[5, 1, 7]] + 1)
    assert "Dask's own operations alone" in str(picked.explain(x))
    assert (picked(x).compute(scheduler="sync") == (X * 2)[[5, 1, 7]] + 1).all()
    refused = fuser.fuse(lambda x: x.cumsum(0) * 2).explain(x)
    assert refused.fallbacks[0].operation == "running sum"
    assert [reason.code for reason in refused.fallbacks] == ["lazy-array"]


@pytest.mark.parametrize("name", WRITES)
def test_writes_are_kernels_on_chunks_that_overlap(name: str) -> None:
    """Each is one kernel a chunk, with what it writes; chunks stay."""
    x = da.from_array(X, chunks=(7, 11))
    fused = fuser.fuse(WRITES[name])
    text = str(fused.explain(x))
    assert "Dask's own" not in text
    assert text.count("kernels on") == (2 if name in ("two steps", "beside a reduction") else 1)
    assert fused(x).numblocks == ((2, 3) if name in ("a number", "two steps") else (3, 3))


def test_they_fuse_with_dask_programs() -> None:
    """What stands around them in a Dask program becomes part of the same layer."""
    x = da.from_array(X, chunks=(7, 11))
    lazy = fuser.fuse(lambda x: np.exp(x) * 2)(x * 2 + 1) * 3 - 1
    with fuser.dask.fused():
        found = lazy.compute(scheduler="threads")
    np.testing.assert_allclose(found, np.exp(X * 2 + 1) * 2 * 3 - 1)


ELEMENTWISE = [np.exp, np.tanh, np.abs, lambda x: x * 2 - 1, lambda x: x * MATRIX.mean()]
SHRINKING = [
    lambda x: x[1:], lambda x: x[:-1], lambda x: x[:, 1:-1], lambda x: x[2:, :-2],
    lambda x: np.diff(x, axis=0), lambda x: x[:, 1:] - x[:, :-1], lambda x: x[::2],
    lambda x: x[:, 3:9], lambda x: x[-5:], lambda x: x.T,
]  # fmt: skip
KEEPING = [
    lambda x: x - x.mean(0), lambda x: x / (1 + x.std(1, keepdims=True)), lambda x: x - x.max(),
    lambda x: functional.softmax(x, axis=0), lambda x: x + x.argmax(1)[:, None],
    lambda x: x * x.sum(1)[:, None], lambda x: np.where(x > x.mean(), x, -x),
]  # fmt: skip
ENDING = [lambda x: x, lambda x: x.sum(0), lambda x: x.var(), lambda x: x.argmin(1), lambda x: x.T]


def random_function(seed: int) -> Any:
    """A function of some steps, each an elementwise one, a view, or one over whole axes."""
    chance = random.Random(seed)
    steps = [chance.choice(chance.choice([ELEMENTWISE, SHRINKING, KEEPING])) for _ in range(4)]
    end = chance.choice(ENDING)

    def function(x: Any) -> Any:
        for step in steps:
            x = step(x)
        return end(x)

    return function


def test_results_of_a_pass_are_no_tasks_of_their_own() -> None:
    """A kernel takes its operands from the tuples that another one gave."""
    lazy = fuser.fuse(lambda x: (x - x.mean(axis=0)) / x.std(axis=0))(
        da.from_array(X, chunks=(5, 30)))  # fmt: skip
    assert len(dict(dask.optimize(lazy)[0].__dask_graph__())) == 4 + 4 + 1 + 4
    received = cloudpickle.loads(cloudpickle.dumps(lazy))
    np.testing.assert_allclose(received.compute(), (X - X.mean(0)) / X.std(0), rtol=1e-12)


def test_an_operand_of_fewer_chunks_is_read_once_for_each() -> None:
    """A row beside many rows, also where Dask could fuse the reads into each chunk's kernel."""
    source = Source(WEIGHTS)
    row = da.from_array(source, chunks=10) * 2
    lazy = fuser.fuse(lambda x, y: x * 2 + y)(da.from_array(X, chunks=(5, 10)), row)
    source.reads = 0
    np.testing.assert_array_equal(lazy.compute(scheduler="sync"), X * 2 + WEIGHTS * 2)
    assert source.reads == 3


@pytest.mark.parametrize("seed", range(16))
def test_random_functions(seed: int) -> None:
    """In random chunks."""
    chance = random.Random(seed)
    chunks = (chance.randint(1, 20), chance.randint(1, 30))
    compare(random_function(seed), X, chunks, rtol=1e-9)
