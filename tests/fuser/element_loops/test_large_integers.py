"""Integers beyond Python's 63 bits in loops over elements: hashes and random numbers by uint64."""

from __future__ import annotations

from typing import Any

import numpy as np

import fuser
from tests.fuser.comparing import assert_alike

BASIS = np.uint64(14695981039346656037)


def _hashed(x: Any) -> Any:
    found = np.uint64(18446744073709551615)
    for i in range(len(x)):
        found = (found ^ x[i]) * np.uint64(1099511628211) + np.uint64(2**63) - np.uint64(1 << 40)
        if found > np.uint64(2**63 + 1):
            found = found >> np.uint64(1)
        x[i] = found % BASIS
    return found, found / np.uint64(2**63)


def test_large_constants() -> None:
    """They may be written as numbers, powers and shifts, and be global."""
    fused = fuser.fuse(_hashed, fallback="error")
    before = fuser.stats().get("fallbacks", 0)
    for length in (3, 20):
        x = np.random.default_rng(length).integers(0, 2**63, length).astype(np.uint64)
        wanted_in, given = x.copy(), x.copy()
        assert_alike(_hashed(wanted_in), fused(given))
        assert_alike(wanted_in, given)
    assert fuser.stats().get("fallbacks", 0) == before
