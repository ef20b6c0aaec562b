"""Reads of rows that fit the cache and of longer ones, against counts by hand."""

from typing import Any

import numpy as np
import pytest

import fuser
from fuser import functional
from fuser.backend import get_backend
from fuser.compiler import compile_upfront
from fuser.scheduling.row_tiles import ROW_CACHE_BYTES
from fuser.traffic import ledger, moved_bytes

X = np.ones((2, 5), np.float32)
FITS = ROW_CACHE_BYTES // 4

#: A function, and how often a long row of each argument is read.
COUNTS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "sum": (lambda x: x.sum(-1), (1,)),
    "mean of squares": (functional.rms_norm, (2,)),
    "softmax": (functional.softmax, (2,)),
    "logsumexp": (functional.logsumexp, (1,)),
    "layer_norm": (functional.layer_norm, (2,)),
    "variance": (lambda x: x.var(-1), (1,)),
    "absolute distances": (lambda x: abs(x - x.mean(-1, keepdims=True)).mean(-1), (2,)),
    "scaled by distances": (
        lambda x: x / abs(x - x.mean(-1, keepdims=True)).mean(-1, keepdims=True), (3,),
    ),
    "correlation": (functional.correlation, (1, 1)),
    "softmax_backward": (functional.softmax_backward, (2, 2)),
    "layer_norm_backward": (functional.layer_norm_backward, (2, 2)),
    "one row's weights": (lambda x, y: functional.softmax(x) * y[:, :1], (2, 1)),
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTS)
def test_reads_by_hand(name: str) -> None:
    """Once where a row fits the cache; what more there is crosses no kernel, and has its reason."""
    function, times = COUNTS[name]
    spec = compile_upfront(fuser.trace(function, *[X] * len(times)))
    symbols = spec.graph.parameters[0].shape
    sizes = {str(symbols[0]): 3, str(symbols[1]): FITS // len(times)}
    for parameter in spec.graph.parameters:
        sizes.update(zip(map(str, parameter.shape), sizes.values(), strict=False))
    short = ledger.ledger(spec, sizes)
    assert short.planned_bytes == short.least_bytes
    assert not ledger.boundaries(spec, sizes)
    longer = {**sizes, **{str(p.shape[1]): FITS + 1 for p in spec.graph.parameters}}
    long = ledger.ledger(spec, longer)
    again = [(count - 1) * 12 * (FITS + 1) for count in times]
    assert long.planned_bytes - long.least_bytes == sum(again)
    found = ledger.boundaries(spec, longer)
    assert [entry["bytes"] for entry in found] == [size for size in again if size]
    assert {entry["reason"] for entry in found} <= {"long-rows"}


def test_operands_that_repeat_along_a_row_are_read_once() -> None:
    """Of any rank, through any axes; a number too."""
    x, y, scale = np.ones((3, 40)), np.ones((3, 1)), np.ones(())

    def function(x: Any, y: Any, scale: Any) -> Any:
        apart = x[:, None, :] - x[None, :, :] * scale
        return (apart * apart / y[:, None, :]).sum(-1)

    found = fuser.fuse(function).explain(x, y, scale)
    assert found.ledger.planned_bytes == 8 * (3 * 40 + 3 + 1 + 9)


def test_each_backend_says_which_rows_it_keeps() -> None:
    """A GPU keeps what registers and shared memory hold, or all rows in its second cache."""
    gpu = get_backend("gpu")
    spec = compile_upfront(fuser.trace(functional.softmax, X))
    rows, length = map(str, spec.graph.parameters[0].shape)
    reads = {(4096, 65_536): 1, (4096, 100_000): 2, (8, 1 << 20): 1, (64, 1 << 20): 2}
    for (count, long), times in reads.items():
        with moved_bytes.kept_by(gpu.keeps_rows):
            book = ledger.ledger(spec, {rows: count, length: long})
        assert book.planned_bytes == (times + 1) * 4 * count * long
    assert get_backend("cpu").keeps_rows(4096, 400_000)
    assert not get_backend("cpu").keeps_rows(1, ROW_CACHE_BYTES + 1)
