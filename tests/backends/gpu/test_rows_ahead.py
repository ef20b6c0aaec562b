"""Rows that are copied to shared memory while the one before is computed: on the host, compiled.

No device has run them, so they are off: `reduction_plan.AHEAD`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backend import register_backend
from fuser.backends.gpu import nvrtc, reduction_plan
from fuser.backends.gpu.emit import emit
from fuser.backends.gpu.geometry import Resources
from fuser.backends.gpu.stages import Stages
from fuser.backends.gpu.variants import Variant
from tests.backends.gpu.host import HostGpuBackend, Tampered, on_device
from tests.backends.gpu.nvrtc import assembly_text, compile_with_nvrtc
from tests.backends.gpu.units import nests_of
from tests.requirements import require
from tests.softmax import softmax

register_backend("gpu-ahead", lambda: HostGpuBackend("gpu-ahead"))


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Where rows are copied ahead."""
    monkeypatch.setattr(reduction_plan, "AHEAD", True)
    with on_device("gpu-ahead", Tampered()) as device:
        yield device


def _normal(x: Any, gain: Any) -> Any:
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + 1e-5) * gain


def _rows(*shape: int, dtype: str = "float32") -> Any:
    return np.random.default_rng(shape[-1]).normal(size=shape).astype(dtype)


#: name -> (function, arguments, whether rows are copied ahead)
FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], bool]] = {
    "softmax": (softmax, (_rows(11, 1500),), True),
    "of two dtypes": (lambda x, y: (x * y).sum(axis=1),
                      (_rows(11, 2048), _rows(11, 2048, dtype="float64")), True),
    "layer norm": (_normal, (_rows(11, 2048), _rows(2048)), True),
    "rows apart": (softmax, (_rows(22, 2048)[::2],), True),
    "odd rows": (softmax, (_rows(11, 2047),), False),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_numpys(device: Any, name: str) -> None:
    """Two blocks take some rows each, one after another."""
    function, arguments, ahead = FUNCTIONS[name]
    fused = fuser.fuse(function, fallback="error")
    wanted = function(*(a.astype(np.float64) for a in arguments))
    for _ in range(2):
        np.testing.assert_allclose(fused(*arguments), wanted, rtol=2e-5, atol=1e-5)
    assert device.variant.ahead is ahead
    assert not ahead or device.grids[-1] == 2


def test_addresses_between_words_are_read_as_before(device: Any) -> None:
    """The plan does not know them; and results may be written where rows are read."""
    memory = np.zeros(11 * 2048 + 1, np.float32)
    x = memory[1:].reshape(11, 2048)
    x[:] = _rows(11, 2048)
    wanted = softmax(x.astype(np.float64))
    fused = fuser.fuse(softmax, fallback="error")
    np.testing.assert_allclose(fused(x), wanted, rtol=2e-5, atol=1e-6)
    whole = _rows(11, 2048)
    assert fused(whole, out=whole) is whole
    np.testing.assert_allclose(whole, softmax(_rows(11, 2048).astype(float)), rtol=2e-5, atol=1e-6)
    assert device.variant.ahead


def test_a_copy_that_is_not_waited_for_is_found(device: Any) -> None:
    """The host makes copies when a thread waits for them, no sooner."""
    device.left_out = ("copies_wait();\n", "")
    found = fuser.fuse(softmax, fallback="error")(_rows(11, 2048))
    assert not np.allclose(found, softmax(_rows(11, 2048)), rtol=2e-5, atol=1e-6)


def _plan(columns: int, rows: int = 4096) -> Any:
    (nest,) = nests_of(softmax, np.ones((4, 32), np.float32))
    steps = [[4 * columns, 4]] * 2
    resources = Resources(132, 227 << 10)
    return nest, reduction_plan.plan(Stages(nest), (rows, columns), steps, resources, lambda *_: 2)


def test_it_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until it is switched on; then blocks stay, and have room for a row each."""
    assert _plan(4096)[1].strategy == "block"
    monkeypatch.setattr(reduction_plan, "AHEAD", True)
    for columns in (4096, 16_384):
        plan = _plan(columns)[1]
        assert (plan.strategy, plan.variant.ahead, plan.grid) == ("ahead", True, 264)
        assert plan.shared >= 4 * columns
    assert _plan(65_536)[1].strategy == "block", "there is no room for another row"
    assert _plan(4097)[1].strategy == "block"


def test_kernels_compile() -> None:
    """Copies by hardware from sm_80 on; before, as other reads."""
    path = require("nvrtc")
    nest = _plan(4096)[0]
    text = emit([nest], "ahead")
    variant = Variant(held=8, ahead=True)
    for number in ("75", "80"):
        options = (*nvrtc.flags(variant), f"--gpu-architecture=sm_{number}")
        size, log = compile_with_nvrtc(path, text, options)
        assert size, log
        assert "warning" not in log, log
    assert "cp.async.cg.shared.global" in assembly_text(path, text, "90", variant)
