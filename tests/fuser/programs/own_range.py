"""A file with a `range` of its own."""

import builtins
from typing import Any


def range(*numbers: int) -> Any:  # noqa: A001 - that is what it is for
    """Not Python's."""
    return [number * 2 for number in builtins.range(*numbers)]


def of_another_range(x: Any) -> Any:
    """Comprehensions over what is called `range`."""
    for _ in [1, 2, 3]:
        x = x + sum(k for k in range(3))
    while x.sum() < 1e4:
        x = x * sum([k + 0.5 for k in range(4)])
    return x
