"""Strided elements are shuffled out of and into whole vectors: right, and nothing else touched."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backends.cpu import spacing
from fuser.backends.cpu.emit import emit
from fuser.backends.cpu.machine import loader
from fuser.backends.cpu.machine.target import KNOWN_TARGETS, cross_machine
from fuser.base.records import changed
from fuser.codegen import LoopNest
from fuser.ir.specs import STRIDED
from tests.backends.cpu.table_modules import flat_nests
from tests.backends.cpu.test_emit import fenced_memory, graph_of

Array = np.ndarray[Any, np.dtype[Any]]

#: Those with a form, and some without.
STEPS = (*spacing.STEPS, 5, -2, -3)
LENGTHS = (1, 7, 16, 17, 33, 64, 65)


def strided_nest(dtype: str) -> LoopNest:
    """A sum of two arrays whose elements, and the result's, lie apart."""
    (nest,) = flat_nests(graph_of("add", dtype))
    loads = tuple(changed(desc, access=STRIDED) for desc in nest.loads)
    stores = tuple((number, changed(desc, access=STRIDED)) for number, desc in nest.stores)
    return changed(nest, loads=loads, stores=stores)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mprotect"), reason="needs mprotect")
@pytest.mark.parametrize("dtype", ["bool", "uint8", "float16", "float32", "float64"])
def test_only_the_elements_are_touched(dtype: str) -> None:
    """Operands and results end, or begin, at forbidden pages; gaps of results keep their values."""
    either = fuser.fuse(lambda x, y: x | y if x.dtype.kind in "bu" else x + y, fallback="error")
    draw = np.random.default_rng(1)
    with fenced_memory() as left, fenced_memory() as right, fenced_memory() as result:
        for step in STEPS:
            for length in LENGTHS:
                for at_end in (True, False):
                    span = (length - 1) * abs(step) + 1
                    whole = [place(span, dtype, at_end) for place in (left, right, result)]
                    for memory in whole:
                        memory[:] = draw.integers(0, 2, span)
                    x, y, out = (memory[::step] for memory in whole)
                    wanted = whole[2].copy()
                    wanted[::step] = x | y if x.dtype.kind in "bu" else x + y
                    either(x, y, out=out)
                    assert np.array_equal(whole[2], wanted), (step, length, at_end)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_special_values_pass(dtype: str) -> None:
    """NaN, signed zeros, infinities and subnormals, at any address, in place and overlapping."""
    double = fuser.fuse(lambda x: x * 2, fallback="error")
    some = [np.nan, -0.0, 0.0, np.inf, -np.inf, np.finfo(dtype).smallest_subnormal, 1.5, -3.25]
    values = np.resize(np.array(some, dtype), 4 * 77 + 9)
    size = values.itemsize
    for step in STEPS:
        room = np.zeros(values.nbytes + size, np.uint8)
        for offset in (0, 1, size):
            view = room[offset : offset + values.nbytes].view(dtype)
            view[:] = values
            strided = view[::step]
            np.testing.assert_array_equal(double(strided).view(f"i{size}"),
                                          (strided * 2).view(f"i{size}"))
            wanted = view.copy()
            np.multiply(wanted[::step], 2, out=wanted[::step])
            double(strided, out=strided)
            np.testing.assert_array_equal(view.view(f"u{size}") if offset != 1 else view,
                                          wanted.view(f"u{size}") if offset != 1 else wanted)
        shifted, by_numpy = values.copy(), values.copy()
        double(shifted[::step][:-1], out=shifted[::step][1:])
        np.multiply(by_numpy[::step][:-1], 2, out=by_numpy[::step][1:])
        np.testing.assert_array_equal(shifted, by_numpy)


def test_interleaved_results_of_several_threads() -> None:
    """Both halves of pairs are written by one kernel, in many chunks."""

    def turned(x: Array, c: Array, s: Array) -> Array:
        out = np.empty_like(x)
        out[::2] = x[::2] * c - x[1::2] * s
        out[1::2] = x[::2] * s + x[1::2] * c
        return out

    draw = np.random.default_rng(2)
    for dtype in ("float32", "float64"):
        x = draw.normal(size=300_002).astype(dtype)
        c, s = (draw.normal(size=150_001).astype(dtype) for _ in range(2))
        rotate = fuser.fuse(turned, fallback="error")
        np.testing.assert_array_equal(rotate(x, c, s), turned(x, c, s))


@pytest.mark.parametrize(("name", "shuffle"), [("avx512", "vpermt2"), ("avx2", "vshufps")])
def test_known_strides_are_shuffled(name: str, shuffle: str) -> None:
    """Forms for known strides are made of shuffles of whole registers."""
    text = emit([strided_nest("float32")], "k", KNOWN_TARGETS[name][2])
    code = loader.assembly(text, cross_machine(name))
    assert shuffle in code


def test_vectors_that_are_no_power_of_two_are_picked_one_by_one() -> None:
    """Forms are written for four lanes and more, by powers of two."""
    assert [lanes for lanes in range(1, 33) if spacing.served(lanes)] == [4, 8, 16, 32]


def _of_columns(z: Any) -> Any:
    return z.sum(0), z.any(0), (z * 2).mean(1), np.count_nonzero(z, axis=0)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_parts_of_complex_numbers_are_loaded_together_in_reductions(dtype: str) -> None:
    """Down columns and along rows, in whole vectors and what is left over, however they lie."""
    fused = fuser.fuse(_of_columns, fallback="error")
    generator = np.random.default_rng(5)
    for shape in ((2, 3), (3, 40), (5, 65), (40, 33), (64, 300), (9, 70_000)):
        parts = generator.integers(-9, 9, (2, *shape))
        z = (parts[0] + 1j * parts[1]).astype(dtype)
        for each in (z, z[:, ::2], z[:, ::-1], z[::2, ::5], np.asfortranarray(z)):
            for found, expected in zip(fused(each), _of_columns(each), strict=True):
                np.testing.assert_allclose(found, expected, rtol=1e-6, strict=True)
    (text,) = fuser.fuse(lambda z: z.sum(0)).source(z).values()
    assert "turns" in text


def test_addresses_of_picked_elements_are_not_kept_from_turn_to_turn() -> None:
    """Each way of picking or writing elements one by one takes its stride as a new value."""
    text = emit([strided_nest("float32")], "k", KNOWN_TARGETS["avx512"][2])
    assert text.count(" = freeze i64 ") == 3
