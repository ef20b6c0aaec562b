"""Which cells `throughput.py` measures: two sets, each with its peers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from fuser.suites.registry import resolve

Axes = tuple[tuple[str, int], ...]


class Cell(NamedTuple):
    """One workload at one dtype and size; `axes` are further sizes, such as a row's length."""

    workload: str
    dtype: str
    elements: int
    axes: Axes = ()

    @property
    def key(self) -> str:
        """Its name in a record."""
        further = "".join(f"-{name}{value}" for name, value in self.axes)
        return f"{self.workload}-{self.dtype}-{self.elements}{further}"

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return {"float32": 4, "int32": 4}.get(self.dtype, 8)


@dataclass(frozen=True, slots=True)
class WorkloadSet:
    """Workloads, the sizes of each, and who runs them beside the fuser."""

    peers: tuple[str, ...]
    shapes: dict[str, tuple[tuple[int, Axes], ...]]

    def cells(self, names: list[str] | None = None, sizes: list[int] | None = None) -> list[Cell]:
        """Every workload at every dtype, sizes ascending: a hopeless peer is known early.

        Args:
            names: the workloads, or None for all; any that `resolve` knows, `module:NAME` too.
            sizes: elements of the cells, or None for all that the set has.
        """
        found = []
        for name in names or self.shapes:
            shapes = self.shapes.get(name) or tuple((size, ()) for size in SIZES)
            if sizes is not None:
                known = {axes: None for _, axes in shapes}  # in order
                exact = [shape for shape in shapes if shape[0] in sizes]
                shapes = tuple(exact or [(size, axes) for size in sizes for axes in known])
            found += [
                Cell(name, dtype, elements, axes)
                for dtype in resolve(name).dtypes
                for elements, axes in shapes
            ]
        return found


POINTWISE = (
    "axpy", "multiply_add_pairs", "polynomial", "add_ten_times", "shifted_powers", "hypotenuse",
    "gelu_bias", "silu_mul", "scale_bias_relu", "leaky_relu", "law_of_cosines",
    "wave_times_decay", "cos_sin_chain", "sine_and_log_root", "black_scholes", "where_odd",
    "boolean_mix", "clip_integers", "superbee", "bias_add", "standardise", "strided",
    "transposed", "mixed_dtypes",
)  # fmt: skip
SIZES = (1 << 14, 1 << 18, 1 << 22, 1 << 24, 1 << 26)

NORMALISATIONS = (
    "softmax", "log_softmax", "layer_norm", "rms_norm", "batch_norm",
)  # fmt: skip
PER_ROW = (
    "row_logsumexp", "cross_entropy", "row_mean", "row_variance", "column_mean",
    "column_variance", "row_range", "row_argmax", "row_correlation",
)  # fmt: skip
WHOLE = ("sum_of_squares", "value_range", "dot")


def _hidden(*shapes: tuple[int, int]) -> tuple[tuple[int, Axes], ...]:
    return tuple((elements, (("hidden", length),)) for elements, length in shapes)


KIBI = 1 << 10
"""Arrays that stay in a core's cache, in the last one, and in none; rows from 64 to 65,536."""
NORMALISED = _hidden(
    (256 * KIBI, 64), (1024 * KIBI, 1023), (4096 * KIBI, 16385),
    (16384 * KIBI, 257), (16384 * KIBI, 4096), (16384 * KIBI, 65536),
)  # fmt: skip
REDUCED = _hidden(
    (256 * KIBI, 64), (1024 * KIBI, 1023), (16384 * KIBI, 257), (16384 * KIBI, 16385),
    (16384 * KIBI, 65536),
)  # fmt: skip
PAIRS = tuple(
    (pairs, (("dimensions", count),))
    for pairs, count in ((256 * KIBI, 8), (1024 * KIBI, 64), (4096 * KIBI, 3), (16384 * KIBI, 3))
)

FURTHER = (
    "fifty_first_power", "three_ranks", "weighted_sum", "first_powers", "exp_tan_sinh",
    "angle_sum", "sine_powers", "softplus_ratio", "great_circle", "rambo", "where_angle",
    "mixed_comparison", "escape_steps", "outer_distance", "reversed_difference", "fortran_pair",
    "permuted_relu", "rotated_pairs", "record_fields", "difference", "laplacian", "heat_step",
    "advection", "edge_strength", "wave_with_ends", "sgd_momentum", "adagrad_step", "lion_step",
    "adam_step", "hill_shading", "tone_mapping", "colour_conversion", "mean_absolute_error",
    "nearest_centre", "gravity", "kernel_density", "cross_spectrum", "phase_shift",
    "power_spectrum", "transfer_function", "coherence",
)  # fmt: skip
FURTHER_ROWS = (
    "softmax_backward", "masked_softmax", "layer_norm_backward", "add_rms_norm", "group_norm",
    "standard_rows", "unit_rows", "divergence", "gelu_backward_bias", "row_norm",
    "above_threshold",
)  # fmt: skip
"""Workloads of neither set above, to see whether what holds there holds elsewhere; none has a form
in C, and so no ceiling but the memory's."""

SETS = {
    "pointwise": WorkloadSet(
        ("eager", "numexpr", "numba", "jax", "torch"),
        {name: tuple((size, ()) for size in SIZES) for name in POINTWISE},
    ),
    "rows": WorkloadSet(
        ("eager", "loops", "jax", "torch"),
        {
            **dict.fromkeys(NORMALISATIONS, NORMALISED),
            **dict.fromkeys(PER_ROW, REDUCED),
            **dict.fromkeys(WHOLE, ((1 << 16, ()), (1 << 20, ()), (1 << 24, ()))),
            "pairwise_distance": PAIRS,
        },
    ),
    "others": WorkloadSet(
        ("eager", "numexpr", "numba", "jax", "torch"),
        {
            **dict.fromkeys(FURTHER, ((256 * KIBI, ()), (16384 * KIBI, ()))),
            **dict.fromkeys(FURTHER_ROWS, _hidden((256 * KIBI, 1000), (16384 * KIBI, 1000))),
        },
    ),
}
