"""Places that are written in the code: joins of slices, fused and equal to NumPy's."""

from typing import Any

import numpy as np
import pytest

import fuser
from tests.fuser.comparing import assert_same, compare

CHANCE = np.random.default_rng(9)
X = CHANCE.integers(-9, 9, (6, 4)).astype(np.float32)
C = CHANCE.integers(-9, 9, (5, 4, 3)).astype(np.float64)
V = CHANCE.integers(-9, 9, 7).astype(np.float32)
N = np.arange(-3, 4, dtype=np.int16)

FUSED: dict[str, Any] = {
    "places of a vector": lambda x, c, v, n: (
        v[[0, 2, 4]], v[[4, 2, 0]] * 2, v[[-1, -2, 0]], n[[3, 3]], v[[-1, 0, 1]],
        (v + 1)[[2, 1, 0]], v[[1]], v[[2, 5, 6, 0, 1]],
    ),
    "rows and columns": lambda x, c, v, n: (
        x[[0, 2]], x[:, [2, 1, 0, 3]], c[:, [0, 2]] * 2, c[:, :, [-1, 0]], (x * 2)[:, [3]], c[[1]],
    ),
    "several lists": lambda x, c, v, n: (x[[0, 1], [1, 2]], c[[0, 4], [1, -1]], c[[0], [1], [2]]),
    "take": lambda x, c, v, n: (
        np.take(v, 2), v.take([0, 6]), np.take(x, [1, 0], axis=1), np.take(x, -1, axis=0),
        np.take(c, [5, 3, 59]), c.take([2, 0, 1], axis=-1) + 1, np.take(n, [2]),
    ),
    "delete": lambda x, c, v, n: (
        np.delete(v, 2), np.delete(v, -1), np.delete(v, [3, 1]), np.delete(v, [0, 6]) * 2,
        np.delete(v, slice(1, 3)), np.delete(v, slice(2, 99)), np.delete(c, 1, axis=1),
        np.delete(x, 3), np.delete(v, [-1, -2]), np.delete(v, [0, 1, 2, 3, 4, 5, 6]),
    ),
    "insert": lambda x, c, v, n: (
        np.insert(v, 2, 1.0), np.insert(v, 0, v[3]), np.insert(v, -1, 7), np.insert(v, 7, 7),
        np.insert(x, 1, 0, axis=0), np.insert(x, 0, v[:6], axis=1),
        np.insert(c, 2, x[:5, :3], axis=1), np.insert(x, 1, 2.5), np.insert(n, 3, 2.75) * 2,
    ),
    "block": lambda x, c, v, n: (
        np.block([[x, x], [x, x * 2]]), np.block([v, n]), np.block([v[0], 1.0, n]), np.block(c),
        np.block([[x], [v[:4]]]), np.block([[[c]], [[c + 1]]]),
    ),
    "kron": lambda x, c, v, n: (
        np.kron(v, n), np.kron(x, c[0]), np.kron(x, v[:2]) + 1, np.kron(v, 2), np.kron(x[:0], x),
        np.kron(c, x),
    ),
    "vander": lambda x, c, v, n: (
        np.vander(v, 3), np.vander(v, 3, increasing=True), np.vander(n, 4), np.vander(v[:0], 1),
    ),
    "ediff1d": lambda x, c, v, n: (
        np.ediff1d(v), np.ediff1d(x, to_begin=0), np.ediff1d(n, to_end=[1, 2], to_begin=-1),
        np.ediff1d(v, to_begin=v[:2], to_end=n[0]),
    ),
    "tensordot": lambda x, c, v, n: (
        np.tensordot(v, n, 1), np.tensordot(x, x, 2) / 2,
        np.tensordot(x, x.T, axes=([0, 1], [1, 0])), np.linalg.tensordot(x, x, axes=2),
    ),
    "assigned": lambda x, c, v, n: _assigned(x, c, v, n),
}  # fmt: skip


def _assigned(x: Any, c: Any, v: Any, n: Any) -> Any:
    y, z = x * 2, v + 1
    z[[0, 2]] = z[[2, 0]]
    z[[1, 1]] += 3
    z[[-1, 4]] = n[:2]
    y[[3, 0]] = v[:4]
    y[[1, 2]] = y[2:4]
    y[5][[0, 1]] = 7
    x[[0, -1]] = 1
    return y, z


@pytest.mark.parametrize("name", FUSED)
def test_places_in_the_code_are_fused(name: str) -> None:
    """Values, dtypes, shapes and memory order, of arguments in every layout."""
    args = (X, C, V, N)
    assert_same(FUSED[name], *args)
    assert_same(FUSED[name], *[np.repeat(a, 2, 0)[::-2] for a in args])


@pytest.mark.parametrize("name", ["rows and columns", "several lists", "take", "kron", "tensordot"])
def test_arrays_in_fortran_order(name: str) -> None:
    """The index's axis lies outermost, then the others as they lie."""
    assert_same(FUSED[name], *map(np.asfortranarray, (X, C, V, N)))


def test_what_is_taken_is_a_copy() -> None:
    """Also where one slice would do."""
    fused = fuser.fuse(
        lambda v: (v[[0, 1, 2]], np.take(v, [2]), np.delete(v, -1), np.insert(v, 0, 1), v[[1]]),
        fallback="error",
    )
    for _ in range(2):
        assert not any(np.shares_memory(part, V) for part in fused(V))


def test_other_lengths_compile_nothing_and_shorter_ones_raise() -> None:
    """Places hold for every length that has them."""
    work = fuser.fuse(lambda v: (v[[0, 2]] * 2, np.delete(v, 1) + 1), fallback="error")
    work(V)
    before = fuser.n_compiled_kernels()
    for size in (3, 8, 50):
        v = np.arange(float(size), dtype=np.float32)
        assert [part.tolist() for part in work(v)] == [
            (v[[0, 2]] * 2).tolist(), (np.delete(v, 1) + 1).tolist(),
        ]  # fmt: skip
    assert fuser.n_compiled_kernels() == before
    with pytest.raises(IndexError):
        work(V[:2])


LEFT: dict[str, Any] = {
    "lists of one": lambda x, v: x[[0, 1], [1]] + 1,
    "a list and a slice": lambda x, v: x[[0, 1], 1:] + 1,
    "truth values": lambda x, v: x[[True, False, True, False, True, False]] + 1,
    "no places": lambda x, v: v[[]] + 1,
    "many places": lambda x, v: v[[0] * 20] + 1,
    "deleted from both ends": lambda x, v: np.delete(v, [-1, 1]) + 1,
    "inserted at several": lambda x, v: np.insert(v, [1, 3], 5) + 1,
    "powers without a number": lambda x, v: np.vander(v) + 1,
    "products of matrices": lambda x, v: np.tensordot(x, x, ([0], [0])) + 1,
    "block of unlike depth": lambda x, v: np.block([[x, x], [x, x]]) + np.take(x, [[0, 1]]).sum(),
}


@pytest.mark.parametrize("name", LEFT)
def test_other_places_run_between_kernels(name: str) -> None:
    """The right answer, with a reason."""
    fused = fuser.fuse(LEFT[name], fallback="allow")
    assert compare(fused, X, V) == ""
    assert {reason.code for reason in fused.fallbacks} <= {
        "unsupported-argument", "unsupported-function",
    }  # fmt: skip
    assert fused.fallbacks
    assert fused.explain(X, V).groups


def edges(x: Any) -> Any:
    """Rows and columns at both ends, as boundary conditions are written."""
    x[[0, -1], :] = 0
    x[:, [0, -1]] = x[2, 1]
    return x


def shared(x: Any) -> Any:
    """Places that get one row each time, which is one of them; part of a row."""
    y = x * 2
    y[[1, 2], :] = y[1]
    y[[0, 3], 1:-1] = x[0, 1:-1]
    return y


def stepped(x: Any) -> Any:
    """Three axes, and one of them in steps."""
    y = x.reshape(2, 3, 4) + 1
    y[:, [0, 2], ::2] = -1
    return y


@pytest.mark.parametrize("function", [edges, shared, stepped])
def test_places_along_one_axis_are_written_in_the_loops(function: Any) -> None:
    """Nothing is left to NumPy."""
    assert_same(function, X.copy(), fallback="error")


def test_places_beyond_an_axis_are_numpys_to_refuse() -> None:
    """As are values that differ from place to place, which NumPy writes."""

    def beyond(x: Any) -> Any:
        x[:, [0, 4]] = 1

    def each(x: Any) -> Any:
        x[:, [0, 2]] = x[:, 1:3] + 1
        return x

    assert_same(beyond, X.copy(), fallback="allow")
    assert_same(each, X.copy(), fallback="allow")


WRONG: dict[str, Any] = {
    "beyond": lambda x, v: v[[9]],
    "beyond in rows": lambda x, v: x[:, [4]],
    "take": lambda x, v: np.take(v, 9),
    "delete": lambda x, v: np.delete(v, 7),
    "insert": lambda x, v: np.insert(v, 8, 1),
    "insert a row": lambda x, v: np.insert(x, 1, v[:3], axis=0),
    "vander": lambda x, v: np.vander(x, 2),
    "ediff1d": lambda x, v: np.ediff1d(np.floor(v).astype(int), to_end=0.5),
    "block": lambda x, v: np.block([[x, x], [x]]),
    "tensordot": lambda x, v: np.tensordot(x, x.T, 2),
    "assigned": lambda x, v: x.__setitem__([0, 9], 1),
    "assigned too few": lambda x, v: v.__setitem__([0, 1], v[:3]),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_numpy_refuses_is_refused(name: str) -> None:
    """The same kind of exception."""
    assert_same(WRONG[name], X, V, fallback="allow")
