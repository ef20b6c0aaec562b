"""Dtype and shape rules: what an operation gives for operands of given shapes and dtypes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from fuser.base.caches import memo
from fuser.base.errors import DtypeError, ShapeError
from fuser.ir import dims
from fuser.ir.dims import Dim, Shape
from fuser.ir.ops import Op, admits, component
from fuser.ir.views import View

NOTHING: Mapping[str, Dim] = MappingProxyType({})


def dtype_of(name: Any) -> np.dtype[Any]:
    """The canonical dtype object: `long` and `longlong` of one width become one."""
    return _canonical(np.dtype(name))


@memo(256)
def _canonical(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Cached: a dtype's name costs microseconds."""
    return np.dtype(dtype.name) if dtype.kind in "biuf" and dtype.isnative else dtype


def result_dtype(op: Op, operands: Sequence[np.dtype[Any]], payload: Any) -> np.dtype[Any]:
    """The dtype of an operation's result.

    Raises:
        DtypeError: the row does not take an operand's dtype, or operands that must share one
            differ.
    """
    for dtype in operands:
        if op.shared and not admits(op, dtype):
            raise DtypeError(f"{op.name}: dtype {dtype} is not among {', '.join(op.dtypes())}")
    if op.shared and len(set(operands)) > 1:
        found = " and ".join(str(dtype) for dtype in operands)
        raise DtypeError(f"{op.name}: operands are {found}; cast them to one dtype first")
    if op.gathers or op.scatters:
        indices = operands[: -1 - op.scatters]
        if any(dtype != np.dtype(np.int64) for dtype in indices):
            found = ", ".join(map(str, indices))
            raise DtypeError(f"{op.name}: indices are {found}; cast them to int64 first")
        if op.scatters and not (admits(op, operands[-1]) and operands[-2] == operands[-1]):
            found = " and ".join(map(str, operands[-2:]))
            raise DtypeError(f"{op.name}: operands are {found}; cast them to one dtype first")
    if op.name in ("absolute", "real", "imag"):
        return component(operands[0])
    if op.name == "join_complex":
        return np.dtype(f"complex{16 * operands[0].itemsize}")
    if op.converts:
        return payload.dtype  # type: ignore[no-any-return]
    if op.result == "first":
        return operands[0]
    if op.name == "where":
        if operands[0] != np.dtype(bool) or operands[1] != operands[2]:
            raise DtypeError(
                f"where: operands are {', '.join(map(str, operands))}; "
                "the condition must be bool and both choices of one dtype"
            )
        return operands[1]
    return operands[-1] if op.result == "same" else np.dtype(op.result)


def broadcast(name: str, shapes: Sequence[Shape], equal: Mapping[str, Dim] = NOTHING) -> Shape:
    """The shape that all shapes broadcast to: equal lengths, or ones.

    Args:
        name: the operation, for the message.
        shapes: the operands' shapes.
        equal: lengths, by text, that a guard makes equal to others.

    Raises:
        ShapeError: two lengths of an axis are neither equal nor 1.
    """
    if len(set(shapes)) == 1:
        return shapes[0]
    if equal:
        shapes = [tuple(equal.get(str(dim), dim) for dim in shape) for shape in shapes]
    rank = max(map(len, shapes))
    result: list[Dim] = []
    for axis in range(-rank, 0):
        length: Dim = 1
        for shape in shapes:
            if len(shape) < -axis or shape[axis] == 1 or shape[axis] == length:
                continue
            if length != 1:
                raise ShapeError(
                    f"{name}: shapes {' and '.join(map(dims.spell_shape, shapes))} do not "
                    f"broadcast at axis {axis}: {length} against {shape[axis]}. "
                    "Make the two lengths equal, or make one of them 1."
                )
            length = shape[axis]
        result.append(length)
    return tuple(result)


def reduced_shape(name: str, shape: Shape, axes: Sequence[int]) -> Shape:
    """A shape without some of its axes.

    Raises:
        ShapeError: an axis that is not there, or twice.
    """
    if len(set(axes)) != len(axes) or any(not 0 <= axis < len(shape) for axis in axes):
        raise ShapeError(f"{name}: axes {tuple(axes)} of {dims.spell_shape(shape)}")
    return tuple(dim for axis, dim in enumerate(shape) if axis not in axes)


def result_shape(
    op: Op, shapes: Sequence[Shape], payload: Any, equal: Mapping[str, Dim] = NOTHING
) -> Shape:
    """The shape of an operation's result.

    Raises:
        ShapeError: the operands' shapes do not fit the operation.
    """
    if op.reduction:
        return reduced_shape(op.name, shapes[0], payload.axes)
    if op.scans and not 0 <= payload.axis < len(shapes[0]):
        raise ShapeError(f"{op.name}: axis {payload.axis} of {dims.spell_shape(shapes[0])}")
    if op.scatters:
        loops = broadcast(op.name, payload.shapes(shapes), equal)
        if loops != shapes[-2]:
            given, wanted = dims.spell_shape(shapes[-2]), dims.spell_shape(loops)
            raise ShapeError(f"{op.name}: what is written has shape {given} and not {wanted}")
        return shapes[-1]
    if not op.structure:
        return broadcast(op.name, payload.shapes(shapes), equal)
    if op.is_iota:
        return (payload.length,)
    if isinstance(payload, View):
        return payload.shape(shapes[0])
    if op.is_update:
        return shapes[0]
    assert op.joins
    return _concatenated(shapes, payload.axis, equal)


def _concatenated(shapes: Sequence[Shape], axis: int, equal: Mapping[str, Dim]) -> Shape:
    """The shape of arrays joined along `axis`; the other lengths must be equal."""
    if equal:
        shapes = [tuple(equal.get(str(dim), dim) for dim in shape) for shape in shapes]
    first = shapes[0]
    total: Dim = 0
    for shape in shapes:
        rest, expected = list(shape), list(first)
        if len(rest) != len(expected) or not 0 <= axis < len(first):
            raise ShapeError(f"concatenate: ranks {len(rest)} and {len(expected)}, axis {axis}")
        total = total + rest.pop(axis)
        expected.pop(axis)
        if rest != expected:
            raise ShapeError(
                f"concatenate: {dims.spell_shape(shape)} does not fit {dims.spell_shape(first)} "
                f"beside axis {axis}"
            )
    return (*first[:axis], total, *first[axis + 1 :])


def convert_scalar(value: Any, dtype: np.dtype[Any]) -> Any:
    """Convert a scalar as NumPy does when it meets an array of `dtype`.

    Raises:
        OverflowError: a Python integer that the dtype cannot hold.
    """
    with np.errstate(all="ignore"):
        if isinstance(value, np.generic):
            return value.astype(dtype)
        return dtype.type(value)
