"""Two float16 elements in a word: bits are those of one at a time, which are NumPy's."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backend import available, register_backend
from fuser.backends.gpu.emit import emit
from tests.backends.gpu.host import HostGpuBackend
from tests.backends.gpu.nvrtc import assembly_text
from tests.backends.gpu.units import nests_of
from tests.requirements import require
from tests.settings import settings

register_backend("gpu-pairs", lambda: HostGpuBackend("gpu-pairs"))

#: Every kind of number, each beside each; an odd count, so that the last word is half a pair.
_KINDS = np.array([0, 1, 2, 0x3FF, 0x400, 0x3555, 0x3C00, 0x3C01, 0x4248, 0x7BFE, 0x7BFF, 0x7C00,
                   0x7E00], np.uint16)  # fmt: skip
_SIGNED = np.concatenate([_KINDS, _KINDS | 0x8000]).view(np.float16)
LEFT, RIGHT = (a.ravel()[:-1] for a in np.meshgrid(_SIGNED, _SIGNED))

#: name -> (function, whether a word holds two elements)
FUNCTIONS: dict[str, tuple[Callable[..., Any], bool]] = {
    "add": (lambda x, y: x + y, True),
    "subtract": (lambda x, y: x - y, True),
    "multiply": (lambda x, y: x * y, True),
    "axpy": (lambda x, y: 2.5 * x + y, True),
    "chain": (lambda x, y: (x * y + x) * y - x, True),
    "one operation for itself": (lambda x, y: np.maximum(x * y, 0), True),
    "division too": (lambda x, y: (x + y) / (x - 1), True),
    "no arithmetic": (lambda x, y: np.maximum(x, y), False),
    "a wider result": (lambda x, y: (x + y).astype(np.float32), False),
    "a costly function": (lambda x, y: np.exp(x + y), False),
}


@pytest.fixture
def on_host() -> Iterator[None]:
    """Kernels run on the host."""
    if reason := available("gpu-pairs"):
        pytest.skip(reason)
    with settings(backend="gpu-pairs"):
        yield


@pytest.mark.parametrize("name", FUNCTIONS)
def test_bits_are_numpys(on_host: None, name: str) -> None:
    """Of all kinds of numbers, in neighbouring memory and strided."""
    function, paired = FUNCTIONS[name]
    with np.errstate(all="ignore"):
        wanted = function(LEFT, RIGHT)
    fused = fuser.fuse(function, fallback="error")
    found = fused(LEFT, RIGHT)
    if name == "a costly function":
        np.testing.assert_allclose(found, wanted, rtol=2e-3)
    else:
        same = (found == wanted) & (np.signbit(found) == np.signbit(wanted))
        assert (same | (np.isnan(found) & np.isnan(wanted))).all()
    assert ("pair[j]" in next(iter(fused.source(LEFT, RIGHT).values()))) is paired


def test_rows_and_numbers_are_pairs_too(on_host: None) -> None:
    """What is one for all elements stands in both halves."""
    x = LEFT[:650].reshape(10, 65)
    with np.errstate(all="ignore"):
        wanted = (x * x[:, :1] + 3) - x[:1]
        found = fuser.fuse(lambda x, s: (x * x[:, :1] + s) - x[:1], fallback="error")(x, 3)
    np.testing.assert_array_equal(found, wanted)


def test_instructions_compute_two() -> None:
    """One each for addition and multiplication; conversions only where there is no such one."""
    path = require("nvrtc")
    x = np.ones(64, np.float16)
    (nest,) = nests_of(lambda x, y: (x * y + x) * y - x, x, x)
    text = emit([nest], "chain")
    for capability in ("75", "90"):
        ptx = assembly_text(path, text, capability)
        counts = [len(re.findall(rf"\b{op}\.rn\.f16x2\b", ptx)) for op in ("mul", "add", "sub")]
        assert counts[0] == 2 * counts[1] == 2 * counts[2] > 0
        assert not re.search(r"cvt\S*\.f16", ptx)


def test_bfloat16_is_rounded_by_the_hardware() -> None:
    """Where it can: from sm_80 on. NaN keeps its sign, which the conversion would drop."""
    path = require("nvrtc")
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="not installed: pip install ml_dtypes")
    x = np.ones(64, ml_dtypes.bfloat16)
    (nest,) = nests_of(lambda x, y: x * y + x, x, x)
    text = emit([nest], "line")
    for capability, converts in (("75", False), ("80", True)):
        ptx = assembly_text(path, text, capability)
        assert ("cvt.rn.bf16.f32" in ptx) is converts
