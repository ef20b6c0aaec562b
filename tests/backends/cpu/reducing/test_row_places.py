"""Places of extremes: the first of equals, the first NaN, wherever they lie in blocks."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backends.cpu.body import Features, Module
from fuser.backends.cpu.machine import loader
from fuser.backends.cpu.machine.target import KNOWN_TARGETS
from fuser.backends.cpu.scheduling.schedules import emit_nest
from fuser.backends.cpu.tuning import PLACES_AT_ONCE, PLACES_BLOCK, PLACES_VECTORS
from fuser.codegen import Instruction, LoopNest
from fuser.ir.specs import CONTIGUOUS, INVARIANT, STRIDED, TensorDesc
from tests.settings import settings

Array = np.ndarray[Any, np.dtype[Any]]
GENERATOR = np.random.default_rng(23)
DTYPES = ("float32", "float64", "float16", "int32", "uint8")


def _nest(operation: str, dtype: str) -> LoopNest:
    """The place of one row's extreme."""
    load = TensorDesc(dtype, CONTIGUOUS, False, STRIDED)
    store = TensorDesc("int64", INVARIANT, False, CONTIGUOUS)
    body = (Instruction(operation, (0,), "int64", dtype),)
    return LoopNest(1, (load,), (), (), body, ((1, store),), False, "row", 1)


def _compiled(operation: str, dtype: str, features: Features) -> Callable[[Array], int]:
    """The kernel for a kind of processor, as this one runs it."""
    module = Module(features)
    emit_nest(module, _nest(operation, dtype), "k")
    text = module.text()
    library, (address,) = loader.load(loader.compile_object(text), ["k"], module.imports)
    function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, *[ctypes.c_int64] * 4)(address)

    def place(x: Array) -> int:
        result = np.full(1, -1)
        words = [x.ctypes.data, result.ctypes.data, x.size, x.itemsize, 0]
        block = np.array(words, np.int64)
        assert library is not None
        assert function(block.ctypes.data, 0, 1, 0, 1) == 0
        return int(result[0])

    return place


def _lengths(lanes: int) -> tuple[int, ...]:
    """Rows on both sides of the least length and of whole vectors and blocks."""
    blocks, native = 2 * PLACES_BLOCK * lanes, lanes // PLACES_VECTORS
    brief = min(64, PLACES_AT_ONCE * native)
    around = {length + k for length in (native, lanes, brief) for k in (-1, 0, 1)}
    few = (*sorted({1, *around} - {0}), 2 * lanes + 3)
    return *few, blocks, blocks + 1, blocks + lanes - 1, blocks + lanes + 5


def _ends(length: int, lanes: int) -> list[int]:
    """Places beside the ends of vectors, blocks and the row."""
    borders = (0, lanes, PLACES_BLOCK * lanes, 2 * PLACES_BLOCK * lanes, length - lanes, length)
    around = {border + k for border in borders for k in (-1, 0, 1)}
    return sorted(place for place in around if 0 <= place < length)


def _rows(length: int, lanes: int, dtype: str, top: int) -> list[Array]:
    """Rows whose extreme, of a sign, stands at the ends: once, twice, as NaN and as zeros."""
    rows = [np.zeros(length, dtype), np.arange(length).astype(dtype)]
    plain = GENERATOR.integers(1, 90, length)
    plain = (100 - plain if top < 0 else plain).astype(dtype)
    for place in _ends(length, lanes):
        extreme = plain.copy()
        extreme[place] = 100 if top > 0 else 0
        rows.append(extreme)
        twice = extreme.copy()
        twice[GENERATOR.integers(place, length)] = extreme[place]
        rows.append(twice)
        if "float" in dtype:
            rows += _special(extreme, place, top)
    return rows


def _special(row: Array, place: int, top: int) -> list[Array]:
    """NaN beside infinities, and zeros of both signs."""
    nan = row.copy()
    nan[[0, row.size // 2]] = top * np.inf
    nan[[place, GENERATOR.integers(place, row.size)]] = np.nan
    zeros = -top * row
    zeros[place] = -0.0
    zeros[GENERATOR.integers(place, row.size)] = 0.0
    ends = np.full_like(row, -top * np.inf)
    ends[place] = np.nan
    return [nan, zeros, -zeros, ends, np.full_like(row, np.nan), np.full_like(row, -top * np.inf)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("target", KNOWN_TARGETS)
def test_the_first_place_wins_wherever_it_lies(target: str, dtype: str) -> None:
    """NumPy's places, with extremes at the ends of vectors, blocks and rows."""
    features = KNOWN_TARGETS[target][2]
    lanes = PLACES_VECTORS * features.vector_bytes // max(4, np.dtype(dtype).itemsize)
    for operation, top in (("argmax", 1), ("argmin", -1)):
        place = _compiled(operation, dtype, features)
        for length in _lengths(lanes):
            for row in _rows(length, lanes, dtype, top):
                assert place(row) == getattr(np, operation)(row), (operation, length)


@pytest.mark.parametrize("target", KNOWN_TARGETS)
def test_the_first_truth_ends_a_row(target: str) -> None:
    """NumPy's places of truths, wherever the first one lies, and 0 where all are alike."""
    for operation, sought in (("argmax", True), ("argmin", False)):
        place = _compiled(operation, "bool", KNOWN_TARGETS[target][2])
        for length in (1, 2, 15, 16, 17, 63, 64, 65, 129, 1000):
            assert place(np.full(length, not sought)) == 0
            for first in {0, 1, length // 2, length - 1} & set(range(length)):
                row = np.full(length, not sought)
                row[[first, GENERATOR.integers(first, length)]] = sought
                assert place(row) == first == getattr(np, operation)(row)


def test_brief_rows_have_no_loop() -> None:
    """Rows of a few vectors are looked at without a branch that depends on their elements."""
    module = Module(KNOWN_TARGETS["avx512"][2])
    emit_nest(module, _nest("argmax", "float32"), "k")
    (text,) = module.functions
    brief = text.split("\nlonger.")[1].split("\nwithin.")[1]
    assert brief.count("load <16 x float>") == 4
    assert brief.count("br ") == 1


def test_long_rows_have_one_maximum_a_vector() -> None:
    """The loop of long rows chooses no places, and a NaN costs a comparison for two vectors."""
    module = Module(KNOWN_TARGETS["avx512"][2])
    emit_nest(module, _nest("argmax", "float32"), "k")
    (text,) = module.functions
    (loop,) = (block for block in text.split("\nwork.") if "fcmp ord <16 x float>" in block)
    loop = loop.split("br label")[0]
    assert loop.count("select <64 x i1>") == loop.count("fcmp ogt <64 x float>") == 1
    assert loop.count("fcmp ord") == PLACES_VECTORS // 2


def test_computed_elements_and_parts() -> None:
    """Places of what is computed, in rows and parts of rows; the same for any threads."""
    x = GENERATOR.normal(size=(2, 200_003)).astype(np.float32).round(2)
    x[1, [70_000, 150_001]] = np.nan

    def function(x: Array, y: Array) -> tuple[Any, ...]:
        return np.argmax(x * 2 - y, axis=1), np.argmin(abs(x - y))

    fused = fuser.fuse(function, fallback="error")
    for row in (x[1], x[0]):
        wanted = function(x, row)
        for threads in (1, 2, 5):
            with settings(num_threads=threads):
                found = fused(x, row)
            for one, other in zip(found, wanted, strict=True):
                np.testing.assert_array_equal(one, other)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(0, 3), (4, 5), (3, 1000)])
def test_one_divisor_of_all_rows(shape: tuple[int, int], order: Any) -> None:
    """Short and long rows prepare the divisor in as many lanes as each of them has."""
    x = np.asarray(GENERATOR.normal(size=shape), order=order)

    def function(x: Array, y: Array) -> Any:
        return ((x + x.sum(0)) - (y + y.sum(0)).std(0)).argmax(1)

    fused = fuser.fuse(function, fallback="error")
    for given in (x[:2], x):
        np.testing.assert_array_equal(fused(given, given), function(given, given))
