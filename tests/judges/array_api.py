"""The Array API standard (2024.12): what NumPy has of it, plainly and fused.

All functions of the standard are NumPy's, and operators, methods and attributes of arrays.
`python -m tests.judges.array_api --examples 200` draws arguments by hypothesis's strategies for the
standard: all dtypes of a function, 0 to 3 axes, lengths of 0 and 1, NaN, infinities and zeros of
both signs, arrays in other orders. Elementwise functions are called with all special values, or all
pairs of them, as well. Types, dtypes, shapes and exceptions have to be NumPy's, and what arguments
hold afterwards; values too, bit for bit unless the function rounds. It prints each difference as
small as it can make it.
"""

from __future__ import annotations

import argparse
import builtins
import operator
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.extra.array_api import make_strategies_namespace

import fuser
from fuser.base import trees

XPS = make_strategies_namespace(np, api_version="2022.12")
INTEGERS = "int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()
REAL, COMPLEX = ["float32", "float64"], ["complex64", "complex128"]
FLOATS, REALS = REAL + COMPLEX, INTEGERS + REAL
NUMBERS = REALS + COMPLEX
WHOLE = ["bool", *INTEGERS]
EVERY = ["bool", *NUMBERS]
#: Elements that no order of rounding makes overflow.
SMALL = 8


class Draw:
    """Draws the arguments of one call."""

    def __init__(self, data: Any) -> None:
        """Keep hypothesis's source of decisions."""
        self.draw = data.draw

    def of(self, *values: Any) -> Any:
        """One of some values."""
        return self.draw(st.sampled_from(values))

    def array(
        self, dtypes: Sequence[str], shape: Any = None, small: bool = False, **sides: int
    ) -> Any:
        """An array of one of some dtypes, in one of four memory orders."""
        dtype = np.dtype(self.of(*dtypes))
        if shape is None:
            sides = {"min_side": 0, "max_side": 5, "min_dims": 0, "max_dims": 3, **sides}
            shape = self.draw(XPS.array_shapes(**sides))
        elements: Any = None
        if small and dtype.kind == "c":
            width: Any = dtype.itemsize * 8
            elements = st.complex_numbers(max_magnitude=SMALL, allow_nan=False, width=width)
        elif small and dtype.kind != "b":
            elements = {"min_value": 0 if dtype.kind == "u" else -SMALL, "max_value": SMALL}
        made = np.asarray(self.draw(XPS.arrays(dtype, shape, elements=elements)))
        order = self.of("C", "C", "F", "reversed", "strided")
        if order == "F":
            return np.asfortranarray(made) if made.ndim else made
        if order == "reversed" and made.ndim:
            return made[::-1].copy()[::-1]
        return np.repeat(made, 2, -1)[..., ::2] if order == "strided" and made.ndim else made

    def axis(self, x: Any) -> int:
        """One axis."""
        return int(self.draw(st.integers(-x.ndim, x.ndim - 1))) if x.ndim else 0

    def axes(self, x: Any) -> Any:
        """None, an axis or several."""
        some = self.draw(st.lists(st.integers(0, max(x.ndim - 1, 0)), unique=True, max_size=x.ndim))
        return self.of(None, self.axis(x), tuple(some)) if x.ndim else None


Call = Callable[[Draw], tuple[Any, ...]]


def one(dtypes: Sequence[str], **limits: Any) -> Call:
    """One array."""
    return lambda d: (d.array(dtypes, **limits),)


def two(dtypes: Sequence[str], numbers: Any = (2, -1, 0)) -> Call:
    """Two arrays of one dtype whose shapes broadcast, or one and a Python number."""

    def made(d: Draw) -> tuple[Any, ...]:
        x = d.array(dtypes)
        beside = [1 if d.of(False, True) else length for length in x.shape[d.of(0, 0, 1):]]
        y = d.of(d.array([x.dtype.name], tuple(beside)), d.of(*numbers))
        return (x, y) if isinstance(y, np.ndarray) or d.of(True, False) else (y, x)

    return made


def written(dtypes: Sequence[str], *numbers: Any) -> Call:
    """An array that is written into, and one of its dtype or a Python number."""

    def made(d: Draw) -> tuple[Any, ...]:
        x = d.array(dtypes).copy()
        beside = [1 if d.of(False, True) else length for length in x.shape[d.of(0, 0, 1):]]
        return x, d.of(d.array([x.dtype.name], tuple(beside)), *(numbers or (2, 0, 1)))

    return made


def along(dtypes: Sequence[str], several: Any = False, small: Any = False, **also: Any) -> Call:
    """An array, an axis or axes, and keywords of which each has some values."""

    def made(d: Draw) -> tuple[Any, ...]:
        x = d.array(dtypes, small=small)
        named = {"axis": d.axes(x) if several else d.axis(x)}
        return x, named | {key: d.of(*values) for key, values in also.items()}

    return made


def square(dtypes: Sequence[str] = tuple(FLOATS), beside: bool = False) -> Call:
    """Well conditioned square matrices, which are their own transposes; a right side."""

    def made(d: Draw) -> tuple[Any, ...]:
        n = d.of(1, 2, 3)
        x = d.array(dtypes, (*d.of((), (2,)), n, n), small=True)
        x = (x + np.conj(x.mT)) / 64 + np.eye(n, dtype=x.dtype)
        return (x, d.array([x.dtype.name], (*x.shape[:-1], 2), small=True)) if beside else (x,)

    return made


def products(d: Draw) -> tuple[Any, ...]:
    """Two arrays that can be multiplied."""
    x = d.array(NUMBERS, (*d.of((), (2,)), d.of(1, 3), d.of(0, 4)), small=True)
    return x, d.array([x.dtype.name], (x.shape[-1], d.of(1, 2)), small=True)


def same_shape(dtypes: Sequence[str], shape: Any = None, **named: Any) -> Call:
    """Two arrays of one shape and dtype."""

    def made(d: Draw) -> tuple[Any, ...]:
        x = d.array(dtypes, shape, small=True, **({} if shape else {"min_dims": 1}))
        return x, d.array([x.dtype.name], x.shape, small=True), dict(named)

    return made


def several(d: Draw) -> tuple[Any, ...]:
    """A list of arrays of one shape, and an axis."""
    x = d.array(EVERY, min_dims=1)
    return [x, d.array([x.dtype.name], x.shape)], {"axis": d.axis(x)}


def made_of(*values: Sequence[Any], **named: Sequence[Any]) -> Call:
    """Arguments of which each has some values."""
    return lambda d: (
        *(d.of(*each) for each in values), {key: d.of(*each) for key, each in named.items()}
    )  # fmt: skip


def then(first: Call, *further: Callable[[Draw, Any], Any], **named: Sequence[Any]) -> Call:
    """Arguments of which the later ones depend on the first."""

    def made(d: Draw) -> tuple[Any, ...]:
        args = first(d)
        more = [each(d, args[0]) for each in further]
        return *args, *more, {key: d.of(*each) for key, each in named.items()}

    return made


DTYPE = [None, *map(np.dtype, ("float32", "int64", "complex128"))]
SHAPES = [(), (3,), (0, 2), (2, 3)]
KEEP = {"keepdims": [False, True]}
#: By family: names, and what draws their arguments. Names after a point are of `linalg` and `fft`.
FAMILIES: list[tuple[str, Call]] = [
    ("abs negative positive sign square", one(NUMBERS)),
    ("ceil floor trunc", one(REALS)),
    ("round", one(NUMBERS)),
    ("signbit", one(REAL)),
    ("conj imag real", one(COMPLEX)),
    ("reciprocal sqrt", one(FLOATS)),
    ("acos acosh asin asinh atan atanh cos cosh exp expm1 log log1p log2 log10 sin sinh tan tanh",
     one(FLOATS, small=True)),
    ("isfinite isinf isnan", one(NUMBERS)),
    ("logical_not", one(["bool"])),
    ("bitwise_invert", one(WHOLE)),
    ("add subtract multiply equal not_equal", two(NUMBERS)),
    ("divide", two(FLOATS)),
    ("pow floor_divide remainder less less_equal greater greater_equal maximum minimum",
     two(REALS)),
    ("atan2 copysign hypot logaddexp nextafter", two(REAL)),
    ("logical_and logical_or logical_xor", two(["bool"], (True, False))),
    ("bitwise_and bitwise_or bitwise_xor", two(WHOLE)),
    ("bitwise_left_shift bitwise_right_shift", two(INTEGERS, (2, 0))),
    ("clip", then(one(REALS), lambda d, _: d.of(None, 0, 2), lambda d, _: d.of(None, 3))),
    ("where", then(one(["bool"]), lambda d, x: d.array(["float64"], x.shape),
                   lambda d, x: d.of(0.5, d.array(["float64", "int32"], x.shape)))),
    ("sum prod", along(NUMBERS, several=True, small=True, dtype=DTYPE, **KEEP)),
    ("mean", along(FLOATS, several=True, small=True, **KEEP)),
    ("std var", along(REAL, several=True, small=True, correction=[0, 1], **KEEP)),
    ("max min", along(REALS, several=True, **KEEP)),
    ("all any", along(EVERY, several=True, **KEEP)),
    ("count_nonzero", along(EVERY, several=True, **KEEP)),
    ("argmax argmin", along(REALS, **KEEP)),
    ("cumulative_sum cumulative_prod",
     along(NUMBERS, small=True, dtype=DTYPE, include_initial=[False, True])),
    ("diff", along(NUMBERS, small=True, n=[1, 2])),
    ("sort argsort", along(REALS, stable=[True], descending=[False, False])),
    ("nonzero", one(EVERY, min_dims=1)),
    ("searchsorted", lambda d: (np.sort(d.array(REALS, (d.of(0, 5),), small=True)),
                                d.array(REALS, small=True), {"side": d.of("left", "right")})),
    ("unique_all unique_counts unique_inverse unique_values", one(REALS)),
    ("take", lambda d: ((x := d.array(EVERY, min_dims=1, min_side=1)),
                        d.array(["int64"], (d.of(0, 3),), small=True) % x.shape[0], {"axis": 0})),
    ("take_along_axis", lambda d: ((x := d.array(EVERY, min_dims=1, min_side=1)),
                                   d.array(["int64"], x.shape, small=True) % x.shape[-1])),
    ("broadcast_arrays", two(EVERY, (2,))),
    ("broadcast_to", then(one(EVERY), lambda d, x: (*d.of((), (2,)), *x.shape))),
    ("concat stack", several),
    ("expand_dims", along(EVERY)),
    ("flip", along(EVERY, several=True)),
    ("moveaxis", then(one(EVERY, min_dims=1), lambda d, x: d.axis(x), lambda d, x: d.axis(x))),
    ("permute_dims", then(one(EVERY),
                          lambda d, x: tuple(d.draw(st.permutations(range(x.ndim)))))),
    ("repeat", then(one(EVERY, min_dims=1), lambda d, _: d.of(0, 1, 3), axis=[0, None])),
    ("reshape", then(one(EVERY), lambda d, x: d.of((-1,), (x.size,), (1, x.size), x.shape[::-1]),
                     copy=[None, True])),
    ("roll", then(one(EVERY, min_dims=1), lambda d, _: d.of(-3, 0, 2), axis=[None, 0])),
    ("squeeze", lambda d: (d.array(EVERY, (1, *d.of((), (3,)))), {"axis": 0})),
    ("tile", then(one(EVERY), lambda d, _: d.of((2,), (1, 2), (0,)))),
    ("unstack", then(one(EVERY, min_dims=1), axis=[0])),
    ("arange", made_of([0, 3, 2.5], [None, 7, -2], [1, 2, -0.5], dtype=DTYPE[:2])),
    ("asarray", then(one(EVERY), copy=[None, True], dtype=[None, np.dtype("complex128")])),
    ("empty zeros ones", made_of(SHAPES, dtype=[*DTYPE[1:], np.dtype("bool")])),
    ("full", made_of(SHAPES, [0, True, 2.5, 1j], dtype=[None])),
    ("empty_like zeros_like ones_like", then(one(EVERY), dtype=DTYPE)),
    ("full_like", then(one(REAL), lambda d, _: d.of(0, 2.5), dtype=DTYPE[:2])),
    ("eye", made_of([0, 3], [None, 2], k=[-1, 0, 1], dtype=DTYPE[1:])),
    ("linspace", made_of([0.0, -1.5], [3.0, 1.0], num=[0, 1, 5], endpoint=[True, False])),
    ("meshgrid", lambda d: (d.array(REALS, (d.of(0, 2),)), d.array(REALS, (3,)),
                            {"indexing": d.of("xy", "ij")})),
    ("tril triu", then(one(EVERY, min_dims=2), k=[-1, 0, 1])),
    ("from_dlpack", lambda d: (d.array(NUMBERS).copy(),)),
    ("astype", then(one(["bool", *REALS], small=True),
                    lambda d, _: np.dtype(d.of(*EVERY)), copy=[True])),
    ("can_cast", made_of(list(map(np.dtype, EVERY)), list(map(np.dtype, EVERY)))),
    ("isdtype", made_of(list(map(np.dtype, EVERY)), ["bool", "integral", ("real floating",)])),
    ("result_type", two(NUMBERS)),
    ("finfo", made_of(list(map(np.dtype, FLOATS)))),
    ("iinfo", made_of(list(map(np.dtype, INTEGERS)))),
    ("matmul linalg.matmul", products),
    ("matrix_transpose linalg.matrix_transpose", one(EVERY, min_dims=2)),
    ("tensordot linalg.tensordot", same_shape(NUMBERS, (2, 3), axes=2)),
    ("vecdot linalg.vecdot", same_shape(NUMBERS)),
    ("linalg.cross", same_shape(NUMBERS, (2, 3))),
    ("linalg.outer", lambda d: ((x := d.array(NUMBERS, (3,), small=True)),
                                d.array([x.dtype.name], (d.of(0, 2),), small=True))),
    ("linalg.det linalg.inv linalg.slogdet linalg.cholesky linalg.eigvalsh", square()),
    ("linalg.pinv linalg.svdvals linalg.matrix_rank linalg.matrix_norm", square()),
    ("linalg.solve", square(beside=True)),
    ("linalg.matrix_power", then(square(), lambda d, _: d.of(0, 2, -1))),
    ("linalg.diagonal linalg.trace", one(NUMBERS, min_dims=2, small=True)),
    ("linalg.vector_norm", along(FLOATS, small=True, ord=[1, 2, np.inf], **KEEP)),
    ("linalg.eigh linalg.qr linalg.svd", square(REAL)),
    ("fft.fft fft.ifft fft.hfft fft.irfft", lambda d: (d.array(COMPLEX, (2, 4), small=True),
                                                       {"n": d.of(None, 3, 6)})),
    ("fft.rfft fft.ihfft", lambda d: (d.array(REAL, (2, 4), small=True), {"n": d.of(None, 3)})),
    ("fft.fftn fft.ifftn fft.irfftn", lambda d: (d.array(COMPLEX, (2, 4), small=True),)),
    ("fft.rfftn", lambda d: (d.array(REAL, (2, 4), small=True),)),
    ("fft.fftfreq fft.rfftfreq", made_of([1, 4, 5], d=[1.0, 0.5])),
    ("fft.fftshift fft.ifftshift", along(FLOATS, several=True)),
    ("__add__ __sub__ __mul__ __eq__ __ne__", two(NUMBERS)),
    ("__truediv__", two(FLOATS)),
    ("__floordiv__ __mod__ __pow__ __lt__ __le__ __gt__ __ge__", two(REALS)),
    ("__and__ __or__ __xor__", two(WHOLE)),
    ("__lshift__ __rshift__", two(INTEGERS, (2, 0))),
    ("__neg__ __pos__ __abs__", one(NUMBERS)),
    ("__invert__", one(WHOLE)),
    ("__matmul__", products),
    ("__getitem__", then(one(EVERY),
                         lambda d, x: d.draw(XPS.indices(x.shape, allow_newaxis=True)))),
    ("__getitem__.mask", then(one(EVERY), lambda d, x: d.array(["bool"], x.shape))),
    ("__setitem__", then(one(EVERY), lambda d, x: d.draw(XPS.indices(x.shape)),
                         lambda d, x: x.dtype.type(d.of(0, 1)))),
    ("__setitem__.mask", then(one(EVERY), lambda d, x: d.array(["bool"], x.shape),
                              lambda d, _: d.of(0, 1))),
    ("__iadd__ __isub__ __imul__", written(NUMBERS)),
    ("__itruediv__", written(FLOATS)),
    ("__ifloordiv__ __imod__ __ipow__", written(REALS)),
    ("__iand__ __ior__ __ixor__", written(WHOLE)),
    ("__ilshift__ __irshift__", written(INTEGERS, 2)),
    ("__imatmul__", square()),
    ("array.__bool__", one(EVERY, max_dims=0)),
    ("array.__int__", one(["bool", *REALS], max_dims=0, small=True)),
    ("array.__index__", one(INTEGERS, max_dims=0)),
    ("array.__float__", one(["bool", *REALS], max_dims=0)),
    ("array.__complex__", one(EVERY, max_dims=0)),
    ("array.__iter__", one(EVERY, min_dims=1)),
    ("array.__array_namespace__ array.__dlpack_device__", one(NUMBERS)),
    ("array.T", lambda d: (d.array(EVERY, (2, d.of(0, 3))),)),
    ("array.mT", one(EVERY, min_dims=2)),
    ("array.dtype array.device array.ndim array.shape array.size", one(EVERY)),
    ("array.to_device", then(one(EVERY), lambda d, _: d.of("cpu", "gpu"))),
    ("isin", two(INTEGERS)),
    ("broadcast_shapes", made_of(SHAPES, SHAPES)),
    ("e inf nan newaxis pi __array_api_version__", made_of()),
    ("__array_namespace_info__.capabilities __array_namespace_info__.devices", made_of()),
    ("__array_namespace_info__.default_device __array_namespace_info__.default_dtypes", made_of()),
    ("__array_namespace_info__.dtypes", made_of(kind=[None, "bool", "real floating"])),
]
CALLS = {name: call for names, call in FAMILIES for name in names.split()}
#: What NumPy leaves open: the contents of new arrays.
OPEN = ("empty", "empty_like")
#: Whose terms may cancel.
SUMS = frozenset(
    "sum mean std var cumulative_sum diff matmul tensordot vecdot __matmul__ linspace".split()
)
#: Functions of which every result is exact, whatever the dtype.
EXACT = frozenset(
    "negative positive sign ceil floor trunc round signbit conj imag real sqrt isfinite isinf "
    "isnan add subtract equal not_equal less less_equal greater greater_equal maximum minimum "
    "copysign nextafter clip where max min all any count_nonzero argmax argmin sort argsort "
    "nonzero searchsorted take concat stack flip roll tile repeat reshape squeeze tril triu".split()
)


def plain(name: str) -> Callable[..., Any]:
    """A function that calls one of the standard's, or reads an attribute."""
    room, _, last = name.rpartition(".")
    if room == "array":
        builtin: Any = {"__index__": operator.index, "__iter__": list}.get(last)
        builtin = builtin or getattr(builtins, last.strip("_"), None)
        if builtin:
            return lambda x: builtin(x)
        if last.startswith("__") or last == "to_device":
            return lambda x, *args: getattr(x, last)(*args)
        return lambda x: getattr(x, last)
    if room == "__array_namespace_info__":
        return lambda **named: getattr(np.__array_namespace_info__(), last)(**named)
    if last == "mask":
        return lambda *args: getattr(operator, room)(*args)
    if room:
        return lambda *args, **named: getattr(getattr(np, room), last)(*args, **named)
    if name.startswith("__") and hasattr(operator, name):
        return lambda *args: getattr(operator, name)(*args)
    if not callable(getattr(np, name)):
        return lambda: getattr(np, name)
    return lambda *args, **named: getattr(np, last)(*args, **named)


def outcome(function: Callable[..., Any], call: tuple[Any, ...]) -> Any:
    """What a call gives or raises, and what its arguments hold then; it gets copies of them."""
    args: list[Any] = [x.copy("K") if isinstance(x, np.ndarray) else x for x in call]
    named = args.pop() if args and isinstance(args[-1], dict) else {}
    try:
        with np.errstate(all="ignore"):
            return function(*args, **named), args
    except Exception as error:  # noqa: BLE001 - whatever NumPy raises is the answer
        return error


def special_values(dtype: np.dtype[Any]) -> Any:
    """Zeros of both signs, extremes, subnormals, infinities, NaN; complex ones of all pairs."""
    if dtype.kind == "c":
        parts = special_values(np.empty(0, dtype).real.dtype)
        parts = parts[abs(parts) != np.finfo(dtype).max]  # NumPy's products: by memory order
        values = np.empty((len(parts), len(parts)), dtype)
        values.real, values.imag = parts[:, None], parts
        return values.ravel()
    if dtype.kind == "f":
        about = np.finfo(dtype)
        some: list[Any] = [0.0, 0.5, 1.0, 2.0, 3.0, np.pi, np.inf, np.nan, about.max, about.tiny,
                           about.smallest_subnormal]  # fmt: skip
        return np.array([*some, *(-value for value in some)], dtype)
    if dtype.kind == "b":
        return np.array([False, True])
    limits = np.iinfo(dtype)
    return np.array([0, 1, 2, 7, limits.min, limits.max, limits.max - 1], dtype)


def special_calls(name: str) -> Iterator[tuple[Any, ...]]:
    """Calls of an elementwise function with all special values, or all pairs of them."""
    function = getattr(np, name, None)
    if not isinstance(function, np.ufunc) or function.signature:
        return
    for dtype in map(np.dtype, EVERY):
        values = special_values(dtype)
        if name == "reciprocal" and dtype.kind in "biu":
            continue  # 1 / 0 is an integer's: undefined in C
        if function.nin == 1:
            yield (values,)
        elif dtype.kind != "c":
            yield values[:, None], values


def check_signs(found: Any, wanted: Any) -> None:
    """Find no difference between signs of reals, of zeros for one; those of NaN are nobody's."""
    if wanted.dtype.kind == "f":
        one, other = (np.where(np.isnan(each), 0, each) for each in (found, wanted))
        np.testing.assert_array_equal(np.signbit(one), np.signbit(other))


def check(name: str, found: Any, wanted: Any) -> None:
    """Find no difference between two outcomes.

    Raises:
        AssertionError: there is one.
    """
    if isinstance(wanted, Exception):
        assert isinstance(found, type(wanted)), f"{found!r} and not {wanted!r}"
        return
    assert not isinstance(found, Exception), f"{found!r} was raised"
    told, right = (trees.flatten(each)[1] for each in (found, wanted))
    assert len(told) == len(right), f"{len(told)} results and not {len(right)}"
    one_found: Any
    one_wanted: Any
    for one_found, one_wanted in zip(told, right, strict=True):
        assert type(one_found) is type(one_wanted), f"{type(one_found)}, not {type(one_wanted)}"
        if not isinstance(one_wanted, (np.ndarray, np.generic)):
            assert one_found == one_wanted or str(one_found) == str(one_wanted)
            continue
        assert (one_found.dtype, one_found.shape) == (one_wanted.dtype, one_wanted.shape)
        if name in OPEN:
            continue
        if one_wanted.dtype.kind not in "fc" or name in EXACT:
            np.testing.assert_array_equal(one_found, one_wanted)
            check_signs(one_found, one_wanted)
            continue
        if isinstance(getattr(np, name, None), np.ufunc):
            check_signs(one_found, one_wanted)
        rounding = 64 * np.finfo(one_wanted.dtype).eps
        values: Any = np.asarray(one_wanted)
        scale = max(SMALL, np.abs(np.where(np.isfinite(values), values, 0)).max(initial=0))
        beside = rounding * scale if "." in name or name in SUMS else 0.0
        np.testing.assert_allclose(one_found, values, rtol=rounding, atol=beside)


def judge(name: str, examples: int, special: bool = True, **options: Any) -> None:
    """Compare calls of one function, of special values too.

    Raises:
        AssertionError: one differs; hypothesis notes its arguments.
    """
    function = plain(name)
    fused = fuser.fuse(function, fallback="allow")
    for call in special_calls(name) if special else ():
        check(name, outcome(fused, call), outcome(function, call))

    @settings(max_examples=examples, deadline=None, database=None, derandomize=True,
              suppress_health_check=list(HealthCheck), **options)  # fmt: skip
    @given(st.data())
    def compare(data: Any) -> None:
        call = CALLS[name](Draw(data))
        wanted = outcome(function, call)
        check(name, outcome(fused, call), wanted)

    compare()


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=100, help="calls of each function")
    parser.add_argument("names", nargs="*", help="of functions; all of the standard's without")
    given_args = parser.parse_args()
    differ = 0
    for name in given_args.names or CALLS:
        try:
            judge(name, given_args.examples)
        except Exception as error:  # noqa: BLE001 - each difference is printed
            differ += 1
            notes = "; ".join(getattr(error, "__notes__", []))
            print(f"{name}: {error}\n{notes}\n", flush=True)
    print(f"{len(given_args.names or CALLS)} functions, {differ} differ")
    return int(differ > 0)


#: The fixed budget of the test suite.
quickly = partial(judge, examples=1, special=False, phases=[Phase.generate])

if __name__ == "__main__":
    raise SystemExit(main())
