/* Rows and columns in C: what gcc makes of each formula, with the divisions and functions that
   NumPy's has. A function for each workload of its name, all with the same parameters.

   Sums and extremes of rows are `omp simd` reductions, so that they are vectors of partial results
   without any care for rounding. Columns are summed down a matrix whose rows lie one behind another:
   each thread has a range of rows and reads it once, in blocks of rows and columns that stay in its
   second cache: the block's means, then from the cache the squared distances from these, which are
   joined to those before by Chan, Golub and LeVeque's formula ("Algorithms for computing the sample
   variance", The American Statistician 37(3), 1983). Four rows are added to each other before they
   are added to sums in memory. */

#define SIMD(...) _Pragma(#__VA_ARGS__)
#define EACH(clause, body) SIMD(omp simd clause) for (int64_t j = 0; j < m; j++) { body }
#define BEGIN _Pragma("omp parallel for schedule(static)") for (int64_t i = 0; i < n; i++) { \
  const T *x = a + i * m; (void)x;
#define LARGEST T largest = x[0]; \
  EACH(reduction(max : largest), largest = x[j] > largest ? x[j] : largest;)
#define WEIGHTS T total = 0; EACH(reduction(+ : total), total += EXP(x[j] - largest);)
#define MEAN T mean = 0; EACH(reduction(+ : mean), mean += x[j];) mean /= m;
#define VARIANCE T variance = 0; \
  EACH(reduction(+ : variance), T d = x[j] - mean; variance += d * d;) variance /= m;

#include <stdlib.h>
#include <omp.h>
#define WIDE 1024
#define TALL 64
#define DOWN(rows, four, one) { int64_t i = 0; for (; i + 4 <= rows; i += 4) { \
    const T *x = p + i * m; EACH_OF(w, four) } \
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
#define OWN T *own = calloc(omp_get_max_threads() * 2 * m + 1, sizeof(T)); \
  _Pragma("omp parallel") { int k = omp_get_num_threads(), t = omp_get_thread_num(); \
  int64_t begin = n * t / k, end = n * (t + 1) / k; T *mine = own + 2 * m * t; \
  T s[WIDE], d[WIDE]; (void)s; (void)d;
#define BLOCKS for (int64_t i = begin; i < end; i += TALL) \
  for (int64_t c = 0; c < m; c += WIDE) { \
  int64_t rows = LESS(TALL, end - i), w = LESS(WIDE, m - c); const T *p = a + i * m + c;
#define MEANS(mean) OWN BLOCKS sums(rows, w, m, p, s); T *o = mine + c; \
  EACH_OF(w, o[j] += s[j];) } } \
  int parts = omp_get_max_threads(); \
  EACH_OF(m, T all = 0; for (int k = 0; k < parts; k++) all += own[2 * m * k + j]; \
          mean[j] = all / n;) free(own);
#define MOMENTS(mean, variance) OWN BLOCKS \
  sums(rows, w, m, p, s); EACH_OF(w, s[j] /= rows;) squares(rows, w, m, p, s, d); \
  joined(w, (T)rows / (i - begin + rows), i - begin, s, d, mine + c, mine + m + c); } } \
  int64_t past = 0; int k = omp_get_max_threads(); \
  EACH_OF(m, mean[j] = 0; variance[j] = 0;) \
  for (int t = 0; t < k; t++) { int64_t rows = n * (t + 1) / k - n * t / k; if (!rows) continue; \
    const T *its = own + 2 * m * t; \
    joined(m, (T)rows / (past + rows), past, its, its + m, mean, variance); past += rows; } \
  EACH_OF(m, variance[j] /= n;) free(own);
#define ARGUMENTS int64_t n, int64_t m, int64_t others, int64_t beyond, \
  const T *a, const T *b, const T *c, T *restrict r, T *restrict s

void softmax(ARGUMENTS) {
BEGIN LARGEST T *t = r + i * m; T total = 0;
EACH(reduction(+ : total), T w = EXP(x[j] - largest); t[j] = w; total += w;)
EACH(, t[j] = t[j] / total;) }
}

void log_softmax(ARGUMENTS) {
BEGIN LARGEST WEIGHTS T *t = r + i * m; T shift = LOG(total);
EACH(, t[j] = (x[j] - largest) - shift;) }
}

void layer_norm(ARGUMENTS) {
BEGIN MEAN VARIANCE T *t = r + i * m; T scale = ROOT(variance + (T)1e-5);
EACH(, t[j] = (x[j] - mean) / scale * b[j] + c[j];) }
}

void rms_norm(ARGUMENTS) {
BEGIN T *t = r + i * m; T mean = 0;
EACH(reduction(+ : mean), mean += x[j] * x[j];) T scale = ROOT(mean / m + (T)1e-5);
EACH(, t[j] = x[j] / scale * b[j];) }
}

void row_logsumexp(ARGUMENTS) {
BEGIN LARGEST WEIGHTS r[i] = LOG(total) + largest; }
}

void cross_entropy(ARGUMENTS) {
const int64_t *target = (const int64_t *)b, *classes = (const int64_t *)c;
BEGIN LARGEST T total = 0, chosen = 0; const int64_t wanted = target[i];
EACH(reduction(+ : total, chosen), T d = x[j] - largest; total += EXP(d);
     chosen += classes[j] == wanted ? d : 0;)
r[i] = LOG(total) - chosen; }
}

void row_mean(ARGUMENTS) {
BEGIN MEAN r[i] = mean; }
}

void row_variance(ARGUMENTS) {
BEGIN MEAN VARIANCE r[i] = mean; s[i] = variance; }
}

void row_correlation(ARGUMENTS) {
BEGIN const T *y = b + i * m; T p = 0, q = 0;
EACH(reduction(+ : p, q), p += x[j]; q += y[j];) p /= m; q /= m;
T both = 0, first = 0, second = 0;
EACH(reduction(+ : both, first, second), T d = x[j] - p; T e = y[j] - q;
     both += d * e; first += d * d; second += e * e;)
r[i] = both / ROOT(first * second); }
}

void column_mean(ARGUMENTS) {
MEANS(r)
}

void column_variance(ARGUMENTS) {
MOMENTS(r, s)
}

void batch_norm(ARGUMENTS) {
T *mean = malloc(2 * m * sizeof(T)), *scale = mean + m;
MOMENTS(mean, scale) EACH_OF(m, scale[j] = ROOT(scale[j] + (T)1e-5);)
_Pragma("omp parallel for schedule(static)") for (int64_t i = n - 1; i >= 0; i--) {
  const T *x = a + i * m; T *t = r + i * m;
  EACH_OF(m, t[j] = (x[j] - mean[j]) / scale[j] * b[j] + c[j];) }
free(mean);
}
