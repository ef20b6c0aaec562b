"""Functions whose results are more than new arrays: written arguments, views, nests, constants."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Pair(NamedTuple):
    """Two results."""

    total: Any
    rest: Any


def own_out(a: Any, b: Any, out: Any = None) -> Any:
    """Writes into `out` and returns it."""
    out[...] = a * b + 1
    return out


def ufunc_out(a: Any, b: Any, out: Any = None) -> Any:
    """Writes twice; the second reads what the first wrote."""
    np.add(a, b, out=out)
    np.multiply(out, b, out=out)
    return out


def silent_out(a: Any, b: Any, out: Any) -> None:
    """Writes and returns nothing."""
    np.add(a, b, out=out)


def in_place(x: Any, y: Any) -> Any:
    """Changes an argument."""
    x += y
    return x


def inside(x: Any, y: Any) -> Any:
    """Writes into a part, from places beside."""
    x[1:-1] = (x[:-2] + x[2:]) * y[1:-1]
    return x


def edges(x: Any, y: Any) -> None:
    """Writes into two parts."""
    x[0] = y[0] * 2
    x[-1] = y[1]


def step(p: Any, g: Any, m: Any, v: Any, rate: float) -> None:
    """Three arrays change together."""
    m[...] = 0.9 * m + 0.1 * g
    v[...] = 0.5 * v + 0.5 * g * g
    p -= rate * m / (np.sqrt(v) + 1e-3)


def sizes_too(x: Any, s: Any) -> Any:
    """Lengths and numbers among the results."""
    return x * s, x.shape, x.size + 1, s * 2, len(x)


VECTORS = (np.linspace(-2, 2, 7), np.linspace(1, 3, 7))
WITH_OUT = (*VECTORS, np.zeros(7))
TABLES = (np.arange(6.0).reshape(2, 3), np.linspace(1, 2, 6).reshape(2, 3))

#: By name: a function and the arguments that it gets copies of.
KINDS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "own out": (own_out, WITH_OUT),
    "own out of ufuncs": (ufunc_out, WITH_OUT),
    "own out, silent": (silent_out, WITH_OUT),
    "in place": (in_place, VECTORS),
    "in place, silent": (lambda x, y: (x.__imul__(y), None)[1], VECTORS),
    "inside": (inside, VECTORS),
    "edges": (edges, VECTORS),
    "step": (step, (*VECTORS, np.ones(7), np.ones(7), 0.5)),
    "written and new": (lambda a, b, out: (np.add(a, b, out=out), a * b), WITH_OUT),
    "new beside written": (lambda a, b, out: (np.add(a, b, out=out) * 0 + 1)[1:], WITH_OUT),
    "new only": (lambda a, b, out: (np.add(a, b, out=out), a * b)[1], WITH_OUT),
    "value and its transpose": (lambda x, y: (z := x * y, z.T), TABLES),
    "transpose": (lambda x, y: (x * y).T, TABLES),
    "reshape": (lambda x, y: (x * y).reshape(-1), TABLES),
    "slice": (lambda x, y: (x * y)[1:, ::-2], TABLES),
    "new axis": (lambda x, y: (x * y)[:, None], TABLES),
    "broadcast": (lambda x, y: np.broadcast_to(x * y, (4, *x.shape)), TABLES),
    "views of arguments": (lambda x, y: (x[::2] * 1, x.reshape(-1, 1), y.T), TABLES),
    "argument": (lambda x, y: x, TABLES),
    "argument and value": (lambda x, y: (x, x * y, x), TABLES),
    "nothing": (lambda x, y: None, TABLES),
    "a number": (lambda x, y: 1.5, TABLES),
    "constants": (lambda x, y: (x * y, None, "text", 3), TABLES),
    "new zeros": (lambda x, y: (x * y, np.zeros(3)), TABLES),
    "lengths": (sizes_too, (TABLES[0], 2.5)),
    "list": (lambda x, y: [x + y, x - y], TABLES),
    "dict": (lambda x, y: {"s": x + y, 3: [x - y]}, TABLES),
    "named tuple": (lambda x, y: Pair(x + y, x.sum()), TABLES),
    "nested": (lambda x, y: (x + y, (x - y, (), [x * y])), TABLES),
    "twice": (lambda x, y: (z := x + y, z), TABLES),
    "scalars": (lambda x, y: x * y + 1, (2.5, 3)),
}


def check(function: Callable[..., Any], fused: Callable[..., Any], args: Any) -> None:
    """Compare one call with the plain function's, results and arguments, to the last bit."""
    plain_args, fused_args = copy.deepcopy(args), copy.deepcopy(args)
    wanted, found = function(*plain_args), fused(*fused_args)
    same(found, wanted, fused_args, plain_args)
    for left, right in zip(fused_args, plain_args, strict=True):
        same(left, right, fused_args, plain_args)


def same(found: Any, wanted: Any, fused_args: Any, plain_args: Any) -> None:
    """Compare type, layout, bits, and whose memory it is."""
    assert type(found) is type(wanted), (found, wanted)
    if isinstance(wanted, (tuple, list)):
        assert len(found) == len(wanted)
        for left, right in zip(found, wanted, strict=True):
            same(left, right, fused_args, plain_args)
    elif isinstance(wanted, dict):
        assert list(found) == list(wanted)
        for key, right in wanted.items():
            same(found[key], right, fused_args, plain_args)
    elif isinstance(wanted, np.ndarray):
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        if wanted.size > 1:
            assert found.strides == wanted.strides
        assert found.tobytes() == wanted.tobytes()
        assert found.flags.writeable == wanted.flags.writeable
        assert (found.base is None) == (wanted.base is None)
        for mine, theirs in zip(fused_args, plain_args, strict=True):
            assert (found is mine) == (wanted is theirs)
            assert np.may_share_memory(found, mine) == np.may_share_memory(wanted, theirs)
    else:
        assert found == wanted
