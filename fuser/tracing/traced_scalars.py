"""Python scalars during a trace: expressions that stay symbolic until they decide structure."""

from __future__ import annotations

import dis
import math
import operator
import re
import sys
from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import Any

import numpy as np

from fuser.base import budget
from fuser.base.errors import Unsupported, user_line
from fuser.tracing.trace_state import Tracing

#: Characters of a host expression at most: it is compiled, and evaluated at every call.
LONGEST = 4096
#: And operations in each other; Python's parser takes 200.
_DEEPEST = 160


def _spell(value: Any) -> str:
    """Write an operand of a host expression."""
    if isinstance(value, HostScalar):
        return value.text if re.fullmatch(r"\w+", value.text) else f"({value.text})"
    text = repr(value)
    return f"({text})" if text.startswith("-") else text


def _bounded(text: str) -> str:
    """The text of one more operation on scalars; it grows with each, and may double.

    Raises:
        Unsupported: there are too many, or one expression is too long.
    """
    line = user_line()
    budget.spend("operations", line=line)
    if len(text) > LONGEST:
        found = f"arithmetic on Python numbers that is {len(text):,} characters long"
        raise Unsupported("too-large", "numbers", found, line)
    if text.count("(") > _DEEPEST:
        depth = max(accumulate((each == "(") - (each == ")") for each in text))
        if depth > _DEEPEST:
            found = f"arithmetic on Python numbers that is {depth} operations deep"
            raise Unsupported("too-large", "numbers", found, line)
    return text


#: What NumPy's `**` makes of arrays for some exponents, instead of `np.power` (number.c,
#: fast_scalar_power).
SHORTER: Mapping[float, Callable[..., Any]] = {
    2: np.square, -1: np.reciprocal, 0.5: np.sqrt, 1: np.positive, 0: np.ones_like,
}  # fmt: skip


class HostScalar:
    """A Python scalar argument, or a length, inside a trace.

    Arithmetic with Python scalars stays symbolic and is done by Python at every call. Whatever
    needs the value now (`if`, `range`, an index, an axis, `float(s)`) makes it a value guard.
    It has no comparison by identity of values: `hash` asks for the value too.
    """

    __slots__ = ("_tracing", "hint", "text")
    __array_priority__ = 1000

    def __init__(self, tracing: Tracing, text: str, hint: Any) -> None:
        """Name the expression `text`, whose value in this call is `hint`."""
        self._tracing = tracing
        self.text = text
        self.hint = hint

    @property  # type: ignore[misc] # as mocks do
    def __class__(self) -> type:
        """What `isinstance` in the user's code is told: float, int or bool."""
        return type(self.hint)

    @property
    def kind(self) -> type:
        """Its Python type: float, int or bool."""
        return type(self.hint)

    def __repr__(self) -> str:
        """Guard the value: text is structure."""
        return repr(self._guarded())

    def _guarded(self) -> Any:
        """The value, from now on a guard of this trace."""
        self._tracing.guard_value(self.text, self.hint)
        return self.hint

    def _hold_domain(self, name: str, left: Any, right: Any) -> None:
        """Guard that an operation gives a number of the same type, and no error, for other values.

        Python raises for a divisor of 0, also where nobody uses the quotient, and for shifts by
        less than 0; `2 ** -1` is a float, and a root of a negative number is complex.
        """
        base, other = (v.hint if isinstance(v, HostScalar) else v for v in (left, right))
        if name in ("truediv", "floordiv", "mod"):
            self._hold(right, "!= 0", other != 0)
        elif name in ("lshift", "rshift"):
            self._hold(right, ">= 0", other >= 0)
        elif name == "pow" and (isinstance(base, complex) or isinstance(other, complex)):
            for operand in (left, right):  # they have no order
                if isinstance(operand, HostScalar):
                    operand._guarded()
        elif name == "pow":
            self._hold(right, ">= 0", other >= 0)
            if other < 0:
                self._hold(left, "!= 0", base != 0)
            if isinstance(other, float):
                self._hold(left, ">= 0", base >= 0)

    def _hold(self, operand: Any, relation: str, truth: bool) -> None:
        """Guard how an operand compares with 0, where it is no constant."""
        if isinstance(operand, HostScalar):
            self._tracing.guard_value(f"({operand.text}) {relation}", truth)

    def __bool__(self) -> bool:
        """Guard the truth, not the value."""
        truth = bool(self.hint)
        if self.kind is bool:
            self._guarded()
        else:
            self._tracing.guard_value(f"({self.text}) != 0", truth)
        return truth

    def __int__(self) -> int:
        """Guard the value."""
        return int(self._guarded())

    def __index__(self) -> int:
        """Guard the value."""
        return operator.index(self._guarded())

    def __float__(self) -> float:
        """Guard the value."""
        return float(self._guarded())

    def __complex__(self) -> complex:
        """Guard the value."""
        return complex(self._guarded())

    def __hash__(self) -> int:
        """Guard the value: a dictionary lookup is structure.

        Raises:
            Unsupported: a function may be called that keeps stand-ins with what it gives.
        """
        for each in getattr(self._tracing.replay, "remembering", ()):
            frame = sys._getframe(1)
            called = dis.opname[frame.f_code.co_code[frame.f_lasti]].startswith("CALL")
            if called and not self._tracing.has_copy(each):
                found = "it keeps its results, is no name, and may be given a number"
                raise Unsupported("impure", str(each.__name__), found)
        return hash(self._guarded())

    def __round__(self, digits: int | None = None) -> Any:
        """Guard the value."""
        return round(self._guarded(), digits)

    def __divmod__(self, other: Any) -> Any:
        """`divmod`: both are known when the function runs."""
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        """Likewise, of another number by this one."""
        return other // self, other % self

    def __floor__(self) -> Any:
        """Guard the value."""
        return math.floor(self._guarded())

    def __ceil__(self) -> Any:
        """Guard the value."""
        return math.ceil(self._guarded())

    def __trunc__(self) -> Any:
        """Guard the value."""
        return math.trunc(self._guarded())

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Guard the value: copies and pickles are of the number."""
        return self._guarded().__reduce_ex__(protocol)

    def __format__(self, spec: str) -> str:
        """Guard the value: text is structure."""
        return format(self._guarded(), spec)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """Guard the value: it enters an array that is made now."""
        return np.asarray(self._guarded(), dtype=dtype)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """NumPy functions on it are traced as on a 0-d array.

        Raises:
            Unsupported: an array that is no stand-in is raised to it, by `**` or `np.power`, which
                differ for this number.
        """
        if ufunc is np.power and type(inputs[0]) is np.ndarray and inputs[1] is self:
            if any(self == shorter for shorter in SHORTER):
                told = f"an array of constants to the power {self.hint}, by ** or by np.power"
                raise Unsupported("not-traceable", "power", told)
        return self._tracing.apply_ufunc(ufunc, method, inputs, options)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """NumPy functions on it are traced."""
        return self._tracing.apply_function(function, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        """Attributes of the number itself (is_integer, bit_length …) need the value."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._guarded(), name)


def _binary(name: str, sign: str, function: Callable[[Any, Any], Any]) -> None:
    """Give HostScalar an operator and its reflection."""

    def combine(self: HostScalar, left: Any, right: Any) -> Any:
        for other in (left, right):
            known = isinstance(other, (HostScalar, int, float, complex))
            if not known or isinstance(other, np.generic):
                return NotImplemented
        values = [v.hint if isinstance(v, HostScalar) else v for v in (left, right)]
        kinds = (int, float, bool, *{type(value) for value in values})
        text = _bounded(f"{_spell(left)} {sign} {_spell(right)}")
        try:
            result = function(*values)
        except Exception:  # a zero divisor: the function may go on where other values give none
            for operand in (left, right):
                if isinstance(operand, HostScalar):
                    operand._guarded()
            raise
        if type(result) not in kinds:  # a root of a negative number: complex for this value alone
            raise Unsupported("not-traceable", text, f"gives {type(result).__name__}")
        self._hold_domain(name, left, right)
        made = HostScalar(self._tracing, text, result)
        return bool(made) if type(result) is bool and self._tracing.exact_truth else made

    def forward(self: HostScalar, other: Any) -> Any:
        return combine(self, self, other)

    def reflected(self: HostScalar, other: Any) -> Any:
        return combine(self, other, self)

    setattr(HostScalar, f"__{name}__", forward)
    if name not in ("lt", "le", "gt", "ge", "eq", "ne"):
        setattr(HostScalar, f"__r{name}__", reflected)


for _name, _sign, _function in (
    ("add", "+", operator.add),
    ("sub", "-", operator.sub),
    ("mul", "*", operator.mul),
    ("truediv", "/", operator.truediv),
    ("floordiv", "//", operator.floordiv),
    ("mod", "%", operator.mod),
    ("pow", "**", operator.pow),
    ("lshift", "<<", operator.lshift),
    ("rshift", ">>", operator.rshift),
    ("and", "&", operator.and_),
    ("or", "|", operator.or_),
    ("xor", "^", operator.xor),
    ("lt", "<", operator.lt),
    ("le", "<=", operator.le),
    ("gt", ">", operator.gt),
    ("ge", ">=", operator.ge),
    ("eq", "==", operator.eq),
    ("ne", "!=", operator.ne),
):
    _binary(_name, _sign, _function)


def _unary(name: str, form: str, function: Callable[[Any], Any]) -> None:
    """Give HostScalar a unary operator."""

    def apply(self: HostScalar) -> HostScalar:
        return HostScalar(self._tracing, _bounded(form.format(_spell(self))), function(self.hint))

    setattr(HostScalar, f"__{name}__", apply)


for _name, _form, _apply in (
    ("neg", "-{}", operator.neg),
    ("pos", "+{}", operator.pos),
    ("abs", "abs({})", abs),
    ("invert", "~{}", operator.invert),
):
    _unary(_name, _form, _apply)
