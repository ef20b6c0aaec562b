"""Random generators, files and iterators: a trace leaves them as they were."""

import io
import random
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.capture.random_and_file_states import shared_generators, state_of
from tests.children import said

X = np.linspace(-1, 1, 5)


def generator() -> Any:
    """NumPy's own."""
    drawing = np.random.default_rng(3)
    return lambda x: x + drawing.standard_normal(5)


def legacy() -> Any:
    """The one before."""
    drawing = np.random.RandomState(3)
    return lambda x: x + drawing.rand(5)


def shared() -> Any:
    """The one behind the functions of `numpy.random`."""
    np.random.seed(3)  # noqa: NPY002 - it is what users have
    return lambda x: x + np.random.rand(5)  # noqa: NPY002


def plain() -> Any:
    """Python's."""
    drawing = random.Random(3)
    return lambda x: x + drawing.random()


def methods() -> Any:
    """A bound method of one."""
    draw = random.Random(3).random
    return lambda x: x + draw()


def lines() -> Any:
    """A file."""
    file = io.StringIO("1\n2\n3\n4\n5\n6\n7\n8\n9\n")
    return lambda x: x + float(file.readline())


def iterator() -> Any:
    """What cannot be put back is not run."""
    numbers = iter(range(100))
    return lambda x: x + next(numbers)


def lazily() -> Any:
    """A generator."""
    numbers = (number * 2 for number in range(100))
    return lambda x: x + next(numbers)


def in_context() -> Any:
    """A context variable's value is another one elsewhere."""
    variable = ContextVar("variable", default=0)

    def count(x: Any) -> Any:
        variable.set(variable.get() + 1)
        return x + variable.get()

    return count


MAKERS = [generator, legacy, shared, plain, methods, lines, iterator, lazily, in_context]


@pytest.mark.parametrize("make", MAKERS)
def test_three_calls_give_what_the_plain_function_gives(make: Callable[[], Any]) -> None:
    """From the first on, nothing is skipped."""
    function = make()
    wanted = [function(X) for _ in range(3)]
    fused = fuser.fuse(make(), fallback="allow")
    np.testing.assert_array_equal([fused(X) for _ in range(3)], wanted)


def test_states() -> None:
    """Drawing changes one, and it is put back; other objects have none."""
    drawing = np.random.default_rng(3)
    state = state_of(drawing)
    assert state is not None
    assert not state.undo()
    first = drawing.random()
    assert state.undo()
    assert drawing.random() == first
    assert state_of(X) is None
    (legacy,) = shared_generators()
    assert state_of(legacy) is not None


def test_a_closed_file_counts_as_changed() -> None:
    """It stays closed."""
    file = io.StringIO("1")
    state = state_of(file)
    assert state is not None
    file.close()
    assert state.undo()


FIRST_DRAW = """
import sys
import numpy as np
import fuser
assert "numpy.random" not in sys.modules
draw = fuser.fuse(lambda n: np.random.rand(n), fallback="allow")
print(len({float(draw(3)[0]) for _ in range(4)}), [reason.code for reason in draw.fallbacks])
"""


def test_a_function_that_has_numpy_import_its_generators_draws_at_each_call() -> None:
    """NumPy imports `numpy.random` when it is first named, here by the trace."""
    assert said("-c", FIRST_DRAW) == "4 ['impure']\n"
