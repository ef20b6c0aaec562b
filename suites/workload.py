"""What a workload is: declared once, with its formula, inputs, sizes and tolerance."""

import inspect
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Arguments = tuple[Any, ...]
"""What one call is given: arrays, and Python scalars where the formula has them."""
MakeInputs = Callable[[int, "np.dtype[Any]", np.random.Generator], Arguments]
ReferenceKind = Literal["float64", "same"]

KIBI = 1 << 10
SIZES: Mapping[str, int] = {"S": 16 * KIBI, "M": 4 * KIBI * KIBI, "L": 16 * KIBI * KIBI}
"""Elements of the largest input. S stays in a core's cache, M and L do not."""
HEAVY_SIZES: Mapping[str, int] = {"S": 16 * KIBI, "M": KIBI * KIBI, "L": 8 * KIBI * KIBI}
"""For formulas of dozens of operations: sized by the time NumPy takes, not by bytes."""
SWEEP: tuple[int, ...] = (1, 64, KIBI, 16 * KIBI, 256 * KIBI, 4 * KIBI * KIBI)
"""Time against size: from the bare cost of a call to beyond the cache."""
DISTINCT = 262_139
"""Values drawn for one array. A prime: a kernel that reads a block of 2^n elements too far on
finds other values there."""


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """One piece of array code, written with NumPy, and what it takes to run and judge it.

    `function` is plain code over `np`; nothing in it depends on who runs it. `make_inputs` gives
    the arguments of a call for a number of elements (of the largest input), a dtype and a random
    generator. A result is right when its distance from the reference is at most `tolerance_eps`
    machine epsilons of its dtype (see `fuser.suites.verify`).
    """

    name: str
    family: str
    title: str
    function: Callable[..., Any]
    make_inputs: MakeInputs
    sizes: Mapping[str, int] = field(default_factory=lambda: SIZES)
    dtypes: Sequence[str] = ("float32", "float64")
    tolerance_eps: float = 16.0
    reference: ReferenceKind = "float64"
    quick: bool = False
    sweep: bool = False
    must_refuse: bool = False
    synthetic: bool = True
    note: str | Callable[[int], str] = ""
    unavailable: Callable[[], str | None] = lambda: None

    def inputs(self, elements: int, dtype: str, seed: int) -> Arguments:
        """Return the arguments of one call; the same seed gives the same values."""
        generator = np.random.default_rng(seed)
        return self.make_inputs(elements, np.dtype(dtype), generator)

    def tolerance(self, dtype: str) -> float:
        """Return the largest admissible relative distance; 0 for integers and booleans."""
        kind = np.dtype(dtype)
        return self.tolerance_eps * float(np.finfo(kind).eps) if kind.kind in "fc" else 0.0

    def formula(self) -> str:
        """Return the source text of the function, as the reports show it."""
        try:
            return textwrap.dedent(inspect.getsource(self.function))
        except (OSError, TypeError):  # defined at a prompt, or not in Python
            return repr(self.function)

    def describe(self, elements: int) -> str:
        """Return the note that goes with the results at this size."""
        return self.note(elements) if callable(self.note) else self.note


def side(elements: int) -> int:
    """Return the side of the square with about `elements` elements, at least 1."""
    return max(1, round(math.sqrt(elements)))


def normal(generator: np.random.Generator, shape: Any, dtype: "np.dtype[Any]") -> Array:
    """Return standard normal values of a floating dtype."""

    def draw(count: int, kind: type[Any]) -> Array:
        return generator.standard_normal(count, dtype=kind)

    return _filled(draw, shape, dtype)


def uniform(
    generator: np.random.Generator, shape: Any, dtype: "np.dtype[Any]", low: float, high: float
) -> Array:
    """Return values of a floating dtype, uniform between `low` and `high`."""

    def draw(count: int, kind: type[Any]) -> Array:
        values: Array = generator.random(count, dtype=kind)
        values *= high - low
        values += low
        return values

    return _filled(draw, shape, dtype)


def _filled(
    draw: Callable[[int, type[Any]], Array], shape: Any, dtype: "np.dtype[Any]"
) -> Array:
    """Return an array of drawn values; beyond `DISTINCT` elements the values come round again.

    Drawing 4 million normal numbers takes longer than most workloads; copying does not.
    """
    size = int(np.prod(shape))
    kind = np.float32 if dtype.itemsize < 8 else np.float64
    values = draw(min(size, DISTINCT), kind).astype(dtype, copy=False)
    return np.resize(values, shape)


def normals(count: int) -> MakeInputs:
    """Return a maker of `count` vectors of standard normal values."""

    def make(elements: int, dtype: "np.dtype[Any]", generator: np.random.Generator) -> Arguments:
        return tuple(normal(generator, elements, dtype) for _ in range(count))

    return make


def uniforms(*ranges: tuple[float, float]) -> MakeInputs:
    """Return a maker of one vector for each (low, high) range."""

    def make(elements: int, dtype: "np.dtype[Any]", generator: np.random.Generator) -> Arguments:
        return tuple(uniform(generator, elements, dtype, low, high) for low, high in ranges)

    return make
