"""Ufuncs while tracing."""

from typing import Any

import numpy as np
import pytest

import fuser
from tests.fuser.comparing import assert_same

SIGNED = np.array([-1, 2, 3])
UNSIGNED = np.array([2**63, 2, 1], np.uint64)


@pytest.mark.parametrize("name", ["equal", "not_equal", "less", "less_equal", "greater",
                                  "greater_equal"])  # fmt: skip
def test_signed_beside_unsigned(name: str) -> None:
    """64-bit integers of both kinds are compared exactly."""
    function = getattr(np, name)
    assert_same(lambda x, y: (function(x, y), function(y, x)), SIGNED, UNSIGNED)


def test_options_of_ufuncs() -> None:
    """out=, where=, dtype=; a where= without out= is refused."""
    def function(x: Any) -> Any:
        room = np.zeros_like(x)
        np.multiply(x, 2, out=room, where=x > 0)
        return room, np.add(x, 1, dtype=np.float32, casting="same_kind"), np.divmod(x, 2)

    assert_same(function, SIGNED * 0.5)
    with pytest.raises(fuser.FusionError, match="where-without-out"):
        fuser.fuse(lambda x: np.add(x, 1, where=x > 0), fallback="error")(SIGNED)


VECTORS = np.random.default_rng(4).standard_normal((2, 3, 50))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "uint8", "float16"])
def test_products_of_vectors_are_sums(dtype: str) -> None:
    """`x @ y` and `np.vecdot` of real vectors are reductions, joined with what is around them."""
    x, y = (VECTORS * 4).astype(dtype)
    if hasattr(np, "vecdot"):
        fused = fuser.fuse(lambda a, b: np.vecdot(a, b) * 2, fallback="error")
        tolerance = {"float16": 2e-2, "float32": 1e-5}.get(dtype, 1e-12)
        np.testing.assert_allclose(
            fused(x, y), np.vecdot(x, y) * 2, rtol=tolerance, atol=tolerance * 50
        )
    fused = fuser.fuse(lambda a, b: (a * 2) @ b, fallback="error")
    wanted = (x[0] * 2) @ y[0]
    found = fused(x[0], y[0])
    assert type(found) is type(wanted)
    np.testing.assert_allclose(float(found), float(wanted), rtol=2e-2, atol=1e-2 * 50)
    with pytest.raises(ValueError, match="matmul"):
        fuser.fuse(lambda a, b: a @ b, fallback="allow")(x[0], y[0][1:])


def test_a_numpy_scalar_is_no_place_for_results() -> None:
    """`out=` of a NumPy scalar, which is no array: NumPy's own error."""
    fused = fuser.fuse(lambda x, y: np.multiply(x, y, out=y), fallback="allow")
    with pytest.raises(TypeError, match="must be of ArrayType"):
        fused(np.float64(3), np.float64(4))
    assert fused(np.float64(3), np.full((), 4.0)) == 12.0
