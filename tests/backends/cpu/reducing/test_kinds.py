"""Ways to run short rows and few columns: each gives NumPy's results wherever it can be taken."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backends.cpu import tuning
from fuser.backends.cpu.body import Module
from fuser.backends.cpu.machine.target import host_features
from fuser.backends.cpu.reducing import row_batches, unrolled_rows
from fuser.backends.cpu.schedule import DEFAULT
from fuser.backends.cpu.scheduling import choose_reduction
from fuser.backends.cpu.scheduling.schedules import emit_nest
from fuser.codegen import Instruction, LoopNest
from fuser.ir.specs import CONTIGUOUS, INVARIANT, STRIDED, TensorDesc
from tests.backends.cpu.chosen_schedules import answers_of, preferred
from tests.backends.cpu.laid_out import lay_out
from tests.backends.cpu.on_threads import same_parts
from tests.backends.cpu.reducing.short_rows import (
    FUNCTIONS,
    arguments,
    check,
    normalised,
    numbers,
    softmax,
)
from tests.backends.cpu.schedules import GATHERED, PAIRWISE, batch, of_one_block, unrolled
from tests.backends.test_op_table import BaselineBackend
from tests.quick_code import quick_kernels

__all__ = ["quick_kernels"]
ASKED = {"flattened": "flattens_rows", "unrolled columns": "choose_unrolled_columns"}
"""What the chooser asks itself of columns; rows are run in a way wherever it is legal."""
SHAPES: dict[str, tuple[tuple[int, ...], ...]] = {
    "rows": ((437, 300), (256, 511), (128, 1025), (1, 700), (401, 352), (1, 1)),
    "batches": ((2053, 64), (2055, 65), (1029, 129), (529, 256), (513, 300), (2055, 73)),
    "unrolled": (
        (4451, 9), (3084, 13), (2509, 16), (1220, 33), (407, 100), (163, 256), (7, 90, 17),
    ),
    "unrolled batches": (
        (4451, 9), (2509, 16), (1220, 33), (632, 64), (163, 257), (5, 90, 40),
    ),
    "deinterleaved": ((12_343, 2), (12_343, 3), (7013, 5), (7013, 8)),
    "gathered": tuple((37, length) for length in (1, 2, 3, 5, 7, 8, 9, 13, 16, 24, 31, 32)),
    "flattened": ((65_600, 2), (43_751, 3), (18_737, 7), (2657, 50), (150_001, 3)),
    "unrolled columns": ((1, 2, 4001), (3, 3, 2049), (7, 5, 1031), (40, 8, 67)),
}
"""Whole vectors, groups and parts, and what is left over; axes before the last two are outside."""
OTHERS = {
    "deinterleaved": ((63, 3), (4000, 17), (1, 3), (0, 3), (9, 2)),
    "flattened": ((1000, 3), (2000, 64), (900, 200), (5000, 1)),
    "unrolled columns": ((9, 1, 3000), (2, 9, 3000), (200, 3, 60), (0, 3, 3000), (4, 3, 0)),
    "unrolled": ((3, 40), (50, 40), (1, 16), (40, 999)),
}
"""Shapes for which other ways serve the same function."""
KNOWN = {"places", "truths", "integers", "halves"}
REFUSED = {
    "batches": {"places", "truths", "softmax"}, "unrolled": KNOWN, "unrolled batches": KNOWN,
    "flattened": {"places"},
}  # fmt: skip
"""Functions that are not run so."""


def _axis(kind: str) -> int:
    return {"flattened": -2, "unrolled columns": 1}.get(kind, -1)


def _taken(kind: str, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Whether loop nests are run so, one after another."""
    if kind in ASKED:
        return answers_of(choose_reduction, ASKED[kind], monkeypatch)
    return preferred(kind, monkeypatch)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("kind", SHAPES)
def test_results_are_those_of_numpy(
    kind: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NaN, infinities and signed zeros in some rows; the same bits on one thread and on three."""
    taken, axis, (function, _, dtypes) = _taken(kind, monkeypatch), _axis(kind), FUNCTIONS[name]
    shapes, first = SHAPES[kind], list(FUNCTIONS).index(name)
    for k in range(max(len(shapes), len(dtypes))):  # in turn: each shape meets each dtype in some
        given = arguments(name, shapes[k % len(shapes)], axis, dtypes[(k + first) % len(dtypes)])
        check(lambda *each, axis=axis: function(*each, axis), given)
    assert any(taken) == (name not in REFUSED.get(kind, ()))


@pytest.mark.parametrize("kind", SHAPES)
def test_operands_that_lie_in_other_ways(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gaps, backwards, misaligned, transposed: in this way or another one."""
    taken, axis, shape = _taken(kind, monkeypatch), _axis(kind), SHAPES[kind][1]
    x = numbers(*shape)
    wide = numbers(*shape[:-1], 2 * shape[-1] + 3)
    shifted = np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view("float32").reshape(shape)
    gain, bias = (numbers(shape[-1], bad=False) if axis == -1 else np.float32(2) for _ in range(2))
    for each in (
        shifted, wide[..., 3 : 3 + shape[-1]], wide[..., : -3 : 2], x[::-1], x[..., ::-1],
        np.asfortranarray(x), np.repeat(x, 2, axis=0)[::2],
        np.broadcast_to(x[:1] if axis == -1 else x[..., :1], shape),
        np.lib.stride_tricks.sliding_window_view(x.ravel(), shape[-1])[: shape[0]],
    ):  # fmt: skip
        check(lambda x, a, b: normalised(x, a, b, axis), (each, gain, bias))
    assert taken


@pytest.mark.parametrize("offset", [0, 1, 28])
@pytest.mark.parametrize("kind", SHAPES)
def test_results_go_where_they_are_wanted(
    kind: str, offset: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over the argument, and at odd addresses; nothing beside is touched."""
    taken, axis = _taken(kind, monkeypatch), _axis(kind)
    function = fuser.fuse(lambda x: normalised(x, 2, 1, axis), fallback="error")
    x = numbers(*SHAPES[kind][1])
    expected = function(x)
    memory = np.full(x.nbytes + 64, 77, np.uint8)
    room = memory[offset:][: x.nbytes].view("float32").reshape(x.shape)
    function(x, out=room)
    np.testing.assert_array_equal(room, expected)
    assert (memory[:offset] == 77).all()
    assert (memory[offset + x.nbytes :] == 77).all()
    function(x, out=x)
    np.testing.assert_array_equal(x, expected)
    assert any(taken)


@pytest.mark.parametrize("kind", OTHERS)
def test_other_lengths_of_the_same_function(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls that are too few, too long, too narrow, or of no elements."""
    taken, axis = _taken(kind, monkeypatch), _axis(kind)
    function = fuser.fuse(lambda x: softmax(x, axis), fallback="error")
    for shape in OTHERS[kind]:
        x = numbers(*shape, bad=False)
        for found in (function(x), function(x)):
            np.testing.assert_allclose(found, softmax(x, axis), rtol=1e-4, atol=1e-6)
    assert not any(taken)


@pytest.mark.parametrize(
    ("kind", "constant"),
    [("deinterleaved", "MANY_ROWS_ELEMENTS"), ("unrolled columns", "UNROLLED_COLUMN_ELEMENTS")],
)
def test_the_bits_are_those_of_other_ways(
    kind: str, constant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the form ends: elements are added in the same order."""
    for shape in SHAPES[kind]:
        x, axis = numbers(*shape), _axis(kind)
        with monkeypatch.context() as patch:
            taken = _taken(kind, patch)
            found = fuser.fuse(lambda x, axis=axis: softmax(x, axis), fallback="error")(x)
            assert any(taken)
            patch.setattr(tuning, constant, 1 << 60)
            fuser.clear_caches()
            other = fuser.fuse(lambda x, axis=axis: softmax(x, axis) + 0, fallback="error")(x)
        np.testing.assert_array_equal(found, other)


SUMS: dict[str, Callable[..., Any]] = {
    "sum": lambda x, axis: x.sum(axis),
    "squares": lambda x, axis: (x * x).sum(axis),
    "norm": lambda x, axis: np.sqrt((x * x).sum(axis)),
    "mean": lambda x, axis: x.mean(axis),
    "variance": lambda x, axis: x.var(axis),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["gathered", "unrolled", "deinterleaved", "flattened"])
def test_errors_are_those_of_numpy(
    kind: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root mean squares over some thousand rows, all lengths from NumPy's first blocks on."""
    if np.finfo(np.longdouble).eps >= np.finfo("float64").eps:
        pytest.skip("long doubles are doubles here")
    taken, axis, generator = _taken(kind, monkeypatch), _axis(kind), np.random.default_rng(11)
    shapes = {
        "gathered": [(12_000, length) for length in range(8, 33)],
        "unrolled": [(8000, length) for length in (16, 24, 33, 64, 112, 200)],
        "deinterleaved": [(12_000, 8)], "flattened": [(300_007, 3)],
    }[kind]  # fmt: skip
    for name, function in SUMS.items():
        fused = fuser.fuse(lambda x, function=function: function(x, axis), fallback="error")
        for shape in shapes:
            x = (generator.normal(size=shape) + 0.5).astype(dtype)
            exact = function(x.astype(np.longdouble), axis)
            ours, numpys = (
                np.sum((found - exact) ** 2, dtype=float) for found in (fused(x), function(x, axis))
            )
            assert ours <= 1.05**2 * numpys, (name, shape)
    assert any(taken)


def test_sums_of_less_than_sixteen_elements_have_numpys_bits() -> None:
    """It adds these one after another, or one block of eight and the rest."""
    fused = fuser.fuse(lambda x: x.sum(1), fallback="error")
    for dtype in ("float32", "float64"):
        for length in range(1, 16):
            x = numbers(50, length, dtype=dtype, bad=False)
            np.testing.assert_array_equal(fused(x), x.sum(1))


@pytest.mark.parametrize("kind", ["rows", "batches", "unrolled batches"])
def test_quotients_by_what_is_one_for_a_row(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy's bits for every row's divisor: ordinary, huge, tiny, zero, infinite, NaN."""
    taken, generator = _taken(kind, monkeypatch), np.random.default_rng(5)

    def largest(x: Any, scale: Any) -> Any:
        scaled = x / scale[:, None]
        return scaled / np.max(np.abs(scaled / 3.0), -1, keepdims=True)

    for rows, length in SHAPES[kind][-3:-1]:
        x = numbers(rows, length, dtype="float64")
        scale = np.exp2(generator.integers(-1050, 1000, rows).astype("float64"))
        scale[::9], scale[1::9], scale[2::9], scale[3::9] = 0.0, np.inf, np.nan, -2.0
        x[5::31] = 0.0
        x[6::31, 3:] = 0.0
        with np.errstate(all="ignore"):
            expected = largest(x, scale)
        (found,) = same_parts(fuser.fuse(largest, fallback="error"), x, scale)
        np.testing.assert_array_equal(found, expected)
        known = ~np.isnan(expected)
        assert np.array_equal(np.signbit(found)[known], np.signbit(expected)[known])
    assert any(taken)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_is_left_over_may_be_one_vector(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One element to a whole vector and beyond, summed, reduced and stored."""
    taken, several = _taken("batches", monkeypatch), FUNCTIONS["several"][0]
    for left in (1, 7, 8, 9, 15, 16, 17, 31, 33, 63):
        given = arguments("several", (2053, 64 + left), -1, dtype)
        check(lambda *each: several(*each, -1), given)
    assert any(each.accumulate == "plain" for each in taken if each)


@pytest.mark.parametrize("name", ["normalised", "backward", "several"])
@pytest.mark.parametrize("kind", ["unrolled", "unrolled batches"])
def test_processors_with_other_vectors(
    kind: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The forms follow from lengths alone; their vectors may be several of the processor's."""
    taken, function = _taken(kind, monkeypatch), FUNCTIONS[name][0]
    assert BaselineBackend.name == "cpu-baseline"  # it is registered
    for length in (13, 33, 128):
        given = arguments(name, (40_000 // length, length), -1, "float32", bad=False)
        ways = [
            fuser.fuse(lambda *each: function(*each, -1), fallback="error", backend=backend)(*given)
            for backend in (None, "cpu-baseline")
        ]
        for mine, other in zip(*map(np.atleast_2d, ways) if name != "several" else ways,
                               strict=True):  # fmt: skip
            np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-4)
    assert any(taken)


def _nest(op: str, dtype: str = "float32", access: str = CONTIGUOUS) -> LoopNest:
    """One result of each row."""
    load = TensorDesc(dtype, access, access == STRIDED, STRIDED)
    store = TensorDesc(dtype, INVARIANT, False, CONTIGUOUS)
    body = (Instruction(op, (0,), dtype, dtype),)
    return LoopNest(2, (load,), (), (), body, ((1, store),), False, "row", 1)


def test_rows_of_one_block_keep_no_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their code is shorter, and their sums have the bits that they would have as other rows."""
    texts = []
    for schedule in (batch(32), of_one_block(batch(32))):
        module = Module(host_features())
        emit_nest(module, _nest("sum"), "k", schedule)
        texts.append(module.text())
    assert texts[1].count("\n") < texts[0].count("\n")
    taken, x = _taken("batches", monkeypatch), numbers(4096, 250)
    sums = fuser.fuse(lambda x: np.sum(x, -1), fallback="error")
    short = sums(x)
    monkeypatch.setattr(choose_reduction, "is_short", lambda *_, **__: False)
    assert sums(x[1:]).tobytes() == short[1:].tobytes()
    assert [each for each in taken if each] == [of_one_block(batch(32)), batch(32)]


def test_which_nests_and_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    """Places, other dtypes, elements apart, few elements and long rows take other forms."""
    total = _nest("sum")
    assert unrolled_rows.can_be_unrolled(total, 4)
    assert row_batches.can_be_batched(total)
    assert not row_batches.can_be_batched(_nest("argmax"))
    for other in (_nest("argmax"), _nest("sum", "int32"), _nest("sum", access=STRIDED)):
        assert not unrolled_rows.can_be_unrolled(other, 4)
    for lengths, schedule in (
        ((4096, 13), unrolled(1, rows=32)), ((4096, 64), unrolled(4, whole=True, rows=32)),
        ((4096, 65), unrolled(5, rows=32)), ((4096, 257), of_one_block(DEFAULT)),
        ((4096, 8), PAIRWISE), ((100, 64), DEFAULT), ((0, 64), DEFAULT),
    ):  # fmt: skip
        assert lay_out(total, lengths)[1].schedule == schedule, lengths
    assert lay_out(_nest("sum", "float64"), (4096, 65))[1].schedule == unrolled(9, rows=16)
    preferred("batches", monkeypatch)
    for lengths, schedule in (
        ((4096, 64), of_one_block(batch(32))), ((4096, 257), of_one_block(batch(16))),
        ((4096, 512), of_one_block(batch(16))), ((4096, 513), of_one_block(DEFAULT)),
        ((100, 4096), DEFAULT), ((0, 64), DEFAULT), ((4096, 0), GATHERED),
    ):  # fmt: skip
        assert lay_out(total, lengths)[1].schedule == schedule, lengths
