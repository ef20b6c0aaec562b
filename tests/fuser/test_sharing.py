"""Results share memory with arguments, and with each other, exactly where NumPy's do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser

LINE = np.linspace(-2, 3, 24)


def _read_only(array: Any) -> Any:
    array.flags.writeable = False
    return array


#: New arrays by name: memory patterns on which it depends whether a view is possible.
ARRAYS: dict[str, Callable[[], Any]] = {
    "row": lambda: LINE.copy(),
    "matrix": lambda: LINE.reshape(4, 6).copy(),
    "Fortran": lambda: np.asfortranarray(LINE.reshape(4, 6)),
    "three axes": lambda: LINE.reshape(2, 3, 4).copy(),
    "every second": lambda: LINE.copy()[::2],
    "reversed": lambda: LINE.copy()[::-1],
    "columns": lambda: LINE.reshape(4, 6).copy()[:, 1:4],
    "rows": lambda: LINE.reshape(4, 6).copy()[::2],
    "one": lambda: LINE[:1].copy(),
    "one by one": lambda: LINE[:1].reshape(1, 1).copy(),
    "a column": lambda: LINE.copy()[:10:2].reshape(5, 1),
    "nothing": lambda: np.zeros((0, 3)),
    "no axes": lambda: np.array(2.5),
    "read-only": lambda: _read_only(LINE.reshape(4, 6).copy()),
    "integers": lambda: np.arange(12).reshape(3, 4),
    "misaligned": lambda: np.frombuffer(bytearray(97), np.uint8)[1:].view(np.float64),
}

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "ravel": lambda a: a.ravel(),
    "ravel in Fortran's order": lambda a: np.ravel(a, "F"),
    "ravel of a part": lambda a: a[1:].ravel(),
    "ravel of a transpose": lambda a: a.T.ravel(),
    "reshape": lambda a: (a.reshape(-1), np.reshape(a, (1, -1)), a.T.reshape(-1)),
    "contiguous": lambda a: np.ascontiguousarray(a),
    "contiguous transpose": lambda a: np.ascontiguousarray(a.T),
    "contiguous part": lambda a: np.ascontiguousarray(a[:1]),
    "contiguous, converted": lambda a: np.ascontiguousarray(a, dtype=np.float64),
    "Fortran": lambda a: np.asfortranarray(a),
    "as arrays": lambda a: (np.asarray(a), np.asanyarray(a), np.asarray(a, dtype=np.float64)),
    "array": lambda a: (np.array(a), np.array(a, copy=None), np.array(a, float, copy=None)),
    "squeeze": lambda a: (a.squeeze(), np.squeeze(a[None], 0)),
    "at least": lambda a: (np.atleast_1d(a), np.atleast_2d(a), np.atleast_3d(a)),
    "broadcast": lambda a: (np.broadcast_to(a, (2, *a.shape)), np.broadcast_to(a, a.shape)),
    "axes": lambda a: (a.T, np.transpose(a), a.swapaxes(0, -1), np.moveaxis(a, 0, -1)),
    "parts of numbers": lambda a: (a.real, np.real(a), a.conj(), a.conjugate(), np.conj(a)),
    "converted": lambda a: (a.astype(float), a.astype(float, copy=False), np.positive(a)),
    "required": lambda a: (np.require(a), np.require(a, requirements="C")),
    "copies": lambda a: (a.flatten(), np.copy(a), a.copy(), a.copy("K")),
    "indices": lambda a: (a[...], a[:], a[None], a[::-1], a[1:], a[::2]),
    "split": lambda a: (np.split(a, 1), np.split(a, [1]), np.hsplit(a, 1)),
    "split vertically": lambda a: np.vsplit(a, 1),
    "split horizontally": lambda a: np.hsplit(a, 1),
    "unstacked": lambda a: np.unstack(a, axis=-1),
    "itself": lambda a: (a, [a, a.T]),
    "nothing combined": lambda a: (np.sum(a, axis=()), a.clip(), np.round(a)),
    "of a result": lambda a: [
        *(lambda b: (b, b.ravel(), np.ascontiguousarray(b), b.reshape(-1), b.T, b.flatten()))(
            a * 2
        )
    ],
    "of parts of a result": lambda a: [
        *(lambda b: (b.ravel(), np.ascontiguousarray(b), b.reshape(-1), b.T, b[:], b.flatten()))(
            (a * 2)[..., ::2]
        )
    ],
}


def described(value: Any, argument: Any) -> Any:
    """Kinds, layouts, and which arrays are or share memory with which."""
    found = value if isinstance(value, (tuple, list)) else [value]
    if any(isinstance(part, (tuple, list)) for part in found):
        return [described(part, argument) for part in found]
    arrays = [argument, *(part for part in found if isinstance(part, np.ndarray))]
    shapes = [
        (type(part), part.dtype, part.shape, part.flags.writeable,
         [s for n, s in zip(part.shape, part.strides, strict=True) if n > 1 and part.size])
        for part in found
    ]  # fmt: skip
    same = [[one is two for two in arrays] for one in arrays]
    shared = [[bool(np.shares_memory(one, two)) for two in arrays] for one in arrays]
    return type(value), shapes, same, shared


@pytest.mark.parametrize("name", FUNCTIONS)
def test_memory_is_shared_where_numpy_shares_it(name: str) -> None:
    """For every layout, at the first call and at later ones, which take shorter ways."""
    function = FUNCTIONS[name]
    fused = fuser.fuse(function, fallback="allow")
    for layout, make in ARRAYS.items():
        array = make()
        try:
            wanted = described(function(array), array)
        except (ValueError, IndexError, np.exceptions.AxisError) as error:
            with pytest.raises(type(error)):
                fused(array)
            continue
        for _ in range(3):
            assert described(fused(array), array) == wanted, layout


@pytest.mark.parametrize("see", [np.ravel, np.ascontiguousarray], ids=["ravel", "contiguous"])
@pytest.mark.parametrize("layout", ["row", "every second", "matrix", "columns"])
def test_writes_reach_what_may_be_a_copy_as_in_numpy(see: Any, layout: str) -> None:
    """Through the view, into the argument, and into another argument that overlaps it."""

    def through(a: Any, b: Any) -> Any:
        seen = see(b)
        seen[...] = seen + 1
        return a * 2, b * 2

    def under(a: Any, b: Any) -> Any:
        seen = see(b)
        a[...] = a * 2 + 1
        return seen, see(b) + 1

    for function in (through, under):
        fused = fuser.fuse(function, fallback="allow")
        for overlapping in (True, False):
            outcomes = []
            for call in (function, fused, fused):
                b = ARRAYS[layout]()
                a = b if overlapping else ARRAYS[layout]()
                outcomes.append([np.array(part) for part in (*call(a, b), a, b)])
            for outcome in outcomes[1:]:
                for wanted, found in zip(outcomes[0], outcome, strict=True):
                    assert np.array_equal(wanted, found)
