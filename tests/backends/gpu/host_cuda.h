// Stands in for the CUDA built-ins, so that the host's C++ compiler takes generated text as it
// is. Only what generated text uses is here; nothing is included, to compile quickly.
#define FUSER_HOST 1
#define __device__
#define __global__
#define __shared__ static
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#ifndef CLUSTER
#define CLUSTER 1
#endif
#define __align__(bytes) __attribute__((aligned(bytes)))

struct Triple { unsigned int x, y, z; };
static Triple threadIdx, blockIdx, blockDim, gridDim;

struct __attribute__((aligned(8))) uint2 { unsigned int x, y; };
struct __attribute__((aligned(16))) uint4 { unsigned int x, y, z, w; };

struct __attribute__((aligned(8))) float2 { float x, y; };
struct __attribute__((aligned(16))) double2 { double x, y; };
static inline float2 make_float2(float x, float y) { return {x, y}; }
static inline double2 make_double2(double x, double y) { return {x, y}; }

// What a launch did that a device refuses; the first fault counts.
enum {
    MISALIGNED = 1, BEYOND_SHARED, BARRIER_MISSED, TOO_MANY_THREADS, CLUSTER_CUT, CLUSTER_ENDED
};
static int fault;

// A device faults on misaligned addresses, whichever path they take: the compiler asks before
// every access (as for UBSan's alignment check, whose run-time library is not linked).
static inline void misaligned() { fault = fault ? fault : MISALIGNED; }
extern "C" {
__attribute__((used, visibility("hidden")))
void __ubsan_handle_type_mismatch_v1(void*, unsigned long) { misaligned(); }
}
template <class T> static inline T __ldg(const T* from) {
    if ((unsigned long long)from % sizeof(T) != 0) misaligned();
    return *from;
}

template <class To, class From> static inline To same_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "bits of another size");
    To to;
    __builtin_memcpy(&to, &from, sizeof(to));
    return to;
}
static inline int __float_as_int(float x) { return same_bits<int>(x); }
static inline float __int_as_float(int x) { return same_bits<float>(x); }
static inline float __uint_as_float(unsigned int x) { return same_bits<float>(x); }
static inline long long __double_as_longlong(double x) { return same_bits<long long>(x); }
static inline double __longlong_as_double(long long x) { return same_bits<double>(x); }

static inline unsigned int __umulhi(unsigned int x, unsigned int y) {
    return (unsigned int)(((unsigned long long)x * y) >> 32);
}
static inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    return (unsigned long long)(((unsigned __int128)x * y) >> 64);
}
static inline int __popc(unsigned int x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }

#define ONE(name) double name(double); float name##f(float);
#define TWO(name) double name(double, double); float name##f(float, float);
extern "C" {
ONE(acos) ONE(acosh) ONE(asin) ONE(asinh) ONE(atan) ONE(atanh) ONE(ceil) ONE(cos)
ONE(cosh) ONE(erf) ONE(erfc) ONE(exp) ONE(exp2) ONE(expm1) ONE(fabs) ONE(floor) ONE(lgamma)
ONE(log) ONE(log10) ONE(log1p) ONE(log2) ONE(rint) ONE(sin) ONE(sinh) ONE(sqrt) ONE(tan)
ONE(tanh) ONE(trunc)
TWO(atan2) TWO(copysign) TWO(fmod) TWO(hypot) TWO(pow)
double fma(double, double, double);
long double cbrtl(long double);
float cbrtf(float);
double ldexp(double, int);
float ldexpf(float, int);
double frexp(double, int*);
float frexpf(float, int*);
}

// glibc's own is up to 4 ulp off, CUDA's 1.
static inline double cbrt(double x) { return (double)cbrtl(x); }

// float16 by exact arithmetic in double: a multiple of the smallest step at the number's size.
static inline float half_to_float(unsigned short bits) {
    const int field = bits >> 10 & 31, digits = bits & 1023;
    double size = field == 0 ? ldexp(digits, -24) : ldexp(1024 + digits, field - 25);
    if (field == 31) size = digits == 0 ? __builtin_inf() : __builtin_nan("");
    return (float)(bits & 0x8000 ? -size : size);
}
static inline unsigned short half_from_double(double x) {
    const int sign = __builtin_signbit(x) ? 0x8000 : 0;
    const double size = fabs(x);
    if (size != size) return (unsigned short)(sign | 0x7e00);
    if (size >= 65520) return (unsigned short)(sign | 0x7c00);
    if (size == 0) return (unsigned short)sign;
    int exponent;
    frexp(size, &exponent);
    const int step = exponent - 11 < -24 ? -24 : exponent - 11;
    const int units = (int)rint(ldexp(size, -step));
    return (unsigned short)(sign | (step == -24 ? units : ((step + 25) << 10) + units - 1024));
}
static inline unsigned short half_from_float(float x) { return half_from_double(x); }

// Two float16 numbers in a word: each exactly, in double, then rounded once.
#define PAIR(name, sign)                                                                        \
    static inline unsigned int pair_##name(unsigned int x, unsigned int y) {                    \
        const double low = (double)half_to_float(x) sign half_to_float(y);                      \
        const double high = (double)half_to_float(x >> 16) sign half_to_float(y >> 16);         \
        return half_from_double(low) | (unsigned int)half_from_double(high) << 16;              \
    }
PAIR(add, +) PAIR(sub, -) PAIR(mul, *)

// One thread after another runs a kernel.
#define RUN_ON_HOST(kernel, Arguments)                                                          \
    extern "C" const unsigned int size_##kernel = sizeof(Arguments);                            \
    extern "C" int run_##kernel(unsigned int grid, unsigned int block, unsigned int,            \
                                const Arguments* a, char*) {                                    \
        fault = block > 1024 ? TOO_MANY_THREADS : 0;                                            \
        gridDim.x = grid;                                                                       \
        blockDim.x = block;                                                                     \
        for (blockIdx.x = 0; blockIdx.x < grid && !fault; ++blockIdx.x)                         \
            for (threadIdx.x = 0; threadIdx.x < block; ++threadIdx.x) kernel(*a);               \
        return fault;                                                                           \
    }
