"""fuse(backend=...): calls run there, or fall back with the reason."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fuser
from fuser import backend as registry
from fuser.backend import Kernel
from fuser.backends.cpu.backend import CpuBackend
from fuser.base.errors import BackendError

X = np.linspace(-1, 1, 8)


class OtherBackend(CpuBackend):
    """One that a third party registers for NumPy's arrays; it counts what it compiles."""

    compiled = 0

    def compile(self, *args: Any, **kwargs: Any) -> Kernel:
        """Count, and compile."""
        type(self).compiled += 1
        return super().compile(*args, **kwargs)


@pytest.fixture
def other() -> Iterator[type[OtherBackend]]:
    """It, registered."""
    OtherBackend.compiled = 0
    registry.register_backend("other", OtherBackend)
    yield OtherBackend
    registry._factories.pop("other")
    registry._instances.pop("other", None)


def test_a_backend_that_does_not_exist_is_an_error_at_once() -> None:
    """With those that do."""
    with pytest.raises(BackendError, match="no backend called 'cuda'; known: cpu, gpu"):
        fuser.fuse(lambda x: x + 1, backend="cuda")


def test_arrays_of_the_backend_run_there() -> None:
    """As without the option, several times and with other arrays."""
    function = fuser.fuse(lambda x, y: x * y + 1, backend="cpu", fallback="error")
    for values in (X, X.astype("f4"), X.reshape(2, 4), X[::2], X):
        np.testing.assert_array_equal(function(values, values), values * values + 1)
    assert isinstance(function.explain(X, X).groups, list)
    assert function.source(X, X)


def test_arrays_of_another_backend_fall_back_with_the_reason() -> None:
    """They are not copied between devices."""
    function = fuser.fuse(lambda x: x * 3 + 1, backend="gpu", fallback="allow")
    for _ in range(3):
        np.testing.assert_array_equal(function(X), X * 3 + 1)
    (reason,) = function.fallbacks
    assert reason.code == "mixed-devices"
    assert "for backend 'gpu'" in str(reason)
    strict = fuser.fuse(lambda x: x * 3 + 1, backend="gpu", fallback="error")
    for _ in range(3):
        with pytest.raises(fuser.FusionError, match="arrays of backend 'cpu'"):
            strict(X)


def test_a_registered_backend_takes_over_arrays(other: type[OtherBackend]) -> None:
    """In every call of the function, and in no call of others."""
    function = fuser.fuse(lambda x, y: x * y - 5, backend="other", fallback="error")
    for values in (X, X, X[:3], X):
        np.testing.assert_array_equal(function(values, values), values * values - 5)
    assert other.compiled == 1
    np.testing.assert_array_equal(fuser.fuse(lambda x, y: x * y - 6)(X, X), X * X - 6)
    assert other.compiled == 1


def test_programs_between_kernels_stay_on_it(other: type[OtherBackend]) -> None:
    """The parts around a NumPy function, in later calls too."""
    function = fuser.fuse(lambda x: np.sort(x * 2) + 7, backend="other", fallback="allow")
    for values in (X, X, X[:3], X):
        np.testing.assert_array_equal(function(values), np.sort(values * 2) + 7)
    assert other.compiled == 2
