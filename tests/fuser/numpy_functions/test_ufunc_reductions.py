"""Options of reductions, as functions, methods and ufuncs' `reduce`: what NumPy makes of them."""

from typing import Any

import numpy as np
import pytest

import fuser
from tests.fuser.comparing import compare

X = np.arange(1, 13, dtype=np.int64).reshape(3, 4)
FLOATS = X * 0.5
MASK = FLOATS > 2
#: One call each: what is reduced is x, a mask is m, and o is an array for the result.
CALLS = """
np.maximum.reduce(x, dtype=np.float32)
np.minimum.reduce(x, axis=1, dtype=np.int16)
np.minimum.reduce(x, axis=None, dtype=np.complex128)
np.logical_or.reduce(x, dtype=np.float64)
np.logical_and.reduce(x, dtype=bool)
np.add.reduce(x, where=None)
np.multiply.reduce(x, where=m)
np.add.reduce(x, initial=None)
np.sum(x, initial=None, where=m)
np.max(x, initial=None, where=m)
np.max(x, initial=None)
np.sum(x, axis=[0])
x.prod(axis=[0])
np.argmax(x, axis=[0])
np.argmax(x, axis=0.0)
np.any(x, axis=True)
np.argmin(x, axis=True)
np.average(x, axis=[0])
np.average(x, axis=[0, 1])
x.var(correction=1)
np.var(x, correction=1)
x.std(axis=0, correction=0)
np.var(x, dtype=np.float32)
np.nansum(x, where=None)
np.nanvar(x, axis=0, where=None)
np.nanmean(x, where=m)
np.sum(x, out=(o,))
np.nanprod(x, out=(o,))
np.add.reduce(x, axis=None, out=(o,))
np.fmax.reduce(x, axis=None, out=o)
np.bitwise_or.reduce(x, axis=None, out=o)
""".strip().splitlines()


@pytest.mark.parametrize("call", CALLS)
def test_options(call: str) -> None:
    """Results, dtypes and exceptions are NumPy's, whatever NumPy makes of the options."""
    function = eval(f"lambda x, m, o: ({call}, o)", {"np": np})
    for x in (X, FLOATS, X.astype(np.uint8)):
        for m in (MASK, MASK[:1], MASK[:, :1], MASK[0]):
            text = compare(function, x, m, np.zeros((), x.dtype), fallback="allow", ulp=4)
            assert not text, text


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "any", "all", "mean", "std", "var"])
def test_a_mask_does_not_enlarge_what_is_reduced(name: str) -> None:
    """`where=` has to broadcast to the array, in the first call and in later ones."""
    options: dict[str, Any] = {"initial": 1} if name in ("max", "min") else {}
    function = getattr(np, name)

    def masked(x: Any, m: Any) -> Any:
        return function(x, axis=0, where=m, **options)

    fused = fuser.fuse(masked, fallback="allow")
    for shape, mask in (
        ((3, 4), (3, 4)), ((1, 4), (3, 4)), ((3, 1), (3, 4)), ((3, 4), (1, 4)), ((1, 1), (1, 1)),
        ((4,), (3, 4)), ((3, 4), (2, 3, 4)), ((3, 4), ()),
    ):  # fmt: skip
        x = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
        text = compare(fused, x, np.ones(mask, bool), ulp=2)
        assert not text, (shape, mask, text)


@pytest.mark.parametrize(
    "name", ["sum", "prod", "max", "min", "any", "all", "mean", "std", "var", "argmax", "ptp"]
)
def test_an_array_for_the_result_fits_exactly(name: str) -> None:
    """Nothing is broadcast into `out=`; another dtype is what NumPy makes of it."""
    function = getattr(np, name)
    fused = fuser.fuse(lambda x, o: function(x, axis=0, out=o) + 1, fallback="allow")
    big = np.array([[2**62, 3], [2**62, 5], [7, 1]])
    for x in (big, big.astype(np.uint8), big * 0.3, big > 3):
        for dtype in ("?", "i1", "u2", "i8", "f4", "f8"):
            for shape in ((2,), (1,), (3, 2), (1, 2), ()):
                text = compare(fused, x, np.zeros(shape, dtype), ulp=8)
                assert not text, (x.dtype, dtype, shape, text)
