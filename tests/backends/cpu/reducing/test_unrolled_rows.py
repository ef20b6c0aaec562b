"""Rows of one to a few vectors, written out: NumPy's results, one by one and by groups."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backends.cpu.reducing import unrolled_rows
from fuser.backends.cpu.schedule import DEFAULT
from fuser.codegen import Instruction, LoopNest
from fuser.ir.specs import CONTIGUOUS, INVARIANT, STRIDED, TensorDesc
from tests.backends.cpu.chosen_schedules import preferred
from tests.backends.cpu.laid_out import lay_out
from tests.backends.cpu.on_threads import same_parts
from tests.backends.cpu.reducing.short_rows import cases, check, normalised, numbers, softmax
from tests.backends.cpu.schedules import PAIRWISE, of_one_block, unrolled
from tests.backends.test_op_table import BaselineBackend

LENGTHS = (9, 13, 16, 17, 33, 64, 100, 129, 256, 257)


@pytest.fixture(params=["unrolled", "unrolled batches"])
def chosen(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The schedules of rows one by one, or in batches, wherever they are legal."""
    return preferred(request.param, monkeypatch)


def _rows(length: int) -> int:
    """Rows for which there is a group that is not whole."""
    return 40_000 // length + 7


def _backward(gradient: Any, y: Any) -> Any:
    return (gradient - np.sum(gradient * y, -1, keepdims=True)) * y


def _angle(x: Any, y: Any) -> Any:
    sizes = np.sqrt(np.sum(x * x, -1)) * np.sqrt(np.sum(y * y, -1))
    return np.sum(x * y, -1) / sizes, np.max(x, -1), np.prod(np.minimum(np.abs(y) + 0.5, 1.0), -1)


def _log_softmax(x: Any) -> Any:
    shifted = x - np.max(x, -1, keepdims=True)
    return shifted - np.log(np.sum(np.exp(shifted), -1, keepdims=True))


def _spread(x: Any) -> Any:
    return np.mean(x, -1), np.var(x, -1, ddof=1), np.ptp(x, -1), np.sum(np.abs(x), -1)


FUNCTIONS: dict[str, tuple[Callable[..., Any], int, int]] = {
    "softmax": (softmax, 1, 0), "norm": (normalised, 1, 2), "backward": (_backward, 2, 0),
    "angle": (_angle, 2, 0), "log softmax": (_log_softmax, 1, 0), "spread": (_spread, 1, 0),
}  # fmt: skip
"""Each with the matrices and the rows that it takes."""


def _arguments(name: str, length: int, dtype: str, *, bad: bool = True) -> tuple[Any, ...]:
    _, matrices, rows = FUNCTIONS[name]
    found = [numbers(_rows(length), length, dtype, bad=bad)[::-1].copy() for _ in range(matrices)]
    return (*found, *(numbers(1, length, dtype, bad=False)[0] + k for k in range(rows)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_lengths_around_whole_vectors(name: str, dtype: str, chosen: list[Any]) -> None:
    """NaN, infinities and signed zeros in some rows; the same bits on one thread and on three."""
    for length in LENGTHS:
        check(FUNCTIONS[name][0], _arguments(name, length, dtype))
    assert any(chosen)


@pytest.mark.parametrize("length", [13, 40])
@pytest.mark.parametrize("name", cases(1, 6))
def test_layouts_and_dtypes(name: str, length: int) -> None:
    """Whatever form they take."""
    check(*cases(2053, length)[name])


@pytest.mark.parametrize("name", ["norm", "backward", "angle"])
def test_processors_with_other_vectors(name: str, chosen: list[Any]) -> None:
    """The forms follow from lengths alone; their vectors may be several of the processor's."""
    function = FUNCTIONS[name][0]
    assert BaselineBackend.name == "cpu-baseline"  # it is registered
    for length in (13, 33, 128):
        given = _arguments(name, length, "float32", bad=False)
        expected = fuser.fuse(function, fallback="error")(*given)
        found = fuser.fuse(function, fallback="error", backend="cpu-baseline")(*given)
        for mine, other in zip(np.atleast_2d(found), np.atleast_2d(expected), strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-4)
    assert any(chosen)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_errors_are_those_of_numpy(dtype: str) -> None:
    """Root mean square errors of sums, whatever the length."""
    generator = np.random.default_rng(11)
    wide = np.float64 if dtype == "float32" else np.longdouble
    if wide is np.longdouble and np.finfo(wide).eps >= np.finfo("float64").eps:
        pytest.skip("long doubles are doubles here")
    for length in (16, 24, 33, 64, 112, 200):
        x = generator.standard_normal((8000, length)).astype(dtype)
        for function in (lambda x: np.sum(x, -1), lambda x: np.sum(x * x, -1)):
            exact = function(x.astype(wide))
            errors = [
                np.sqrt(np.mean((f(x).astype(wide) - exact) ** 2))
                for f in (fuser.fuse(function, fallback="error"), function)
            ]
            assert errors[0] <= 1.05 * errors[1], length


def test_results_may_replace_an_operand(chosen: list[Any]) -> None:
    """Each row is read before it is written; nothing beside it is touched."""
    for length in (13, 33, 100):
        for function in (_backward, lambda x, y: normalised(x, y[0], y[1])):
            given = [numbers(_rows(length), length, "float64", bad=False) for _ in range(2)]
            fused = fuser.fuse(function, fallback="error")
            expected = fused(*given)
            memory = np.full(given[0].nbytes + 80, 77, np.uint8)
            room = memory[40:-40].view("float64").reshape(given[0].shape)
            room[...] = given[0]
            fused(room, given[1], out=room)
            np.testing.assert_array_equal(room, expected)
            assert (memory[:40] == 77).all()
            assert (memory[-40:] == 77).all()
    assert any(chosen)


def test_rows_with_two_loops_around_them() -> None:
    """Groups of channels; rows that are met again by an outer loop are left to other forms."""
    x = numbers(999, 4 * 35, bad=False).reshape(999, 4, 35)[:, ::-1]
    check(lambda x: normalised(x, 2.0, 1.0), (x,))
    check(lambda x: _backward(x, x), (x,))
    check(lambda x, y: np.sum(np.abs(x[:, None] - y), -1), (x[:70, 0], x[:50, 1]))


def test_calls_of_other_sizes(chosen: list[Any]) -> None:
    """Larger and smaller calls of one function, whose forms differ."""
    fused = fuser.fuse(_backward, fallback="error")
    for rows, length in ((3, 40), (2000, 40), (50, 40), (2000, 50), (1, 16), (3000, 16), (40, 999)):
        given = [numbers(rows, length, bad=False) for _ in range(2)]
        for part in (given, given):
            found = same_parts(fused, *part)[0]
            np.testing.assert_allclose(found, _backward(*given), rtol=1e-3, atol=1e-2)
    assert any(chosen)
    assert None in chosen


def test_which_nests_and_lengths() -> None:
    """Places, other dtypes, elements apart, few elements and long rows take other forms."""

    def nest(op: str, dtype: str = "float32", access: str = CONTIGUOUS) -> LoopNest:
        load = TensorDesc(dtype, access, access == STRIDED, STRIDED)
        store = TensorDesc(dtype, INVARIANT, False, CONTIGUOUS)
        body = (Instruction(op, (0,), dtype, dtype),)
        return LoopNest(2, (load,), (), (), body, ((1, store),), False, "row", 1)

    total = nest("sum")
    assert unrolled_rows.can_be_unrolled(total, 4)
    for other in (nest("argmax"), nest("sum", "int32"), nest("sum", access=STRIDED)):
        assert not unrolled_rows.can_be_unrolled(other, 4)
    for lengths, schedule in (
        ((4096, 13), unrolled(1, rows=32)), ((4096, 64), unrolled(4, whole=True, rows=32)),
        ((4096, 65), unrolled(5, rows=32)), ((4096, 257), of_one_block(DEFAULT)),
        ((4096, 8), PAIRWISE), ((100, 64), DEFAULT), ((0, 64), DEFAULT),
    ):  # fmt: skip
        assert lay_out(total, lengths)[1].schedule == schedule, lengths
    assert lay_out(nest("sum", "float64"), (4096, 65))[1].schedule == unrolled(9, rows=16)
