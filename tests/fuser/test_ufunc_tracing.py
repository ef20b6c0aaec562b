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
