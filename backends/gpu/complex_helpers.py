"""Device functions of complex numbers: float2 and double2 hold the real and the imaginary part.

Arithmetic is NumPy's, operation by operation: division is R. L. Smith's ("Algorithm 116: complex
division", CACM 5(8), 1962) with NumPy's answer to a zero divisor, absolute values are hypot.
Elementary functions give C99's answers for infinities, NaN and signed zeros (ISO/IEC 9899:1999,
annex G.6), and are computed in double for both precisions.
"""

from __future__ import annotations

#: name -> definition; a function is defined after those that it calls.
COMPLEX_HELPERS: dict[str, str] = {}

_SINGLE = {"$T": "float", "$f": "f", "$V": "float2", "$M": "make_float2"}
_DOUBLE = {"$T": "double", "$f": "", "$V": "double2", "$M": "make_double2"}
_INFINITY = "__longlong_as_double(0x7ff0000000000000LL)"
_NAN = "__longlong_as_double(0x7ff8000000000000LL)"


def _both(name: str, text: str) -> None:
    """Keep a definition for float2 and one for double2."""
    for words in (_SINGLE, _DOUBLE):
        spelled = text.strip()
        for key, word in words.items():
            spelled = spelled.replace(key, word)
        COMPLEX_HELPERS[name + words["$f"]] = spelled


def _in_double(name: str, text: str) -> None:
    """Keep a definition in double, and one for float2 that rounds its result."""
    body = text.strip().replace("$inf", _INFINITY).replace("$nan", _NAN)
    COMPLEX_HELPERS[name] = body
    COMPLEX_HELPERS[f"{name}f"] = (
        f"INLINE float2 {name}f(float2 z) {{\n"
        f"    const double2 r = {name}(make_double2(z.x, z.y));\n"
        "    return make_float2((float)r.x, (float)r.y);\n}"
    )


_both("complex_add", "INLINE $V complex_add$f($V x, $V y) { return $M(x.x + y.x, x.y + y.y); }")
_both(
    "complex_subtract",
    "INLINE $V complex_subtract$f($V x, $V y) { return $M(x.x - y.x, x.y - y.y); }",
)
_both("complex_multiply", """
INLINE $V complex_multiply$f($V x, $V y) {
    return $M(x.x * y.x - x.y * y.y, x.x * y.y + x.y * y.x);
}
""")
_both("complex_divide", """
INLINE $V complex_divide$f($V x, $V y) {
    const $T wide = fabs$f(y.x), high = fabs$f(y.y);
    if (wide >= high) {
        if (wide == 0 && high == 0) return $M(x.x / wide, x.y / wide);
        const $T ratio = y.y / y.x, scale = 1 / (y.x + y.y * ratio);
        return $M((x.x + x.y * ratio) * scale, (x.y - x.x * ratio) * scale);
    }
    const $T ratio = y.x / y.y, scale = 1 / (y.y + y.x * ratio);
    return $M((x.x * ratio + x.y) * scale, (x.y * ratio - x.x) * scale);
}
""")
_both("complex_reciprocal", """
INLINE $V complex_reciprocal$f($V x) {
    if (fabs$f(x.y) <= fabs$f(x.x)) {
        const $T ratio = x.y / x.x, size = x.x + x.y * ratio;
        return $M(1 / size, -ratio / size);
    }
    const $T ratio = x.x / x.y, size = x.x * ratio + x.y;
    return $M(ratio / size, -1 / size);
}
""")

_in_double("complex_exp", """
INLINE double2 complex_exp(double2 z) {
    if (z.y == 0) return make_double2(exp(z.x), z.y);
    if (!(fabs(z.y) < $inf)) {
        if (z.x == $inf) return make_double2(z.x, $nan);
        if (z.x == -$inf) return make_double2(0.0, copysign(0.0, z.y));
        return make_double2($nan, $nan);
    }
    if (z.x > 709 && z.x < 1500) {  // the exponential may overflow where its products do not
        const double root = exp(0.5 * z.x);
        return make_double2(root * cos(z.y) * root, root * sin(z.y) * root);
    }
    const double size = exp(z.x);
    return make_double2(size * cos(z.y), size * sin(z.y));
}
""")

# |z|^2 - 1 where it is near 0: products with what rounding lost.
_in_double("complex_log", """
INLINE double2 complex_log(double2 z) {
    const double angle = atan2(z.y, z.x);
    double x = fabs(z.x), y = fabs(z.y);
    if (x < y) { const double t = x; x = y; y = t; }
    const double size = hypot(x, y);
    if (size > 0.5 && size < 2) {
        const double wide = x * x, high = y * y;
        const double lost = fma(x, x, -wide) + fma(y, y, -high);
        const double less = wide - 1, sum = less + high, part = sum - less;
        const double error = (less - (sum - part)) + (high - part);
        return make_double2(0.5 * log1p(sum + (error + lost)), angle);
    }
    if (x < $inf && size == $inf)
        return make_double2(log(hypot(0.5 * x, 0.5 * y)) + 0x1.62e42fefa39efp-1, angle);
    if (x < 0x1p-1000 && x > 0)
        return make_double2(log(hypot(x * 0x1p+100, y * 0x1p+100)) - 0x1.154245277ac1ep+6, angle);
    return make_double2(log(size), angle);
}
""")

_in_double("complex_sqrt", """
INLINE double2 complex_sqrt(double2 z) {
    if (fabs(z.y) == $inf) return make_double2($inf, z.y);
    if (z.x != z.x) return make_double2($nan, $nan);
    if (z.x == $inf) return make_double2(z.x, z.y != z.y ? z.y : copysign(0.0, z.y));
    if (z.x == -$inf) return make_double2(z.y != z.y ? z.y : 0.0, copysign($inf, z.y));
    if (z.y != z.y) return make_double2($nan, $nan);
    if (z.x == 0 && z.y == 0) return make_double2(0.0, z.y);
    const double largest = fabs(z.x) > fabs(z.y) ? fabs(z.x) : fabs(z.y);
    const double scale = largest > 0x1p+1000 ? 0x1p-4 : largest < 0x1p-960 ? 0x1p+120 : 1.0;
    const double back = largest > 0x1p+1000 ? 4.0 : largest < 0x1p-960 ? 0x1p-60 : 1.0;
    const double x = z.x * scale, y = z.y * scale, size = hypot(x, y);
    double real, imaginary;
    if (x > 0) {
        real = sqrt(0.5 * (size + x));
        imaginary = 0.5 * (y / real);
    } else {
        imaginary = sqrt(0.5 * (size - x));
        real = fabs(0.5 * (y / imaginary));
    }
    return make_double2(real * back, copysign(imaginary * back, z.y));
}
""")

# e^|y| / 2 times a number below 1, where cosh and sinh are no different and may overflow.
COMPLEX_HELPERS["half_exponential_times"] = """
INLINE double half_exponential_times(double y, double x) {
    const double root = exp(0.5 * fabs(y));
    return 0.5 * root * x * root;
}""".strip()

_in_double("complex_sin", """
INLINE double2 complex_sin(double2 z) {
    const bool steady = fabs(z.x) < $inf;
    if (z.y == 0) return make_double2(sin(z.x), steady ? cos(z.x) * z.y : z.y);
    if (!steady) return make_double2($nan, fabs(z.y) == $inf ? z.y : $nan);
    if (z.x == 0) return make_double2(z.x, sinh(z.y));
    if (fabs(z.y) > 700 && fabs(z.y) < $inf)
        return make_double2(half_exponential_times(z.y, sin(z.x)),
                            copysign(1.0, z.y) * half_exponential_times(z.y, cos(z.x)));
    return make_double2(sin(z.x) * cosh(z.y), cos(z.x) * sinh(z.y));
}
""")

_in_double("complex_cos", """
INLINE double2 complex_cos(double2 z) {
    const bool steady = fabs(z.x) < $inf;
    if (z.y == 0) return make_double2(cos(z.x), steady ? -sin(z.x) * z.y : -z.y);
    if (!steady) return make_double2(fabs(z.y) == $inf ? $inf : $nan, $nan);
    if (z.x == 0) return make_double2(cosh(z.y), copysign(1.0, z.y) * -z.x);
    if (fabs(z.y) > 700 && fabs(z.y) < $inf)
        return make_double2(half_exponential_times(z.y, cos(z.x)),
                            -copysign(1.0, z.y) * half_exponential_times(z.y, sin(z.x)));
    return make_double2(cos(z.x) * cosh(z.y), -sin(z.x) * sinh(z.y));
}
""")

_both("complex_power", """
// As NumPy: small whole powers by multiplication, others through the logarithm.
INLINE $V complex_power$f($V z, $V w) {
    if (w.x == 0 && w.y == 0) return $M(1, 0);
    if (z.x == 0 && z.y == 0) {
        const $T none = ($T)__longlong_as_double(0x7ff8000000000000LL);
        return w.x > 0 ? $M(0, 0) : $M(none, none);
    }
    if (w.y == 0 && w.x > -100 && w.x < 100 && (int)w.x == w.x) {
        const int whole = (int)w.x;
        if (whole == 1) return z;
        if (whole == 2) return complex_multiply$f(z, z);
        if (whole == 3) return complex_multiply$f(z, complex_multiply$f(z, z));
        int left = whole < 0 ? -whole : whole;
        $V result = $M(1, 0), factor = z;
        for (;;) {
            if (left & 1) result = complex_multiply$f(result, factor);
            left >>= 1;
            if (left == 0) break;
            factor = complex_multiply$f(factor, factor);
        }
        return whole < 0 ? complex_divide$f($M(1, 0), result) : result;
    }
    const double2 size = complex_log(make_double2(z.x, z.y));
    const double2 r = complex_exp(complex_multiply(size, make_double2(w.x, w.y)));
    return $M(($T)r.x, ($T)r.y);
}
""")
