/* Turning blocks of a transposed matrix in registers, packing tiles of it, and storing past the
   caches: what the loops of `c_views` are written with. */
#define LINE 64
#define SHORT static inline __attribute__((always_inline)) void
#define TURN(size, lanes, ...) \
typedef uint##size##_t w##size \
  __attribute__((vector_size(LINE), aligned(size / 8), may_alias)); \
SHORT turned##size(const void *from, int64_t step, void *to, int64_t row) { \
  w##size v[lanes], x[lanes]; \
  const w##size low = {__VA_ARGS__}, high = low + lanes / 2; \
  for (int k = 0; k < lanes; k++) { \
    const char *p = (const char *)from + k * step; \
    v[k] = *(const w##size *)p; __builtin_prefetch(p + 2 * lanes * step, 0, 2); } \
  _Pragma("GCC unroll 8") for (int s = 1; s < lanes; s *= 2) { \
    for (int k = 0; k < lanes / 2; k++) { \
      x[2 * k] = __builtin_shuffle(v[k], v[k + lanes / 2], low); \
      x[2 * k + 1] = __builtin_shuffle(v[k], v[k + lanes / 2], high); } \
    for (int k = 0; k < lanes; k++) v[k] = x[k]; } \
  for (int k = 0; k < lanes; k++) *(w##size *)((char *)to + k * row) = v[k]; }
TURN(32, 16, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
TURN(64, 8, 0, 8, 1, 9, 2, 10, 3, 11)
#define PACK(kind, size) \
SHORT pack_##kind(const kind *from, int64_t step, kind *to, int64_t r, int64_t c) { \
  const int64_t lanes = LINE / sizeof(kind), down = r / lanes * lanes, along = c / lanes * lanes; \
  for (int64_t j = 0; j < along; j += lanes) for (int64_t i = 0; i < down; i += lanes) \
    turned##size(from + j * step + i, step * sizeof(kind), to + i * c + j, c * sizeof(kind)); \
  for (int64_t j = 0; j < c; j++) for (int64_t i = j < along ? down : 0; i < r; i++) \
    to[i * c + j] = from[j * step + i]; }
PACK(float, 32) PACK(double, 64)
SHORT put(void *to, const void *from, int64_t bytes) {
  if ((uintptr_t)to % LINE || bytes % LINE) { memcpy(to, from, bytes); return; }
  for (int64_t i = 0; i < bytes; i += LINE)
#ifdef __AVX512F__
    _mm512_stream_si512((void *)((char *)to + i), *(const __m512i *)((const char *)from + i));
#else
    memcpy((char *)to + i, (const char *)from + i, LINE);
#endif
}
static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
