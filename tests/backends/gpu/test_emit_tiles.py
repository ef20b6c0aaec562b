"""Operands that lie across are read through tiles: which, how, and what that moves."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backend import available, get_backend, register_backend
from fuser.backends.gpu import geometry
from fuser.backends.gpu.emit import emit
from fuser.backends.gpu.geometry import TILE
from fuser.backends.gpu.variants import Variant
from fuser.base import config
from tests.backends.gpu.host import HostGpuBackend
from tests.backends.gpu.nvrtc import assembly_text, compile_with_nvrtc
from tests.backends.gpu.units import nests_of
from tests.requirements import require

H200 = geometry.Occupancy(multiprocessors=132, blocks_each=8)
register_backend("gpu-tiles", lambda: HostGpuBackend("gpu-tiles"))


def _numbers(*shape: int, dtype: str = "float32") -> Any:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(dtype)


def test_what_lies_across_is_found() -> None:
    """Along whichever loop; not where loops are short, and not what lies otherwise."""
    (nest,) = nests_of(lambda x, y, z: x + y.T * z[:, ::2], *(
        np.ones(s, np.float32) for s in ((4, 6), (6, 4), (4, 12))
    ))  # fmt: skip
    assert geometry.tile_slots(nest) == {1: (4, 0), 2: (4, 4 * TILE * (TILE + 1))}
    steps = [[4000, 4], [4, 4000], [8000, 8], [4000, 4]]
    assert geometry.across(nest, [1000, 1000], steps) == (0, 0b010)
    assert geometry.across(nest, [15, 1000], steps) is None
    assert geometry.across(nest, [1000, 15], steps) is None
    assert geometry.across(nest, [1000, 1000], [*steps[:1], [8, 8000], *steps[2:]]) is None
    (batches,) = nests_of(lambda x, y: x + y.transpose(2, 0, 1)[:, ::-1], np.ones((4, 3, 5)),
                          np.ones((3, 5, 4)))  # fmt: skip
    steps = [[120, 40, 8], [8, -160, 32], [120, 40, 8]]
    found = geometry.across(batches, [40, 30, 50], steps)
    assert found == (0, 0b10)
    plan = geometry.plan_tiles(batches, [40, 30, 50], steps, found, H200)
    assert plan.grid == 30 * 2 * 2
    words = np.frombuffer(plan.words, np.int64).tolist()
    assert words[:4] == [30 * 2 * 2, 50, 40, 0b10]
    assert words[-6:] == [40, 120, -160, 8, 40, 120] or words[-7:] == [
        40, 120, -160, 8, 32, 40, 120
    ]


CASES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "whole tiles": (lambda x, y: x - y.T, (_numbers(64, 32), _numbers(32, 64))),
    "many tiles": (lambda x, y: x - y.T, (_numbers(130, 300), _numbers(300, 130))),
    "bytes": (lambda x, y: x ^ y.T, (_numbers(70, 40) > 0, _numbers(40, 70) > 0)),
    "complex": (lambda x, y: x + y.T, (_numbers(40, 33, dtype="complex128"),
                                       _numbers(33, 40, dtype="complex128"))),
    "two dtypes": (lambda x, y, z: x * y.T + z.T, (_numbers(40, 33), _numbers(33, 40),
                                                   _numbers(33, 40, dtype="float64"))),
    "halves, a costly body": (lambda x, y: np.exp(x) * np.tanh(y.T), (
        _numbers(40, 33, dtype="float16"), _numbers(33, 40, dtype="float16"))),
    "cropped": (lambda x, y: x[1:-2, 3:] - y[2:-1, 3:].T, (_numbers(43, 40), _numbers(40, 43))),
    "positions": (lambda x, y: x + y.T * np.arange(33), (_numbers(40, 33), _numbers(33, 40))),
}


@pytest.mark.parametrize("name", CASES)
def test_results_are_numpys(name: str) -> None:
    """Whatever a tile's edges cut off; the kernel is that with tiles."""
    if reason := available("gpu-tiles"):
        pytest.skip(reason)
    function, arguments = CASES[name]
    before = config.change(backend="gpu-tiles")
    fuser.clear_caches()
    try:
        device = get_backend("gpu-tiles").device  # type: ignore[attr-defined]
        device.units.clear()
        found = fuser.fuse(function, fallback="error")(*arguments)
    finally:
        config.restore(before)
    wanted = function(*arguments)
    assert found.dtype == wanted.dtype
    halves = 2e-3 if np.lib.NumpyVersion(np.__version__) >= "2.4.0" else 4e-3  # its own exp
    rtol = halves if wanted.dtype == np.float16 else 1e-6
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=1e-7)
    assert len(device.units) == 1


def test_no_two_threads_want_one_bank() -> None:
    """Of 32 banks of 4 bytes; wide elements are read by halves and quarters of a warp."""
    for size in (1, 2, 4, 8, 16):
        together = 32 // max(1, size // 4)
        for first in range(0, 32, together):
            words = {
                (lane * (TILE + 1) * size + byte) // 4
                for lane in range(first, first + together) for byte in range(0, size, 4)
            }
            assert len({word % 32 for word in words}) == len(words)


def sectors(addresses: Any) -> int:
    """How many sectors of 32 bytes an access of a warp touches."""
    return len({int(address) // 32 for address in addresses})


def test_accesses_move_whole_sectors() -> None:
    """What a warp reads of one line: 4 sectors for 128 bytes, where it was one for each element."""
    lane = np.arange(32)
    assert sectors(4 * lane) == 4
    assert sectors(4 * 8192 * lane) == 32


def test_a_tiles_loads_are_under_way_together() -> None:
    """Between the barriers a thread asks for four elements, and then waits for the first."""
    (nest,) = nests_of(lambda x, y: x + y.T, _numbers(40, 33), _numbers(33, 40))
    path = require("nvrtc")
    text = assembly_text(path, emit([nest], "tiles"), "90", Variant(tiles=True))
    between = text.split("bar.sync")[1]
    order = re.findall(r"\b(ld|st)\.(?:global|shared)", between)
    assert order[-4:] == ["st"] * 4
    assert set(order[:-4]) == {"ld"}


@pytest.mark.parametrize(("number", "wide"), [("75", False), ("100", True)])
def test_kernels_compile(number: str, wide: bool) -> None:
    """Without warnings."""
    path = require("nvrtc")
    (nest,) = nests_of(lambda x, y: x + y.T, _numbers(40, 33), _numbers(33, 40))
    variant = Variant(wide, tiles=True)
    options = (*variant.defines, f"--gpu-architecture=sm_{number}", "--std=c++17")
    size, log = compile_with_nvrtc(path, emit([nest], "tiles"), options)
    assert size, log
    assert "warning" not in log, log
