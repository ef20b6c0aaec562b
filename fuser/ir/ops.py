"""The operator table: one row an operation. How it is spelled is each backend's own table."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fuser.base.errors import GraphError
from fuser.base.records import record
from fuser.ir.philox import random_bits

Array = np.ndarray[Any, np.dtype[Any]]

FLOATS = ("float16", "float32", "float64")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
_KIND_DTYPES = {"b": ("bool",), "i": SIGNED, "u": UNSIGNED, "f": FLOATS, "c": ()}
DTYPES = tuple(name for kind in "biuf" for name in _KIND_DTYPES[kind])


@record(eq=False)
class Op:
    """What an operation is.

    Attributes:
        name: the key; NumPy's name where NumPy has the operation.
        arity: the number of operands; -1 for any number.
        numpy: its meaning, on arrays of the operands' dtypes.
        kinds: NumPy kind letters of the operand dtypes it takes.
        ulp: the largest error allowed, in units in the last place of the result; float16 results
            are within this of the true value in float32's units, then rounded once.
        cancels: the result is a sum whose terms may cancel, so that the error's unit is the last
            place of the largest operand where that is larger; as in NumPy's own functions.
        result: "same" as the last operand, "first", or a dtype name.
        library: the C library's function of floats (C11, 7.12), by which a backend computes it that
            has no spelling of its own; the suffix f gives that of float32.
        heavy: costs tens of instructions an element: not worth computing twice.
        slow: a root, quotient or remainder: tens of cycles, in one instruction or few.
        structure: moves or names data and computes nothing.
        raises: kinds of dtypes for some values of which NumPy raises, so the kernel must check
            them.
        shared: the operands share one dtype (not so for `where`, `ldexp` and shapes).
        converts: gives its operand's elements in another dtype.
        reduction: combines elements along axes; its meaning takes the axes as second argument.
        combine: of a reduction, a scan or a scatter, the row that makes one of two partial results
            (`add` of `sum`); of one that gives positions, that of the elements there.
        selects: of a reduction, the result is one of the elements, or the position of one.
        greatest: of a reduction that selects, it looks for the greatest and not the least.
        places: of a reduction, the result is a position along the axis.
        never_negative_zero: no element of the result is -0.0.
        divides: its second operand is a divisor, of which NumPy tells where it is 0.
        is_quotient: the quotient of two floats, rounded once.
        subtracts: the difference of its operands.
        multiplies: the product of its operands, or of its operand with itself.
        is_input: names an array that the graph is given.
        is_scalar: names a number that each call computes before kernels run.
        is_constant: holds one element's bits.
        is_iota: counts 0, 1, 2 … along its one axis.
        is_opaque: a result of a function that NumPy runs between kernels.
        is_update: an array with other elements in a region of it.
        joins: the result holds its operands' elements, each stored where it belongs.
        pairs: joins the two parts of complex numbers.
        concatenates: joins operands one after another along an axis.
        interleaves: joins operands element by element in turn along an axis.
        indexes: a view with an axis dropped, put in, shortened or reversed, as basic indexing has.
        permutes: a view with the same axes in another order.
        reshapes: a view with the same elements in C order and another shape.
        repeats: a view with stride 0 along an axis: one element is seen many times.
        slices: a view of a range of one axis; what passes make of an index.
        reorders: a view whose strides may be sorted otherwise than its operand's.
        locates: of where elements lie, and not of the elements: see `Address` and `Measure`.
        scans: combines each element with the result before it along an axis, with the row
            `combine`; the first result is the first element.
        gathers: reads its last operand at places that the others compute: see `Places`.
        scatters: its last operand with the one before it written at places that the others
            compute, one after another in C order, each combined with what is there by the row
            `combine`, if it has one.
    """

    name: str
    arity: int
    numpy: Callable[..., Any]
    kinds: str
    ulp: float = 0
    cancels: bool = False
    result: str = "same"
    library: str = ""
    heavy: bool = False
    slow: bool = False
    structure: bool = False
    raises: str = ""
    shared: bool = True
    converts: bool = False
    reduction: bool = False
    combine: str = ""
    selects: bool = False
    greatest: bool = False
    places: bool = False
    never_negative_zero: bool = False
    divides: bool = False
    is_quotient: bool = False
    subtracts: bool = False
    multiplies: bool = False
    is_input: bool = False
    is_scalar: bool = False
    is_constant: bool = False
    is_iota: bool = False
    is_opaque: bool = False
    is_update: bool = False
    joins: bool = False
    pairs: bool = False
    concatenates: bool = False
    interleaves: bool = False
    indexes: bool = False
    permutes: bool = False
    reshapes: bool = False
    repeats: bool = False
    slices: bool = False
    reorders: bool = False
    locates: bool = False
    gathers: bool = False
    scans: bool = False
    scatters: bool = False

    def dtypes(self) -> tuple[str, ...]:
        """Names of the operand dtypes that the row admits."""
        return tuple(name for kind in self.kinds for name in _KIND_DTYPES[kind])

    @property
    def is_view(self) -> bool:
        """Whether the result is its one operand's elements, seen in another way."""
        return self.structure and self.arity == 1

    @property
    def given(self) -> bool:
        """Whether the value is there before anything runs: an array, a number or a constant."""
        return self.is_input or self.is_scalar or self.is_constant

    @property
    def is_elementwise(self) -> bool:
        """Whether an element of the result takes those of the operands at the same place alone."""
        return not (self.structure or self.reduction or self.moves_apart)

    @property
    def moves_apart(self) -> bool:
        """Whether it computes with elements of other places: gathers, scatters and scans."""
        return self.gathers or self.scatters or self.scans

    @property
    def uniform(self) -> bool:
        """Whether it is a number that is the same for every element."""
        return self.is_scalar or self.is_constant

    @property
    def accumulates(self) -> bool:
        """Whether a reduction computes with its elements, so that each step may round."""
        return self.reduction and not self.selects

    @property
    def is_extreme(self) -> bool:
        """Whether a reduction gives the greatest or the least element."""
        return self.selects and not self.places

    @property
    def adds(self) -> bool:
        """Whether it is the sum of elements."""
        return self.reduction and self.combine == "add"

    def __repr__(self) -> str:
        """The name."""
        return f"Op({self.name})"


#: Rows that take complex numbers too, on backends that have them (`Backend.extra_dtypes`).
_COMPLEX = frozenset(
    "add subtract multiply divide negative positive absolute square reciprocal exp log sqrt sin "
    "cos power equal not_equal isnan isinf isfinite where cast".split()
)
#: What float16's nextafter gives of equal numbers, which zeros of two signs are: the first before
#: NumPy 2.5, and the second from there on, as the other dtypes' and C's always did.
HALF_NEXTAFTER_GIVES_FIRST = not bool(np.signbit(np.nextafter(np.float16(0.0), np.float16(-0.0))))
#: Rows that look at the bits of a float, or that bfloat16 has no meaning for.
_BITS = frozenset(
    "nextafter spacing ldexp frexp_mantissa frexp_exponent modf_fraction modf_integral".split()
)


def admits(row: Op, dtype: np.dtype[Any]) -> bool:
    """Whether a row takes operands of a dtype, on some backend."""
    if not row.kinds or dtype.kind in row.kinds:
        return True
    if dtype.kind == "c":
        return row.structure or row.name in _COMPLEX
    if dtype.name == "bfloat16":
        return row.structure or ("f" in row.kinds and row.name not in _BITS)
    return False


def component(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of a complex dtype's real and imaginary parts; any other dtype itself."""
    return np.dtype(f"float{4 * dtype.itemsize}") if dtype.kind == "c" else dtype


def _joined(real: Array, imaginary: Array) -> Array:
    """Complex numbers from their parts, whatever infinities are in them."""
    wide = np.complex64 if real.dtype == np.float32 else np.complex128
    found = np.empty_like(real, dtype=wide, shape=np.shape(real))
    found.real, found.imag = real, imaginary
    return found


def _each(function: Callable[[float], float]) -> Callable[[Array], Array]:
    """Apply a scalar function to every element, in the array's dtype."""

    def apply(values: Array) -> Array:
        out = np.empty(np.shape(values), dtype=np.result_type(values))
        for place, value in np.ndenumerate(values):
            out[place] = function(float(value))
        return out[()] if np.ndim(values) == 0 else out  # a scalar for 0-d, as ufuncs give

    return apply


def _lgamma(value: float) -> float:
    """log |gamma(value)|, infinite at the poles and beyond the largest float, as C's lgamma."""
    if math.isinf(value) or (value <= 0 and value == math.floor(value)):
        return math.inf
    try:
        return math.lgamma(value)
    except OverflowError:
        return math.inf


def _quiet(function: Callable[..., Any]) -> Callable[..., Any]:
    """Run without floating-point warnings."""

    def run(*operands: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*operands)

    return run


def _sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)) without overflow, in x's dtype."""
    e = np.exp(-np.abs(x))
    one = x.dtype.type(1)
    return np.where(x >= 0, one / (one + e), e / (one + e))[()]  # type: ignore[no-any-return]


def _where(condition: Array, yes: Array, no: Array) -> Array:
    """np.where; NumPy gives an array even for 0-d operands."""
    return np.where(condition, yes, no)


def _modf_fraction(x: Array) -> Array:
    return np.modf(x)[0]


def _modf_integral(x: Array) -> Array:
    return np.modf(x)[1]


def _frexp_mantissa(x: Array) -> Array:
    return np.frexp(x)[0]


def _frexp_exponent(x: Array) -> Array:
    return np.frexp(x)[1]


def _reduce(ufunc: np.ufunc) -> Callable[..., Any]:
    """Combine along axes in the operand's own dtype."""

    def run(x: Array, axes: tuple[int, ...]) -> Any:
        if ufunc in (np.maximum, np.minimum):
            return ufunc.reduce(x, axis=axes)
        return ufunc.reduce(x, axis=axes, dtype=x.dtype)

    return run


def _scan(ufunc: np.ufunc) -> Callable[..., Any]:
    """Running results along an axis, in the operand's own dtype."""
    return lambda x, axis: ufunc.accumulate(x, axis=axis, dtype=x.dtype)


def _arg_reduce(function: Callable[..., Any]) -> Callable[..., Any]:
    """The place of an extreme along one axis."""
    return lambda x, axes: function(x, axis=axes[0])


def _refuse(*_: Any) -> Any:
    raise GraphError("a structural node has no elementwise meaning")


def _reduction(name: str, ufunc: np.ufunc, kinds: str, *, greatest: bool = False) -> Op:
    """A row that combines elements with a ufunc, whose own row joins two partial results."""
    selects = ufunc in (np.maximum, np.minimum)
    return Op(
        name, 1, _reduce(ufunc), kinds, reduction=True, combine=ufunc.__name__, selects=selects,
        greatest=greatest,
    )  # fmt: skip


def _place(
    name: str, function: Callable[..., Any], combine: str, *, greatest: bool = False
) -> Op:
    """A row that gives the position of an extreme."""
    return Op(
        name, 1, _arg_reduce(function), "biuf", result="int64", reduction=True, combine=combine,
        selects=True, greatest=greatest, places=True,
    )  # fmt: skip


def _structure(
    name: str, arity: int, kinds: str = "", numpy: Callable[..., Any] = _refuse, **facts: Any
) -> Op:
    """A row that names data or moves it."""
    return Op(name, arity, numpy, kinds, structure=True, **facts)


_ROWS = (
    # name, arity, meaning, kinds, error …
    Op("add", 2, np.add, "biuf"),
    Op("subtract", 2, np.subtract, "iuf", subtracts=True),
    Op("multiply", 2, np.multiply, "biuf", multiplies=True),
    Op("divide", 2, np.divide, "f", is_quotient=True, divides=True, slow=True),
    Op("floor_divide", 2, np.floor_divide, "iuf", divides=True, slow=True),
    Op("remainder", 2, np.remainder, "iuf", divides=True, slow=True),
    Op("fmod", 2, np.fmod, "iuf", divides=True, slow=True, library="fmod"),
    Op("power", 2, np.power, "iuf", ulp=3, heavy=True, raises="iu", library="pow"),
    Op("negative", 1, np.negative, "iuf"),
    Op("positive", 1, np.positive, "iuf"),
    Op("absolute", 1, np.absolute, "biuf", never_negative_zero=True),
    Op("fabs", 1, np.fabs, "f"),
    Op("sign", 1, np.sign, "iuf"),
    Op("square", 1, np.square, "iuf", multiplies=True),
    Op("reciprocal", 1, np.reciprocal, "iuf", slow=True),
    Op("sqrt", 1, np.sqrt, "f", slow=True),
    Op("rsqrt", 1, _quiet(lambda x: x.dtype.type(1) / np.sqrt(x)), "f", ulp=2, slow=True),
    Op("cbrt", 1, np.cbrt, "f", ulp=2, heavy=True, library="cbrt"),
    # exponential, logarithmic
    Op("exp", 1, np.exp, "f", ulp=2, heavy=True, never_negative_zero=True, library="exp"),
    Op("exp2", 1, np.exp2, "f", ulp=2, heavy=True, library="exp2"),
    Op("expm1", 1, np.expm1, "f", ulp=2, heavy=True, library="expm1"),
    Op("log", 1, np.log, "f", ulp=2, heavy=True, library="log"),
    Op("log2", 1, np.log2, "f", ulp=2, heavy=True, library="log2"),
    Op("log10", 1, np.log10, "f", ulp=2, heavy=True, library="log10"),
    Op("log1p", 1, np.log1p, "f", ulp=2, heavy=True, library="log1p"),
    Op("logaddexp", 2, np.logaddexp, "f", ulp=4, cancels=True, heavy=True),
    Op("logaddexp2", 2, np.logaddexp2, "f", ulp=4, cancels=True, heavy=True),
    Op("sigmoid", 1, _quiet(_sigmoid), "f", ulp=3, heavy=True),
    # trigonometric, hyperbolic
    Op("sin", 1, np.sin, "f", ulp=2, heavy=True, library="sin"),
    Op("cos", 1, np.cos, "f", ulp=2, heavy=True, library="cos"),
    Op("tan", 1, np.tan, "f", ulp=3, heavy=True, library="tan"),
    Op("arcsin", 1, np.arcsin, "f", ulp=2, heavy=True, library="asin"),
    Op("arccos", 1, np.arccos, "f", ulp=2, heavy=True, library="acos"),
    Op("arctan", 1, np.arctan, "f", ulp=2, heavy=True, library="atan"),
    Op("arctan2", 2, np.arctan2, "f", ulp=2, heavy=True, library="atan2"),
    Op("hypot", 2, np.hypot, "f", ulp=2, heavy=True, library="hypot"),
    Op("sinh", 1, np.sinh, "f", ulp=2, heavy=True, library="sinh"),
    Op("cosh", 1, np.cosh, "f", ulp=2, heavy=True, library="cosh"),
    Op("tanh", 1, np.tanh, "f", ulp=2, heavy=True, library="tanh"),
    Op("arcsinh", 1, np.arcsinh, "f", ulp=2, heavy=True, library="asinh"),
    Op("arccosh", 1, np.arccosh, "f", ulp=2, heavy=True, library="acosh"),
    Op("arctanh", 1, np.arctanh, "f", ulp=2, heavy=True, library="atanh"),
    Op("deg2rad", 1, np.deg2rad, "f", ulp=1),
    Op("rad2deg", 1, np.rad2deg, "f", ulp=1),
    # special functions, which NumPy has not
    Op("erf", 1, _each(math.erf), "f", ulp=2, heavy=True, library="erf"),
    Op("erfc", 1, _each(math.erfc), "f", ulp=3, heavy=True, library="erfc"),
    Op("lgamma", 1, _each(_lgamma), "f", ulp=8, heavy=True, library="lgamma"),
    # rounding
    Op("rint", 1, np.rint, "f"),
    Op("floor", 1, np.floor, "biuf"),
    Op("ceil", 1, np.ceil, "biuf"),
    Op("trunc", 1, np.trunc, "biuf"),
    # comparison, logic
    Op("equal", 2, np.equal, "biuf", result="bool"),
    Op("not_equal", 2, np.not_equal, "biuf", result="bool"),
    Op("less", 2, np.less, "biuf", result="bool"),
    Op("less_equal", 2, np.less_equal, "biuf", result="bool"),
    Op("greater", 2, np.greater, "biuf", result="bool"),
    Op("greater_equal", 2, np.greater_equal, "biuf", result="bool"),
    Op("logical_and", 2, np.logical_and, "biuf", result="bool"),
    Op("logical_or", 2, np.logical_or, "biuf", result="bool"),
    Op("logical_xor", 2, np.logical_xor, "biuf", result="bool"),
    Op("logical_not", 1, np.logical_not, "biuf", result="bool"),
    # bits
    Op("bitwise_and", 2, np.bitwise_and, "biu"),
    Op("bitwise_or", 2, np.bitwise_or, "biu"),
    Op("bitwise_xor", 2, np.bitwise_xor, "biu"),
    Op("invert", 1, np.invert, "biu"),
    Op("left_shift", 2, np.left_shift, "iu"),
    Op("right_shift", 2, np.right_shift, "iu"),
    Op("bitwise_count", 1, np.bitwise_count, "iu", result="uint8"),
    Op("gcd", 2, np.gcd, "iu", heavy=True),
    Op("lcm", 2, np.lcm, "iu", heavy=True),
    # random numbers: of a place in a stream, and the stream's seed
    Op("random_bits", 2, random_bits, "u", result="uint32", heavy=True),
    # smallest and largest
    Op("maximum", 2, np.maximum, "biuf"),
    Op("minimum", 2, np.minimum, "biuf"),
    Op("fmax", 2, np.fmax, "biuf"),
    Op("fmin", 2, np.fmin, "biuf"),
    # tests and manipulation of floats
    Op("isnan", 1, np.isnan, "biuf", result="bool"),
    Op("isinf", 1, np.isinf, "biuf", result="bool"),
    Op("isfinite", 1, np.isfinite, "biuf", result="bool"),
    Op("signbit", 1, np.signbit, "f", result="bool"),
    Op("copysign", 2, np.copysign, "f"),
    Op("nextafter", 2, np.nextafter, "f"),
    Op("spacing", 1, np.spacing, "f"),
    Op("heaviside", 2, np.heaviside, "f"),
    Op("ldexp", 2, np.ldexp, "f", result="first", shared=False),
    Op("frexp_mantissa", 1, _frexp_mantissa, "f"),
    Op("frexp_exponent", 1, _frexp_exponent, "f", result="int32"),
    Op("modf_fraction", 1, _modf_fraction, "f"),
    Op("modf_integral", 1, _modf_integral, "f"),
    # choice and conversion
    Op("where", 3, _where, "biuf", shared=False),
    Op("cast", 1, np.asarray, "biuf", converts=True),
    # an index for each axis that is indexed, then what is read
    Op("gather", -1, _refuse, "biuf", shared=False, raises="biuf", slow=True, gathers=True),
    # an index for each axis that is indexed, what is written, what it is written into
    *(
        Op(
            f"scatter_{combine}".rstrip("_"), -1, _refuse, kinds, shared=False, raises=kinds,
            slow=True, scatters=True, combine=combine,
        )
        for combine, kinds in (
            ("", "biuf"), ("add", "iuf"), ("multiply", "iuf"), ("maximum", "biuf"),
            ("minimum", "biuf"),
        )
    ),
    # complex numbers: on backends that have them
    Op("real", 1, np.real, "c"),
    Op("imag", 1, np.imag, "c"),
    Op("conjugate", 1, np.conjugate, "c"),
    Op("join_complex", 2, _joined, ""),
    # reductions: along the axes of the attribute, without the axes in the result
    _reduction("sum", np.add, "iuf"),
    _reduction("prod", np.multiply, "iuf"),
    _reduction("max", np.maximum, "biuf", greatest=True),
    _reduction("min", np.minimum, "biuf"),
    _place("argmax", np.argmax, "maximum", greatest=True),
    _place("argmin", np.argmin, "minimum"),
    # running results along the axis of the attribute
    *(
        Op(f"running_{name}", 1, _scan(ufunc), kinds, scans=True, combine=ufunc.__name__)
        for name, ufunc, kinds in (
            ("sum", np.add, "iuf"), ("product", np.multiply, "iuf"),
            ("maximum", np.maximum, "biuf"), ("minimum", np.minimum, "biuf"),
        )
    ),
    # structure: names data or moves it
    _structure("input", 0, is_input=True),
    _structure("scalar", 0, is_scalar=True),
    _structure("constant", 0, is_constant=True),
    _structure("positions", 0, result="int64", is_iota=True),  # 0, 1, 2 … of a length
    _structure("index", 1, "biuf", indexes=True),
    _structure("transpose", 1, "biuf", np.transpose, permutes=True, reorders=True),
    _structure("reshape", 1, "biuf", np.reshape, reshapes=True),
    _structure("broadcast_to", 1, "biuf", np.broadcast_to, repeats=True, reorders=True),
    _structure("diagonal", 1, "biuf", reorders=True),  # of the first two axes: the last one
    # made for backends without complex numbers: a part of one, some bytes on; both stored as one
    _structure("component", 1),
    _structure("from_components", 2, joins=True, pairs=True),
    # made by scheduling: what `Address` and `Stride` show
    _structure("address", 1, result="int64", locates=True),
    # made by passes: "axis; start; stop" or "axis; start; stop; step"
    _structure("part", 1, "biuf", slices=True),
    _structure("concatenate", -1, "biuf", np.concatenate, joins=True, concatenates=True),
    # made by passes: the operands' elements along an axis in turn
    _structure("interleave", -1, "biuf", joins=True, interleaves=True),
    _structure("update", 2, "biuf", result="first", is_update=True),
    # a NumPy function between kernels: see opaque_calls.py
    _structure("extern", -1, shared=False, is_opaque=True),
)

TABLE: dict[str, Op] = {row.name: row for row in _ROWS}

#: NumPy ufuncs that are one row each, by the ufunc's own name.
UFUNC_ROWS: dict[str, str] = {
    **{row.name: row.name for row in _ROWS if isinstance(row.numpy, np.ufunc)},
    "degrees": "rad2deg",
    "radians": "deg2rad",
    "conjugate": "positive",
}

#: What Python's operators between two operands are, by their syntax.
OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.Div: "divide",
    ast.FloorDiv: "floor_divide", ast.Mod: "remainder", ast.Pow: "power",
    ast.LShift: "left_shift", ast.RShift: "right_shift",
    ast.BitAnd: "bitwise_and", ast.BitOr: "bitwise_or", ast.BitXor: "bitwise_xor",
}  # fmt: skip
COMPARISONS: dict[type[ast.AST], str] = {
    ast.Lt: "less", ast.LtE: "less_equal", ast.Eq: "equal", ast.NotEq: "not_equal",
    ast.Gt: "greater", ast.GtE: "greater_equal",
}  # fmt: skip

#: NumPy ufuncs with two results: one row for each.
UFUNC_PAIRS: dict[str, tuple[str, str]] = {
    "divmod": ("floor_divide", "remainder"),
    "modf": ("modf_fraction", "modf_integral"),
    "frexp": ("frexp_mantissa", "frexp_exponent"),
}


#: Rows about the parts of complex numbers: for backends that have those.
PARTS = ("real", "imag", "conjugate", "join_complex")


def elementwise() -> Iterator[Op]:
    """The rows that compute an element from elements, on every backend."""
    return (
        row
        for row in _ROWS
        if row.is_elementwise and row.name not in PARTS
    )


def identity(row: Op, dtype: str) -> float:
    """What a reduction of elements of a dtype begins with: combining it changes nothing."""
    if row.accumulates:
        return 0 if row.adds else 1
    if dtype == "bool":
        return not row.greatest
    if "float" in dtype:
        return -math.inf if row.greatest else math.inf
    limits = np.iinfo(dtype)
    return int(limits.min if row.greatest else limits.max)


def before_first(row: Op, dtype: str) -> float:
    """What a scan has before its first element: combining the two gives that element itself.

    -0.0 and not 0.0 of sums of floats: 0.0 + -0.0 is 0.0.
    """
    reduction = next(each for each in _ROWS if each.reduction and each.combine == row.combine)
    return -0.0 if reduction.adds and "float" in dtype else identity(reduction, dtype)


def op(name: str) -> Op:
    """Look a row up.

    Raises:
        GraphError: there is no such row.
    """
    try:
        return TABLE[name]
    except KeyError:
        from fuser.base.near import near_it  # only for the message

        near = near_it(name, TABLE, "fuser/ir/ops.py has the table")
        text = f"there is no operation called {name!r} in the op table; {near}"
        raise GraphError(text) from None
