"""Functions that all kernels share are compiled once; other names are not ours."""

from __future__ import annotations

import numpy as np

import fuser
from fuser.backends.cpu import packing, shared_functions
from fuser.backends.cpu.body import Features
from fuser.backends.cpu.elementary import trigonometric  # noqa: F401 - registers its functions
from fuser.backends.cpu.machine import loader


def test_a_function_has_one_address() -> None:
    """It is compiled when it is first asked for, and stays."""
    for name in (packing.symbol(4), "fuser_huge_sin"):
        address = loader.shared_address(name)
        assert address is not None
        assert loader.shared_address(name) == address


def test_other_symbols_are_not_ours() -> None:
    """The C library's functions are looked for elsewhere."""
    assert loader.shared_address("expf") is None
    assert shared_functions.module_text("expf", Features()) is None


def test_kernels_with_sines_share_their_slow_block() -> None:
    """Two kernels declare the function; neither has its table in its own text."""
    x = np.array([0.5, 1e9, -1e300])
    for function in (lambda x: np.sin(x) + 1, lambda x: np.sin(x) * 2):
        fused = fuser.fuse(function, fallback="error")
        np.testing.assert_allclose(fused(x), function(x), rtol=1e-14)
        (text,) = fused.source(x).values()
        assert "declare void @fuser_huge_sin(" in text
        assert "huge.table" not in text
