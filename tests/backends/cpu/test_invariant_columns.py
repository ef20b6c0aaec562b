"""What rows share is computed once for many of them: NumPy's results, and fewer divisions."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backends.cpu import invariant_columns
from fuser.backends.cpu.body import Features
from fuser.backends.cpu.emit import emit
from fuser.backends.cpu.schedule import Schedule
from fuser.backends.cpu.scheduling import choose
from fuser.codegen import Instruction, LoopNest
from fuser.ir.specs import CONTIGUOUS, INVARIANT, STRIDED, TensorDesc
from tests.backends.cpu.chosen_schedules import answers_of
from tests.backends.cpu.on_threads import same_parts

GENERATOR = np.random.default_rng(31)
Function = Callable[..., Any]


def _numbers(*shape: int, dtype: str = "float32") -> np.ndarray:
    values = GENERATOR.normal(size=shape) * 20
    values.flat[5::101] = np.nan
    values.flat[7::151] = np.inf
    values.flat[::97] = -0.0
    return values.astype(dtype)


def _normalised(x: Any, gain: Any, bias: Any, mean: Any, variance: Any) -> Any:
    scale = gain / np.sqrt(np.abs(variance) + 1e-5)
    return x * scale + (bias - mean * scale)


def _columns(width: int, dtype: str = "float32") -> tuple[np.ndarray, ...]:
    return tuple(_numbers(width, dtype=dtype) for _ in range(4))


CASES: dict[str, tuple[Function, tuple[Any, ...]]] = {
    "a batch norm": (_normalised, (_numbers(600, 257), *_columns(257))),
    "doubles": (_normalised, (_numbers(300, 513, dtype="float64"), *_columns(513, "float64"))),
    "several tiles": (_normalised, (_numbers(60, 2500), *_columns(2500))),
    "channels of images": (_normalised, (_numbers(8, 17, 19, 70), *_columns(70))),
    "mixed": (_normalised, (_numbers(600, 257), *_columns(257, "float64"))),
    "a number": (
        lambda x, y, a: x * np.sqrt(np.abs(y) + a), (_numbers(600, 257), _numbers(257), 2.5),
    ),
    "a number a row": (
        lambda x, y, z: (x - z) * (1 / y), (_numbers(600, 257), _numbers(257), _numbers(600, 1)),
    ),
    "used beside": (
        lambda x, y: (x * np.sqrt(y) + y, np.sqrt(y) - x), (_numbers(600, 257), _numbers(257)),
    ),
    "every other row": (
        lambda x, y: x[::-2] * np.sqrt(y) + x[1::2], (_numbers(1200, 257), _numbers(257)),
    ),
    "a result of its own": (
        lambda x, y: (x + np.sqrt(y), np.broadcast_to(np.sqrt(y), x.shape) * 1.0),
        (_numbers(600, 257), _numbers(257)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_plain_loops(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bits as when each element computes all, on one thread and on three."""
    plain, arguments = CASES[name]
    chosen = answers_of(choose, "choose_invariant_columns", monkeypatch)
    function = fuser.fuse(plain, fallback="error")
    found = same_parts(function, *arguments, calls=3)
    assert any(schedule is not None and schedule.invariant_loads for schedule in chosen)
    monkeypatch.setattr(choose, "choose_invariant_columns", lambda *_: None)
    fuser.clear_caches()
    expected = fuser.fuse(plain, fallback="error")(*arguments)
    with np.errstate(all="ignore"):
        numpys = plain(*arguments)
    many = isinstance(numpys, tuple)
    expected, numpys = (expected, numpys) if many else ((expected,), (numpys,))
    for mine, same, theirs in zip(found, expected, numpys, strict=True):
        np.testing.assert_array_equal(mine, same)
        np.testing.assert_allclose(mine, theirs, rtol=1e-6)
        assert mine.dtype == theirs.dtype


def test_given_results_may_be_the_operand_or_have_gaps() -> None:
    """In place, into a part of a wider array, over the shared operands themselves."""
    x, columns = _numbers(600, 257), _columns(257)
    function = fuser.fuse(_normalised, fallback="error")
    with np.errstate(all="ignore"):
        expected = _normalised(x, *columns)
    wide = np.zeros((600, 300), np.float32)
    function(x, *columns, out=wide[:, 9:266])
    np.testing.assert_array_equal(wide[:, 9:266], expected)
    assert not wide[:, :9].any()
    assert not wide[:, 266:].any()
    both = np.vstack([columns[0][None], x])
    function(both[1:], both[0], *columns[1:], out=both[:-1])
    np.testing.assert_array_equal(both[:-1], expected)
    function(x, *columns, out=x)
    np.testing.assert_array_equal(x, expected)


def test_other_lengths_of_the_same_function_are_right() -> None:
    """Few and many rows, narrow and wide ones, in turn: each takes its own form."""
    function = fuser.fuse(_normalised, fallback="error")
    for shape in [(900, 300), (3, 900), (16, 9000), (0, 300), (5000, 64), (5000, 63), (1, 1)]:
        x, columns = _numbers(*shape), _columns(shape[1])
        with np.errstate(all="ignore"):
            expected = _normalised(x, *columns)
        for _ in range(2):
            np.testing.assert_array_equal(function(x, *columns), expected)


def _nest(access: str) -> LoopNest:
    """x * (1 / y): the second operand as told."""
    one = int(np.float32(1).view(np.uint32))
    body = (
        Instruction("divide", (2, 1), "float32", "float32"),
        Instruction("multiply", (0, 3), "float32", "float32"),
    )
    loads = (TensorDesc("float32", CONTIGUOUS), TensorDesc("float32", access))
    return LoopNest(2, loads, (), (("float32", one),), body, ((4, loads[0]),))


def test_only_what_rows_share_is_computed_before() -> None:
    """The division stands in the first part alone; nothing is split where nothing is saved."""
    nest, features = _nest(CONTIGUOUS), Features(32, fma=True)
    parts = invariant_columns.split(nest, (1,))
    assert parts is not None
    assert [i.op for i in parts.head.body] == ["divide"]
    assert [i.op for i in parts.rest.body] == ["multiply"]
    assert (parts.before, parts.after) == ([1], [0])
    rows = emit([nest], "k", features, Schedule(invariant_loads=(1,))).split("@k.0.rest(")[1]
    assert "fdiv" not in rows.split("\n}")[0]
    assert invariant_columns.split(nest, (0,)) is None
    assert invariant_columns.split(_nest(INVARIANT), (1,)) is None
    assert invariant_columns.split(_nest(STRIDED), (1,)) is None


def test_small_calls_and_few_rows_stay_as_they_are() -> None:
    """They are served for all lengths at once, and streams of memory hide what is computed."""
    nest = _nest(CONTIGUOUS)

    def shared(rows: int, columns: int, step: int = 0) -> tuple[int, ...]:
        strides = [[4 * columns, 4], [step, 4], [4 * columns, 4]]
        schedule = choose.choose_invariant_columns(nest, [rows, columns], strides)
        return schedule.invariant_loads if schedule else ()

    assert shared(4096, 257) == (1,)
    assert not any((shared(100, 80), shared(15, 1 << 15), shared(1 << 14, 15)))
    assert not shared(4096, 257, step=4)
    assert not shared(1 << 22, 1024)
