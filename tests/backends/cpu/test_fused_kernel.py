"""Compiled kernels: only loop nests that need another form are compiled anew."""

import re
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backends.cpu import fused_kernel
from fuser.backends.cpu.machine import loader

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


def test_what_no_call_runs_is_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop nest is compiled by the schedules that its lengths ask for, once each."""
    compiled: list[str] = []
    to_object = loader.to_object
    monkeypatch.setattr(
        loader, "to_object", lambda text, *a: compiled.append(text) or to_object(text, *a)
    )
    fused = fuser.fuse(lambda x, y: x * y + 0.1875, fallback="error")
    for length in (5, 6, 400, 401):
        x = np.arange(40.0 * length).reshape(40, length)
        np.testing.assert_array_equal(fused(x[:, 1:], x[:, :-1]), x[:, 1:] * x[:, :-1] + 0.1875)
    kernels = [text for text in compiled if "@fused_" in text]
    assert len({*kernels}) == len(kernels) <= 2
