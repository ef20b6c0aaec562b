"""arcsinh, arccosh and arctanh.

Method: log1p of an argument that is small where the result is, with what its last rounding left off
(Kahan, Branch cuts for complex elementary functions, 1987; Muller, Elementary Functions, 3rd
edition, 2016, chapter 11).
"""

from __future__ import annotations

from fuser.backends.cpu.body import Body, Value
from fuser.backends.cpu.elementary.kit import (
    absolute,
    add_const,
    copysign,
    fma_or_double,
    mad,
    mad_const_term,
    mul_const,
    quick_two_sum,
    two_product,
    where_const,
)
from fuser.backends.cpu.elementary.logarithmic import LOWERING, log1p_core, lowered


def keep_infinity(b: Body, x: Value, result: Value) -> Value:
    """`result`, but infinity and NaN stay what they are."""
    return b.select(b.compare("fcmp olt", x, b.fconst(x, float("inf"))), result, x)


@fma_or_double
def arcsinh(b: Body, x: Value) -> Value:
    """log1p(a + a^2 / (1 + sqrt(1 + a^2))) with a = |x|; log(2a) where a^2 would overflow."""
    size = absolute(b, x)
    big, brought = lowered(b, size)
    square = b.op("fmul", size, size)
    root = b.intrinsic("llvm.sqrt", add_const(b, square, 1.0))
    quotient = b.op("fdiv", square, add_const(b, root, 1.0))
    total, low = quick_two_sum(b, size, quotient)
    low = where_const(b, big, 0.0, low)
    result = log1p_core(b, b.select(big, brought, total), big, LOWERING[x.scalar][1] + 1, low)
    return copysign(b, keep_infinity(b, size, result), x)


@fma_or_double
def arccosh(b: Body, x: Value) -> Value:
    """log1p(t + sqrt(2t + t^2)) with t = x - 1; log(2x) where t^2 would overflow."""
    big, brought = lowered(b, x)
    t = add_const(b, x, -1.0)
    root = b.intrinsic("llvm.sqrt", mad(b, t, t, b.op("fadd", t, t)))
    total, low = quick_two_sum(b, root, t)
    low = where_const(b, big, 0.0, low)
    result = log1p_core(b, b.select(big, brought, total), big, LOWERING[x.scalar][1] + 1, low)
    result = keep_infinity(b, x, result)
    below = b.compare("fcmp olt", x, b.fconst(x, 1.0))
    return where_const(b, below, float("nan"), result)


@fma_or_double
def arctanh(b: Body, x: Value) -> Value:
    """log1p(v) / 2 with v = 2a / (1 - a), a = |x|; 1 / (1 - a) is 1 + v/2."""
    size = absolute(b, x)
    one = b.fconst(x, 1.0)
    rest = b.op("fsub", one, size)
    rest_low = b.op("fsub", b.op("fsub", one, rest), size)
    twice = b.op("fadd", size, size)
    v = b.op("fdiv", twice, rest)
    product, error = two_product(b, v, rest)
    low = b.op("fsub", b.op("fsub", twice, product), error)
    low = mad(b, b.op("fneg", v), rest_low, low)
    low = b.op("fmul", low, mad_const_term(b, v, b.fconst(x, 0.5), 1.0))
    never = b.compare("fcmp olt", size, b.fconst(x, 0.0))
    result = mul_const(b, log1p_core(b, v, never, 0, low), 0.5)
    end = b.compare("fcmp oeq", size, one)
    result = where_const(b, end, float("inf"), result)
    outside = b.compare("fcmp ogt", size, one)
    result = where_const(b, outside, float("nan"), result)
    return copysign(b, result, x)
