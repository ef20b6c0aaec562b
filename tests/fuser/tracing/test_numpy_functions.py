"""NumPy's public functions of arrays: fused, run between kernels, or the whole function in NumPy.

One plain call of each; other forms of a call may be served less well. The table is what users
are told, so a function that changes its place changes it here.
"""

from typing import Any

import numpy as np
import pytest

import fuser
from fuser.base import trees


def _calls(table: str) -> list[str]:
    """The calls of a table, in lines of several."""
    return [call for line in table.strip().splitlines() for call in line.split("; ")]


FUSED = _calls("""
np.unwrap(v); np.all(x > 0, axis=1); np.allclose(x, x); np.amax(x); np.amin(x); np.angle(x)
np.any(x > 0); np.append(v, w); np.apply_along_axis(np.sum, 0, x)
np.apply_over_axes(np.sum, x, [0, 1]); np.argmax(x, 1); np.argmin(x, 1); np.around(x, 1)
np.array_equal(v, w); np.astype(x, np.float64); np.atleast_1d(v); np.atleast_2d(v); np.atleast_3d(v)
np.average(x, axis=0); np.block([[x, x], [x, x]]); np.broadcast_arrays(v, x[:, :1])[0] * 1
np.broadcast_to(v, (3, 7)); np.can_cast(v.dtype, np.float64); np.choose(i % 3, [v, w, v])
np.clip(x, 0, 1); np.column_stack([v, w]); np.concat([v, w]); np.concatenate([v, w])
np.convolve(v, [1, 2, 1]); np.copy(x); np.copyto(y, x, where=x > 0); np.count_nonzero(x)
np.cross(x[:, :3], x[:, 1:]); np.delete(v, 2); np.diag(v); np.diagflat(v); np.diagonal(q)
np.diff(v); np.dot(v, w); np.dsplit(x.reshape(3, 4, 2), 2)[0]; np.dstack([v, w]); np.ediff1d(v)
np.einsum('ij->ji', x); np.empty_like(x) * 0; np.expand_dims(v, 0); np.fill_diagonal(p, 0)
np.fix(x); np.flip(x); np.fliplr(x); np.flipud(x); np.full_like(x, 2); np.gradient(v)
np.hsplit(x, 2)[0]; np.hstack([v, w]); np.imag(x); np.inner(v, w); np.insert(v, 2, 1.0)
np.isclose(x, x); np.iscomplex(x); np.iscomplexobj(x); np.isneginf(x); np.isposinf(x); np.isreal(x)
np.isrealobj(x); np.kron(v, w); np.linspace(v, w, 5); np.matrix_transpose(x); np.max(x); np.mean(x)
np.meshgrid(v, w)[0]; np.min(x, axis=0); np.moveaxis(x, 0, 1); np.nan_to_num(x); np.nanargmax(v)
np.nanargmin(x, 1); np.nanmax(x, 1); np.nanmean(x); np.nanmin(x); np.nanprod(x); np.nanstd(x, 1)
np.nansum(x); np.nanvar(x); np.ndim(x) * x; np.ones_like(x); np.outer(v, w); np.pad(x, 1)
np.permute_dims(x, (1, 0)); np.piecewise(v, [v > 0], [1, 2]); np.place(y, y > 1, [1.0])
np.polyval([1.0, 2.0, 3.0], x); np.prod(x); np.ptp(x)
np.put_along_axis(y, np.argmax(y, 1, keepdims=True), 0, 1); np.putmask(y, y > 1, 0.0); np.ravel(x)
np.real(x); np.real_if_close(x); np.repeat(v, 2); np.reshape(x, (4, 6)); np.result_type(x, v)
np.roll(v, 2); np.rollaxis(x, 1); np.rot90(x); np.round(x, 2)
np.select([x > 0, x < -1], [x, -x], 0); np.shape(x)[0] * x; np.sinc(x); np.size(x) * x
np.split(v, 7)[0]; np.squeeze(x[:, :1]); np.stack([v, w]); np.std(x); np.sum(x)
np.swapaxes(x, 0, 1); np.take(v, 2); np.tensordot(v, w, 1); np.tile(v, 3); np.trace(q)
np.transpose(x); np.trapezoid(v); np.tril(q); np.triu(q, 1); np.unstack(x[:3])[0]; np.var(x)
np.vdot(v, w); np.vsplit(x, 2)[0]; np.vstack([v, w]); np.zeros_like(x)
np.take_along_axis(x, h.astype(int) % 6, 0); np.cumprod(v); np.cumsum(v); np.histogram(v, 3)[0]
""")

BETWEEN = _calls("""
np.argpartition(v, 2); np.argsort(v); np.argwhere(v > 0); np.array_split(v, 3)[0]; np.bincount(i)
np.compress([True, False, True], x, axis=0); np.corrcoef(x); np.correlate(v, [1, 2, 1]); np.cov(x)
np.cumulative_prod(v); np.cumulative_sum(v); np.diag_indices_from(q)[0]; np.digitize(v, [0.0, 1.0])
np.extract(v > 0, v); np.flatnonzero(v); np.geomspace(1.0, x[0], 3)
np.histogram2d(v, w, 3)[0]; np.histogram_bin_edges(v, 3); np.histogramdd([v, w], 3)[0]; np.i0(x)
np.interp(v, [0.0, 1.0], [0.0, 2.0]); np.intersect1d(v, w); np.isin(i, [1, 2]); np.ix_(i, i)[0]
np.lexsort((v, w)); np.logspace(v, w, 3); np.median(x); np.nancumprod(v); np.nancumsum(v)
np.nanmedian(x); np.nanpercentile(x, 50); np.nanquantile(x, 0.5); np.nonzero(v)[0]
np.packbits(x > 0); np.partition(v, 2); np.percentile(x, 50); np.polyadd(v, w); np.polyder(v)
np.polydiv(v, w)[0]; np.polyfit(v, w, 1); np.polyint(v); np.polymul(v, w); np.polysub(v, w)
np.put(z, [0, 1], 5.0); np.quantile(x, 0.5); np.ravel_multi_index((i, i), (9, 9))
np.resize(v, (3, 3)); np.searchsorted(v, 1.0); np.setdiff1d(v, w); np.setxor1d(v, w); np.sort(v)
np.sort_complex(v); np.tril_indices_from(q)[0]; np.trim_zeros(v); np.triu_indices_from(q)[0]
np.union1d(v, w); np.unique(v); np.unique_all(v)[0]; np.unique_counts(v)[0]; np.unique_inverse(v)[0]
np.unique_values(v); np.unpackbits(b); np.unravel_index(i, (3, 3))[0]; np.vander(v)
np.where(v > 0)[0]
""")

WHOLE = _calls("""
np.array2string(x); np.array_equiv(v, w); np.array_repr(x); np.array_str(x); np.common_type(x)
np.einsum_path('ij,jk', x, q[:4])[0]; np.may_share_memory(x, v); np.min_scalar_type(x); np.poly(v)
np.roots(v); np.shares_memory(x, v)
""")

#: Functions of dates, files and text, and names that some versions of NumPy have beyond this.
LEFT_OUT = frozenset(
    "busday_count busday_offset is_busday datetime_as_string save savetxt savez savez_compressed "
    "in1d trapz row_stack".split()
)

#: Whether the table is of this NumPy in all of its rows.
_TABLED = np.__version__.startswith("2.4.")
CHANCE = np.random.default_rng(0)
ARGUMENTS = (
    CHANCE.standard_normal((6, 4)).astype(np.float32),
    CHANCE.standard_normal((5, 5)).astype(np.float32),
    CHANCE.standard_normal(7).astype(np.float32),
    CHANCE.standard_normal(7).astype(np.float32),
    CHANCE.integers(0, 9, 7),
    CHANCE.integers(0, 3, (6, 4)).astype(np.int16),
)
_AROUND = """
def function(x, q, v, w, i, h):
    x = x * 2; q = q * 3; v = v + 1; w = w * 2; i = i + 0
    y = x + 1; p = q * 2; z = v * 2; b = (i % 2).astype(np.uint8)
    found = {call}
    return found, y * 2, p * 2, z * 2
"""


def _function(call: str) -> Any:
    """A function with elementwise work before and after a call."""
    names: dict[str, Any] = {"np": np, "__name__": __name__}
    exec(_AROUND.format(call=call), names)  # the calls of the table above
    return names["function"]


def _name(call: str) -> str:
    return call.partition("(")[0].removeprefix("np.")


CASES = [
    pytest.param(call, kind, id=f"{kind}-{_name(call)}")
    for kind, calls in (("fused", FUSED), ("between", BETWEEN), ("whole", WHOLE))
    for call in calls
    if hasattr(np, _name(call))
]


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize(("call", "kind"), CASES)
def test_a_function_is_where_the_table_has_it(call: str, kind: str) -> None:
    """Twice called, with the shapes and dtypes of NumPy's results; explain says the same."""
    plain = _function(call)
    fused = fuser.fuse(plain, fallback="allow")
    wanted = trees.flatten(plain(*(a.copy() for a in ARGUMENTS)))[1]
    for _ in range(2):
        found = trees.flatten(fused(*(a.copy() for a in ARGUMENTS)))[1]
        assert [*map(_described, found)] == [*map(_described, wanted)]
    groups = fused.explain(*ARGUMENTS).groups
    seen = "fused" if not fused.fallbacks else "between" if groups else "whole"
    # What is not fused depends on how this NumPy spells it.
    known = kind == "fused" or _TABLED
    assert seen == kind or not known, [str(reason) for reason in fused.fallbacks]


def _described(value: Any) -> Any:
    """The type, and dtype and shape of an array."""
    return type(value), getattr(value, "dtype", None), np.shape(value)


def test_the_table_is_complete() -> None:
    """Every function that NumPy hands over to other kinds of arrays is in it."""
    if np.lib.NumpyVersion(np.__version__) >= "2.6.0.dev0":
        pytest.skip("the table is of NumPy 2.3 to 2.5")
    public = {name for name in dir(np) if hasattr(getattr(np, name, None), "_implementation")}
    listed = {_name(call) for call in (*FUSED, *BETWEEN, *WHOLE)}
    assert public - listed - LEFT_OUT == set()
    assert len(listed) == len(FUSED) + len(BETWEEN) + len(WHOLE)
