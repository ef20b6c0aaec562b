"""Device functions that generated text calls: each is written into the text only when used.

No headers are included, so the text compiles with NVRTC as it is. Functions in two precisions
are named as C names them: `f` at the end for float.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from fuser.backends.gpu import special
from fuser.backends.gpu.complex_helpers import COMPLEX_HELPERS
from fuser.backends.gpu.reduction_helpers import REDUCTION_HELPERS
from fuser.ir import philox
from fuser.ir.ops import HALF_NEXTAFTER_GIVES_FIRST

#: name -> definition; a function is defined after those that it calls.
HELPERS: dict[str, str] = {}

_FLOAT = {
    "$T": "float", "$f": "f", "$I": "int", "$bits": "__float_as_int", "$real": "__int_as_float",
    "$inf": "__int_as_float(0x7f800000)", "$huge": "0x1p+28f", "$ln2": "0x1.62e430p-1f",
    "$invln2": "0x1.715476p+0f",
}  # fmt: skip
_DOUBLE = {
    "$T": "double", "$f": "", "$I": "long long", "$bits": "__double_as_longlong",
    "$real": "__longlong_as_double", "$inf": "__longlong_as_double(0x7ff0000000000000LL)",
    "$huge": "0x1p+28", "$ln2": "0x1.62e42fefa39efp-1", "$invln2": "0x1.71547652b82fep+0",
}  # fmt: skip


def _add(name: str, text: str) -> None:
    """Keep one definition."""
    HELPERS[name] = text.strip()


def _both(name: str, text: str) -> None:
    """Keep a definition for float and one for double."""
    for words in (_FLOAT, _DOUBLE):
        spelled = text
        for key, word in words.items():
            spelled = spelled.replace(key, word)
        _add(name + words["$f"], spelled)


# -- memory ---------------------------------------------------------------------------------

_add("Lanes", """
template <int BYTES> struct WordOf;
template <> struct WordOf<1> { typedef unsigned char type; };
template <> struct WordOf<2> { typedef unsigned short type; };
template <> struct WordOf<4> { typedef unsigned int type; };
template <> struct WordOf<8> { typedef uint2 type; };
template <> struct WordOf<16> { typedef uint4 type; };

// N neighbours in registers, seen as elements or as the words that memory accesses move.
template <class T, int N> union Lanes {
    typedef typename WordOf<(sizeof(T) * N < 16 ? sizeof(T) * N : 16)>::type Word;
    enum { WORDS = sizeof(T) * N / sizeof(Word) };
    Word words[WORDS];
    T lane[N];
    unsigned int pair[(sizeof(T) * N + 3) / 4];  // of elements of 2 bytes
};
""")

_add("fetch", """
// Through the read-only path where no output is the same memory.
template <class T> INLINE T fetch(const char* from, bool alone) {
    return alone ? __ldg((const T*)from) : *(const T*)from;
}
""")

_add("load", """
// The first `left` of N elements, the last one repeated; `whole`: all of them, aligned neighbours.
template <class T, int N, class Offset = int>
INLINE void load(
    Lanes<T, N>& x, const char* from, bool whole, int left, bool alone, Offset apart = 1
) {
    typedef typename Lanes<T, N>::Word Word;
    if (whole) {
        #pragma unroll
        for (int k = 0; k < Lanes<T, N>::WORDS; ++k)
            x.words[k] = fetch<Word>(from + k * sizeof(Word), alone);
    } else {
        #pragma unroll
        for (int j = 0; j < N; ++j)
            x.lane[j] = fetch<T>(
                from + (j < left ? j : left - 1) * apart * (Offset)sizeof(T), alone);
    }
}
""")

_add("lanes_left", """
// How many of `width` elements lie before the limit: the first one, and those 2^shift apart.
template <class Index>
INLINE int lanes_left(Index first, Index limit, unsigned int shift, int width) {
    if (first >= limit) return 0;
    const Index more = (limit - first - 1) >> shift;
    return more < (Index)width ? (int)more + 1 : width;
}
""")

_add("gather_lanes", """
// The first `left` of N elements that lie `step` bytes apart, the last one repeated.
template <class T, int N, class Offset>
INLINE void gather_lanes(Lanes<T, N>& x, const char* from, Offset step, int left, bool alone) {
    #pragma unroll
    for (int j = 0; j < N; ++j)
        x.lane[j] = fetch<T>(from + (j < left ? j : left - 1) * step, alone);
}
""")

_add("bfloat_to_float", """
// bfloat16 is the upper half of a float.
INLINE float bfloat_to_float(unsigned short bits) {
    return __uint_as_float((unsigned int)bits << 16);
}
""")

_add("bfloat_from_float", """
// To the nearest, ties to even; NaN stays one, with its sign.
INLINE unsigned short bfloat_from_float(float x) {
    const unsigned int bits = (unsigned int)__float_as_int(x);
    if (x != x) return (unsigned short)((bits >> 16 & 0x8000u) | 0x7fc0u);
#if __CUDA_ARCH__ >= 800
    unsigned short found;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(found) : "f"(x));
    return found;
#else
    return (unsigned short)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
#endif
}
""")

_add("round_bfloat", """
INLINE float round_bfloat(float x) { return bfloat_to_float(bfloat_from_float(x)); }
""")

_add("place_at", """
// The element of an operand without memory: its address in elements, which are of 8 bytes.
INLINE long long place_at(const char* at) { return (long long)at >> 3; }
""")

_add("count_places", """
// The first `left` of N elements `step` bytes apart, the last one repeated.
template <int N, class Offset>
INLINE void count_places(Lanes<long long, N>& x, const char* from, Offset step, int left) {
    #pragma unroll
    for (int j = 0; j < N; ++j)
        x.lane[j] = place_at(from) + (j < left ? j : left - 1) * (long long)step / 8;
}
""")

_add("address_of", """
// The element of an operand that says where elements lie.
INLINE long long address_of(const char* at) { return (long long)at; }
""")

_add("count_addresses", """
// The first `left` of N addresses `step` bytes apart, the last one repeated.
template <int N, class Offset>
INLINE void count_addresses(Lanes<long long, N>& x, const char* from, Offset step, int left) {
    #pragma unroll
    for (int j = 0; j < N; ++j)
        x.lane[j] = address_of(from) + (j < left ? j : left - 1) * (long long)step;
}
""")

_add("bytes_to", """
// Bytes from an axis's first element to that at an index, which may count from the end.
INLINE long long bytes_to(bool& bad, long long index, long long length, long long stride) {
    const long long place = index < 0 ? index + length : index;
    bad |= (unsigned long long)place >= (unsigned long long)length;
    return place * stride;
}
""")

_add("read_at", """
// What lies at an address; 0 where no index may be used any more.
template <class T> INLINE T read_at(const bool& bad, long long address) {
    return bad ? T() : *(const T*)address;
}
""")

_add("store", """
template <class T, int N, class Offset = int>
INLINE void store(const Lanes<T, N>& x, char* to, bool whole, int left, Offset apart = 1) {
    typedef typename Lanes<T, N>::Word Word;
    if (whole) {
        #pragma unroll
        for (int k = 0; k < Lanes<T, N>::WORDS; ++k) ((Word*)to)[k] = x.words[k];
    } else {
        #pragma unroll
        for (int j = 0; j < N; ++j)
            if (j < left) ((T*)to)[j * apart] = x.lane[j];
    }
}
""")

_add("fill_tile", """
// A tile of 32 x 32 elements, read along `along`, line after line; a line has a place to spare.
// Beyond an edge stands what lies at it: all loads are on their way before one is waited for.
template <class T, class Offset, class Index>
INLINE void fill_tile(
    T* tile, const char* from, Offset along, Offset apart, Index wide, Index deep, bool alone
) {
    const unsigned int lane = threadIdx.x % 32, line = threadIdx.x / 32;
    const char* const at = from + (Offset)(lane < wide ? lane : wide - 1) * along;
    T found[4];
    #pragma unroll
    for (unsigned int k = 0; k < 4; ++k) {
        const Index each = line + 8 * k;
        found[k] = fetch<T>(at + (Offset)(each < deep ? each : deep - 1) * apart, alone);
    }
    #pragma unroll
    for (unsigned int k = 0; k < 4; ++k) tile[(line + 8 * k) * 33 + lane] = found[k];
}
""")

_add("scatter_lanes", """
template <class T, int N, class Offset>
INLINE void scatter_lanes(const Lanes<T, N>& x, char* to, Offset step, int left) {
    #pragma unroll
    for (int j = 0; j < N; ++j)
        if (j < left) *(T*)(to + j * step) = x.lane[j];
}
""")

_add("Divider", """
// Division by a number that the host knows, for dividends below half the range of the index.
// Granlund and Montgomery, "Division by invariant integers using multiplication", PLDI 1994.
struct Divider {
    word divisor, magic, shift;
    __device__ __forceinline__ unsigned int quotient(unsigned int n) const {
        return (__umulhi(n, (unsigned int)magic) + n) >> (unsigned int)shift;
    }
    __device__ __forceinline__ unsigned long long quotient(unsigned long long n) const {
        return (__umul64hi(n, magic) + n) >> shift;
    }
};
""")

HELPERS.update(REDUCTION_HELPERS)
HELPERS.update(COMPLEX_HELPERS)

# -- float16 --------------------------------------------------------------------------------

# A host that executes this text for a test brings its own conversions.
_add("half_to_float", """
#ifndef FUSER_HOST
INLINE float half_to_float(unsigned short bits) {
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(bits));
    return wide;
}
#endif
""")

_add("half_from_float", """
#ifndef FUSER_HOST
INLINE unsigned short half_from_float(float wide) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(wide));
    return bits;
}
#endif
""")

_add("half_from_double", """
#ifndef FUSER_HOST
INLINE unsigned short half_from_double(double wide) {
    unsigned short bits;
    asm("cvt.rn.f16.f64 %0, %1;" : "=h"(bits) : "d"(wide));
    return bits;
}
#endif
""")

_add("half_pair", """
// One float16 number twice: in both halves of a word, where one instruction computes with two.
INLINE unsigned int half_pair(unsigned short bits) { return bits * 0x10001u; }
""")

for _name in ("add", "sub", "mul"):
    _add(f"pair_{_name}", f"""
#ifndef FUSER_HOST
INLINE unsigned int pair_{_name}(unsigned int x, unsigned int y) {{
    unsigned int both;
    asm("{_name}.rn.f16x2 %0, %1, %2;" : "=r"(both) : "r"(x), "r"(y));
    return both;
}}
#endif
""")

_add("pair_join", """
INLINE unsigned int pair_join(float low, float high) {
    return half_from_float(low) | (unsigned int)half_from_float(high) << 16;
}
""")

_add("pair_low", """
INLINE float pair_low(unsigned int both) { return half_to_float((unsigned short)both); }
""")

_add("pair_high", """
INLINE float pair_high(unsigned int both) { return half_to_float((unsigned short)(both >> 16)); }
""")

_add("round_half", """
INLINE float round_half(float x) { return half_to_float(half_from_float(x)); }
""")

# -- integers -------------------------------------------------------------------------------

_add("floor_division", """
// Towards minus infinity. x / 0 is 0 and the least integer / -1 wraps around, as in NumPy.
template <class T, class U> INLINE T floor_division(T x, T y) {
    if (y == 0) return 0;
    if (y == -1) return (T)(0 - (U)x);
    const T quotient = x / y;
    return (T)(quotient - (quotient * y != x && (x < 0) != (y < 0)));
}
""")

_add("floor_remainder", """
// The sign of the divisor.
template <class T> INLINE T floor_remainder(T x, T y) {
    if (y == 0 || y == -1) return 0;
    const T rest = x % y;
    return (T)(rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest);
}
""")

_add("power_by_squaring", """
// Wraps around. Knuth, The Art of Computer Programming, volume 2, section 4.6.3.
template <class U> INLINE U power_by_squaring(U x, U n) {
    U result = 1;
    for (; n != 0; n >>= 1) {
        if (n & 1) result *= x;
        x *= x;
    }
    return result;
}
""")

_add("common_divisor", """
// Euclid's algorithm.
template <class U> INLINE U common_divisor(U x, U y) {
    while (y != 0) {
        const U rest = x % y;
        x = y;
        y = rest;
    }
    return x;
}
""")

_add("common_multiple", """
template <class U> INLINE U common_multiple(U x, U y) {
    const U divisor = common_divisor<U>(x, y);
    return divisor == 0 ? 0 : x / divisor * y;
}
""")

_add("philox_word", f"""
// 32 random bits at a place of a stream: Philox4x32-10, see fuser/ir/philox.py.
INLINE unsigned int philox_word(word place, word seed) {{
    unsigned int a = (unsigned int)(place >> 2), b = (unsigned int)(place >> 34), c = 0, d = 0;
    unsigned int low = (unsigned int)seed, high = (unsigned int)(seed >> 32);
    #pragma unroll
    for (int turn = 0; turn < {philox.ROUNDS}; ++turn) {{
        const word x = (word){philox.MULTIPLIERS[0]}u * a, y = (word){philox.MULTIPLIERS[1]}u * c;
        a = (unsigned int)(y >> 32) ^ b ^ low;
        b = (unsigned int)y;
        c = (unsigned int)(x >> 32) ^ d ^ high;
        d = (unsigned int)x;
        low += {philox.WEYL[0]}u;
        high += {philox.WEYL[1]}u;
    }}
    const unsigned int at = (unsigned int)place & 3;
    return at < 2 ? (at == 0 ? a : b) : (at == 2 ? c : d);
}}
""")

# -- floats ---------------------------------------------------------------------------------

_both("floored_quotient", """
// As NumPy's npy_floor_divide: the floor of the exact quotient, where it can be found.
INLINE $T floored_quotient$f($T x, $T y) {
    if (y == 0) return x / y;
    const $T rest = fmod$f(x, y);
    $T quotient = (x - rest) / y;
    if (rest != 0 && (y < 0) != (rest < 0)) quotient -= 1;
    if (quotient == 0) return copysign$f(($T)0, x / y);
    const $T whole = floor$f(quotient);
    return quotient - whole > ($T)0.5 ? whole + 1 : whole;
}
""")

_both("floored_remainder", """
// As NumPy's npy_remainder: the sign of the divisor.
INLINE $T floored_remainder$f($T x, $T y) {
    const $T rest = fmod$f(x, y);
    if (y == 0) return rest;
    if (rest == 0) return copysign$f(($T)0, y);
    return (y < 0) != (rest < 0) ? rest + y : rest;
}
""")

_both("logistic", """
// 1/(1+e) or e/(1+e) for e = exp(-|x|): no overflow on either side.
INLINE $T logistic$f($T x) {
    const $T e = exp$f(-fabs$f(x));
    return x != x ? x : (x >= 0 ? ($T)1 : e) / (1 + e);
}
""")

_both("log_add", """
// As NumPy's npy_logaddexp: the larger + log1p(exp(-|x - y|)).
INLINE $T log_add$f($T x, $T y) {
    if (x == y) return x + $ln2;
    const $T difference = x - y;
    if (difference != difference) return difference;
    return (difference > 0 ? x : y) + log1p$f(exp$f(-fabs$f(difference)));
}
""")

_both("log2_add", """
INLINE $T log2_add$f($T x, $T y) {
    if (x == y) return x + 1;
    const $T difference = x - y;
    if (difference != difference) return difference;
    return (difference > 0 ? x : y) + log1p$f(exp2$f(-fabs$f(difference))) * $invln2;
}
""")

_both("towards", """
// The neighbour of x on y's side.
INLINE $T towards$f($T x, $T y) {
    if (x != x || y != y) return x + y;
    if (x == y) return y;
    if (x == 0) return copysign$f($real(1), y);
    const $I bits = $bits(x);
    return $real((y > x) == (x > 0) ? bits + 1 : bits - 1);
}
""")

_add("half_towards", """
INLINE float half_towards(float x, float y) {
    if (x != x || y != y) return x + y;
    if (x == y) return $equal;
    if (x == 0) return copysignf(0x1p-24f, y);
    const int bits = half_from_float(x);
    return half_to_float((unsigned short)((y > x) == (x > 0) ? bits + 1 : bits - 1));
}
""".replace("$equal", "x" if HALF_NEXTAFTER_GIVES_FIRST else "y"))

_both("distance", """
// To the neighbour away from zero, with x's sign, but positive for both zeros.
INLINE $T distance$f($T x) {
    if (x == 0) return $real(1);
    if (!(fabs$f(x) < $inf)) return x - x;
    return $real($bits(x) + 1) - x;
}
""")

_add("half_distance", """
// To the next greater number: never negative.
INLINE float half_distance(float x) {
    if (x == 0) return 0x1p-24f;
    if (!(fabsf(x) < __int_as_float(0x7f800000))) return x - x;
    return half_to_float((unsigned short)(half_from_float(x) + (x < 0 ? -1 : 1))) - x;
}
""")

_both("mantissa", """
INLINE $T mantissa$f($T x) {
    int power;
    return frexp$f(x, &power);
}
""")

_both("exponent", """
// 0 for zero, infinity and NaN.
INLINE int exponent$f($T x) {
    int power = 0;
    frexp$f(x, &power);
    return fabs$f(x) < $inf ? power : 0;
}
""")

_both("fraction", """
// What truncation leaves, with x's sign; that of an infinity is 0.
INLINE $T fraction$f($T x) {
    if (x != x) return x;
    return copysign$f(fabs$f(x) < $inf ? x - trunc$f(x) : ($T)0, x);
}
""")

# CUDA's asinh and acosh in double precision are within 3 ulp: too much for their rows. Here the
# argument of log1p has its rounding error put back to first order.
_add("area_sine", """
INLINE double area_sine(double x) {
    const double size = fabs(x);
    if (!(size < 0x1p+28)) return copysign(log(size) + 0x1.62e42fefa39efp-1, x);
    const double square = size * size;
    const double more = square / (1 + sqrt(1 + square));
    const double sum = size + more;
    const double lost = size > more ? more - (sum - size) : size - (sum - more);
    return copysign(log1p(sum) + lost / (1 + sum), x);
}
""")

_add("area_cosine", """
INLINE double area_cosine(double x) {
    if (x < 1) return __longlong_as_double(0x7ff8000000000000LL);
    if (!(x < 0x1p+28)) return log(x) + 0x1.62e42fefa39efp-1;
    const double above = x - 1;
    const double root = sqrt(fma(above, above, 2 * above));
    const double sum = above + root;
    const double lost = root > above ? above - (sum - root) : root - (sum - above);
    return log1p(sum) + lost / (1 + sum);
}
""")

_add("error_complement", special.complement("error_complement", "double"))
_add("error_complement_single", special.complement("error_complement_single", "float"))

_WORD = re.compile(r"[A-Za-z_]\w*")
_COMMENT = re.compile(r"//.*")


def used_helpers(texts: Iterable[str]) -> list[str]:
    """Definitions that texts need, in an order that compiles.

    Args:
        texts: generated code; a helper's name outside comments means nothing else in it.
    """
    wanted: set[str] = set()
    queue = [word for text in texts for word in _words(text)]
    while queue:
        word = queue.pop()
        if word in HELPERS and word not in wanted:
            wanted.add(word)
            queue.extend(_words(HELPERS[word]))
    return [text for name, text in HELPERS.items() if name in wanted]


def _words(text: str) -> list[str]:
    """Names in code."""
    return _WORD.findall(_COMMENT.sub("", text))
