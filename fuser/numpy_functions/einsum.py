"""np.einsum where it is a product and a sum, no product of matrices."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from fuser.base.errors import Unsupported
from fuser.ir.function_table import handles
from fuser.numpy_functions.array_functions import _array, _options, result_type
from fuser.numpy_functions.diagonals import diagonal
from fuser.tracing.trace_state import Tracing


@handles(np.einsum)
def _einsum(tracing: Tracing, *operands: Any, **options: Any) -> Any:
    """np.einsum where one operand has every index, or nothing is summed: a product, then a sum.

    Others are products of matrices, which libraries do better.
    """
    if len(operands) < 2 or type(operands[0]) is not str or _options(**options):
        raise Unsupported("unsupported-argument", "np.einsum", "")
    arrays: list[Any] = [_array(tracing, value) for value in operands[1:]]
    labels, kept = _einsum_labels(operands[0], [array.ndim for array in arrays])
    if len(arrays) == len(labels) == 1 and len(labels[0]) == arrays[0].ndim:
        label = labels[0]
        if sorted(label) == sorted(kept):  # a view
            return arrays[0].transpose(*map(label.index, kept))
        labels[0], arrays[0] = label, _ = _diagonals(arrays[0], label, kept)
        if sorted(label) == sorted(kept):  # a view, too
            return arrays[0].transpose(*map(label.index, kept))
    every = max(labels, key=len)
    if set(kept) == set().union(*labels):
        every = kept
    fits = len(labels) == len(arrays) and all(
        len(label) == array.ndim == len(set(label)) and set(label) <= set(every)
        for label, array in zip(labels, arrays, strict=False)
    )
    in_order = "".join(name for name in every if name in kept) == kept
    plain = all(array.dtype.kind in "fiu" for array in arrays)
    if not fits or not in_order or not plain or (len(arrays) > 2 and len(kept) > 1):
        raise Unsupported("unsupported-argument", "np.einsum", f"{operands[0]!r}")
    sizes = {name: tracing.size(d) for a, own in zip(arrays, labels, strict=True)
             for name, d in zip(own, a.dims, strict=True)}  # fmt: skip
    total: Any = None
    for label, array in zip(labels, arrays, strict=True):
        if any(tracing.size(d) != sizes[name] for name, d in zip(label, array.dims, strict=True)):
            raise Unsupported("unsupported-argument", "np.einsum", "lengths that differ")
        places = [every.index(name) for name in label]
        order = sorted(range(array.ndim), key=places.__getitem__)
        entries = tuple(slice(None) if name in label else None for name in every)
        aligned = np.transpose(array, order)[entries]
        if array.dtype == np.float16:  # of which NumPy multiplies and adds float32
            aligned = aligned.astype(np.float32)
        total = aligned if total is None else total * aligned
    axes = tuple(axis for axis, name in enumerate(every) if name not in kept)
    total = np.sum(total, axis=axes, dtype=total.dtype) if axes else total
    if total.dtype.kind == "f":
        total = total + total.dtype.type(0)  # NumPy adds to 0, so that -0.0 is never left
    return total.astype(result_type(*arrays), copy=False)


def _einsum_labels(subscripts: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """The indices of every operand and of the result, an ellipsis spelled with letters."""
    terms, arrow, kept = subscripts.replace(" ", "").partition("->")
    labels = terms.split(",")
    spare = [name for name in string.ascii_uppercase if name not in subscripts]
    lead = ""
    if "..." in subscripts and len(labels) == len(ranks):
        counts = [rank - len(label) + 3 for label, rank in zip(labels, ranks, strict=True)]
        wide = max(n for n, label in zip([0, *counts], ["...", *labels], strict=True)
                   if "..." in label)  # fmt: skip
        lead = "".join(spare[:wide])
        labels = [
            label.replace("...", lead[wide - max(n, 0) :])
            for n, label in zip(counts, labels, strict=True)
        ]
    if not arrow:
        once = (name for name in set(terms) if name.isalpha() and terms.count(name) == 1)
        kept = lead + "".join(sorted(once))
    kept = kept.replace("...", lead)
    if not all(label.isalpha() or not label for label in (*labels, kept)):
        raise Unsupported("unsupported-argument", "np.einsum", f"{subscripts!r}")
    return labels, kept


def _diagonals(x: Any, label: str, kept: str) -> tuple[str, Any]:
    """An operand without the indices that it has twice: its diagonals."""
    tracing = x.tracing
    writable = set(label) == set(kept)
    for name in sorted(set(label)):
        while label.count(name) > 1:
            first = label.index(name)
            second = label.index(name, first + 1)
            if tracing.size(x.dims[first]) != tracing.size(x.dims[second]):
                raise Unsupported("unsupported-argument", "np.einsum", "lengths that differ")
            x = diagonal(x, 0, first, second, writable)
            label = label[:first] + label[first + 1 : second] + label[second + 1 :] + name
    return label, x
