"""Columns in C: sums down a matrix whose rows lie one behind another in memory.

Each thread has a range of rows and reads it once, in blocks of rows and columns that stay in its
second cache: the block's means, then from the cache the squared distances from these, which are
joined to those before by Chan, Golub and LeVeque's formula ("Algorithms for computing the sample
variance", The American Statistician 37(3), 1983). Four rows are added to each other before they
are added to sums in memory.
"""

from __future__ import annotations

COLUMNS = """
#include <stdlib.h>
#include <omp.h>
#define WIDE 1024
#define TALL 64
#define DOWN(rows, four, one) { int64_t i = 0; for (; i + 4 <= rows; i += 4) { \\
    const T *x = p + i * m; EACH_OF(w, four) } \\
  for (; i < rows; i++) { const T *x = p + i * m; EACH_OF(w, one) } }
#define EACH_OF(w, body) _Pragma("omp simd") for (int64_t j = 0; j < w; j++) { body }
#define LESS(a, b) ((a) < (b) ? (a) : (b))
static void sums(int64_t rows, int64_t w, int64_t m, const T *p, T *restrict s) {
  EACH_OF(w, s[j] = 0;)
  DOWN(rows, s[j] += (x[j] + x[j + m]) + (x[j + 2 * m] + x[j + 3 * m]);, s[j] += x[j];)
}
static void squares(int64_t rows, int64_t w, int64_t m, const T *p, const T *restrict s,
                    T *restrict d) {
  EACH_OF(w, d[j] = 0;)
  DOWN(rows, T e = x[j] - s[j]; T f = x[j + m] - s[j]; T g = x[j + 2 * m] - s[j];
       T h = x[j + 3 * m] - s[j]; d[j] += (e * e + f * f) + (g * g + h * h);,
       T e = x[j] - s[j]; d[j] += e * e;)
}
static void joined(int64_t w, T share, T before, const T *restrict s, const T *restrict d,
                   T *restrict mean, T *restrict square) {
  EACH_OF(w, T e = s[j] - mean[j]; mean[j] += e * share;
          square[j] += d[j] + e * e * before * share;)
}
#define OWN T *own = calloc(omp_get_max_threads() * 2 * m + 1, sizeof(T)); \\
  _Pragma("omp parallel") { int k = omp_get_num_threads(), t = omp_get_thread_num(); \\
  int64_t begin = n * t / k, end = n * (t + 1) / k; T *mine = own + 2 * m * t; \\
  T s[WIDE], d[WIDE]; (void)s; (void)d;
#define BLOCKS for (int64_t i = begin; i < end; i += TALL) \\
  for (int64_t c = 0; c < m; c += WIDE) { \\
  int64_t rows = LESS(TALL, end - i), w = LESS(WIDE, m - c); const T *p = a + i * m + c;
#define MEANS(mean) OWN BLOCKS sums(rows, w, m, p, s); T *o = mine + c; \\
  EACH_OF(w, o[j] += s[j];) } } \\
  int parts = omp_get_max_threads(); \\
  EACH_OF(m, T all = 0; for (int k = 0; k < parts; k++) all += own[2 * m * k + j]; \\
          mean[j] = all / n;) free(own);
#define MOMENTS(mean, variance) OWN BLOCKS \\
  sums(rows, w, m, p, s); EACH_OF(w, s[j] /= rows;) squares(rows, w, m, p, s, d); \\
  joined(w, (T)rows / (i - begin + rows), i - begin, s, d, mine + c, mine + m + c); } } \\
  int64_t past = 0; int k = omp_get_max_threads(); \\
  EACH_OF(m, mean[j] = 0; variance[j] = 0;) \\
  for (int t = 0; t < k; t++) { int64_t rows = n * (t + 1) / k - n * t / k; if (!rows) continue; \\
    const T *its = own + 2 * m * t; \\
    joined(m, (T)rows / (past + rows), past, its, its + m, mean, variance); past += rows; } \\
  EACH_OF(m, variance[j] /= n;) free(own);
"""
"""What the bodies below are written with, after the rows' own."""
COLUMN_BODIES = {
    "column_mean": "MEANS(r)",
    "column_variance": "MOMENTS(r, s)",
    "batch_norm": """T *mean = malloc(2 * m * sizeof(T)), *scale = mean + m;
MOMENTS(mean, scale) EACH_OF(m, scale[j] = ROOT(scale[j] + (T)1e-5);)
_Pragma("omp parallel for schedule(static)") for (int64_t i = n - 1; i >= 0; i--) {
  const T *x = a + i * m; T *t = r + i * m;
  EACH_OF(m, t[j] = (x[j] - mean[j]) / scale[j] * b[j] + c[j];) }
free(mean);""",
}
