"""The stand-in for an array inside a traced function."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from fuser.base.errors import Unsupported
from fuser.ir import dims, infer
from fuser.ir.dims import Dim
from fuser.ir.views import Index, Reshape, Transpose
from fuser.tracing.caught_errors import noting
from fuser.tracing.memory_views import ComplexPart, Contiguous
from fuser.tracing.traced_memory import TracedMemory
from fuser.tracing.traced_scalars import HostScalar

#: An array of more parts is not unpacked into them.
UNPACKED = 32
#: The same, of axes whose length a call decides: each length is a specialisation of its own.
COORDINATES = 6
#: Floats below this one are integers of 64 bits when they are truncated.
LARGEST_INTEGER = float(1 << 62)
#: Methods that NumPy runs between kernels.
_CALLED = frozenset(
    "argpartition argsort choose compress nonzero searchsorted view byteswap".split()
)
#: What classes have, and their values have not.
_OF_CLASSES = frozenset(dir(type)) - frozenset(dir(object))


class TracedArray(TracedMemory, NDArrayOperatorsMixin):
    """An array inside a trace: what is done to it becomes graph nodes.

    Attributes:
        generic: NumPy would have a scalar here, not a 0-d array.
        foreign: it is of a dtype that kernels do not know.
    """

    __slots__ = ()
    foreign = False
    __array_priority__ = 2000

    @classmethod
    def make(cls, *parts: Any) -> Any:
        """One with axes where NumPy has an array: its scalars have no length, no parts."""
        return (TracedArray if parts[-1] else ArrayOfAxes)(*parts)

    __iter__: Any = None  # else Python would take parts by __getitem__, also of scalars

    # -- where Python wants values ----------------------------------------------------------

    def _refuse(self, code: str, what: str) -> Any:
        raise Unsupported(code, what, f"on {self.node.type}")

    def _element(self, what: str) -> TracedArray:
        """The only element, without axes.

        Raises:
            Unsupported: there are others, or none.
        """
        if any(self.tracing.size(dim) != 1 for dim in self._shape):
            self._refuse("array-conversion", what)
        for dim in self._shape:
            if not isinstance(self.tracing.resolve(dim), int):
                self.tracing.hold_exactly(dim)
        found: TracedArray = self[(0,) * self.ndim] if self.ndim else self
        return found

    def __bool__(self) -> bool:
        """A decision, see `fuser.capture.decisions`; the truth of an array is none."""
        if any(self.tracing.size(dim) != 1 for dim in self._shape):
            self._refuse("control-flow", "bool()")
        found: Any = self._element("bool()")
        if found.dtype.kind != "b":
            found = np.not_equal(found, 0)
        return bool(self.tracing.read(found.node))

    def item(self, *place: Any) -> Any:
        """An element as a Python number, which later calls read anew."""
        found = self
        if place:
            index = place[0] if len(place) == 1 else place
            found = self[index] if isinstance(index, tuple) or self.ndim == 1 else (
                self.reshape(-1)[index])  # fmt: skip
        number = self.tracing.read(found._element("ndarray.item").node)
        exact = self.tracing.exact_truth and found.dtype.kind == "b"
        return bool(number) if exact else number

    def tolist(self) -> Any:
        """Of one without axes, its number; others are refused."""
        return self._refuse("array-conversion", "ndarray.tolist") if self.ndim else self.item()

    def as_number(self, kind: type) -> Any:
        """What `float` and `int` of it are: a number that later calls read anew.

        Args:
            kind: float or int.
        """
        if self.ndim or self.dtype.kind not in "biuf":  # of arrays with axes, NumPy warns
            return self._refuse("array-conversion", f"{kind.__name__}()")
        found: Any = self
        if kind is float and self.dtype.kind != "f":
            found = self.astype(np.float64)
        elif kind is int and self.dtype.kind == "f":
            if not np.abs(self) < LARGEST_INTEGER:  # nor is NaN
                return self._refuse("array-conversion", "int()")
            found = np.trunc(self).astype(np.int64)
        elif kind is int and self.dtype.kind == "b":
            found = self.astype(np.int64)
        return self.tracing.read(found.node)

    def __int__(self) -> int:
        """A decision by the integer, where `int` is not ours: `as_number`."""
        return int(self.as_number(int))

    def __float__(self) -> float:
        """Refused: there are too many floats to decide by; `float` gives `as_number`."""
        return float(self.as_number(float))

    def __complex__(self) -> complex:
        """Refused."""
        return complex(self._refuse("array-conversion", "complex()"))

    def __index__(self) -> int:
        """A decision by the integer."""
        if self.ndim or self.dtype.kind not in "iu":
            raise TypeError("only integer scalar arrays can be converted to a scalar index")
        return int(self.tracing.read(self.node))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Refused: the values do not exist yet."""
        return self._refuse("array-conversion", "np.asarray()")

    def __sizeof__(self) -> int:
        """Refused."""
        return int(self._refuse("array-conversion", "sys.getsizeof()"))

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Refused."""
        return self._refuse("array-conversion", "pickle")

    def __hash__(self) -> int:
        """Refused; an array has none."""
        return int(self._refuse("array-conversion", "hash()"))

    def __format__(self, spec: str) -> str:
        """Refused, unless the function raises; an array has no form but the plain one."""
        if self.ndim and spec:
            raise TypeError("unsupported format string passed to numpy.ndarray.__format__")
        return format(self.tracing.shown(self, "format()"), spec)

    def __round__(self, digits: Any = None) -> Any:
        """As np.round; an integer is refused, and arrays have none."""
        if not self.generic:
            raise TypeError("type numpy.ndarray doesn't define __round__ method")
        if digits is None or self.dtype.kind != "f":
            return self._refuse("array-conversion", "round()")
        return self.round(digits)

    def __getattr__(self, name: str) -> Any:
        """Attributes of arrays that have no fused form."""
        if not hasattr(self.__class__, name) or name in _OF_CLASSES:
            kind = f"numpy.{self.dtype.type.__name__}" if self.generic else "numpy.ndarray"
            raise AttributeError(f"{kind!r} object has no attribute {name!r}")
        if name in _CALLED:
            return method(name).__get__(self)
        code = "array-conversion" if name.startswith("_") else "unsupported-function"
        raise Unsupported(code, f"ndarray.{name}", "")

    # -- NumPy's protocols ------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """Trace a ufunc."""
        return self.tracing.apply_ufunc(ufunc, method, inputs, options)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Trace another NumPy function."""
        return self.tracing.apply_function(function, args, kwargs)

    def __array_namespace__(self, *, api_version: Any = None) -> Any:
        """NumPy, where an array of NumPy's says that its functions are.

        Args:
            api_version: as of `ndarray.__array_namespace__`.

        Raises:
            ValueError: NumPy does not know this version.
        """
        return np.empty(0).__array_namespace__(api_version=api_version)

    @property
    def device(self) -> str:
        """Where NumPy says that its arrays are; CuPy has objects for that.

        Raises:
            Unsupported: an array of CuPy's is among the arguments.
        """
        arrays = (argument.array for argument in self.tracing.arguments)
        if not all(isinstance(array, (np.ndarray, np.generic)) for array in arrays):
            raise Unsupported("unsupported-function", "ndarray.device", "")
        return "cpu"

    def __cupy_override_elementwise_kernel__(self, kernel: Any, *args: Any, **kwargs: Any) -> Any:
        """Trace a function of CuPy's that was reached past the names of the function."""
        return self.tracing.apply_kernel(kernel, args, kwargs)

    def _call(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        """Trace a NumPy function on this array."""
        return self.tracing.apply_function(function, (self, *args), kwargs)

    def __pow__(self, other: Any) -> Any:
        """`x ** y` with NumPy's shortcuts for scalar exponents."""
        from fuser.tracing.powers import scalar_power

        short = scalar_power(self, other)
        return np.power(self, other) if short is None else short

    # -- indexing ---------------------------------------------------------------------------

    def __getitem__(self, index: Any) -> Any:
        """Basic indexing is a view; other indexing runs between kernels."""
        from fuser.tracing import indexing

        return indexing.read(self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        """`x[...] = value` replaces the whole value or a part of it."""
        from fuser.tracing import indexing

        indexing.write(self, index, value)

    # -- methods ----------------------------------------------------------------------------

    @property
    def T(self) -> TracedArray:  # noqa: N802 - NumPy's name
        """Axes reversed."""
        return self.transpose()

    @property
    def mT(self) -> TracedArray:  # noqa: N802 - NumPy's name
        """The last two axes exchanged."""
        if self.ndim < 2:
            raise ValueError("matrix transpose with ndim < 2 is undefined")
        return self.swapaxes(-1, -2)

    @property
    def real(self) -> TracedArray:
        """The real parts; a real array is its own."""
        return self._component("real") if self.dtype.kind == "c" else self

    @real.setter
    def real(self, value: Any) -> None:
        """Write into the real parts."""
        self.real[...] = value

    @property
    def imag(self) -> Any:
        """The imaginary parts; zeros for a real array."""
        return self._component("imag") if self.dtype.kind == "c" else self._call(np.imag)

    @imag.setter
    def imag(self, value: Any) -> None:
        """Write into the imaginary parts."""
        if self.dtype.kind != "c":
            raise TypeError("array does not have imaginary part to set")
        self.imag[...] = value

    def _component(self, name: str) -> TracedArray:
        """One of the parts of complex numbers."""
        seen: TracedArray = self._view(ComplexPart(name), self.generic)
        return seen

    def transpose(self, *axes: Any) -> TracedArray:
        """Axes in another order."""
        from fuser.tracing.indices import integer

        if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list, np.ndarray))):
            axes = () if axes[0] is None else tuple(axes[0])
        order = [integer(axis) for axis in axes] or list(range(self.ndim))[::-1]
        order = [axis + self.ndim if axis < 0 else axis for axis in order]
        if sorted(order) != list(range(self.ndim)):
            raise ValueError("axes don't match array")
        seen: TracedArray = self._view(Transpose(tuple(order)), self.generic)
        return seen

    def swapaxes(self, axis1: Any, axis2: Any) -> TracedArray:
        """Two axes exchanged."""
        from fuser.tracing.indices import normal_axis

        order = list(range(self.ndim))
        first, second = (normal_axis(axis, self.ndim) for axis in (axis1, axis2))
        order[first], order[second] = order[second], order[first]
        return self.transpose(*order)

    def reshape(self, *shape: Any, order: str = "C", copy: Any = None) -> TracedArray:
        """Another shape over the same elements in C order, or in Fortran's."""
        if order not in ("C", "F") or copy:
            raise Unsupported("unsupported-argument", "reshape", f"order={order!r}, copy={copy!r}")
        wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        if order == "F" and (self.ndim > 1 or len(wanted) > 1):
            return self.transpose().reshape(tuple(wanted)[::-1]).transpose()
        seen: TracedArray = self._view(Reshape(self._new_shape(tuple(wanted))))
        return seen

    def _new_shape(self, wanted: Sequence[Any]) -> tuple[Dim, ...]:
        """Resolve -1 in a reshape; lengths taken from arrays stay symbolic."""
        from fuser.tracing.indices import divide_exactly, integer, length_of

        total = self.tracing.resolve(dims.product(self._shape))
        known: list[Dim | None] = []
        for entry in wanted:
            if issubclass(entry.__class__, bool):
                raise TypeError("a length is an integer, and no bool")
            dim = length_of(entry) if isinstance(entry, HostScalar) else integer(entry)
            known.append(None if dim == -1 else dim)
        rest = dims.product(tuple(dim for dim in known if dim is not None))
        size, given = self.tracing.size(total), self.tracing.size(rest)
        open_places = sum(dim is None for dim in known)
        bad = open_places > 1 or (open_places and (given == 0 or size % given))
        if bad or (not open_places and size != given):
            found = tuple(self.tracing.size(dim) for dim in self._shape)
            asked = tuple(-1 if dim is None else self.tracing.size(dim) for dim in known)
            raise ValueError(f"cannot reshape array of shape {found} into shape {asked}")
        if not open_places:
            self.tracing.unify(total, rest, lambda: "reshape")
            return tuple(dim for dim in known if dim is not None)
        self.tracing.guard_reach(rest, 1)  # nothing is no multiple of nothing
        quotient = divide_exactly(total, rest)
        if quotient * rest != total:
            self.tracing.guard_value(f"({total}) % ({rest})", 0)
        return tuple(quotient if dim is None else dim for dim in known)

    def ravel(self, order: str = "C") -> TracedArray:
        """One axis over all elements; a view where the memory is contiguous."""
        if order == "F":
            return self.transpose().ravel()
        if order != "C" or self.generic:
            return self.reshape(-1, order=order)
        return self._contiguous("").reshape(-1)

    def _contiguous(self, order: str) -> TracedArray:
        """The array itself where its memory is contiguous, else a copy in C order.

        Args:
            order: "C" if the order shows in the array that it is read from; "" if that is one axis.
        """
        seen: TracedArray = self._view(Contiguous(order))
        return seen

    def flatten(self, order: str = "C") -> TracedArray:
        """A copy with one axis."""
        return self.reshape(-1, order=order).copy()

    def squeeze(self, axis: Any = None) -> TracedArray:
        """Without axes of length 1."""
        from fuser.tracing.indices import normal_axis

        sizes = [self.tracing.size(dim) for dim in self._shape]
        if axis is None:
            axes = [place for place, size in enumerate(sizes) if size == 1]
            for place, size in enumerate(sizes):  # which lengths are 1 is structure
                if not isinstance(self.tracing.resolve(self._shape[place]), int):
                    self.tracing.guard_value(f"({self._shape[place]}) == 1", size == 1)
        else:
            entries = axis if isinstance(axis, tuple) else (axis,)
            axes = [normal_axis(entry, self.ndim) for entry in entries]
            if any(sizes[place] != 1 for place in axes):
                raise ValueError(
                    "cannot select an axis to squeeze out which has size not equal to one"
                )
            for place in axes:
                self.tracing.unify(1, self._shape[place], lambda: "squeeze")
                if not isinstance(self.tracing.resolve(self._shape[place]), int):
                    self.tracing.guard_value(f"({self._shape[place]}) == 1", True)
        parts = [0 if place in axes else slice(None) for place in range(self.ndim)]
        return self._view(Index(tuple(parts))) if axes else self

    def astype(
        self,
        dtype: Any,
        order: str = "K",
        casting: str = "unsafe",
        subok: bool = True,
        copy: bool = True,
    ) -> TracedArray:
        """Converted to another dtype."""
        if order not in ("K", "C", "F"):
            raise Unsupported("unsupported-argument", "astype", f"order={order!r}")
        wanted = infer.dtype_of(dtype)
        if not np.can_cast(self.dtype, wanted, casting):  # type: ignore[arg-type]
            raise TypeError(
                f"Cannot cast array data from {self.dtype!r} to {wanted!r} "
                f"according to the rule {casting!r}"
            )
        if wanted == self.dtype and not copy and (order == "K" or self.ndim == 0):
            return self
        if order != "K":
            if not copy and wanted == self.dtype:  # itself where it lies in this order
                raise Unsupported("unsupported-argument", "astype", f"order={order!r}")
            return self._reordered(wanted, order)
        return self._copied(wanted, "K")

    def copy(self, order: str = "C") -> TracedArray:
        """The same values in memory of their own."""
        if order == "F":
            return self._reordered(self.dtype, order)
        if order not in ("C", "K"):
            raise Unsupported("unsupported-argument", "copy", f"order={order!r}")
        return self._copied(self.dtype, order)

    def _copied(self, dtype: np.dtype[Any], order: str) -> TracedArray:
        """A converted copy in memory order "K" or "C"."""
        node = self.tracing.own(self.node, dtype, order)
        made: TracedArray = self.tracing.wrap(node, self.generic)
        return made

    def _reordered(self, dtype: Any, order: str) -> TracedArray:
        """A converted copy in C or Fortran order."""
        wanted = infer.dtype_of(dtype)
        if order == "C" or self.ndim < 2:
            return self._copied(wanted, "C")
        turned = self.tracing.own(self.transpose().node, wanted, "C")
        made: TracedArray = self.tracing.wrap(turned).transpose()
        return made

    def __copy__(self) -> TracedArray:
        """As NumPy's: in the same order."""
        return self.copy("K")

    def __deepcopy__(self, memo: Any) -> TracedArray:
        """Likewise."""
        return self.copy("K")

    def clip(self, min: Any = None, max: Any = None, out: Any = None, **options: Any) -> Any:
        """Limit to a range; a bound of None is no bound."""
        return self._call(np.clip, min, max, out=out, **options)

    def round(self, decimals: int = 0, out: Any = None) -> Any:
        """Round half to even."""
        return self._call(np.round, decimals, out=out)

    def conj(self) -> Any:
        """The array itself, if it is real."""
        return np.conjugate(self) if self.dtype.kind == "c" else self

    conjugate = conj

    def fill(self, value: Any) -> None:
        """Every element the same."""
        self[...] = value

    def put(self, *args: Any, **kwargs: Any) -> None:
        """Values at places of the flattened array."""
        self._call(np.put, *args, **kwargs)

    def partition(self, kth: Any, axis: Any = -1, kind: Any = "introselect") -> None:
        """Partly in order, in place."""
        self[...] = np.partition(self, kth, axis=axis, kind=kind)

    @property
    def flat(self) -> Any:
        """All elements in C order."""
        from fuser.tracing import indexing

        return indexing.FlatView(self)

    @flat.setter
    def flat(self, value: Any) -> None:
        self.flat[...] = value

    def sort(self, axis: Any = -1, kind: Any = None, order: Any = None) -> None:
        """In order, in place."""
        self[...] = np.sort(self, axis=axis, kind=kind, order=order)


class ArrayOfAxes(TracedArray):
    """What NumPy has as an array: it has a length, and parts along its first axis."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment] # as numpy.ndarray

    def __iter__(self) -> Any:
        """Parts along a first axis of known or small length; refused for all others.

        A small one, as of points unpacked into coordinates, holds for this specialisation only.
        """
        if self.node.shape:
            first = self.tracing.resolve(self.node.shape[0])
            if type(first) is not int and self.tracing.size(first) <= COORDINATES:
                first = self.tracing.hold_exactly(first)
            if type(first) is int and first <= UNPACKED:
                return (self[place] for place in range(first))
        return self._refuse("control-flow", "iteration")

    def __contains__(self, item: object) -> bool:
        """Refused."""
        return bool(self._refuse("control-flow", "in"))

    def __len__(self) -> int:
        """The first length, as a guard: Python wants an int here."""
        if not self._shape:
            raise TypeError("len() of unsized object")
        return int(self._length(self._shape[0]))


def method(name: str) -> Callable[..., Any]:
    """An array's method as a call between kernels."""

    def run(self: TracedArray, *args: Any, **kwargs: Any) -> Any:
        return self.tracing.call_named(f"numpy.ndarray.{name}", (self, *args), kwargs)

    run.__name__ = name
    run.__doc__ = f"As numpy.ndarray.{name}, in NumPy."
    return run


def _in_place(name: str) -> None:
    """`x += y` on what NumPy has as a scalar makes a new scalar: scalars are not written into."""
    operate = getattr(NDArrayOperatorsMixin, name)

    def apply(self: TracedArray, other: Any) -> Any:
        return NotImplemented if self.generic else operate(self, other)

    setattr(TracedArray, name, apply)


for _name in "add sub mul truediv floordiv mod pow lshift rshift and xor or".split():
    _in_place(f"__i{_name}__")


def _reflected(name: str, python: Callable[[Any, Any], Any]) -> None:
    """`1j + x` is Python's, and gives Python's number, where x is a NumPy float64: also a float."""
    operate = getattr(NDArrayOperatorsMixin, name)

    def apply(self: TracedArray, other: Any) -> Any:
        plain = other.kind if type(other) is HostScalar else type(other)
        if self.generic and plain is complex and self.dtype == np.float64:
            return python(other, self.item())
        return operate(self, other)

    setattr(TracedArray, name, apply)


for _name in "add sub mul truediv pow".split():
    _reflected(f"__r{_name}__", getattr(operator, _name))


def _repeating(name: str) -> None:
    """A NumPy scalar times a list repeats the list, or raises: it is no product of elements."""
    operate = getattr(TracedArray, name)

    def apply(self: TracedArray, other: Any) -> Any:
        if self.generic and isinstance(other, (list, tuple)):
            self._refuse("unsupported-argument", "a NumPy scalar times a list")
        return operate(self, other)

    setattr(TracedArray, name, apply)


_repeating("__mul__")
_repeating("__rmul__")


def _reduction_method(name: str) -> Callable[..., Any]:
    """A method that is NumPy's function of the same name."""

    def method(self: TracedArray, *args: Any, **kwargs: Any) -> Any:
        if "correction" in kwargs:  # the functions have it, the methods have not
            raise TypeError(f"{name}() got an unexpected keyword argument 'correction'")
        return self._call(getattr(np, name), *args, **kwargs)

    method.__name__ = name
    method.__doc__ = f"As np.{name}."
    return method


for _name in ("sum", "prod", "max", "min", "mean", "var", "std", "any", "all", "argmax", "argmin",
              "cumprod", "cumsum", "dot", "diagonal", "repeat", "take", "trace"):  # fmt: skip
    setattr(TracedArray, _name, _reduction_method(_name))

for _name in ("__getitem__ __setitem__ __array_ufunc__ __array_function__ _call reshape "
              "transpose swapaxes squeeze ravel flatten").split():  # fmt: skip
    setattr(TracedArray, _name, noting(getattr(TracedArray, _name)))
ArrayOfAxes.__name__ = "numpy.ndarray"  # as Python's own errors call it
ArrayOfAxes.__iter__ = noting(ArrayOfAxes.__iter__)  # type: ignore[method-assign]
