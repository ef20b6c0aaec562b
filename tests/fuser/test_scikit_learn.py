"""Fused functions as steps of scikit-learn's pipelines: copied, pickled, sent to processes."""

import pickle
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="not installed: pip install scikit-learn")

from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import fuser

X = np.random.default_rng(8).random((30, 4))


@fuser.fuse(fallback="error")
def squashed(x: Any) -> Any:
    """A step with a name."""
    return np.tanh(x) * 2 + 1


@fuser.fuse(fallback="error")
def restored(x: Any) -> Any:
    """Its inverse."""
    return np.arctanh((x - 1) / 2)


def pipeline() -> Pipeline:
    """Two steps, with an inverse."""
    return make_pipeline(
        StandardScaler(), FunctionTransformer(squashed, inverse_func=restored, check_inverse=True)
    )


def test_a_pipeline() -> None:
    """Forth and back; scikit-learn checks the inverse itself."""
    steps = pipeline().fit(X)
    wanted = np.tanh(StandardScaler().fit_transform(X)) * 2 + 1
    np.testing.assert_allclose(steps.transform(X), wanted)
    np.testing.assert_allclose(steps.inverse_transform(steps.transform(X)), X)
    assert "squashed" in repr(steps)


def test_copies() -> None:
    """`clone` and pickles compute the same; a clone has the very function."""
    steps = pipeline().fit(X)
    copied = clone(steps)
    assert copied.steps[1][1].func is squashed
    sent = pickle.loads(pickle.dumps(steps))
    for each in (copied.fit(X), sent):
        np.testing.assert_array_equal(each.transform(X), steps.transform(X))


def test_frames() -> None:
    """Columns are chosen by name, and the step gives a frame."""
    pd = pytest.importorskip("pandas", reason="not installed: pip install pandas")
    frame = pd.DataFrame(X, columns=list("abcd"))
    found = FunctionTransformer(squashed).fit_transform(frame)
    pd.testing.assert_frame_equal(found, np.tanh(frame) * 2 + 1)
    chosen = ColumnTransformer([("few", FunctionTransformer(squashed), ["a", "c"])])
    np.testing.assert_allclose(chosen.fit_transform(frame), np.tanh(X[:, [0, 2]]) * 2 + 1)
