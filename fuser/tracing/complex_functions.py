"""Which functions have fused forms for complex numbers too; NumPy runs the others between kernels.

A form that takes absolute values, compares, or converts to floats would drop imaginary parts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from fuser.tracing.traced_memory import TracedMemory

#: Functions whose forms move elements, or calculate with them as NumPy does with complex ones.
SERVED: frozenset[Any] = frozenset({
    # elements moved, repeated, chosen
    np.transpose, np.swapaxes, np.moveaxis, np.rollaxis, np.expand_dims, np.squeeze, np.reshape,
    np.ravel, np.flip, np.flipud, np.fliplr, np.broadcast_to, np.broadcast_arrays, np.atleast_1d,
    np.atleast_2d, np.atleast_3d, np.unstack, np.take, np.delete, np.insert, np.block, np.tile,
    np.repeat, np.pad, np.append, np.rot90, np.tril, np.triu, np.meshgrid, np.split,
    np.array_split, np.hsplit, np.vsplit, np.dsplit, np.concatenate, np.stack, np.hstack,
    np.vstack, np.dstack, np.column_stack, np.roll, np.diagonal, np.linalg.diagonal, np.diag,
    np.diagflat, np.where, np.select, np.choose, np.piecewise, np.copyto, np.fill_diagonal,
    np.putmask, np.apply_along_axis, np.apply_over_axes,
    # new arrays, and what is known of an array
    np.zeros_like, np.ones_like, np.full_like, np.empty_like, np.copy, np.astype, np.shape,
    np.ndim, np.size, np.result_type, np.can_cast, np.iscomplexobj, np.isrealobj,
    # parts
    np.real, np.imag, np.angle, np.isreal, np.iscomplex,
    # sums, differences, products
    np.sum, np.mean, np.var, np.std, np.any, np.all, np.count_nonzero, np.diff, np.ediff1d,
    np.trace, np.linalg.trace, np.gradient, np.trapezoid, np.dot, np.vdot, np.inner, np.outer,
    np.linalg.outer, np.kron, np.polyval, np.isclose, np.linalg.norm, np.linalg.vector_norm,
    np.linalg.matrix_norm,
})  # fmt: skip


def has_complex(leaves: Iterable[Any]) -> bool:
    """Whether an argument is complex: a traced array, a NumPy array or scalar, a number."""
    return any(
        leaf.dtype.kind == "c"
        if isinstance(leaf, (TracedMemory, np.ndarray, np.generic))
        else type(leaf) is complex
        for leaf in leaves
    )
