"""A call's loop nests in one native call: workspaces, threads, settings, streaming stores."""

from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backends.cpu.machine import workers
from fuser.backends.cpu.scheduling import choose
from fuser.calls import fused_function
from tests.settings import settings

pytestmark = pytest.mark.skipif(
    workers.workers() is None, reason="sequences need the native workers of Linux"
)


def _long(x: Any, y: Any) -> Any:
    """Many operations with values that live for different times."""
    a = x + y
    b = a * x
    c = b - y
    d = np.sqrt(np.abs(c)) + a
    e = d * b - c
    return np.where(e > 0, e, d), a * 2


@pytest.mark.parametrize("shape", [(1,), (7, 5), (300, 1001), (3, 400_000)])
@pytest.mark.parametrize("mode", ["fused", "unfused"])
def test_workspaces_give_numpys_results(mode: str, shape: tuple[int, ...]) -> None:
    """Temporaries whose places are used again do not disturb each other."""
    generator = np.random.default_rng(5)
    x, y = generator.normal(size=shape), generator.normal(size=shape[-1:])
    function = fuser.fuse(_long, mode=mode)
    for _ in range(3):  # traced, then by exact shapes
        for result, expected in zip(function(x, y), _long(x, y), strict=True):
            assert np.array_equal(result, expected)


def test_the_workspace_is_smaller_than_all_temporaries() -> None:
    """A place is taken again when its temporary is dead."""
    function = fuser.fuse(_long, mode="unfused")
    x = np.ones((10, 1000))
    function(x, x)
    (signature,) = function._signatures.values()
    (launch,) = signature.found[0].spec.launches.values()
    assert 0 < launch.sequence.table.workspace_bytes < launch.temporary_bytes


def test_a_new_number_of_threads_is_obeyed() -> None:
    """Also by calls that are known by their exact shapes."""
    x = np.linspace(-1, 1, 2_000_000)
    function = fuser.fuse(lambda x: np.sqrt(np.abs(x)) * x + 1)
    expected = function.__wrapped__(x)
    for threads in (2, 1, 4, 2):
        with settings(num_threads=threads):
            for _ in range(2):
                assert np.array_equal(function(x), expected)


def test_results_larger_than_the_cache_are_streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streaming stores begin where a destination is aligned; all of it is right."""
    monkeypatch.setattr(choose, "stream_bytes", lambda: 1 << 20)
    function = fuser.fuse(lambda x, y: x * y - 1)
    x = np.random.default_rng(6).normal(size=1_000_003)
    expected = x * x - 1
    assert np.array_equal(function(x, x), expected)
    memory = np.empty(x.size + 8)
    for shift in range(3):
        target = memory[shift : shift + x.size]
        assert function(x, x, out=target) is target
        assert np.array_equal(target, expected)


def test_values_change_without_shapes() -> None:
    """Scalars, and guards on them, are looked at in every call of known shapes."""
    function = fuser.fuse(lambda x, s: x * s if s > 0 else x - s)
    x = np.arange(12.0).reshape(3, 4).T
    for scalar in (2.0, -2.0, 3.5, 0.0, 2.0, 7, True, -1):
        expected = function.__wrapped__(x, scalar)
        result = function(x, scalar)
        assert np.array_equal(result, expected)
        assert result.dtype == expected.dtype


def test_a_captured_array_may_change_in_place() -> None:
    """Values, shape and dtype of an array that the function reaches by name."""
    table = np.arange(6.0)
    function = fuser.fuse(lambda x: x + table)
    x = np.zeros(6)
    for _ in range(3):
        assert np.array_equal(function(x), table)
    table[:] = 5
    assert np.array_equal(function(x), table)
    table.shape = (2, 3)
    assert np.array_equal(function(x.reshape(2, 3)), table)
    with pytest.raises(ValueError, match="broadcast"):
        function(x)
    assert fused_function.MISSED is not None
