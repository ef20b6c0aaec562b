"""sin, cos and tan of huge numbers, vector by vector, in functions that all kernels share.

Method: x = m 2^e with an integer m; the product of m and those 192 bits of 2/pi that matter for e,
modulo 4, is the quadrant and the fraction, to 128 bits (Payne and Hanek, ACM SIGNUM Newsletter 18,
1983; Muller, Elementary Functions, 3rd edition, 2016, section 11.4). Every lane takes its own six
words of 32 bits from a table, and multiplies them by the two halves of m with instructions that
give 64 bits. C libraries do the same number by number, but one in common use is 8 ulp off for the
double that is closest to a multiple of pi/2. Floats are computed in double, and rounded once.
"""

from __future__ import annotations

from fuser.backends.cpu.body import Body, Features, Module, Value, vector_type
from fuser.backends.cpu.elementary.kit import (
    Coefficients,
    absolute,
    add_const,
    horner,
    mad,
    mad_const,
    mad_const_term,
    mul_const,
    polynomial,
    quick_two_sum,
    two_product,
)
from fuser.backends.cpu.loops import begin_loop
from fuser.backends.cpu.shared_functions import HUGE

TWO_OVER_PI = (
    0x0000000000000000,
    0xA2F9836E4E441529,
    0xFC2757D1F534DDC0,
    0xDB6295993C439041,
    0xFE5163ABDEBBC561,
    0xB7246E3A424DD2E0,
    0x06492EEA09D1921C,
    0xFE1DEB1CB129A73E,
    0xE88235F52EBB4484,
    0xE99C7026B45F7E41,
    0x3991D639835339F4,
    0x9C845F8BBDF9283B,
    0x1FF897FFDE05980F,
    0xEF2F118B5A0A6D1F,
    0x6D367ECF27CB09B7,
    0x4F463F669E5FEA2D,
    0x7527BAC7EBE5F17B,
    0x3D0739F78A5292EA,
    0x6BFB5FB11F8D5D08,
    0x56033046FC7B6BAB,
)
"""64 zero bits, then the first 1216 bits of 2/pi."""
HALF_PI = (1.5707963267948966, 6.123233995736766e-17)


WORD_BITS, WORDS = 32, 6
MOST_LANES = 8
"""Doubles of the widest register."""
_LOW = (1 << WORD_BITS) - 1


def patched(b: Body, x: Value, fast: Value, bound: float, name: str) -> Value:
    """`fast`, but in lanes with |x| above the bound the function by as many digits as it takes.

    Costs one branch for each vector while no lane is beyond.

    Args:
        b: where to append.
        x: the arguments, float or double.
        fast: the value of the other lanes.
        bound: see above, 2^16 or more.
        name: "sin", "cos" or "tan".
    """
    beyond = b.any(b.compare("fcmp ogt", absolute(b, x), b.fconst(x, bound)))
    slow, join = b.label("slow"), b.label("join")
    before = b.block
    b.branch(beyond.text, slow, join)
    symbol = _helper(b, x, bound, name)
    found = b.value(f"call {x.type} @{symbol}({fast.typed}, {x.typed})", x.scalar, x.lanes)
    b.jump(join)
    text = f"phi {fast.type} [ {fast.text}, %{before} ], [ {found.text}, %{slow} ]"
    return b.value(text, fast.scalar, fast.lanes)


def _helper(caller: Body, x: Value, bound: float, name: str) -> str:
    """Define, once a module, what gives the shared function its lanes in memory; its symbol."""
    module, lanes = caller.module, x.lanes
    symbol = f"patch.huge.{name}.{x.scalar}.{lanes}"
    if symbol in module.helpers:
        return symbol
    shared = f"{HUGE}{name}"
    module.declare(shared, "void", ("ptr", "ptr", "i64", "double"))
    b = Body(module)
    wide = vector_type("double", lanes)
    for operand in ("x", "fast"):
        value = Value(f"%{operand}", x.scalar, lanes)
        if x.scalar != "double":
            value = b.cast("fpext", value, "double")
        b.line(f"%at.{operand} = alloca [{max(lanes, MOST_LANES)} x double], align 64")
        b.line(f"store {wide} {value.text}, ptr %at.{operand}, align 64")
    limit = b.fconst(Value("", "double", 1), bound).text
    b.line(f"call void @{shared}(ptr %at.x, ptr %at.fast, i64 {lanes}, double {limit})")
    result = b.value(f"load {wide}, ptr %at.fast, align 64", "double", lanes)
    if x.scalar != "double":
        result = b.cast("fptrunc", result, x.scalar)
    head = f"define internal {x.type} @{symbol}({x.type} %fast, {x.type} %x) noinline #0 {{\nentry:"
    module.helpers[symbol] = "\n".join([head, *b.lines, f"  ret {result.typed}", "}"])
    return symbol


def module_text(name: str, features: Features, tables: dict[str, Coefficients]) -> str:
    """The shared function of "sin", "cos" or "tan", by one register of doubles at a time.

    It is `void(ptr x, ptr y, i64 count, double bound)`, and replaces what y holds where |x| is
    above the bound. Both have room for `MOST_LANES` doubles: behind the count all may change.

    Args:
        name: which function.
        features: what the processor can do.
        tables: the polynomials on |r| <= pi/4, by field name.
    """
    module = Module(features)
    words = ", ".join(f"i64 {word - (word >> 63 << 64)}" for word in _windows())
    size = len(_windows())
    module.helpers["huge.table"] = f"@huge.table = internal constant [{size} x i64] [{words}]"
    lanes = features.vector_bytes // 8
    b = Body(module)
    part = vector_type("double", lanes)
    limit = b.splat(Value("%bound", "double", 1), lanes)
    parts = b.value(f"add i64 %count, {lanes - 1}", "i64", 1).text
    loop = begin_loop(b, "0", b.value(f"udiv i64 {parts}, {lanes}", "i64", 1).text)
    at = [
        b.value(f"getelementptr {part}, ptr {start}, i64 {loop.index}", "ptr", 1).text
        for start in ("%x", "%y")
    ]
    mine, kept = (b.value(f"load {part}, ptr {p}, align 8", "double", lanes) for p in at)
    beyond = b.compare("fcmp ogt", absolute(b, mine), limit)
    some, past = b.label("some"), b.label("past")
    b.branch(b.any(beyond).text, some, past)
    value = _function(b, mine, name, tables)
    b.line(f"store {b.select(beyond, value, kept).typed}, ptr {at[1]}, align 8")
    b.jump(past)
    loop.end()
    b.line("ret void")
    head = f"define void @{HUGE}{name}(ptr %x, ptr %y, i64 %count, double %bound) #0 {{\nentry:"
    module.functions.append("\n".join([head, *b.lines, "}"]))
    return module.text()


def _windows() -> list[int]:
    """Every two neighbouring words of 32 bits of the table, as one of 64."""
    whole = 0
    for word in TWO_OVER_PI:
        whole = whole << 64 | word
    count = len(TWO_OVER_PI) * 2
    return [whole >> WORD_BITS * (count - 2 - k) & ((1 << 64) - 1) for k in range(count - 1)]


def _function(b: Body, x: Value, name: str, tables: dict[str, Coefficients]) -> Value:
    """The function of finite doubles |x| >= 2^16; NaN elsewhere or anything that is of no use."""
    quadrant, r, low = fraction_times_half_pi(b, *significand(b, x))
    if name == "cos":
        quadrant = b.op("add", quadrant, b.iconst(x, 1))
    odd = b.compare("icmp ne", b.op("and", quadrant, b.iconst(x, 1)), b.iconst(x, 0))
    square = b.op("fmul", r, r)
    cube = b.op("fmul", square, r)
    if name == "tan":
        low = mad(b, low, square, low)
        value = b.op("fadd", r, mad(b, polynomial(b, square, tables["tangent"]), cube, low))
        value = b.select(odd, b.op("fdiv", b.fconst(x, -1.0), value), value)
        value = signed(b, value, x)
    else:
        sine = b.op("fadd", r, mad(b, horner(b, square, tables["sine"]), cube, low))
        tail = mad_const_term(b, horner(b, square, tables["cosine"]), square, -0.5)
        shift = b.op("fmul", r, b.op("fneg", low))
        cosine = add_const(b, mad(b, tail, square, shift), 1.0)
        value = b.select(odd, cosine, sine)
        half_turn = b.op("shl", b.op("lshr", quadrant, b.iconst(x, 1)), b.iconst(x, 63))
        value = b.as_float(b.op("xor", b.as_integer(value), half_turn))
        if name == "sin":
            value = signed(b, value, x)
    finite = b.compare("fcmp olt", absolute(b, x), b.fconst(x, float("inf")))
    return b.select(finite, value, b.fconst(x, float("nan")))


def signed(b: Body, value: Value, x: Value) -> Value:
    """`value`, negated where x is negative."""
    sign = b.op("and", b.as_integer(x), b.iconst(x, 1 << 63))
    return b.as_float(b.op("xor", b.as_integer(value), sign))


def significand(b: Body, x: Value) -> tuple[Value, list[Value]]:
    """The integer m of |x| = m 2^e, and the six words of 2/pi that start with the weight 2."""
    bits = b.as_integer(x)
    field = b.op("and", b.op("lshr", bits, b.iconst(x, 52)), b.iconst(x, 0x7FF))
    m = b.op("and", bits, b.iconst(x, (1 << 52) - 1))
    m = b.op("or", m, b.iconst(x, 1 << 52))
    place = b.op("sub", field, b.iconst(x, 1075 - 62))
    # Infinity, NaN and small numbers, whose results are replaced, must not read beyond the table.
    place = b.intrinsic("llvm.umin", place, b.iconst(x, 62 + 971))
    first = b.op("lshr", place, b.iconst(x, 5))
    shift = b.op("sub", b.iconst(x, WORD_BITS), b.op("and", place, b.iconst(x, WORD_BITS - 1)))
    words = []
    for k in range(WORDS):
        window = _gathered(b, b.op("add", first, b.iconst(x, k)))
        words.append(b.op("and", b.op("lshr", window, shift), b.iconst(x, _LOW)))
    return m, words


def _gathered(b: Body, index: Value) -> Value:
    """Entries of the table."""
    pointers = b.value(f"getelementptr i64, ptr @huge.table, {index.typed}", "ptr", index.lanes)
    if index.lanes == 1:
        return b.value(f"load i64, ptr {pointers.text}, align 8", "i64", 1)
    lanes = index.lanes
    symbol, mask = f"llvm.masked.gather.v{lanes}i64.v{lanes}p0", f"<{lanes} x i1>"
    b.module.declare(symbol, index.type, (pointers.type, "i32", mask, index.type))
    text = f"call {index.type} @{symbol}({pointers.typed}, i32 8, {mask} splat (i1 true), "
    return b.value(f"{text}{index.type} poison)", "i64", lanes)


def fraction_times_half_pi(b: Body, m: Value, words: list[Value]) -> tuple[Value, Value, Value]:
    """The quadrant of m times the words, and the rest times pi/2 as a sum of two values."""
    first, second, third = product(b, m, words)
    quadrant = b.op("lshr", first, b.iconst(first, 62))
    two = b.iconst(first, 2)
    upper = b.intrinsic("llvm.fshl", first, second, two)
    lower = b.intrinsic("llvm.fshl", second, third, two)
    # From one half on, the next quadrant and a negative rest; its size is the complement.
    negative = b.op("ashr", upper, b.iconst(upper, 63))
    quadrant = b.op("sub", quadrant, negative)
    upper, lower = b.op("xor", upper, negative), b.op("xor", lower, negative)
    # 53, 11 and 53 bits, each exact; the last two count where the first are zeros.
    high = b.cast("sitofp", b.op("and", upper, b.iconst(upper, -1 << 11)), "double")
    middle = b.cast("sitofp", b.op("and", upper, b.iconst(upper, (1 << 11) - 1)), "double")
    low = b.cast("sitofp", b.op("lshr", lower, b.iconst(lower, 11)), "double")
    middle, low = quick_two_sum(b, middle, mul_const(b, low, 2.0**-53))
    high, error = quick_two_sum(b, high, middle)
    low = b.op("fadd", error, low)
    is_negative = b.compare("icmp slt", negative, b.iconst(negative, 0))
    unit = b.select(is_negative, b.fconst(high, -(2.0**-64)), b.fconst(high, 2.0**-64))
    high, low = b.op("fmul", high, unit), b.op("fmul", low, unit)
    r, error = two_product(b, high, b.fconst(high, HALF_PI[0]))
    error = mad_const(b, high, HALF_PI[1], mad_const(b, low, HALF_PI[0], error))
    return quadrant, r, error


def product(b: Body, m: Value, words: list[Value]) -> tuple[Value, Value, Value]:
    """The lowest 192 bits of m times the six words, as words of 64 bits, highest first."""
    bits = b.iconst(m, WORD_BITS)
    mask = b.iconst(m, _LOW)
    halves = [b.op("and", m, mask), b.op("lshr", m, bits)]
    # Sums of what belongs to each word of the result, lowest word last: no sum has 36 bits.
    columns: list[list[Value]] = [[] for _ in range(WORDS)]
    for number, word in enumerate(words):
        for up, half in enumerate(halves):
            column = number - up
            if column < 0:
                continue
            found = b.op("mul", half, word)
            columns[column].append(b.op("and", found, mask))
            if column > 0:
                columns[column - 1].append(b.op("lshr", found, bits))
    carried: Value | None = None
    result = []
    for terms in reversed(columns):
        total = terms[0]
        for term in terms[1:]:
            total = b.op("add", total, term)
        if carried is not None:
            total = b.op("add", total, carried)
        carried = b.op("lshr", total, bits)
        result.append(b.op("and", total, mask))
    third, second, first = (
        b.op("or", b.op("shl", result[k + 1], bits), result[k]) for k in range(0, WORDS, 2)
    )
    return first, second, third
