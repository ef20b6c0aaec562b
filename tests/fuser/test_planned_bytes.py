"""Planned bytes of the suite's workloads against a hand count, as formulas of their sizes."""

from typing import Any

import numpy as np
import pytest

import fuser
from fuser import executor
from fuser.compiler import compile_upfront
from fuser.suites.registry import resolve
from fuser.traffic import ledger

ELEMENTS = 4096

#: Workloads of one length: float32 arrays read and written, each once.
WHOLE_ARRAYS = {
    "axpy": 3, "multiply_add_pairs": 5, "polynomial": 2, "add_ten_times": 3, "shifted_powers": 3,
    "hypotenuse": 3, "fifty_first_power": 2, "weighted_sum": 9, "first_powers": 8, "silu_mul": 3,
    "leaky_relu": 2, "law_of_cosines": 4, "black_scholes": 5, "rambo": 7, "where_odd": 3,
    "superbee": 3, "sgd_momentum": 5, "adagrad_step": 5, "lion_step": 5, "adam_step": 7,
    "multiply_add": 4, "nine_operations": 3, "sixteen_arguments": 17, "small_softmax": 2,
}  # fmt: skip

#: Vectors: (n) -> bytes.
VECTORS: dict[str, Any] = {
    "difference": lambda n: 4 * (n + n - 1),
    "advection": lambda n: 4 * (2 * n + n - 4),
    "sum_of_squares": lambda n: 4 * (n + 1),
    "dot": lambda n: 4 * (2 * n + 1),
    "value_range": lambda n: 4 * (n + 2),
    "mean_absolute_error": lambda n: 4 * (2 * n + 1),
    "gravity": lambda n: 4 * (4 * n + 3 * n),  # positions and masses in, forces out; no n x n
    "kernel_density": lambda n: 4 * 3 * n,
}

#: Rows of a matrix: (rows, columns) -> bytes; places and counts are int64.
ROWS: dict[str, Any] = {
    "gelu_bias": lambda r, c: 4 * (2 * r * c + c),
    "scale_bias_relu": lambda r, c: 4 * (2 * r * c + 2 * c),
    "laplacian": lambda r, c: 4 * (r * c + (r - 2) * (c - 2)),
    "heat_step": lambda r, c: 4 * (r * c + 2 * (r - 2) * (c - 2)),
    "row_mean": lambda r, c: 4 * (r * c + r),
    "column_mean": lambda r, c: 4 * (r * c + c),
    "row_variance": lambda r, c: 4 * (r * c + 2 * r),
    "column_variance": lambda r, c: 4 * (r * c + 2 * c),
    "row_range": lambda r, c: 4 * (r * c + 2 * r),
    "row_argmax": lambda r, c: 4 * r * c + 8 * r,
    "row_norm": lambda r, c: 4 * (r * c + r),
    "row_logsumexp": lambda r, c: 4 * (r * c + r),
    "above_threshold": lambda r, c: 4 * r * c + 8 * r,
    "softmax": lambda r, c: 4 * 2 * r * c,
    "log_softmax": lambda r, c: 4 * 2 * r * c,
    "softmax_backward": lambda r, c: 4 * 3 * r * c,
    "masked_softmax": lambda r, c: 4 * 2 * r * c + r * c,  # the mask is bool
    "layer_norm": lambda r, c: 4 * (2 * r * c + 2 * c),
    "layer_norm_backward": lambda r, c: 4 * (3 * r * c + c),
    "rms_norm": lambda r, c: 4 * (2 * r * c + c),
    "add_rms_norm": lambda r, c: 4 * (4 * r * c + c),
    "batch_norm": lambda r, c: 4 * (2 * r * c + 2 * c),
    "group_norm": lambda r, c: 4 * 2 * r * c,
    "standard_rows": lambda r, c: 4 * 2 * r * c,
    "unit_rows": lambda r, c: 4 * 2 * r * c,
    "cross_entropy": lambda r, c: 4 * r * c + 8 * r + 8 * c + 4 * r,
    "divergence": lambda r, c: 4 * (2 * r * c + r),
    "row_correlation": lambda r, c: 4 * (2 * r * c + r),
    "gelu_backward_bias": lambda r, c: 4 * (3 * r * c + 2 * c),
}

#: Two sets of points: (first, second, coordinates) -> bytes.
PAIRS: dict[str, Any] = {
    "outer_distance": lambda m, k, d: 4 * (m + k + m * k),
    "pairwise_distance": lambda m, k, d: 4 * (m * d + k * d + m * k),
    # the distances of some points at a time stay in the cache between the two reductions
    "nearest_centre": lambda m, k, d: 4 * (m * d + k * d) + 8 * m + 4 * m,
}

COUNTED = [*WHOLE_ARRAYS, *VECTORS, *ROWS, *PAIRS]


def by_hand(name: str, first: Any, second: Any) -> int:
    """The hand count for arguments of these shapes."""
    if name in WHOLE_ARRAYS:
        return int(4 * WHOLE_ARRAYS[name] * first.size)
    if name in VECTORS:
        return int(VECTORS[name](first.size))
    if name in ROWS:
        return int(ROWS[name](*first.shape))
    return int(PAIRS[name](len(first), len(second), (*first.shape, 1)[1]))


@pytest.mark.parametrize("name", COUNTED)
def test_planned_bytes_are_the_hand_count(name: str) -> None:
    """Exactly; the least possible, in one kernel."""
    workload = resolve(name)
    arguments = workload.inputs(ELEMENTS, "float32", 1)
    graph = fuser.trace(workload.function, *arguments)
    spec = compile_upfront(graph)
    arrays = [value for value in arguments if isinstance(value, np.ndarray)]
    parameters = [p for p in graph.parameters if p.dtype is not None]
    shapes = {p.name: a.shape for p, a in zip(parameters, arrays, strict=True)}
    sizes = executor.sizes_of(graph, shapes)
    assert sizes is not None
    book = ledger.ledger(spec, sizes)
    assert book.planned_bytes == by_hand(name, arrays[0], arrays[-1])
    assert book.planned_bytes == book.least_bytes
    assert book.kernels_fused == 1


def test_enough_workloads_are_counted() -> None:
    """At least forty, of every family that fuses."""
    assert len(set(COUNTED)) >= 40
