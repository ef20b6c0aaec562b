"""Rows in parts: where their results lie, and which nests can be had from parts at all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backend import available, register_backend
from fuser.backends.gpu.emit import emit
from fuser.backends.gpu.long_rows import LongRows, long_rows
from tests.backends.gpu.host import HostGpuBackend
from tests.backends.gpu.programs import numbers
from tests.backends.gpu.units import nests_of
from tests.settings import settings
from tests.softmax import softmax

register_backend("gpu-long-rows", lambda: HostGpuBackend("gpu-long-rows"))


def _cut(function: Any, *arguments: Any) -> LongRows | None:
    (nest,) = nests_of(function, *arguments)
    return long_rows(nest)


def test_a_part_leaves_states_and_references() -> None:
    """A maximum, a sum with what it lost, and what the exponentials were relative to."""
    cut = _cut(softmax, numbers(4, 64))
    assert cut is not None
    assert (cut.place_of(0), cut.place_of(1), cut.part_bytes) == (0, 16, 48)
    assert [cut.reference_at(number) for number in cut.merged.references] == [32]
    assert (cut.phases, cut.final_bytes) == (2, 16)
    assert cut.scratch_bytes(3, 5) == 3 * (16 + 5 * 48)


@pytest.mark.parametrize(
    ("function", "found"),
    [
        (lambda x: x.var(axis=1), True),
        (lambda x: x.sum(axis=1), False),
        (lambda x: x / x.sum(axis=1, keepdims=True), False),
        (lambda x: np.tanh(x - x.max(axis=1, keepdims=True)).sum(axis=1), False),
        (lambda x: x.var(axis=0), False),
    ],
)
def test_only_rows_that_parts_tell_of_are_cut(function: Any, found: bool) -> None:
    """One reduction needs no merging; a tanh of what moves cannot be merged."""
    nests = nests_of(function, numbers(4, 64))
    assert (long_rows(nests[0]) is not None) is found
    assert ("_long_narrow(" in emit(nests, "unit")) is found


@pytest.mark.parametrize("place", [3, 11_000])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38])
def test_odd_values_in_one_part_mean_what_they_mean_in_a_row(place: int, value: float) -> None:
    """What merging cannot tell is computed anew from the whole row."""
    if reason := available("gpu-long-rows"):
        pytest.skip(reason)
    x = numbers(2, 20_000)
    x[1, place] = value
    with settings(backend="gpu-long-rows"), np.errstate(all="ignore"):
        for function in (softmax, lambda x: x.var(axis=1), lambda x: np.exp(x).std(axis=1)):
            found, want = fuser.fuse(function, fallback="error")(x), function(x)
            np.testing.assert_allclose(found, want, rtol=1e-5)


def test_rows_of_nothing_are_not_a_number() -> None:
    """Every part's reference is 0 where all is -inf; the whole row says NaN."""
    if reason := available("gpu-long-rows"):
        pytest.skip(reason)
    x = np.full((1, 20_000), -np.inf, "float32")
    with settings(backend="gpu-long-rows"):
        assert np.isnan(fuser.fuse(softmax, fallback="error")(x)).all()
