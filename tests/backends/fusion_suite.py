"""What every backend must do: one class of tests, inherited once for each backend."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, ClassVar

import numpy as np
import pytest

import fuser
from fuser import backend
from fuser.ir import dims
from fuser.ir.graph import Graph, Node, Parameter, make, make_constant, make_input, make_scalar
from fuser.ir.graph_text import parse
from fuser.ir.ops import DTYPES, FLOATS, TABLE
from tests.backends.cases import (
    CASES,
    Case,
    assert_means,
    flat_graph,
    groups_of,
    layouts_arguments,
    layouts_graph,
    layouts_operands,
    legal_operands,
)
from tests.backends.edge_cases import edge_cases, edge_values, ordinary_values
from tests.backends.references import Array
from tests.quick_code import quick_code
from tests.settings import settings

#: Flat lengths: nothing, no whole vector, whole vectors alone; then everything.
SHORT_LENGTHS = (0, 1, 7, 64)

#: Constants that rewrite rules, and the code generator, treat in their own way.
CONSTANTS = {
    "f": (0.0, -0.0, 1.0, -1.0, 2.0, 3.0, 4.0, 0.5, float("nan")),
    "i": (0, 1, -1, 2, 5),
    "u": (0, 1, 2, 5),
    "b": (False, True),
}

#: Rows of one float16 operand whose references are quick enough for all its values.
SLOW_REFERENCES = ("erf", "erfc", "lgamma")
_HALVES = [case for case in CASES if case.dtypes == ("float16",)]
HALF_ROWS = groups_of([case for case in _HALVES if case.op.name not in SLOW_REFERENCES], 8)
#: The whole table: a kernel has several rows.
GROUPS = groups_of(CASES, 8)
#: Rules look at a dtype's kind and not at its size, so one or two sizes of a kind will do.
RULE_DTYPES = ("bool", "int16", "int64", "uint8", "float16", "float32", "float64")
BINARY = [case for case in CASES if case.op.arity == 2 and case.dtypes[0] in RULE_DTYPES]
BINARY = [case for case in BINARY if case.op.shared]
ALL_HALVES = np.arange(2**16, dtype=np.uint16).view(np.float16)


def halfway_points() -> Array:
    """Numbers halfway between float16 neighbours, and their float64 neighbours on both sides.

    Rounding them to float32 first, and from there to float16, rounds some of them wrongly.
    """
    finite = ALL_HALVES[np.isfinite(ALL_HALVES) & (ALL_HALVES >= 0)].astype(np.float64)
    middle = (finite + np.append(finite[1:], 65536.0)) / 2
    near = [middle * (1 + sign * step) for sign in (1, -1) for step in (2**-52, 2**-30, 2**-25)]
    points = np.concatenate([finite, middle, np.nextafter(middle, 0), *near])
    return np.concatenate([points, -points])


def constants_graph(case: Case) -> tuple[Graph, list[tuple[int, Any]]]:
    """A binary operation with constants on either side.

    Returns:
        The graph of `x0`, and for each output the constant's place and its value.
    """
    dtype = np.dtype(case.dtypes[0])
    shape = (dims.symbol("n0"),)
    array = make_input("x0", dtype, shape)
    outputs: list[Node] = []
    uses: list[tuple[int, Any]] = []
    for value in CONSTANTS[dtype.kind]:
        constant = make_constant(value, dtype)
        for place, operands in enumerate(((constant, array), (array, constant))):
            if case.op.name == "power" and place == 1 and dtype.kind == "i" and value < 0:
                continue  # ValueError
            outputs.append(make(case.op.name, *operands))
            uses.append((place, dtype.type(value)))
    return Graph((Parameter("x0", dtype, shape),), tuple(outputs)), uses


def cast_graph(source: str, targets: Sequence[str]) -> Graph:
    """Conversions of one array."""
    rows = [f"%{k} = cast{{{name}}} x0 : {name}[n0]" for k, name in enumerate(targets)]
    last = ", ".join(f"%{k}" for k in range(len(rows)))
    return parse("\n".join([f"graph(x0: {source}[n0]):", *rows, f"return {last}"]))


def open_to_interpretation(values: Array, target: str) -> Array:
    """Where converting floats to integers leaves the result open: NaN, and out of range."""
    if values.dtype.kind != "f" or np.dtype(target).kind not in "iu":
        return np.zeros(values.shape, bool)
    limits = np.iinfo(target)
    with np.errstate(invalid="ignore"):
        whole = np.trunc(values.astype(np.longdouble))
    return ~((whole >= limits.min) & (whole <= limits.max))


class FusionSuite:
    """Tests of a backend; a subclass names it. Skipped, with its reason, where it cannot run."""

    backend: ClassVar[str]
    #: Also strided operands and 0-d ones, which another class tests for the same code.
    all_layouts: ClassVar[bool] = True

    @pytest.fixture(autouse=True)
    def _on_backend(self) -> Iterator[None]:
        """Run everything on this class's backend."""
        if reason := backend.available(self.backend):
            pytest.skip(reason)
        with settings(backend=self.backend):
            yield

    def to_device(self, values: Array) -> Any:
        """The array where the backend has it."""
        return backend.get_backend(self.backend).array_module.asarray(values)

    def launch(self, graph: Graph, arguments: Sequence[Any]) -> list[Array]:
        """Run a graph fused, never by the fallback; results as NumPy arrays."""
        outputs = fuser.debug_launch_graph(graph, arguments)
        return [np.asarray(array.get() if hasattr(array, "get") else array) for array in outputs]

    # -- the op table -----------------------------------------------------------------------

    @pytest.mark.parametrize("group", GROUPS)
    def test_every_op_means_what_numpy_means(self, group: str) -> None:
        """Every pairing of edge values agrees within the row's ulp, in every layout and length."""
        cases = GROUPS[group]
        operands = legal_operands(cases[0])
        arguments = [self.to_device(values) for values in operands]
        graph, each = flat_graph(*cases), 1
        if self.all_layouts:
            graph = layouts_graph(*cases)
            wanted = layouts_operands(operands)
            each = len(wanted)
            outputs = self.launch(graph, layouts_arguments(arguments))
            pairs = product(cases, enumerate(wanted))
            for got, (case, (place, used)) in zip(outputs, pairs, strict=True):
                assert_means(case, got, used, f"output {place}")
        for length in (*SHORT_LENGTHS, operands[0].size):
            rest = layouts_arguments(arguments)[len(operands) :] if self.all_layouts else []
            flat = [values[values.size - length :] for values in arguments]
            found = self.launch(graph, [*flat, *rest])[::each]
            used = [values[values.size - length :] for values in operands]
            for got, case in zip(found, cases, strict=True):
                assert_means(case, got, used, f"length {length}")

    @pytest.mark.parametrize("case", BINARY, ids=str)
    def test_constant_operands_are_like_any_other(self, case: Case) -> None:
        """Rules for special constants change nothing that NumPy's result would show."""
        graph, uses = constants_graph(case)
        values = edge_cases(case.dtypes[:1])[0]
        if case.op.name == "power" and values.dtype.kind == "i":
            values = values[values >= 0]
        if case.op.name == "power" and not uses:
            return
        with quick_code():  # it is the core that has such rules
            outputs = self.launch(graph, [self.to_device(values)])
        for got, (place, constant) in zip(outputs, uses, strict=True):
            operands = (values, constant) if place else (constant, values)
            assert_means(case, got, operands, f"operand {place} is {constant!r}")

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_powers_by_one_number(self, dtype: str) -> None:
        """An exponent of 0.5 that is one number means the square root, as in NumPy's loops."""
        case = Case(TABLE["power"], (dtype, dtype))
        (values,) = edge_cases((dtype,))
        shapes = f"x0: {dtype}[n0], x1: {dtype}[]"
        graph = parse(f"graph({shapes}):\n%0 = power x0 x1 : {dtype}[n0]\nreturn %0")
        for exponent in np.array([0.5, -0.5, 0.0, 1.0, 2.0, -1.0, np.inf, np.nan], dtype):
            operands = (values, np.asarray(exponent))
            (got,) = self.launch(graph, [self.to_device(v) for v in operands])
            assert_means(case, got, operands, f"exponent {exponent}")

    @pytest.mark.parametrize("dtype", FLOATS)
    def test_values_that_are_computed_once(self, dtype: str) -> None:
        """Every row on one number a call, and on one number a row of a larger array."""
        cases = [case for case in CASES if case.dtypes == (dtype,) and case.result == dtype]
        number, column = make_scalar("s0", dtype), (dims.symbol("n0"), 1)
        shape = (dims.symbol("n0"), dims.symbol("n1"))
        array, rows = make_input("x0", dtype, shape), make_input("x1", dtype, column)
        nodes = [make(case.op.name, operand) for case in cases for operand in (number, rows)]
        parameters = (
            Parameter("x0", array.dtype, shape),
            Parameter("x1", array.dtype, column),
            Parameter("s0", None, kind="float"),
        )
        graph = Graph(parameters, tuple(make("maximum", node, array) for node in nodes))
        low = np.full((3, 41), -np.inf, dtype)  # the larger one is always the row's result
        values = np.array([[0.7], [60000.0], [np.nan]], dtype)
        outputs = iter(self.launch(graph, [self.to_device(low), self.to_device(values), 60000.0]))
        for case in cases:
            for operand in (np.full_like(low, 60000.0), np.broadcast_to(values, low.shape)):
                assert_means(case, next(outputs).ravel(), [operand.ravel()])

    @pytest.mark.parametrize("dtype", FLOATS)
    def test_products_are_rounded_before_they_are_added(self, dtype: str) -> None:
        """No contraction to a fused multiply-add, which NumPy's results do not have."""

        def formula(x: Any, y: Any, z: Any, w: Any) -> tuple[Any, ...]:
            return x * y + z, x * y - z * w, z - x * y

        operands = [ordinary_values(dtype, 10_001, seed) for seed in range(4)]
        got = fuser.fuse(formula, fallback="error")(*map(self.to_device, operands))
        for one, other in zip(got, formula(*operands), strict=True):
            np.testing.assert_array_equal(one, other, strict=True)

    # -- conversions ------------------------------------------------------------------------

    @pytest.mark.parametrize("source", DTYPES)
    def test_every_dtype_converts_to_every_other(self, source: str) -> None:
        """In range values agree; what is out of an integer's range only must not trap.

        Of float16 these are all 65,536 values.
        """
        values = ALL_HALVES if source == "float16" else edge_cases((source,))[0]
        targets = [name for name in DTYPES if name != source]
        found = self.launch(cast_graph(source, targets), [self.to_device(values)])
        for got, target in zip(found, targets, strict=True):
            keep = ~open_to_interpretation(values, target)
            with np.errstate(all="ignore"):
                want = values.astype(target)
            np.testing.assert_array_equal(got[keep], want[keep], strict=True)
            if np.dtype(target).kind == "f":
                number = ~np.isnan(want)
                np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(want[number]))

    @pytest.mark.parametrize("source", ["float32", "float64"])
    def test_rounding_to_half_is_one_rounding(self, source: str) -> None:
        """Points beside the middle of two float16 numbers go to the nearer one."""
        random = np.random.default_rng(0).bytes(2**20)
        with np.errstate(all="ignore"):
            values = np.append(halfway_points().astype(source), np.frombuffer(random, source))
            want = values.astype(np.float16)
        (got,) = self.launch(cast_graph(source, ["float16"]), [self.to_device(values)])
        same = got.view(np.uint16) == want.view(np.uint16)
        assert (same | (np.isnan(got) & np.isnan(values))).all()

    @pytest.mark.parametrize("group", HALF_ROWS)
    def test_every_half_through_every_row(self, group: str) -> None:
        """All 65,536 values: exact rows give NumPy's numbers, others are rounded once."""
        cases = HALF_ROWS[group]
        found = self.launch(flat_graph(*cases), [self.to_device(ALL_HALVES)])
        for got, case in zip(found, cases, strict=True):
            assert_means(case, got, [ALL_HALVES])

    def test_half_arithmetic_rounds_after_every_operation(self) -> None:
        """All 65,536 values beside seven shuffles of them give NumPy's bits."""
        names = ("add", "subtract", "multiply", "divide")
        cases = [Case(TABLE[name], ("float16", "float16")) for name in names]
        random = np.random.default_rng(0)
        right = np.concatenate([random.permutation(ALL_HALVES) for _ in range(7)])
        operands = (np.tile(ALL_HALVES, 7), right)
        found = self.launch(flat_graph(*cases), [self.to_device(values) for values in operands])
        for got, case in zip(found, cases, strict=True):
            assert_means(case, got, operands)

    # -- errors and results of several values ------------------------------------------------

    @pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
    def test_negative_integer_powers_raise(self, dtype: str) -> None:
        """NumPy's ValueError, wherever the exponent stands, and `out=` stays as it was."""
        power = fuser.fuse(lambda x, n: np.power(x, n))
        base = np.arange(1, 100, dtype=dtype)
        for place in (0, 50, 98):
            exponents = np.ones_like(base)
            exponents[place] = -1
            out = np.full_like(base, 77)
            with pytest.raises(ValueError, match="negative integer powers"):
                power(self.to_device(base), self.to_device(exponents), out=out)
            assert (out == 77).all()
        with pytest.raises(ValueError, match="negative integer powers"):
            power(self.to_device(base), -2)

    @pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
    @pytest.mark.parametrize("ufunc", [np.divmod, np.modf, np.frexp], ids=lambda f: f.__name__)
    def test_ufuncs_with_two_results(self, ufunc: np.ufunc, dtype: str) -> None:
        """Both results come out of one call, with NumPy's dtypes."""
        operands = edge_cases((dtype,) * ufunc.nin)
        got = fuser.fuse(ufunc, fallback="error")(*(self.to_device(v) for v in operands))
        with np.errstate(all="ignore"):
            want = ufunc(*operands)
        for one, other in zip(got, want, strict=True):
            np.testing.assert_array_equal(one, other, strict=True)
            if other.dtype.kind == "f":
                zeros = other == 0
                np.testing.assert_array_equal(np.signbit(one[zeros]), np.signbit(other[zeros]))

    @pytest.mark.parametrize("dtype", [name for name in DTYPES if "int" in name])
    def test_integers_divide_with_two_results(self, dtype: str) -> None:
        """divmod traps neither on zero divisors nor on the least number by -1."""
        operands = edge_cases((dtype, dtype))
        got = fuser.fuse(np.divmod, fallback="error")(*(self.to_device(v) for v in operands))
        with np.errstate(all="ignore"):
            want = np.divmod(*operands)
        np.testing.assert_array_equal(got, want, strict=True)

    @pytest.mark.parametrize("dtype", ["int8", "int64", "uint8", "uint64"])
    def test_a_zero_divisor_never_traps(self, dtype: str) -> None:
        """Nor does it as a Python scalar, or in a reciprocal, whose value is then open."""
        values = edge_values(dtype)
        fused = fuser.fuse(lambda x, n: (x // n, x % n, np.reciprocal(x)), fallback="error")
        quotient, rest, _ = fused(self.to_device(values), 0)
        assert not quotient.any()
        assert not rest.any()

