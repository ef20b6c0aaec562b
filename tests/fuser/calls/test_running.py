"""Arguments are changed once: after a write nothing is run again, whatever a backend cannot do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fuser
from fuser.base.errors import Unsupported
from fuser.calls.fused_function import FusedFunction
from tests.fuser.comparing import run_plain

#: Bodies of functions of `x`: complex values of real arguments, opaque calls, errors in the middle.
BODIES = """
v = np.abs(x * 1j); x += 1; return v
x += 1; v = np.abs(x * 1j); return v
v = np.exp(1j * x); x[1:] += 1; return v
v = np.sinh(x * 1j); x *= 2; w = np.cosh(x * 1j); x += 1; return v + w
x[0] = 5; v = np.arctan(x * 1j); return v
x += 1; s = np.sort(x); x *= 2; return np.abs(s * 1j)
x += 1; s = np.sort(x); v = np.angle(s * 1j + 1); x += v; return s
s = np.sort(x); x += 1; return (x * 1j + s).real
x += 1; y = np.fft.fft(x); x += y.real; return np.abs(y * 1j)
x += 1; y = x.astype(np.longdouble) * 2; x += 1; return y
x += 1; y = np.sort(x).astype("c8") * 1j; x -= 2; return np.exp(y)
x += 1; v = np.tan(x + 1j); x @ x; return v
x += 1; i = x.astype(int); return i ** (i - 5)
i = np.sort(x).astype(int); x += 1; return i ** (i - 3)
i = x.astype(int); x += 1; return i ** -(np.sort(i) - 1)
x += 1; np.linalg.inv(np.zeros((2, 2)) * x[0]); x += 1; return x
x += 1; y = np.sort(x); x *= 2; return np.linalg.cholesky(-np.eye(2) * y[0])
x += 1; y = np.sort(x); x += 1; return y[10]
x += 1; y = np.sort(x); x += 1; return y * (10 // (len(x) - 5))
x += 1; y = np.sort(x); x += 1; return y[0], 10 // (len(x) - 5)
x += 1; return x.sum(), 10 // (len(x) - 5)
x += 1; y = 1 / (x - 2); x += 1; return y
x += 1; y = np.log(-np.sort(x)); x += 1; return y
x += 1; y = np.cumsum(x); x += 1; return np.zeros(len(x) - 5) + y[:1]
"""


@pytest.mark.parametrize("body", BODIES.strip().splitlines())
@pytest.mark.parametrize("errstate", [False, True])
@pytest.mark.parametrize("mode", fuser.calls.fused_function.MODES)
@pytest.mark.filterwarnings("ignore")
def test_arguments_are_changed_once(body: str, errstate: bool, mode: str) -> None:
    """Results, errors and what is left in the argument are NumPy's, for contiguous and strided."""
    names: dict[str, Any] = {"np": np}
    exec(f"def f(x):\n    {body}", names)
    fused = fuser.fuse(names["f"], fallback="allow", errstate=errstate, mode=mode)
    for length in (5, 4, 6, 5, 6):
        for step in (1, 2):
            x, y = (np.arange(1.0, step * length + 1)[::step] for _ in range(2))
            wanted, found = run_plain(names["f"], [x], {}), run_plain(fused, [y], {})
            np.testing.assert_allclose(y, x, rtol=1e-12)
            assert isinstance(found, type(wanted)), (wanted, found)
            if not isinstance(wanted, Exception):
                for one, other in zip(np.atleast_1d(wanted), np.atleast_1d(found), strict=True):
                    np.testing.assert_allclose(other, one, rtol=1e-6)


@pytest.mark.parametrize("fault", ["_go_native", "_get_ready"])
def test_what_prepares_later_calls_never_runs_this_one_again(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shorter way that cannot be made is none; the call has written its arguments by then."""

    def refuse(*_: Any) -> bool:
        raise Unsupported("unsupported-dtype", "an entry", "dtype complex128", "")

    monkeypatch.setattr(FusedFunction, "_go_native", lambda *_: False)
    monkeypatch.setattr(FusedFunction, fault, refuse)

    @fuser.fuse(fallback="error")
    def grown(x: Any) -> Any:
        x += 1
        return x * 2

    x = np.zeros(5)
    for times in range(1, 4):
        np.testing.assert_array_equal(grown(x), 2.0 * times)
        np.testing.assert_array_equal(x, times)
