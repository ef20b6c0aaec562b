"""Sums over an axis along which a few arrays were put together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fuser
from tests.fuser.comparing import assert_same

CHANCE = np.random.default_rng(3)
P = CHANCE.normal(size=(11, 3))
Q = CHANCE.normal(size=(11, 3)).astype(np.float32)
P[2], Q[3, 1], P[4, 2], P[5], Q[5] = -0.0, np.nan, np.inf, -0.0, 0.0

SUMMED: dict[str, Any] = {
    "norm of cross": lambda p, q: np.linalg.norm(np.cross(p, q), axis=-1),
    "area": lambda p, q: 0.5 * np.sqrt((np.cross(p, q) ** 2).sum(1)),
    "stack": lambda p, q: np.stack([p[:, 0], -p[:, 1], q[:, 2]]).sum(0),
    "stack of casts": lambda p, q: (np.stack([q[:, 0], q[:, 1]], -1).astype(float) / 3).sum(-1),
    "kept": lambda p, q: np.stack([p[:, 0], q[:, 0]], 1).sum(axis=1, keepdims=True),
    "of scalars": lambda p, q: np.stack([p[0, 0], p[1, 1], q[2, 2]]).sum(),
    "halves": lambda p, q: np.stack([p[:, 0], q[:, 0]]).astype(np.float16).sum(0),
    "integers": lambda p, q: np.stack([p[:, 0] > 0, q[:, 0] > 0]).sum(0),
    "seven": lambda p, q: np.stack([p[:, 0], p[:, 1], p[:, 2], p[:, 0], *q.T[:3]], -1).sum(-1),
    "eight": lambda p, q: np.stack([p[:, 0]] * 5 + [p[:, 1]] * 3, 0).sum(0),
    "the other axis": lambda p, q: np.stack([p[:, 0], p[:, 1]]).sum(1),
    "of matrices": lambda p, q: np.stack([p, q, p.T.T]).sum(0),
    "both used": lambda p, q: (lambda s: (s, (s * 2).sum(0)))(np.stack([p[:, 0], q[:, 1]])),
    "mean": lambda p, q: np.mean(np.stack([p[:, 0], q[:, 1]]), axis=0),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", SUMMED)
def test_sums_of_layers_are_numpys(name: str) -> None:
    """Signed zeros, NaN and infinities too; of every order, of one row and of none."""
    for turn in (lambda a: a, np.asfortranarray, lambda a: a[::-2], lambda a: a[:1]):
        assert_same(SUMMED[name], turn(P), turn(Q), ulp=2 if name == "eight" else 0)
    if name != "of scalars":
        assert_same(SUMMED[name], P[:0], Q[:0])


def test_the_join_is_not_stored() -> None:
    """Least traffic."""
    explained = fuser.fuse(SUMMED["norm of cross"]).explain(P, Q)
    assert len(explained.groups) == 1
    assert explained.ledger.planned_bytes == explained.ledger.least_bytes
