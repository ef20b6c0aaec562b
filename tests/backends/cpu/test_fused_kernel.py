"""Compiled kernels: only loop nests that need another form are compiled anew."""

import re
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backends.cpu import fused_kernel

FUNCTION = re.compile(r"^define i32 @\w+\.(\d+)\(", re.MULTILINE)


def _sums(x: Any) -> tuple[Any, ...]:
    """Columns and rows, in a loop nest each; in no other test, which would have compiled it."""
    y = np.tan(x) - np.cos(x) * 3.5
    return y.sum(0), y.sum(1), y.sum()


def test_a_form_of_one_nest_is_compiled_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of many rows run down columns in parts; the nest of rows is there already."""
    texts: list[str] = []
    real = fused_kernel.emit

    def spy(*given: Any, **more: Any) -> str:
        texts.append(real(*given, **more))
        return texts[-1]

    monkeypatch.setattr(fused_kernel, "emit", spy)
    x = np.random.default_rng(1).random((1024, 1000)).astype("float32")
    function = fuser.fuse(_sums, fallback="error")
    for _ in range(3):
        for found, expected in zip(function(x), _sums(x), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert texts
    assert all(len(set(FUNCTION.findall(text))) == 1 for text in texts)
