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
MakeInputs = Callable[..., Arguments]
"""(elements, dtype, generator, and the workload's axes by keyword) -> arguments."""
ReferenceKind = Literal["float64", "same"]
Growth = Literal["log", "root"]
Axes = tuple[tuple[str, int], ...]
"""Further size axes of a cell that are not at their default: (("hidden", 1000),)."""

KIBI = 1 << 10
SIZES: Mapping[str, int] = {"S": 16 * KIBI, "M": 4 * KIBI * KIBI, "L": 16 * KIBI * KIBI}
"""Elements of the largest input. S stays in a core's cache, M and L do not."""
MEBI = 1 << 20
HEAVY_SIZES: Mapping[str, int] = {"S": 16 * KIBI, "M": KIBI * KIBI, "L": 8 * KIBI * KIBI}
"""For formulas of dozens of operations: sized by the time NumPy takes, not by bytes."""
SWEEP: tuple[int, ...] = (1, 64, KIBI, 16 * KIBI, 256 * KIBI, 4 * KIBI * KIBI)
"""Time against size: from the bare cost of a call to beyond the cache."""
NUMBER_SUFFIXES: Mapping[str, int] = {"k": KIBI, "M": MEBI}
"""`16k` and `4M` on the command line, in binary: 16,384 and 4,194,304 elements."""
HIDDEN: tuple[int, ...] = (1024, 64, 127, 1000, 4097, 65536)
"""Lengths of a row: the first is the default; odd ones leave vectors a remainder."""
DISTINCT = 262_139
"""Values drawn for one array. A prime: a kernel that reads a block of 2^n elements too far on
finds other values there."""


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """One piece of array code, written with NumPy, and what it takes to run and judge it.

    `function` is plain code over `np`; nothing in it depends on who runs it. `make_inputs` gives
    the arguments of a call for a number of elements (of the largest input), a dtype, a random
    generator and the further `axes`, each a name with its values, the default first. A result is
    right when its distance from the reference is at most `tolerance_eps` machine epsilons of its
    dtype (see `fuser.suites.checks.verify`); where elements are summed, `reduced` gives how many
    for one result, and the bound grows with their logarithm (sums by halves) or root (one by one).

    Attributes:
        name: of the row, in ids and tables.
        family: the heading it stands under.
        title: half a line that says what it is.
        function: see above.
        make_inputs: likewise.
        sizes: the number of elements by letter: S, M and L.
        dtypes: of the inputs; a preset may take fewer.
        tolerance_eps: see above.
        axes: likewise.
        reduced: (elements, **axes) -> how many elements are in one sum.
        growth: of the bound with them: "log" or "root".
        reference: what results are held against: "float64" computes in that.
        quick: in the quick preset.
        sweep: also timed over many sizes, from 1 element on.
        small_into: also timed with `out=` where arrays are small: for the overhead of calls.
        must_refuse: falling back is right for it.
        synthetic: made for a benchmark; False for code of an application, on its data.
        note: what goes with its results, or a function of the elements.
        unavailable: says why it cannot run here, or gives None.
        statements: the line that is timed, by the runner's name, in place of a call: with the
            function's parameters, `f` for what the runner made of it, `o` for the array that the
            result goes into. For calls so small that calling NumPy's function would count.
    """

    name: str
    family: str
    title: str
    function: Callable[..., Any]
    make_inputs: MakeInputs
    sizes: Mapping[str, int] = field(default_factory=lambda: SIZES)
    dtypes: Sequence[str] = ("float32", "float64")
    tolerance_eps: float = 16.0
    axes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    reduced: Callable[..., int] | None = None  # (elements, **axes) -> elements in one sum
    growth: Growth = "log"
    reference: ReferenceKind = "float64"
    quick: bool = False
    sweep: bool = False
    small_into: bool = False  # also timed with out= where arrays are small: for calls' overhead
    must_refuse: bool = False
    synthetic: bool = True
    note: str | Callable[[int], str] = ""
    unavailable: Callable[[], str | None] = lambda: None
    statements: Mapping[str, str] = field(default_factory=dict)  # runner -> line

    def inputs(self, elements: int, dtype: str, seed: int, axes: Axes = ()) -> Arguments:
        """Return the arguments of one call; the same seed gives the same values.

        Args:
            elements: of the largest input, about.
            dtype: NumPy's name.
            seed: of the random numbers.
            axes: further axes that are not at their defaults, as (name, value) pairs.
        """
        generator = np.random.default_rng(seed)
        return self.make_inputs(elements, np.dtype(dtype), generator, **self.axis_values(axes))

    def axis_values(self, axes: Axes = ()) -> dict[str, int]:
        """Return every axis with its value: the default where `axes` does not name it."""
        return {name: values[0] for name, values in self.axes.items()} | dict(axes)

    def tolerance(self, dtype: str, elements: int = 1, axes: Axes = ()) -> float:
        """Return the largest admissible relative distance; 0 for integers and booleans.

        Args:
            dtype: of the result.
            elements: of the largest input.
            axes: as of `inputs`.

        Source:
            Rounding errors of n terms added by halves grow as log n, added one by one and with
            random signs as the root of n: Higham, SIAM J. Sci. Comput. 14(4), 1993.
        """
        kind = np.dtype(dtype)
        if kind.kind not in "fc":
            return 0.0
        terms = 1 if self.reduced is None else self.reduced(elements, **self.axis_values(axes))
        grown = math.log2(max(1, terms)) if self.growth == "log" else math.sqrt(terms) - 1
        return (self.tolerance_eps + grown) * float(np.finfo(kind).eps)

    def formula(self) -> str:
        """Return the source text of the function, as the reports show it."""
        try:
            return textwrap.dedent(inspect.getsource(self.function))
        except (OSError, TypeError):  # defined at a prompt, or not in Python
            return repr(self.function)

    def describe(self, elements: int) -> str:
        """Return the note that goes with the results at this size, in `elements`."""
        return self.note(elements) if callable(self.note) else self.note


def number_of(text: str) -> int | None:
    """Return the number of elements that `16384`, `16k` or `4M` means; None for another text."""
    factor = NUMBER_SUFFIXES.get(text[-1:], 1)
    digits = text[:-1] if factor > 1 else text
    return int(digits) * factor if digits.isdecimal() and int(digits) > 0 else None


def sizes_of(small: int, medium: int, large: int) -> Mapping[str, int]:
    """Return sizes of a workload's own, where neither `SIZES` nor `HEAVY_SIZES` fits."""
    return {"S": small, "M": medium, "L": large}


def rows_of(elements: int, hidden: int = HIDDEN[0]) -> tuple[int, int]:
    """Return the shape of about `elements` elements in rows of `hidden`, or one shorter row."""
    columns = max(1, min(elements, hidden))
    return max(1, elements // columns), columns


def row_length(elements: int, hidden: int = HIDDEN[0]) -> int:
    """Return how long those rows are."""
    return rows_of(elements, hidden)[1]


def column_length(elements: int, hidden: int = HIDDEN[0]) -> int:
    """Return how many rows those are."""
    return rows_of(elements, hidden)[0]


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
    if size <= DISTINCT:
        return values.reshape(shape)
    filled = np.empty(size, dtype)
    whole = size // DISTINCT * DISTINCT
    filled[:whole].reshape(-1, DISTINCT)[...] = values
    filled[whole:] = values[: size - whole]
    return filled.reshape(shape)


def matrix_and_rows(
    count: int, low: float = -2.0, high: float = 2.0, matrices: int = 1
) -> MakeInputs:
    """Return a maker of matrices of rows of `hidden`, and of `count` row vectors.

    Values are uniform between the bounds: where those are not symmetric, sums do not cancel.
    """
    matrix, row = (drawn(uniform, low, high, shape=each) for each in (rows_of, row_length))
    return given(*[matrix] * matrices, *[row] * count)


def drawn(
    how: Callable[..., Array], *bounds: float, shape: Callable[..., Any] = int, step: int = 1
) -> Callable[..., Array]:
    """Return a maker of one array.

    Args:
        how: `normal` or `uniform`.
        bounds: of its values.
        shape: given the number of elements and the axes, the array's shape; a vector otherwise.
        step: every so many elements of its last axis are the argument, a view.
    """

    def make(
        elements: int, dtype: "np.dtype[Any]", generator: np.random.Generator, **axes: int
    ) -> Array:
        values = how(generator, shape(elements, **axes), dtype, *bounds)
        return values if step == 1 else values[..., ::step]

    return make


def whole(
    low: int, high: int, kind: Any = None, shape: Callable[[int], Any] = int
) -> Callable[..., Array]:
    """Return a maker of whole numbers below `high`, of the cell's dtype unless a kind is given."""

    def make(elements: int, dtype: "np.dtype[Any]", generator: np.random.Generator) -> Array:
        numbers: Array = generator.integers(low, high, shape(elements), dtype=kind or np.int64)
        return numbers.astype(kind or dtype, copy=False)

    return make


def magnitudes(elements: int, dtype: "np.dtype[Any]", generator: np.random.Generator) -> Array:
    """Return the magnitudes of standard normal values."""
    values: Array = np.abs(normal(generator, elements, dtype))
    return values


def square(elements: int, least: int = 1, axes: int = 2) -> tuple[int, ...]:
    """Return the shape of a square or cube of about `elements` elements, at least so long."""
    return (max(least, round(elements ** (1 / axes))),) * axes


def given(*parts: Any) -> MakeInputs:
    """Return a maker of arguments: arrays as their makers draw them, and numbers as they are."""

    def make(
        elements: int, dtype: "np.dtype[Any]", generator: np.random.Generator, **axes: int
    ) -> Arguments:
        return tuple(
            part(elements, dtype, generator, **axes) if callable(part) else part for part in parts
        )

    return make


def normals(count: int) -> MakeInputs:
    """Return a maker of `count` vectors of standard normal values."""
    return given(*[drawn(normal)] * count)


def uniforms(*ranges: tuple[float, float]) -> MakeInputs:
    """Return a maker of one vector for each (low, high) range."""
    return given(*(drawn(uniform, low, high) for low, high in ranges))
