"""Reductions of joined arrays: bytes by hand, one read of what is joined, and NumPy's results."""

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import fuser
from fuser import executor
from fuser.backends.cpu.machine import workers
from fuser.compiler import compile_upfront
from fuser.ir.graph import intern
from fuser.ir.ops import op
from fuser.ir.views import Index
from fuser.passes.concatenated_reductions import layer
from fuser.scheduling import nest_sequences
from fuser.traffic import ledger
from tests.fuser.comparing import assert_near
from tests.fuser.randomly import randomly


def jacobi(u: Any) -> Any:
    """How much one step changes a plate with fixed edges."""
    new = u.copy()
    new[1:-1, 1:-1] = 0.25 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2])
    return ((new - u) ** 2).sum()


def jacobi_step(u: Any) -> Any:
    """The same with the new plate."""
    new = u.copy()
    new[1:-1, 1:-1] = 0.25 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2])
    return new, abs(new - u).max()


def shoelace(x: Any, y: Any) -> Any:
    """The area of a polygon."""
    return 0.5 * abs((x * np.roll(y, -1) - np.roll(x, -1) * y).sum())


def total_variation(x: Any) -> Any:
    """Of a signal that begins at nothing."""
    return abs(np.diff(x, prepend=0.0)).sum()


def columns_differ(x: Any) -> Any:
    """Down the columns."""
    return (np.diff(x, prepend=x[:1], axis=0) ** 2).sum(0)


def repeated(x: Any) -> Any:
    """Each element three times."""
    return np.repeat(x, 3).sum()


def scaled(x: Any, y: Any) -> Any:
    """Repeated and computed with, as an output."""
    return np.repeat(x, 2, axis=1) * 3.0 + y[0, 0]


def stacked(x: Any, y: Any) -> Any:
    """Layers: nothing is reduced."""
    return np.stack([x, y, x * y]).sum(0), np.stack([x, y], -1).max(-1)


def joined(x: Any, y: Any) -> Any:
    """All of both."""
    both = np.concatenate([x, y])
    return both.max(), both.mean(), (both > 0.5).all()


def padded(x: Any) -> Any:
    """Edges are repeated, which reads nothing again but edges."""
    return np.pad(x, 1, mode="edge").sum()


def columns_of_pad(x: Any) -> Any:
    """Zeros above and below."""
    return np.pad(x, ((1, 2), (0, 0))).sum(0)


N, M = 21, 13
#: name -> (function, shapes of its arguments, bytes of a float64 call, by hand). A part's result is
#: combined in the same kernel. Where loops of parts are alike, each result is written and read.
COUNTED: dict[str, tuple[Any, list[tuple[int, ...]], int]] = {
    "jacobi": (jacobi, [(N, M)], 8 * (N * M + 1)),
    "jacobi_step": (jacobi_step, [(N, M)], 8 * (N * M + 1 + N * M)),
    "shoelace": (shoelace, [(N,), (N,)], 8 * (2 * N + 1)),
    "total_variation": (total_variation, [(N,)], 8 * (N + 1)),
    "columns_differ": (columns_differ, [(N, M)], 8 * (N * M + M)),
    "repeated": (repeated, [(N,)], 8 * (N + 1)),
    "scaled": (scaled, [(N, M), (N, M)], 8 * (N * M + 1 + 2 * N * M)),
    "stacked": (stacked, [(N, M), (N, M)], 8 * 4 * N * M),
    "joined": (joined, [(N,), (M,)], 8 * (N + M + 2 * 2 + 2) + 2 + 1),
    "columns_of_pad": (columns_of_pad, [(N, M)], 8 * (N * M + M)),
}  # fmt: skip


def book_of(function: Any, *args: Any) -> ledger.Ledger:
    """The bytes of a call."""
    graph = fuser.trace(function, *args)
    shapes = {p.name: a.shape for p, a in zip(graph.parameters, args, strict=True)}
    sizes = executor.sizes_of(graph, shapes)
    assert sizes is not None
    return ledger.ledger(compile_upfront(graph), sizes)


def numbers(shape: tuple[int, ...], dtype: str = "float64", seed: int = 1) -> Any:
    """Numbers whose sums are exact in any order."""
    return (np.random.default_rng(seed).integers(-8, 9, shape) / 4).astype(dtype)


@pytest.mark.parametrize("name", COUNTED)
def test_planned_bytes_are_the_hand_count(name: str) -> None:
    """What is joined is read once and never stored."""
    function, shapes, moved = COUNTED[name]
    args = [numbers(shape, seed=k) for k, shape in enumerate(shapes)]
    assert book_of(function, *args).planned_bytes == moved
    told = fuser.fuse(function, fallback="error").explain(*args)
    assert "joined" not in told.candidates["verdict"].to_list()


#: ... where results of parts are larger than the cache: each is written and read, 2 elements, and
#: edges are read by their own loops too: two rows and two columns, corners with the rows.
APART = {
    "jacobi": 8 * (N * M + 2 * M + 2 * (N - 2) + 2 * 3 + 1),
    "jacobi_step": 8 * (N * M + 2 * M + 2 * (N - 2) + 2 * 3 + 1 + N * M),
    "shoelace": 8 * (2 * N + 4 + 2 + 1),
    "total_variation": 8 * (N + 1 + 2 + 1),
    "columns_differ": 8 * (N * M + M + 2 * M + M),
}


@pytest.mark.parametrize("name", APART)
def test_planned_bytes_of_large_parts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is joined is not stored there either."""
    monkeypatch.setattr(nest_sequences, "ROW_CACHE_BYTES", 0)
    function, shapes, _ = COUNTED[name]
    args = [numbers(shape, seed=k) for k, shape in enumerate(shapes)]
    assert book_of(function, *args).planned_bytes == APART[name]


@pytest.mark.parametrize("name", [*COUNTED, "padded"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "int8", "bool"])
def test_results(name: str, dtype: str) -> None:
    """Every kind of number; what NumPy refuses is refused."""
    function, shapes, _ = COUNTED.get(name, (padded, [(N, M)], 0))
    args = [numbers(shape, dtype, seed=k) for k, shape in enumerate(shapes)]
    try:
        wanted = function(*args)
    except TypeError as error:  # NumPy does not subtract truths
        with pytest.raises((type(error), fuser.FuserError)):
            fuser.fuse(function, fallback="allow")(*args)
        return
    assert_near(wanted, fuser.fuse(function, fallback="allow")(*args))


@pytest.mark.parametrize("name", [*COUNTED, "padded"])
@pytest.mark.parametrize("length", [0, 1, 2, 3, 4, 40])
def test_all_lengths(name: str, length: int) -> None:
    """Parts of nothing, and lengths whose parts overlap, in turn through one function."""
    function, shapes, _ = COUNTED.get(name, (padded, [(N, M)], 0))
    fused = fuser.fuse(function, fallback="allow")
    for first in (length, 5, length):
        args = [numbers((first, *shape[1:]), seed=k) for k, shape in enumerate(shapes)]
        try:
            wanted = function(*args)
        except (ValueError, IndexError) as error:
            with pytest.raises(type(error)):
                fused(*args)
            continue
        assert_near(wanted, fused(*args))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -0.0, 5e-324])
@pytest.mark.parametrize("place", [0, 1, -1])
def test_edge_values(value: float, place: int) -> None:
    """In any part."""
    for function, shapes, _ in COUNTED.values():
        args = [numbers(shape, seed=k) for k, shape in enumerate(shapes)]
        args[-1].flat[place] = value
        with np.errstate(all="ignore"):
            assert_near(function(*args), fuser.fuse(function, fallback="error")(*args))


@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (4, 1), (3, 4)])
def test_single_elements_that_are_repeated(shape: tuple[int, int]) -> None:
    """Corners of a padded array are stored by loops over all of it, where all is one element."""

    def program(x: Any) -> Any:
        v = abs(np.pad(x, 1, mode="edge"))
        return (v[1:] + v[:-1]).sum()

    x = numbers(shape)
    assert_near(program(x), fuser.fuse(program, fallback="error")(x))


def test_joins_of_joins_are_not_all_taken_apart() -> None:
    """Doubled again and again: a thousand parts are stored, and the plan is made at once."""

    def program(x: Any) -> Any:
        for _ in range(7):
            x = np.concatenate([x, x])
        return (x * 2).sum(), x.sum()

    assert_near(program(np.ones(3)), fuser.fuse(program, fallback="error")(np.ones(3)))


def test_negative_zeros_are_summed_to_zero() -> None:
    """As NumPy's sums begin with 0.0, layers too."""
    zeros = np.full((3, 4), -0.0)
    assert_near(stacked(zeros, zeros), fuser.fuse(stacked)(zeros, zeros))


def test_the_same_bits_whatever_the_threads() -> None:
    """Parts are summed as arrays are."""
    u = np.random.default_rng(2).random((700, 900))
    fused = fuser.fuse(jacobi, fallback="error")
    before = workers.thread_count()
    found = set()
    try:
        for threads in (1, 2, 4):
            fuser.set_num_threads(threads)
            found |= {fused(u).tobytes() for _ in range(20)}
    finally:
        fuser.set_num_threads(before)
    assert len(found) == 1


def test_sums_err_no_more_than_numpys() -> None:
    """Over a fixed ensemble of float32 signals."""
    fused = fuser.fuse(total_variation, fallback="error")
    random = np.random.default_rng(7)
    ours = theirs = 0.0
    for _ in range(40):
        x = random.random(5000, dtype=np.float32)
        exact = abs(np.diff(x.astype(np.float64), prepend=0.0)).sum()
        single = abs(np.diff(x, prepend=np.float32(0))).sum()
        ours += float((fused(x) - exact) ** 2)
        theirs += float((single - exact) ** 2)
    assert ours <= theirs * 1.05


def test_rows_are_left_to_chains() -> None:
    """Joined rows, reduced row by row, are handed on in the cache: no partial results."""
    x, y = numbers((20, 10)), numbers((20, 5))
    assert book_of(lambda x, y: np.concatenate([x, y], 1).max(1), x, y).planned_bytes == 8 * 320


def test_a_layer_is_what_an_index_put_there() -> None:
    """Without the index; other values are indexed."""
    x = fuser.trace(lambda x: x + 1, numbers((N, M))).nodes[0]
    n, m = x.shape
    deep = intern(op("index"), (x,), (n, 1, m), x.dtype, Index((slice(None), None)))
    assert layer(deep, 1) is x
    assert layer(deep, 0).shape == (1, m)
    row = intern(op("index"), (x,), (1, m), x.dtype, Index((None, 0)))
    assert layer(row, 0).payload == Index((0,))


def test_explained() -> None:
    """Each part in the user's terms: the operation and its line."""
    told = fuser.fuse(total_variation, fallback="error").explain(numbers((N,)))
    line = f"(test_concatenated_reductions.py:{total_variation.__code__.co_firstlineno + 2})"
    names = {*told.candidates["first"], *told.candidates["second"]}
    assert all(line in name for name in names - {"x"})
    assert {f"sum#1 {line}", f"sum#2 {line}"} <= names
    assert told.ledger is not None
    assert told.ledger.kernels_fused == 1


# -- random programs ------------------------------------------------------------------------


def random_program(random: Random) -> tuple[Any, list[Any], str]:
    """Join, compute and reduce along random axes: a function, its arguments and its text."""
    rank = random.choice([1, 2, 2, 3])
    shape = tuple(random.choice([0, 1, 2, 3, 5, 9]) for _ in range(rank))
    dtype = random.choice(["float64", "float32", "int64", "int8"])
    args = [numbers(shape, dtype, seed=random.randrange(99)) for _ in range(2)]
    if random.random() < 0.3:
        args[0] = random.choice([np.asfortranarray, lambda a: a[::-1]])(args[0])
    axis = random.randrange(rank)
    joins = [
        f"np.roll(v, {random.choice([-2, -1, 1, 3])}, {axis})",
        f"np.concatenate([v, y], {axis})", f"np.concatenate([v, y * 2, v], {axis})",
        f"np.repeat(v, {random.choice([2, 3])}, {axis})", f"np.stack([v, y], {axis})",
        f"np.pad(v, {random.choice([0, 1, 2])})", "np.pad(v, 1, mode='edge')",
        f"np.diff(v, prepend=1, axis={axis})", f"np.diff(v, append=v, axis={axis})",
        "np.tile(v, 2)",
    ]  # fmt: skip
    lines = ["v = x"]
    for _ in range(random.choice([1, 1, 2])):
        lines.append("w = v; v = " + random.choice(joins))
        if random.random() < 0.4:
            lines.append("v = (v * v - 1) if v.ndim > 9 else abs(v)")
        if random.random() < 0.3:
            lines.append("v = v - w if v.shape == w.shape else v[1:] + v[:-1]")
        if "stack" in lines[-1] or "v.shape" in lines[-1]:
            break
    name = random.choice(["sum", "sum", "max", "min", "prod", "mean", "std", "any", "argmax"])
    where = random.choice(["", "", "axis=0", "axis=-1"])
    lines.append(f"return v.{name}({where})" + random.choice(["", "", ", v"]))
    text = "def program(x, y):\n    " + "\n    ".join(lines)
    scope: dict[str, Any] = {"np": np}
    exec(text, scope)
    return scope["program"], args, text


@randomly(70)
@given(random=st.randoms(use_true_random=False))
def test_random_programs(random: Random) -> None:
    """What is made of joins and reductions gives what NumPy gives, also where that is an error."""
    program, args, text = random_program(random)
    note(f"{text}\n{args}")
    fused = fuser.fuse(program, fallback="allow")
    with np.errstate(all="ignore"):
        try:
            wanted = program(*args)
        except (ValueError, TypeError, IndexError) as error:
            with pytest.raises((type(error), fuser.FuserError)):
                fused(*args)
            return
        for _ in range(2):
            assert_near(wanted, fused(*args))
