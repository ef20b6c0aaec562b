"""What the CPU backend serves, on CuPy arrays over the double: functions, plans and short ways."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from fuser import functional
from tests.backends.gpu import fake_cupy
from tests.results import parts_of

Function = Callable[..., Any]

cupy = fake_cupy.for_a_file()


def numbers(*shape: int, seed: int = 0) -> Any:
    """Ordinary float32 values."""
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


ROWS = numbers(41, 67)
TARGETS = np.abs(numbers(41, 67, seed=1))


def _layer_norm_gradients(x: Any, gain: Any, above: Any) -> Any:
    """All three gradients: of rows, and of what all rows share."""
    centred = x - x.mean(-1, keepdims=True)
    inverse = 1 / np.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)
    normal = centred * inverse
    inner = above * gain
    mean = inner.mean(-1, keepdims=True)
    along = normal * (inner * normal).mean(-1, keepdims=True)
    return inverse * (inner - mean - along), (above * normal).sum(0), above.sum(0)


#: name -> (function, arguments, kernels, bytes of results for each row that are stored between)
OF_REDUCTIONS: dict[str, tuple[Function, tuple[Any, ...], int, int]] = {
    "cross entropy": (lambda x, y: functional.cross_entropy(x, y).mean(), (ROWS, TARGETS), 2, 4),
    "variance": (lambda x: x.var(-1).mean(), (ROWS,), 2, 4),
    "largest norm": (lambda x: np.linalg.norm(x, axis=-1).max(), (ROWS,), 2, 4),
    "sum of sums": (lambda x: x.sum(-1).sum(), (ROWS,), 2, 4),
}


@pytest.mark.parametrize("name", OF_REDUCTIONS)
def test_reductions_of_reductions_are_two_kernels(cupy: Any, name: str) -> None:
    """Rows, then the total: one number of each row crosses, and `explain` tells of just that."""
    function, arguments, kernels, each = OF_REDUCTIONS[name]
    fused = fuser.fuse(function, fallback="error")
    given = [cupy.asarray(a) for a in arguments]
    found = fused(*given)
    exact = function(*(a.astype(np.float64) if a.dtype.kind == "f" else a for a in arguments))
    np.testing.assert_allclose(found.get(), exact, rtol=1e-5)
    np.testing.assert_array_equal(fused(*given).get(), found.get())
    told = fused.explain(*given)
    assert len(told.groups) == len(fused.source(*given)) == kernels
    (crossing,) = told.boundaries
    assert (crossing["bytes_written"], crossing["bytes_read"]) == (len(ROWS) * each,) * 2
    read = sum(a.nbytes for a in arguments)
    assert told.ledger.planned_bytes == read + 4 + 2 * len(ROWS) * each
    assert set(told.candidates["verdict"]) - {"inlined", "view", "same-loops"}
    assert len(fused.explain(*arguments).groups) == 1, "on the CPU it is one kernel"


def _batch_norm(x: Any, weight: Any) -> Any:
    mean, variance = x.mean((0, 2, 3), keepdims=True), x.var((0, 2, 3), keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * weight


def test_axes_apart_are_reduced_without_copies(cupy: Any) -> None:
    """Channels of images: one kernel, which reads them once; its launches take the short way."""
    x, weight = numbers(4, 3, 8, 12), numbers(3, 1, 1)
    given = cupy.asarray(x), cupy.asarray(weight)
    wanted = _batch_norm(x.astype(np.float64), weight)
    fused = fuser.fuse(_batch_norm, fallback="error")
    for _ in range(3):
        np.testing.assert_allclose(fused(*given).get(), wanted, rtol=1e-5, atol=1e-5)
    assert fused._latest is not None
    told = fused.explain(*given)
    assert len(told.groups) == 1
    assert told.ledger.planned_bytes == told.ledger.least_bytes


def test_gradients_of_a_layer_norm_are_rows_and_columns(cupy: Any) -> None:
    """One nest of rows, one of columns; what crosses belongs to a row."""
    arguments = (ROWS, numbers(67, seed=2), numbers(41, 67, seed=3))
    given = [cupy.asarray(a) for a in arguments]
    fused = fuser.fuse(_layer_norm_gradients, fallback="error")
    wanted = _layer_norm_gradients(*(a.astype(np.float64) for a in arguments))
    for _ in range(2):
        for one, other in zip(fused(*given), wanted, strict=True):
            np.testing.assert_allclose(one.get(), other, rtol=1e-4, atol=1e-5)
    told = fused.explain(*given)
    assert sum(entry["bytes_written"] for entry in told.boundaries) <= 2 * 4 * len(ROWS)


def test_candidates_are_told_for_a_backend() -> None:
    """A pair whose bytes the CPU keeps in its cache, and a GPU writes and reads again."""
    graph = fuser.trace(lambda x: x.sum(-1).sum(), ROWS)
    saved = [fuser.fusion_candidates(graph, backend=b)["bytes_saved"].sum() for b in ("cpu", "gpu")]
    assert saved[0] == 0 < saved[1]


def test_numpy_scalars_go_where_the_arrays_are(cupy: Any) -> None:
    """With their own dtype, as CuPy takes them; NumPy's arrays are refused."""
    fused = fuser.fuse(lambda x, s: x * s, fallback="error")
    x = cupy.asarray(ROWS)
    for scalar in (np.float32(2), np.float64(2), np.int8(3)):
        found = fused(x, scalar)
        assert type(found) is cupy.ndarray
        assert found.dtype == (ROWS * scalar).dtype
        np.testing.assert_array_equal(found.get(), ROWS * scalar)
    with pytest.raises(fuser.FusionError, match="device"):
        fused(x, np.ones(()))


def test_seeds_and_offsets_are_numbers_of_a_call(cupy: Any) -> None:
    """One trace and one kernel for all of them; known calls take the short way."""
    fused = fuser.fuse(
        lambda x, seed, at: functional.rand_like(x, seed=seed, offset=at) + x, fallback="error"
    )
    x = cupy.asarray(ROWS)
    before = fuser.n_compiled_kernels()
    for k in range(5):
        found = fused(x, k, k * ROWS.size)
        wanted = functional.rand_like(ROWS, seed=k, offset=k * ROWS.size) + ROWS
        np.testing.assert_array_equal(found.get(), wanted)
    assert fuser.n_compiled_kernels() == before + 1
    assert fused._latest is not None


def test_outputs_are_written_where_they_are_wanted(cupy: Any) -> None:
    """CuPy's arrays do not say whether they may be written into: they may."""
    x, y = cupy.asarray(ROWS), cupy.asarray(ROWS[::-1].copy())
    assert not hasattr(x.flags, "writeable")
    out = cupy.empty_like(x)
    fused = fuser.fuse(lambda x, y: x * 2 + y, fallback="error")
    for _ in range(2):
        assert fused(x, y, out=out) is out
        np.testing.assert_array_equal(out.get(), ROWS * 2 + ROWS[::-1])


def _in_place(x: Any, y: Any) -> Any:
    x += y
    return x


def _slices(x: Any, y: Any) -> Any:
    out = np.zeros_like(x)
    out[1:-1, ::2] = x[1:-1, ::2] * y[1:-1, ::2]
    return out


def _adam(weights: Any, mean: Any, square: Any, slope: Any, rate: float) -> None:
    mean *= 0.9
    mean += 0.1 * slope
    square *= 0.99
    square += 0.01 * slope * slope
    weights -= rate * mean / (np.sqrt(square) + 1e-8)


def test_a_step_that_updates_several_arrays_is_one_kernel_and_no_copy(
    cupy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them are read before one is written, so a CUDA graph takes it, too."""
    wanted = [ROWS.copy(), ROWS * 0.5, ROWS * ROWS, ROWS[::-1].copy()]
    arrays = [cupy.asarray(a) for a in wanted]
    fused = fuser.fuse(_adam, fallback="error")
    for strict in (False, False, True):
        monkeypatch.setitem(fake_cupy.state, "strict", strict)
        assert fused(*arrays, 0.1) is None
        _adam(*wanted, 0.1)
    monkeypatch.setitem(fake_cupy.state, "strict", False)
    for one, other in zip(arrays, wanted, strict=True):
        np.testing.assert_allclose(one.get(), other, rtol=1e-5, atol=1e-6)


#: name -> (function, number of arguments): those with functions that CuPy runs between kernels last
SHORT: dict[str, tuple[Function, int]] = {
    "in place": (_in_place, 2),
    "slices": (_slices, 2),
    "views": (lambda x, y: (x + y).T[1:], 2),
    "several": (lambda x, y: (x + y, x.sum(-1), y), 2),
    "product": (lambda x, y: np.tanh(x * 2) @ (y.T + 1) - 1, 2),
    "product of views": (lambda x, y: (x.T @ y).sum(0) * 2, 2),
    "sorted": (lambda x, y: np.sort(x * 2, axis=1) + y, 2),
    "chosen": (lambda x, y: x[x > 0] * 2, 2),
}


@pytest.mark.parametrize("name", SHORT)
def test_later_calls_take_a_short_way(cupy: Any, name: str) -> None:
    """Two calls alike are one look; results are NumPy's."""
    function, count = SHORT[name]
    arguments = (ROWS, ROWS[:, ::-1].copy())[:count]
    wanted = function(*(a.copy() for a in arguments))
    fused = fuser.fuse(function, fallback="allow")
    for _ in range(4):
        found = fused(*map(cupy.asarray, arguments))
        for one, other in zip(*map(parts_of, (found, wanted)), strict=True):
            assert (one.dtype, one.shape) == (other.dtype, other.shape)
            np.testing.assert_allclose(one.get(), other, rtol=2e-5, atol=1e-5)
    assert fused._ready


def test_what_looks_at_an_arguments_memory_is_known_to(cupy: Any) -> None:
    """A function between kernels gives a view: what is written later shows in it."""

    def shown(x: Any) -> Any:
        seen = np.diagonal(x)
        x += 1
        return seen * 2

    x = cupy.asarray(ROWS[:, :41].copy())
    found = fuser.fuse(shown, fallback="allow")(x)
    np.testing.assert_array_equal(found.get(), (np.diagonal(ROWS) + 1) * 2)


def test_another_device_lets_kernels_have_their_memory_too(cupy: Any) -> None:
    """A plan made on one device wants more shared memory than any kernel has without asking."""
    rows = numbers(2, 16_384)
    wanted = rows - rows.max(-1, keepdims=True)
    fused = fuser.fuse(lambda x: x - x.max(-1, keepdims=True), fallback="error")
    for number in (0, 1, 1, 0):
        with cupy.cuda.Device(number):
            np.testing.assert_array_equal(fused(cupy.asarray(rows)).get(), wanted)


@pytest.mark.parametrize("name", ["matmul", "loop"])
def test_known_programs_run_on_the_device_of_their_arrays(cupy: Any, name: str) -> None:
    """Whichever device is current: what CuPy does between kernels, too."""

    def product(x: Any, y: Any) -> Any:
        return np.tanh(x * 2) @ (y.T + 1) - 1

    def loop(x: Any, y: Any) -> Any:
        for _ in range(3):
            x = x * 2 + y
        return np.sort(x, axis=0)

    function = product if name == "matmul" else loop
    fused, x = fuser.fuse(function, fallback="allow"), cupy.asarray(ROWS)
    for _ in range(4):
        fused(x, x)
    with cupy.cuda.Device(1):
        for _ in range(2):
            found = fused(x, x)
            assert found.device_id == 0
    np.testing.assert_allclose(found.get(), function(ROWS, ROWS), rtol=2e-5, atol=1e-5)


def test_a_short_row_takes_no_memory_from_a_long_one(cupy: Any) -> None:
    """What one plan needs more than others stays allowed, in whatever order lengths come."""
    fused = fuser.fuse(lambda x: x - x.max(-1, keepdims=True), fallback="error")
    for length in (32_768, 16_384, 32_768, 40, 32_768):
        rows = numbers(2, length)
        wanted = rows - rows.max(-1, keepdims=True)
        np.testing.assert_array_equal(fused(cupy.asarray(rows)).get(), wanted)
