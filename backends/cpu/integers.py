"""Integer operations that need care: division, remainder, power, greatest common divisor."""

from __future__ import annotations

from collections.abc import Callable

from fuser.backends.cpu.body import BITS, Body, Value
from fuser.ir import philox


def _safe_divisor(b: Body, dtype: str, x: Value, y: Value) -> tuple[Value, Value]:
    """A divisor that cannot trap, and where the true one was zero.

    Division by zero and INT_MIN / -1 raise a processor exception: both divide by 1 instead, and
    for the second the quotient INT_MIN / 1 is what wrap-around gives.
    """
    zero = b.compare("icmp eq", y, b.iconst(y, 0))
    bad = zero
    if dtype.startswith("i"):
        least = b.iconst(x, 1 << (BITS[x.scalar] - 1))
        overflow = b.op(
            "and", b.compare("icmp eq", x, least), b.compare("icmp eq", y, b.iconst(y, -1))
        )
        bad = b.op("or", zero, overflow)
    return b.select(bad, b.iconst(y, 1), y), zero


def _quotient(b: Body, dtype: str, x: Value, y: Value) -> Value:
    """x / y towards zero, for divisors that are safe.

    Processors have no integer division of vectors, so up to 32 bits the floating-point one is
    taken. It is exact: a quotient of whole numbers is a whole number or at least 1/y away from
    one, and rounding moves it by less, as x is below 2**24 in float and below 2**53 in double.
    """
    signed = dtype.startswith("i")
    if x.scalar == "i64":
        return b.op("sdiv" if signed else "udiv", x, y)
    if x.scalar == "i32":
        into, back = ("sitofp", "fptosi") if signed else ("uitofp", "fptoui")
        ratio = b.op("fdiv", b.cast(into, x, "double"), b.cast(into, y, "double"))
        return b.cast(back, ratio, "i32")
    wide = [b.cast("sext" if signed else "zext", value, "i32") for value in (x, y)]
    ratio = b.op("fdiv", *(b.cast("sitofp", value, "float") for value in wide))
    return b.cast("trunc", b.cast("fptosi", ratio, "i32"), x.scalar)


def floor_division(b: Body, dtype: str, x: Value, y: Value) -> Value:
    """Rounded to minus infinity; x // 0 is 0, INT_MIN // -1 is INT_MIN, as in NumPy."""
    divisor, zero = _safe_divisor(b, dtype, x, y)
    nothing = b.iconst(x, 0)
    if dtype.startswith("u"):
        return b.select(zero, nothing, _quotient(b, dtype, x, divisor))
    quotient = _quotient(b, dtype, x, divisor)
    rest = b.op("sub", x, b.op("mul", quotient, divisor))
    signs = b.compare("icmp slt", b.op("xor", x, divisor), nothing)
    inexact = b.compare("icmp ne", rest, nothing)
    down = b.op("sub", quotient, b.iconst(x, 1))
    quotient = b.select(b.op("and", signs, inexact), down, quotient)
    return b.select(zero, nothing, quotient)


def remainder(*, floor: bool) -> Callable[..., Value]:
    """np.remainder (sign of the divisor) or np.fmod (sign of the dividend); by 0 it is 0."""

    def spell(b: Body, dtype: str, x: Value, y: Value) -> Value:
        divisor, zero = _safe_divisor(b, dtype, x, y)
        nothing = b.iconst(x, 0)
        rest = b.op("sub", x, b.op("mul", _quotient(b, dtype, x, divisor), divisor))
        if floor and dtype.startswith("i"):
            signs = b.compare("icmp slt", b.op("xor", rest, divisor), nothing)
            inexact = b.compare("icmp ne", rest, nothing)
            rest = b.select(b.op("and", signs, inexact), b.op("add", rest, divisor), rest)
        return b.select(zero, nothing, rest)

    return spell


_POWER = """\
define internal {t} @{name}({t} %x, {t} %n) noinline #0 {{
entry:
  br label %loop
loop:
  %base = phi {t} [ %x, %entry ], [ %square, %loop ]
  %rest = phi {t} [ %n, %entry ], [ %half, %loop ]
  %acc = phi {t} [ 1, %entry ], [ %next, %loop ]
  %odd = trunc {t} %rest to i1
  %times = mul {t} %acc, %base
  %next = select i1 %odd, {t} %times, {t} %acc
  %square = mul {t} %base, %base
  %half = lshr {t} %rest, 1
  %more = icmp ne {t} %half, 0
  br i1 %more, label %loop, label %done
done:
  ret {t} %next
}}"""

_GCD = """\
define internal {t} @{name}({t} %x, {t} %y) noinline #0 {{
entry:
  br label %loop
loop:
  %a = phi {t} [ %x, %entry ], [ %b, %step ]
  %b = phi {t} [ %y, %entry ], [ %rest, %step ]
  %zero = icmp eq {t} %b, 0
  br i1 %zero, label %done, label %step
step:
  %rest = urem {t} %a, %b
  br label %loop
done:
  ret {t} %a
}}"""


def _helper(b: Body, stem: str, template: str, scalar: str) -> str:
    """Write a scalar helper function once a module."""
    name = f"{stem}.{scalar}"
    b.module.helpers.setdefault(name, template.format(t=scalar, name=name))
    return name


def integer_power(b: Body, dtype: str, x: Value, n: Value) -> Value:
    """Exponentiation by squaring, wrapping around; a negative exponent is NumPy's ValueError.

    Source: Knuth, The Art of Computer Programming, volume 2, section 4.6.3.
    """
    if dtype.startswith("i"):
        b.raise_flag(b.compare("icmp slt", n, b.iconst(n, 0)))
    base = b.same(x)
    if base is not None and base.text == "1":
        return x
    return b.lanewise(_helper(b, "power", _POWER, x.scalar), x.scalar, x, n, external=False)


def _magnitude(b: Body, dtype: str, x: Value) -> Value:
    """The absolute value, as an unsigned number."""
    if dtype.startswith("u"):
        return x
    negative = b.compare("icmp slt", x, b.iconst(x, 0))
    return b.select(negative, b.op("sub", b.iconst(x, 0), x), x)


def _common_divisor(b: Body, x: Value, y: Value) -> Value:
    """Euclid's algorithm on unsigned numbers: of all lanes at once where vectors can divide."""
    if x.scalar == "i64":
        return b.lanewise(_helper(b, "gcd", _GCD, x.scalar), x.scalar, x, y, external=False)
    name = f"gcd.{x.scalar}.{x.lanes}"
    if name not in b.module.helpers:
        b.module.helpers[name] = _vector_gcd(Body(b.module), name, x)
    return b.value(f"call {x.type} @{name}({x.typed}, {y.typed})", x.scalar, x.lanes)


def _vector_gcd(b: Body, name: str, like: Value) -> str:
    """A function that divides until every remainder is 0; lanes that are done stay as they are."""
    larger, smaller = Value("%a", like.scalar, like.lanes), Value("%b", like.scalar, like.lanes)
    done = b.compare("icmp eq", smaller, b.iconst(like, 0))
    divisor = b.select(done, b.iconst(like, 1), smaller)  # whose remainder is 0 again
    quotient = _quotient(b, f"u{like.scalar}", larger, divisor)
    rest = b.op("sub", larger, b.op("mul", quotient, divisor))
    kept = b.select(done, larger, smaller)
    more = b.any(b.compare("icmp ne", rest, b.iconst(like, 0)))
    return "\n".join(
        [
            f"define internal {like.type} @{name}({like.type} %x, {like.type} %y) noinline #0 {{",
            "entry:",
            "  br label %loop",
            "loop:",
            f"  %a = phi {like.type} [ %x, %entry ], [ {kept.text}, %loop ]",
            f"  %b = phi {like.type} [ %y, %entry ], [ {rest.text}, %loop ]",
            *b.lines,
            f"  br i1 {more.text}, label %loop, label %done",
            "done:",
            f"  ret {kept.typed}",
            "}",
        ]
    )


def gcd(b: Body, dtype: str, x: Value, y: Value) -> Value:
    """The greatest common divisor of absolute values; of 0 and 0 it is 0."""
    return _common_divisor(b, _magnitude(b, dtype, x), _magnitude(b, dtype, y))


def lcm(b: Body, dtype: str, x: Value, y: Value) -> Value:
    """|x| / gcd * |y|; 0 where both are 0."""
    left, right = _magnitude(b, dtype, x), _magnitude(b, dtype, y)
    common = _common_divisor(b, left, right)
    zero = b.compare("icmp eq", common, b.iconst(x, 0))
    divisor = b.select(zero, b.iconst(x, 1), common)
    return b.op("mul", _quotient(b, f"u{x.scalar}", left, divisor), right)


def random_bits(b: Body, dtype: str, place: Value, seed: Value) -> Value:
    """32 random bits at a place of a stream: Philox4x32-10, see `fuser.ir.philox`."""
    place, seed = (x if x.scalar == "i64" else b.cast("zext", x, "i64") for x in (place, seed))
    low_half, half = b.iconst(place, 0xFFFFFFFF), b.iconst(place, 32)

    def parts(x: Value) -> tuple[Value, Value]:
        return b.op("lshr", x, half), b.op("and", x, low_half)

    counter = b.op("lshr", place, b.iconst(place, 2))
    c = d = b.iconst(place, 0)
    (second, a), (high, low) = parts(counter), parts(seed)
    for turn in range(philox.ROUNDS):
        if turn:
            low, high = (
                b.op("and", b.op("add", key, b.iconst(key, step)), low_half)
                for key, step in zip((low, high), philox.WEYL, strict=True)
            )
        x, y = (
            parts(b.op("mul", word, b.iconst(place, factor)))
            for word, factor in zip((a, c), philox.MULTIPLIERS, strict=True)
        )
        a, c = (
            b.op("xor", b.op("xor", top, old), key)
            for top, old, key in ((y[0], second, low), (x[0], d, high))
        )
        second, d = y[1], x[1]
    at = b.op("and", place, b.iconst(place, 3))
    chosen = a
    for number, word in ((1, second), (2, c), (3, d)):
        chosen = b.select(b.compare("icmp eq", at, b.iconst(place, number)), word, chosen)
    return b.cast("trunc", chosen, "i32")
