/* Rows in C with vectors of 512 bits: extremes by NumPy's rules, their places, distances of pairs.
   A function for each workload of its name, with the parameters of rows.h.

   gcc makes no vectors of these loops as NumPy's rules want them (an extreme is NaN where any element
   is; of equal ones the first counts), or none that keep what they read in registers. Short rows are
   taken as many at a time as a vector has lanes, and their partial extremes turned and joined by one
   tree of shuffles; of long ones the block that holds the largest is looked through again. */
#include <stdlib.h>
#ifdef DOUBLE
#define LANES 8
#define OF(name) _mm512_##name##_pd
#define NAMED(name) name##_pd_mask
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14
typedef __m512d V; typedef int64_t I; typedef __mmask8 K;
#else
#define LANES 16
#define OF(name) _mm512_##name##_ps
#define NAMED(name) name##_ps_mask
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
typedef __m512 V; typedef int32_t I; typedef __mmask16 K;
#endif

typedef I W __attribute__((vector_size(64)));
#define SHORT static inline __attribute__((always_inline))
#define REST(m) ((K)((1u << (m) % LANES) - 1))
#define BLOCK (16 * LANES)
SHORT K compared(V a, V b, const int how) { return NAMED(_mm512_cmp)(a, b, how); }
SHORT V joined(V a, V b, int largest) { return largest ? OF(max)(a, b) : OF(min)(a, b); }
SHORT V tree(V *v, int largest) { /* lane k: the extreme of v[k] */
  const W even = {EVEN}, odd = even + 1;
  for (int count = LANES; count > 1; count /= 2)
    for (int k = 0; k < count / 2; k++) {
      const V a = v[2 * k], b = v[2 * k + 1];
      v[k] = joined((V)__builtin_shuffle((W)a, (W)b, even),
                    (V)__builtin_shuffle((W)a, (W)b, odd), largest); }
  return v[0]; }
SHORT K extremes(const T *x, int64_t m, V *low, V *high, int both) { /* lanes; which saw NaN */
  V least[4], most[4]; K none = 0; int64_t j = 0;
  const V first = OF(set1)(x[0]);
  for (int k = 0; k < 4; k++) least[k] = most[k] = first;
  for (; j + 4 * LANES <= m; j += 4 * LANES) {
    V v[4];
    for (int k = 0; k < 4; k++) { v[k] = OF(loadu)(x + j + k * LANES);
      if (both) least[k] = OF(min)(least[k], v[k]);
      most[k] = OF(max)(most[k], v[k]); }
    none |= compared(v[0], v[1], _CMP_UNORD_Q) | compared(v[2], v[3], _CMP_UNORD_Q); }
  for (; j < m; j += LANES) {
    const V v = j + LANES <= m ? OF(loadu)(x + j) : OF(mask_loadu)(first, REST(m), x + j);
    if (both) least[0] = OF(min)(least[0], v);
    most[0] = OF(max)(most[0], v); none |= compared(v, v, _CMP_UNORD_Q); }
  if (both) *low = OF(min)(OF(min)(least[0], least[1]), OF(min)(least[2], least[3]));
  *high = OF(max)(OF(max)(most[0], most[1]), OF(max)(most[2], most[3]));
  return none | compared(first, first, _CMP_UNORD_Q); }
SHORT int64_t place(const T *x, int64_t from, int64_t m, T value, int none) {
  const V wanted = OF(set1)(value);
  for (int64_t j = from;; j += LANES) {
    const K in = m - j < LANES ? REST(m - j) : (K)-1;
    const V v = OF(maskz_loadu)(in, x + j);
    const K at = in & (none ? compared(v, v, _CMP_UNORD_Q) : compared(v, wanted, _CMP_EQ_OQ));
    if (at) return j + __builtin_ctz(at); } }
#define ARGUMENTS int64_t n, int64_t m, int64_t others, int64_t beyond, \
  const T *a, const T *b, const T *c, T *restrict r, T *restrict s

void row_range(ARGUMENTS) {
#pragma omp parallel for schedule(static)
for (int64_t i = 0; i < n; i += LANES) {
  V low[LANES], high[LANES]; K none[LANES]; const int64_t rows = n - i < LANES ? n - i : LANES;
  for (int64_t k = 0; k < LANES; k++)
    none[k] = extremes(a + (i + (k < rows ? k : 0)) * m, m, low + k, high + k, 1);
  T least[LANES], most[LANES];
  OF(storeu)(least, tree(low, 0)); OF(storeu)(most, tree(high, 1));
  for (int64_t k = 0; k < rows; k++) {
    r[i + k] = none[k] ? (T)NAN : least[k]; s[i + k] = none[k] ? (T)NAN : most[k]; } }
}

void value_range(ARGUMENTS) {
enum { PARTS = 64 };
T least[PARTS], most[PARTS]; K none = 0; const int64_t share = (m + PARTS - 1) / PARTS;
#pragma omp parallel for schedule(static) reduction(| : none)
for (int64_t p = 0; p < PARTS; p++) {
  const int64_t begin = p * share, end = begin + share < m ? begin + share : m;
  V low = OF(set1)(a[0]), high = low;
  if (begin < end) none |= extremes(a + begin, end - begin, &low, &high, 1);
  least[p] = OF(reduce_min)(low); most[p] = OF(reduce_max)(high); }
T small = least[0], large = most[0];
for (int p = 1; p < PARTS; p++) {
  small = least[p] < small ? least[p] : small; large = most[p] > large ? most[p] : large; }
r[0] = none ? (T)NAN : small; s[0] = none ? (T)NAN : large;
}

void row_argmax(ARGUMENTS) {
int64_t *places = (int64_t *)r;
#pragma omp parallel for schedule(static)
for (int64_t i = 0; i < n; i += LANES) {
  const int64_t rows = n - i < LANES ? n - i : LANES;
  if (m > BLOCK) {
    for (int64_t k = 0; k < rows; k++) {
      const T *x = a + (i + k) * m; V most; K none = extremes(x, BLOCK, &most, &most, 0);
      T found = OF(reduce_max)(most); V than = OF(set1)(found); int64_t from = 0;
      for (int64_t j = BLOCK; j < m && !none; j += BLOCK) {
        none = extremes(x + j, m - j < BLOCK ? m - j : BLOCK, &most, &most, 0);
        if (none) from = j;
        else if (compared(most, than, _CMP_GT_OQ)) {
          found = OF(reduce_max)(most); than = OF(set1)(found); from = j; } }
      places[i + k] = place(x, from, m, found, none != 0); }
    continue; }
  V high[LANES]; K none[LANES]; T most[LANES];
  for (int64_t k = 0; k < LANES; k++)
    none[k] = extremes(a + (i + (k < rows ? k : 0)) * m, m, high + k, high + k, 0);
  OF(storeu)(most, tree(high, 1));
  for (int64_t k = 0; k < rows; k++)
    places[i + k] = place(a + (i + k) * m, 0, m, most[k], none[k] != 0); }
}

void pairwise_distance(ARGUMENTS) {
enum { DOWN = 4, ALONG = 2 };
const int64_t wide = (others + ALONG * LANES - 1) / (ALONG * LANES) * (ALONG * LANES);
T *turned = aligned_alloc(64, wide * m * sizeof(T));
#pragma omp parallel for schedule(static)
for (int64_t d = 0; d < m; d++)
  for (int64_t j = 0; j < wide; j++) turned[d * wide + j] = j < others ? b[j * m + d] : 0;
#pragma omp parallel for schedule(static)
for (int64_t i = 0; i < n; i += DOWN) {
  const T *x[DOWN];
  for (int p = 0; p < DOWN; p++) x[p] = a + (i + p < n ? i + p : i) * m;
  for (int64_t j = 0; j < wide; j += ALONG * LANES) {
    V sum[DOWN][ALONG];
    for (int p = 0; p < DOWN; p++) for (int q = 0; q < ALONG; q++) sum[p][q] = OF(setzero)();
    for (int64_t d = 0; d < m; d++)
      for (int q = 0; q < ALONG; q++) {
        const V y = OF(load)(turned + d * wide + j + q * LANES);
        for (int p = 0; p < DOWN; p++) {
          const V apart = OF(sub)(OF(set1)(x[p][d]), y);
          sum[p][q] = OF(fmadd)(apart, apart, sum[p][q]); } }
    for (int p = 0; p < DOWN && i + p < n; p++) for (int q = 0; q < ALONG; q++) {
      T *to = r + (i + p) * others + j + q * LANES; const V found = OF(sqrt)(sum[p][q]);
      const int64_t left = others - j - q * LANES;
      if (left >= LANES && beyond && (uintptr_t)to % 64 == 0) OF(stream)(to, found);
      else if (left > 0) OF(mask_storeu)(to, left >= LANES ? (K)-1 : REST(left), found); } } }
free(turned);
}
