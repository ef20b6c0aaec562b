"""Loops over arrays, `enumerate`, `zip` and `reversed` are regions: values, lengths, sharing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.base import trees
from fuser.ir import opaque_calls
from tests.fuser.comparing import difference, run_plain


def rows(x: Any, y: Any, u: Any) -> Any:
    """Rows of an array."""
    for row in x:
        u = u * 0.5 + row
    return u


def counted(x: Any, y: Any, u: Any) -> Any:
    """Rows and their numbers."""
    for k, row in enumerate(x, 1):
        u = u * 0.5 + row / k
    return u


def pairs(x: Any, y: Any, u: Any) -> Any:
    """The shorter one ends it."""
    for one, other in zip(x, y[1:]):  # noqa: B905 - that is what is looked at
        u = u * 0.5 + one * other
    return u


def nested_targets(x: Any, y: Any, u: Any) -> Any:
    """Tuples in tuples, and a range among arrays."""
    for k, (row, (t, other)) in enumerate(zip(x, enumerate(y, 3), strict=False)):
        u = u * 0.5 + row * t - other * k
    return u


def backwards(x: Any, y: Any, u: Any) -> Any:
    """From the last row to the first."""
    for k in reversed(range(1, x.shape[0])):
        u = u * 0.5 + x[k] - x[k - 1]
    for row in reversed(y):
        u = u * 0.5 + row
    return u


def backwards_in_steps(x: Any, y: Any, u: Any) -> Any:
    """Ranges from their ends, beside something else."""
    for k in reversed(range(0, x.shape[0], 3)):
        u = u * 0.5 + x[k]
    for k, row in zip(reversed(range(x.shape[0])), x, strict=False):
        u = u * 0.5 + x[k] * row
    return u


def written(x: Any, y: Any, u: Any) -> Any:
    """A row is a view: writes into it are writes into the array."""
    for row, other in zip(x, y, strict=False):
        row[1:] = row[:-1] * 0.5 + other[1:]
        u = u + row
    return u


def written_while_it_goes(x: Any, y: Any, u: Any) -> Any:
    """What is written is what later iterations find."""
    for k, row in enumerate(x[:-1]):
        x[k + 1] = x[k + 1] + row * 0.5
    return x


def of_a_value(x: Any, y: Any, u: Any) -> Any:
    """Rows of a result, of a transposed array, and elements."""
    z = x * 2.0
    for column in z.T:
        u = u + column.sum()
    for value in u:
        u = u * 0.5 + value
    return u


def another_array_by_its_name(x: Any, y: Any, u: Any) -> Any:
    """It goes over the first one, whatever the name stands for."""
    z = x * 0.5
    for row in z:
        z = z + row
    return z


def returned_rows(x: Any, y: Any, u: Any) -> Any:
    """Left by the row's values."""
    for k, row in enumerate(x):
        if row.sum() > 3.0:
            return u, k
        u = u * 0.5 + row
    return u, -1


OTHERS = (
    pairs, written, written_while_it_goes, of_a_value, another_array_by_its_name, returned_rows,
)  # fmt: skip
REGIONS = (
    rows, counted, nested_targets, backwards, backwards_in_steps,
)  # fmt: skip


@pytest.mark.parametrize(
    "function", [*REGIONS, *OTHERS], ids=lambda function: function.__name__
)
def test_what_a_loop_goes_over(function: Callable[..., Any]) -> None:
    """Other lengths, none and one among them, give what NumPy gives, arguments included."""
    fused = fuser.fuse(function, fallback="allow")
    for length, other in ((9, 9), (12, 7), (5, 30), (1, 1), (0, 3), (2, 2), (12, 12)):
        generator = np.random.default_rng(length)
        given = [generator.standard_normal((n, 6)) for n in (length, other)]
        given.append(generator.standard_normal(6))
        plain, own = [x.copy() for x in given], [x.copy() for x in given]
        wanted, found = run_plain(function, plain, {}), run_plain(fused, own, {})
        assert type(wanted) is type(found)
        if not isinstance(wanted, Exception):
            one, two = trees.flatten(wanted)[1], trees.flatten(found)[1]
            assert not any(map(difference, one, two, [1e6] * len(one)))
            assert [[x is y for y in plain] for x in one] == [[x is y for y in own] for x in two]
        for one, two in zip(plain, own, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-12)
    if function in REGIONS:
        traces = [known.trace for entry in fused._signatures.values() for known in entry.found]
        assert any(opaque_calls.LOOP in trace.graph.text for trace in traces)


def test_lists_and_dictionaries_are_gone_over_as_they_are() -> None:
    """Nothing but arrays and ranges has positions."""

    def over(x: Any, weights: Any, named: Any) -> Any:
        for weight in weights:
            x = x * weight
        for name, value in zip(named, weights, strict=True):
            x = x + value * len(name)
        return x

    x = np.arange(5.0)
    for weights, named in (([0.5, 2.0], {"a": 1, "bc": 2}), ((3.0,), ["def"])):
        got = fuser.fuse(over, fallback="allow")(x, weights, named)
        np.testing.assert_array_equal(got, over(x, weights, named))
