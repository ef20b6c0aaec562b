"""Columns by tiles: more than one tile, blocks of rows that are not full, every kind of result."""

from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backends.cpu import tuning
from fuser.backends.cpu.reducing import column_tiles, online_columns
from fuser.backends.cpu.schedule import DEFAULT
from fuser.codegen import Instruction, LoopNest
from fuser.ir.specs import CONTIGUOUS, INVARIANT, STRIDED, TensorDesc
from tests.backends.cpu.laid_out import lay_out
from tests.backends.cpu.on_threads import same_parts
from tests.backends.cpu.schedules import ONLINE_JOINED


def _several(x: Any, y: Any) -> Any:
    """Sums, extremes with places and truths of columns, and elements scaled by them."""
    mean = x.mean(0)
    spread = np.mean((x - mean) * (x - mean), axis=0) * 2.0
    return (x - mean) / spread + y, spread, np.argmax(x, 0), x.min(0), np.any(x > 2, 0)


FUSED = fuser.fuse(_several, fallback="error")


@pytest.mark.parametrize(
    "shape",
    [(1, 1), (9, 17), (8, 1023), (25, 2100), (4100, 1025), (3000, 20), (70_001, 64)], ids=str,
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_columns_give_numpys_results(shape: tuple[int, int], dtype: str) -> None:
    """Whole tiles and parts, whose NaN and infinities stay theirs; the same bits on one thread."""
    generator = np.random.default_rng(shape[0])
    x = generator.normal(size=shape).astype(dtype)
    y = generator.normal(size=shape[1]).astype(dtype)
    if shape[0] > 1:
        x[shape[0] // 2, shape[1] // 2] = np.nan
        x[-1, 0] = np.inf
    with np.errstate(all="ignore"):
        expected = _several(x, y)
    found = same_parts(FUSED, x, y)
    close = 2e-3 if dtype == "float32" else 1e-10
    for ours, theirs in zip(found[:2], expected[:2], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=close, atol=close)
    for ours, theirs in zip(found[2:], expected[2:], strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("columns", [1, 70, tuning.COLUMN_TILE, tuning.COLUMN_TILE + 1])
def test_every_row_is_taken_once(columns: int) -> None:
    """Blocks of rows far apart and beside each other, and all numbers of rows left over."""
    fused = fuser.fuse(lambda x: (x.sum(0), x - x.max(0), x.argmin(0)), fallback="error")
    for rows in range(1, 50):
        x = np.random.default_rng(rows).integers(-9, 9, size=(rows, columns))
        for ours, theirs in zip(fused(x), (x.sum(0), x - x.max(0), x.argmin(0)), strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("shape", [(300, 2000), (256, 4096), (130, 3000)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_chunks_narrower_than_tiles_take_rows_in_the_same_order(
    shape: tuple[int, int], dtype: str
) -> None:
    """One thread is given all columns of a tile, several get a part of them each."""
    x = np.random.default_rng(5).random(shape).astype(dtype)
    found = same_parts(fuser.fuse(lambda x: x.sum(0), fallback="error"), x, calls=3)
    np.testing.assert_allclose(found[0], x.sum(0), rtol=1e-4)
    same_parts(fuser.fuse(lambda x: x - x.mean(0), fallback="error"), x, calls=3)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_means_of_a_transposed_array_have_the_same_bits_on_any_threads(dtype: str) -> None:
    """Two axes that stay are one loop over columns, wider than a chunk of work."""

    def means(x: Any) -> Any:
        return x.mean(2), x.mean((1, 2)), x.mean()

    x = np.random.default_rng(6).random((16, 256, 256)).astype(dtype)
    found = same_parts(fuser.fuse(means, fallback="error"), np.asfortranarray(x), calls=3)
    for ours, theirs in zip(found, means(x), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_blocks_of_rows_lose_less_than_numpys_sums(dtype: str) -> None:
    """A running sum meets one addition, and so one rounding error, for each block."""
    x = (np.random.default_rng(3).normal(size=(500, 300)) + 0.5).astype(dtype)
    exact = x.astype(np.longdouble).sum(0)
    ours = np.square(fuser.fuse(lambda x: x.sum(0))(x) - exact).sum()
    assert ours <= 0.5 * np.square(x.sum(0) - exact).sum()


@pytest.mark.parametrize("shape", [(23, 1043), (300, 70), (40_000, 64)], ids=str)
def test_quotients_by_a_columns_result_are_rounded_once(shape: tuple[int, int]) -> None:
    """By reciprocals and truly: zeros, subnormal, huge, negative and wrong divisors among them."""
    x = np.random.default_rng(5).normal(size=shape)
    x *= 2.0 ** np.random.default_rng(6).integers(-9, 9, size=shape)
    for column, factor in enumerate((0.0, 1e-310, 1e-200, 1e200, 1e307, np.inf, np.nan)):
        x[:, column] = np.sign(x[:, column]) * factor
    x[::3, 7:40:2] = 0.0
    x[1, 41], x[2, 42], x[2, 43] = 1e-320, np.inf, -np.inf

    def quotients(x: Any) -> Any:
        return x / x.max(0), np.maximum(x, 0) / x.min(0), x / np.abs(x[0])

    with np.errstate(all="ignore"):
        expected = quotients(x)
        found = fuser.fuse(quotients, fallback="error")(x)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
        signs = ~np.isnan(theirs)
        np.testing.assert_array_equal(np.signbit(ours[signs]), np.signbit(theirs[signs]))


TOTAL = ("sum", (0,))


def _nest(*operations: tuple[str, tuple[int, ...]], elements: bool = False) -> LoopNest:
    """A nest over the columns of one array."""
    load = TensorDesc("float32", CONTIGUOUS, False, "")
    row = TensorDesc("float32", INVARIANT, True, CONTIGUOUS)
    body = tuple(Instruction(op, operands, "float32", "float32") for op, operands in operations)
    stores = ((len(body), load if elements else row),)
    return LoopNest(2, (load,), (), (), body, stores, False, "column", 1)


def test_tiles_that_are_read_once_are_wide() -> None:
    """About as wide as each other; less so with more memory, and not where they are read again."""
    for columns, wide in ((1025, 1280), (8192, 8192), (8193, 4352)):
        extent = lay_out(_nest(TOTAL), (columns, (1 << 24) // columns))[1]
        assert extent.ichunk == wide
    for of, columns in ((_nest(("argmax", (0,))), 16_385), (_nest(TOTAL), 70_001)):
        extent = lay_out(of, (columns, (1 << 24) // columns))[1]
        assert extent.ichunk <= tuning.TILED_COLUMNS
    spread = _nest(TOTAL, ("subtract", (0, 1)), ("multiply", (2, 2)), ("sum", (3,)))
    assert online_columns.tile_columns(spread) < online_columns.tile_columns(_nest(TOTAL))
    centred = _nest(TOTAL, ("subtract", (0, 1)), elements=True)
    assert online_columns.tile_columns(centred) == tuning.COLUMN_TILE


def _once(x: Any) -> Any:
    return x.sum(0), x.max(0), x.argmin(0)


def _spread(x: Any) -> Any:
    return x.mean(0), x.var(0)


@pytest.mark.parametrize(
    "shape", [(600, 8193), (1100, 4096), (61, 70_001), (307, 16_385)], ids=str
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_wide_rows_give_numpys_results(shape: tuple[int, int], dtype: str) -> None:
    """Parts and tiles, one of few columns; the same bits with one thread."""
    x = np.random.default_rng(1).normal(size=shape).astype(dtype)
    x[shape[0] // 2, 5] = np.nan
    x[-1, -1], x[0, 4000] = np.inf, -np.inf
    for plain in (_once, _spread):
        with np.errstate(all="ignore"):
            expected = plain(x.astype(np.float64))
        found = same_parts(fuser.fuse(plain, fallback="error"), x)
        close = 1e-4 if dtype == "float32" else 1e-11
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=close, atol=close)


def test_rows_of_middling_arrays_are_not_divided() -> None:
    """Threads take whole rows where partial results fit what the native entry holds."""
    nest = _nest(TOTAL)
    for columns in (257, 1023, 1024):
        words, extent = lay_out(nest, (columns, (1 << 20) // columns))
        assert (extent.schedule, extent.ichunk) == (ONLINE_JOINED, columns)
        assert words[0] >= 4
        assert len(words) <= tuning.FEW_WORDS + 16
    assert lay_out(nest, (1023, 64))[1].schedule == DEFAULT


def test_much_that_is_kept_for_a_column_is_not_kept_by_tiles() -> None:
    """Memory on the stack is bounded; a large array of columns is cut into tiles and parts."""
    few = _nest(TOTAL)
    assert column_tiles.can_be_tiled(few)
    words, extent = lay_out(few, (1 << 12, 1 << 14))
    assert (extent.schedule, extent.ichunk) == (ONLINE_JOINED, 1 << 12)
    assert len(words) <= (1 << 26) // tuning.WORD_ELEMENTS + 16
    assert not column_tiles.can_be_tiled(_nest(TOTAL, *(("negative", (k,)) for k in range(1, 200))))
    total, store = Instruction("sum", (0,), "float32", "float32"), few.stores[0][1]
    strided = TensorDesc("float32", STRIDED, False, CONTIGUOUS)
    rows = LoopNest(2, (strided,), (), (), (total,), ((1, store),), False, "row", 1)
    assert not column_tiles.can_be_tiled(rows)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "uint8", "bool"])
def test_places_in_few_columns_are_the_first_ones(dtype: str) -> None:
    """One vector of columns, whose rows wait for each other: ties, NaN, infinities and zeros."""
    generator = np.random.default_rng(3)
    functions = (
        lambda x: np.argmax(x, axis=0),
        lambda x: np.argmin(x, axis=0),
        lambda x: (x.max(0), np.argmin(x, axis=0), np.argmax(x, axis=0)),
    )
    fused = [fuser.fuse(function, fallback="error") for function in functions]
    size = tuning.ALONE_ROWS
    for rows in (1, 2, 9, size - 1, size, size + 1, 3 * size + 5):
        for columns in (1, 7, 8, 17):
            x = generator.integers(0, 3 + rows // 4, (rows, columns)).astype(dtype)
            if "float" in dtype:
                x[generator.integers(0, rows, 2), 0] = np.nan
                x[:, -1] = generator.choice([0.0, -0.0, -np.inf], rows)
                x[generator.integers(0, rows), columns // 2] = np.inf
            for each in (x, x[::-1], np.asfortranarray(x)):
                for function, one in zip(functions, fused, strict=True):
                    np.testing.assert_array_equal(np.array(one(each)), np.array(function(each)))
