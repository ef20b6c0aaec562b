"""Loops whose iterations wait for the one before, after loops whose iterations do not."""

from __future__ import annotations

import numpy as np
import pytest

import fuser
from tests.fuser.comparing import same
from tests.fuser.element_loops.random_programs import loaded, outcome

_ROWS = "for i in range(1, a.shape[0] - 1):\n    "
_WAITS = "\n    for j in range(1, a.shape[1] - 1):\n        "
_CHAIN = _WAITS + "a[i, j] = (a[i, j] + a[i, j - 1]) / 9.0"
LOOPS = {
    "Seidel's": _ROWS + "a[i, 1:-1] += a[i - 1, :-2] + a[i, 2:] + a[i + 1, 2:]" + _CHAIN,
    "what the loop writes later": _ROWS + "a[i, 1:-1] *= a[i, 2:]" + _CHAIN,
    "another array": _ROWS + "b[i, 1:-1] = a[i, 2:] + a[i, 1:-1]"
    + _WAITS + "a[i, j] = b[i, j] - a[i, j - 1]",
    "loops of single elements": _ROWS + "for k in range(1, a.shape[1] - 1):\n"
    "        s = a[i - 1, k] * c\n        a[i, k] += s" + _CHAIN,
    "other starts": _ROWS + "for k in range(a.shape[1] - 2):\n        b[i, k] = a[i, k + 2] * c"
    + _WAITS + "a[i, j] = b[i, j - 1] + a[i, j - 1] * c",
    "what the first loop has yet to write": _ROWS + "a[i, 1:-1] += a[i - 1, 1:-1]"
    + _WAITS + "a[i, j] = a[i, j - 1] + a[i, j + 1]",
    "what the second loop has written": _ROWS + "b[i, 1:-1] = a[i, :-2] * c"
    + _WAITS + "a[i, j] = b[i, j] - a[i, j - 1]",
    "rows that may be one": _ROWS + "a[n, 1:-1] += a[i - 1, :-2]" + _CHAIN,
    "a sum that is read": _ROWS + "for k in range(1, a.shape[1] - 1):\n        s += a[i, k]"
    + _WAITS + "a[i, j] = s + a[i, j - 1]",
    "iterations that stand apart": _ROWS + "b[i, 1:-1] = a[i, 2:] * c"
    + _WAITS + "a[i, j] = b[i, j] * c",
    "a variable of the second loop": _ROWS + "for k in range(1, a.shape[1] - 1):\n"
    "        b[i, k] = t" + _WAITS + "t = a[i, j] * c\n        a[i, j] = t + a[i, j - 1]",
    "counts that differ": _ROWS + "b[i, 1:-2] = a[i, 3:] * c"
    + _WAITS + "a[i, j] = b[i, j] - a[i, j - 1]",
}


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int32"])
def test_results_are_those_of_python(name: str, dtype: str) -> None:
    """Bit for bit, of any number of iterations; also what variables are left with."""
    lines = LOOPS[name].replace("\n", "\n    ")
    source = "import numpy as np\n\n\ndef f(a, b, c, n):\n    s = t = c\n    i = j = k = -1\n"
    source += f"    {lines}\n    return a, b, s, t, i, j, k\n"
    plain = loaded(source, f"waiting loops {name}")
    fused = fuser.fuse(plain, fallback="allow")
    for rows, columns in ((3, 3), (3, 2), (4, 1), (4, 4), (3, 5), (5, 17), (9, 40), (2, 0)):
        rng = np.random.default_rng(columns)
        a, b = ((rng.standard_normal((rows, columns)) * 9).astype(dtype) for _ in range(2))
        c = 0.5 if dtype[0] == "f" else 2
        pairs = [[a.copy(), b.copy(), c, 1] for _ in range(2)]
        wanted, found = outcome(plain, pairs[0]), outcome(fused, pairs[1])
        assert wanted[0] == found[0]
        assert same(wanted[1], found[1])
        assert all(map(same, *pairs))
