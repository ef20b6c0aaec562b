"""Rows in C: what gcc makes of each formula, with the divisions and functions that NumPy's has.

The same flags as the pointwise loops; sums and extremes are `omp simd` reductions, so that they
are vectors of partial results without any care for rounding. What gcc makes no good vectors of is
in `throughput_c_vectors`, for processors with AVX-512.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import throughput_c_vectors as vectors
from throughput_c_columns import COLUMN_BODIES, COLUMNS

ROWS = """
#define SIMD(...) _Pragma(#__VA_ARGS__)
#define EACH(clause, body) SIMD(omp simd clause) for (int64_t j = 0; j < m; j++) { body }
#define BEGIN _Pragma("omp parallel for schedule(static)") for (int64_t i = 0; i < n; i++) { \\
  const T *x = a + i * m; (void)x;
#define LARGEST T largest = x[0]; \\
  EACH(reduction(max : largest), largest = x[j] > largest ? x[j] : largest;)
#define WEIGHTS T total = 0; EACH(reduction(+ : total), total += EXP(x[j] - largest);)
#define MEAN T mean = 0; EACH(reduction(+ : mean), mean += x[j];) mean /= m;
#define VARIANCE T variance = 0; \\
  EACH(reduction(+ : variance), T d = x[j] - mean; variance += d * d;) variance /= m;
"""
"""What the bodies below are written with; `T`, `EXP`, `LOG` and `ROOT` go before it."""
ARGUMENTS = (
    "int64_t n, int64_t m, int64_t others, int64_t beyond, "
    "const T *a, const T *b, const T *c, T *restrict r, T *restrict s"
)
BODIES = {
    "softmax": """BEGIN LARGEST T *t = r + i * m; T total = 0;
EACH(reduction(+ : total), T w = EXP(x[j] - largest); t[j] = w; total += w;)
EACH(, t[j] = t[j] / total;) }""",
    "log_softmax": """BEGIN LARGEST WEIGHTS T *t = r + i * m; T shift = LOG(total);
EACH(, t[j] = (x[j] - largest) - shift;) }""",
    "layer_norm": """BEGIN MEAN VARIANCE T *t = r + i * m; T scale = ROOT(variance + (T)1e-5);
EACH(, t[j] = (x[j] - mean) / scale * b[j] + c[j];) }""",
    "rms_norm": """BEGIN T *t = r + i * m; T mean = 0;
EACH(reduction(+ : mean), mean += x[j] * x[j];) T scale = ROOT(mean / m + (T)1e-5);
EACH(, t[j] = x[j] / scale * b[j];) }""",
    "row_logsumexp": "BEGIN LARGEST WEIGHTS r[i] = LOG(total) + largest; }",
    "cross_entropy": """const int64_t *target = (const int64_t *)b, *classes = (const int64_t *)c;
BEGIN LARGEST T total = 0, chosen = 0; const int64_t wanted = target[i];
EACH(reduction(+ : total, chosen), T d = x[j] - largest; total += EXP(d);
     chosen += classes[j] == wanted ? d : 0;)
r[i] = LOG(total) - chosen; }""",
    "row_mean": "BEGIN MEAN r[i] = mean; }",
    "row_variance": "BEGIN MEAN VARIANCE r[i] = mean; s[i] = variance; }",
    "row_correlation": """BEGIN const T *y = b + i * m; T p = 0, q = 0;
EACH(reduction(+ : p, q), p += x[j]; q += y[j];) p /= m; q /= m;
T both = 0, first = 0, second = 0;
EACH(reduction(+ : both, first, second), T d = x[j] - p; T e = y[j] - q;
     both += d * e; first += d * d; second += e * e;)
r[i] = both / ROOT(first * second); }""",
    **COLUMN_BODIES,
}
WRITTEN = {*BODIES, *vectors.BODIES}
OUTPUTS = {"row_variance": 2, "row_range": 2, "value_range": 2, "column_variance": 2}
"""Vectors with an element for each row, or column; the others give one, or a whole matrix."""
MATRICES = ("softmax", "log_softmax", "layer_norm", "rms_norm", "batch_norm")


def row_text(name: str, dtype: np.dtype[Any]) -> str:
    """The C function of a workload, after the head that declares vector functions."""
    wide = dtype == np.float64
    kinds = {
        "T": "double" if wide else "float", "EXP": "exp" if wide else "expf",
        "LOG": "log" if wide else "logf", "ROOT": "sqrt" if wide else "sqrtf",
    }  # fmt: skip
    head = "".join(f"#define {key} {value}\n" for key, value in kinds.items())
    if name in vectors.BODIES:
        text, body = vectors.vector_head(dtype.name), vectors.BODIES[name]
    else:
        text, body = f"{ROWS}{COLUMNS}", BODIES[name]
    return f"{head}{text}void run({ARGUMENTS}) {{\n{body}\n}}\n"


def row_lengths(arguments: Any) -> tuple[int, int, int]:
    """Rows, their length, and rows of a second matrix."""
    first, *more = arguments
    rows, length = first.shape if first.ndim == 2 else (1, first.size)
    return rows, length, more[0].shape[0] if more else 0


def row_shapes(name: str, arguments: Any) -> list[tuple[tuple[int, ...], Any]]:
    """Shape and dtype of each result of one call."""
    first = arguments[0]
    if name in MATRICES:
        return [(first.shape, first.dtype)]
    if name == "pairwise_distance":
        return [((first.shape[0], arguments[1].shape[0]), first.dtype)]
    dtype = np.dtype(np.int64) if name == "row_argmax" else first.dtype
    shape = first.shape[1:] if name in COLUMN_BODIES else first.shape[:-1]
    return [(shape, dtype)] * OUTPUTS.get(name, 1)
