"""Running programs: order, what is kept, what is written."""

from typing import Any

import numpy as np
import pytest

import fuser
from fuser.executor import CannotRun
from fuser.program_spec import Program
from fuser.programs import partition, run


def solved(a: Any, b: Any) -> Any:
    """One call between two kernels."""
    return np.linalg.solve(a * 2, b) + 1


def prepared(*args: Any) -> Program:
    """The program for these arguments."""
    found = partition.prepare(fuser.trace(solved, *args))
    assert isinstance(found, Program)
    return found


def test_an_output_goes_into_the_array_that_is_given() -> None:
    """By the last kernel itself; nothing is written where the function raises."""
    a, b, room = np.eye(3), np.arange(3.0), np.full(3, 7.0)
    program = prepared(a, b)
    sizes = {"n0": 3, "n1": 3, "n2": 3}
    with pytest.raises(CannotRun, match="Singular"):
        run.execute(program, {"x0": a * 0, "x1": b}, sizes, {0: room})
    assert (room == 7).all()
    (found,) = run.execute(program, {"x0": a, "x1": b}, sizes, {0: room})
    assert found is room
    assert room.tolist() == [1, 1.5, 2]
    with pytest.raises(fuser.ShapeError):
        run.execute(program, {"x0": a, "x1": b}, sizes, {0: np.ones(4)})


def test_kernels_are_known_after_a_run() -> None:
    """One for each stage."""
    a, b = np.eye(3), np.arange(3.0)
    kernels = run.kernels_of(
        prepared(a, b), {"x0": a, "x1": b}, {"n0": 3, "n1": 3, "n2": 3}
    )
    assert len(kernels) == 2


def test_functions_between_kernels_are_phases() -> None:
    """A profile tells what NumPy took, by function."""
    fused = fuser.fuse(solved, fallback="allow")
    fused(np.eye(3), np.ones(3))
    with fuser.profile() as seen:
        fused(np.eye(3), np.ones(3))
    assert ("numpy", "np.linalg.solve") in {(p.name, p.subject) for p in seen.phases}


def _counted(x: Any) -> Any:
    y = x[x > 0]
    return y * 2, y.shape[0], y.size * 2 + 1


def _reshaped(x: Any) -> Any:
    y = np.unique(x)
    z = y * 2
    return z.reshape(z.size, 1), x + 1


def _written(x: Any) -> Any:
    y = np.sort(x, axis=0)
    np.subtract(0, y[:1], out=x)
    return y / 2


@pytest.mark.parametrize("function", [_counted, _reshaped, _written])
@pytest.mark.parametrize("mode", ["fused", "unfused", "fallback"])
def test_lengths_that_calls_between_kernels_tell(function: Any, mode: str) -> None:
    """They are returned as numbers, shape views of results, and places of writes."""
    fused = fuser.fuse(function, mode=mode, fallback="allow")
    for n in (5, 6, 5, 5, 1, 5):
        x = np.arange(1.0 * n) - 2 if function is not _written else np.ones((1, n))
        given, plain = x.copy(), x.copy()
        assert repr(fused(given)) == repr(function(plain))
        assert np.array_equal(given, plain)
        fused.explain(x)


def test_arguments_are_compared_with_lengths_that_calls_tell() -> None:
    """As soon as those are known; no kernel reads beyond an array."""
    fused = fuser.fuse(lambda x, y: x < np.sort(y)[np.argsort(y)][3:], fallback="allow")
    assert fused(np.zeros(0), np.arange(3.0)).shape == (0,)
    assert fused(np.zeros(2), np.arange(5.0)).all()
    for lengths in ((2, 15), (2, 3), (5, 5)):
        with pytest.raises(ValueError, match="broadcast"):
            fused(*map(np.zeros, lengths))
