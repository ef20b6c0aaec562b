"""What a launch gets of lengths: every expression over them is what Python makes of it, each time.

Each function is called twice and more with each of many lengths, in mixed order, with and
without `out=`, and is held against the plain function.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.base.errors import FusionError

LENGTHS = (6, 7, 8, 9, 10, 11, 3, 5, 12, 2, 1, 0, 64)

#: Factors of a vector `x` of `n` elements, in the table below by `x * (…)`.
FACTORS = """
n % 4; (-1)**n; n & 6; n | 3; n ^ 5; 10//(n-5); (n+1)//2 - n//2; n**3; n*n*n*n*n*n*n*n; n>>1; n<<2
~n; min(n, 7); max(n-8, 0); abs(n-7); divmod(n, 3)[1]; divmod(n, n-6)[0]; bool(n % 2); not n
n and 3
float(n)**0.5; (n-8.0)**0.5; round(n/3); n/(n-5); n % (n-7); 2**(n-20); 1 << (n-5); n**-1
math.sqrt(n); math.gcd(n, 6); (n-37)*(n-61); n*n-n; 3*n; -n; n*0.5; n//3*3; int(n/2); n == 7
n if n > 8 else -n; x.size % 3; x.nbytes % 24; x.ndim; x.strides[0]; np.int64(n) % 3; np.mod(n, 4)
x[1:].size % 3; x[::2].shape[0]; 1/(1 + n % 3); pow(2, -n); len(x[n//2:]) % 3; n**2 % 7//3
3 - n//-2; n/4
"""
#: Other functions of `x`.
WHOLE = """
x[:n//2]*2; x[n//2:] + 1; x[n//3]*x; x[:n//2] + x[n-n//2:]; x[::2]*(n % 3); x[n % 3:]*2
x[-(n//2):] + 1; x[min(n, 7)-1] + x; x[:max(n-8, 0)] + 1; x[n-8]*x; x[n]*x; x[9] + x
x[7:].sum()*x; x[:n-7]*3; x[n//3:n-2]*2; x[:n % 5].sum() - x; x[-n//2:] + 1
x + np.arange(n); np.arange(n//3) + 1.; np.arange(1, n, 2)*1.5
np.arange(n-8) + 1.; np.arange(n, 0, -1)*x; np.zeros(n-5) + 1; np.ones(n-7)*3
np.full(n-6, 2.) + 1; np.empty(n-8)*0; np.zeros((n-6, 2)) + x[0]
np.zeros((2, n-6)).sum() + x; np.broadcast_to(x, (n-7, n))*2; np.broadcast_to(x[0], (n-6,)) + 1
np.linspace(0, 1, n-6) + 1; np.linspace(0, 1, n//2) + 1; np.eye(n-6) + 1; np.identity(n-7) + 2
np.tri(n-6)*2; x.reshape(n-6, -1)*2; x[:n//2*2].reshape(n//2, 2)*2; x[:n//2*2].reshape(-1, 2).sum(1)
x.sum()/n; x.mean()*(n % 3); x.mean()/(n-7); np.concatenate([x, x[:n % 3]])*2; np.tile(x, n % 3)
np.pad(x, (n % 3, 1))*2; np.roll(x, n//2) + 1; np.where(np.arange(n) < n//2, x, -x)
x.astype('i8')//(n-7); x.astype('i8')**(n % 4); x.astype('u1')*(n-7); x.astype('f4')*(n % 4)
np.sort(x)*(n % 3); np.sort(x)[:n//2]*2; x@x*(n % 3); (x*2, n % 3, 10//(n-5))
np.add.outer(x, x)[:n//2]; np.ones(n//2)*x[::2][:n//2]
"""
#: Functions of `x` with `n` rows and `m` columns, and of a vector `y`.
SEVERAL = """
x*(x.shape[0]*x.shape[1] % 5); x*(n*m-n); x.sum(0)*(m % 3); x/(n-m); x.sum()/(n*m); x*abs(n-m)
x.mean(1)*(n % 3); x[:, :m//2]*2; x[n-8:, m-8:]*2; np.zeros((n, m-7)) + 1; x.reshape(m, n) + len(y)
x*(len(y) % 4); x*(len(y)*n); x*(n-len(y)); np.add.outer(x[0], y)*(len(y) % 3)
y*(n % 3) + len(y) % 2; np.zeros(n-len(y)) + 1; y[:min(n, len(y))]*(m % 3); y[:1]*x*(len(y) % 2)
"""
def _texts(table: str, form: str = "{}") -> list[str]:
    """The expressions of a table."""
    lines = table.strip().splitlines()
    return [form.format(text.strip()) for line in lines for text in line.split(";")]


VECTORS = [*_texts(FACTORS, "x*({})"), *_texts(WHOLE)]
MATRICES = _texts(SEVERAL)


def function_of(text: str) -> Callable[..., Any]:
    """The function of `x` and `y` that gives an expression."""
    names: dict[str, Any] = {"np": np, "math": math}
    exec(f"def f(x, y):\n    n, m = len(x), x.shape[-1]\n    return {text}", names)
    found: Callable[..., Any] = names["f"]
    return found


def outcome(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """What a call gives: its result, or the error's type."""
    try:
        return function(*args, **options)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is compared
        return type(error)


def assert_alike(wanted: Any, found: Any) -> None:
    """Same types, shapes and values, these to rounding; an error may be a special one."""
    if isinstance(wanted, type):
        assert found.__class__ is type, found
        assert issubclass(found, wanted)
    elif isinstance(wanted, tuple):
        assert type(found) is tuple
        assert len(found) == len(wanted)
        for one, other in zip(wanted, found, strict=True):
            assert_alike(one, other)
    else:
        assert type(found) is type(wanted), (wanted, found)
        assert getattr(found, "dtype", None) == getattr(wanted, "dtype", None)
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("text", [*VECTORS, *MATRICES])
@pytest.mark.filterwarnings("ignore")
def test_expressions_over_lengths_are_evaluated_at_each_call(text: str) -> None:
    """Values, dtypes and errors are NumPy's for all lengths; arguments are left alone.

    One function falls back, and another one raises where it cannot be fused: by turns.
    """
    plain, order = function_of(text), random.Random(text)
    allowing, raising = (fuser.fuse(plain, fallback=policy) for policy in ("allow", "error"))
    lengths = [n for n in LENGTHS for _ in range(4)]
    for place, n in enumerate((*lengths, *order.sample(lengths, len(lengths)))):
        fused = raising if place % 4 > 1 else allowing
        shape = (n,) if text in VECTORS else (n, order.choice([2, 7, 9]))
        x, y = np.ones(shape) * np.arange(1.0, shape[-1] + 1), np.arange(order.choice([1, n, 5, 8]))
        given = x.copy()
        wanted, found = outcome(plain, x, y), outcome(fused, given, y)
        np.testing.assert_array_equal(given, x)
        if found is FusionError and fused is raising:
            continue
        assert_alike(wanted, found)
        if type(wanted) is np.ndarray and order.random() < 0.5:
            out = np.empty_like(wanted)
            assert outcome(fused, given, y, out=out) is out
            assert_alike(wanted, out)


@pytest.mark.parametrize("maker", ["np.zeros", "np.ones", "np.empty", "np.eye"])
def test_a_negative_length_is_an_error_before_a_launch(maker: str) -> None:
    """Also of a graph, which no trace looks at again; arguments stay as they were."""
    x = np.arange(9.0)
    graph = fuser.trace(function_of(f"x.sum() + {maker}(n - 5)"), x, x)
    key = fuser.register_fusion(graph)
    fuser.run_fusion(key, (x, x))
    with pytest.raises(ValueError, match=r"fit|negative"):
        fuser.run_fusion(key, (x[:3], x[:3]))


def test_an_error_that_the_function_catches_is_no_error() -> None:
    """A divisor of 0 leads to what the function does then, whichever length comes first."""

    def divided(x: Any) -> Any:
        try:
            factor = 10 // (len(x) - 5)
        except ZeroDivisionError:
            factor = -1
        return x * factor

    for lengths in ((5, 6, 7, 5, 4, 6, 5, 5), (6, 7, 5, 5, 6, 5, 4, 5, 7)):
        fused = fuser.fuse(divided, fallback="error")
        for n in lengths:
            np.testing.assert_array_equal(fused(np.ones(n)), divided(np.ones(n)))


def test_an_error_leaves_what_numpy_leaves() -> None:
    """What was written before it is written, once."""

    def changed(x: Any) -> Any:
        x += 1
        return x * (10 // (len(x) - 5))

    fused = fuser.fuse(changed, fallback="allow")
    for n in (6, 6, 6, 5, 5, 7, 5):
        plain, given = np.ones(n), np.ones(n)
        assert_alike(outcome(changed, plain), outcome(fused, given))
        np.testing.assert_array_equal(given, plain)
