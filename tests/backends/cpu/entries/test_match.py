"""What the dispatcher compares: nothing that differs is taken for the same."""

from typing import Any

import numpy as np
import pytest

import fuser

X = np.linspace(-3, 3, 12)


class Matrix(np.ndarray[Any, Any]):
    """A subclass."""


def _other_arguments() -> dict[str, Any]:
    """Arrays that differ from X in one way each, and other things."""
    return {
        "dtype": X.astype(np.float32),
        "byte order": X.astype(">f8"),
        "rank": np.stack([X, X]),
        "0-d": np.array(2.5),
        "length 1": X[:1].copy(),
        "strided": np.repeat(X, 2)[::2],
        "reversed": X[::-1],
        "repeated": np.broadcast_to(X[:1], 12),
        "misaligned": np.frombuffer(b"\0" + X.tobytes(), np.uint8)[1:].view(np.float64),
        "subclass": X.view(Matrix),
        "masked": np.ma.masked_array(X, X > 1),
        "scalar": np.float64(2.5),
        "another scalar": np.float32(2.5),
        "float": 2.5,
        "int": 3,
        "bool": True,
        "complex": 2j,
        "list": [1.0] * 12,
    }


@pytest.mark.filterwarnings("ignore::fuser.FallbackWarning")
def test_arguments_of_all_kinds_one_after_another() -> None:
    """One function gets them in turn, several times, and always gives NumPy's answer."""
    function = fuser.fuse(lambda a, b: a * 2 + b)
    others = _other_arguments()
    expected = {name: function.__wrapped__(X, other) for name, other in others.items()}
    for _ in range(4):
        for name, other in others.items():
            for first, then in ((X, other), (other, X)):
                if name in ("list", "complex") and first is other:
                    continue
                wanted = expected[name] if first is X else function.__wrapped__(other, X)
                found = function(first, then)
                assert type(found) is type(wanted), name
                assert found.dtype == wanted.dtype, name
                assert np.array_equal(found, wanted), name
    assert function._native.hits > 40


def test_keywords_are_compared_by_text_too() -> None:
    """Names that are equal but not the same object; a name that is none."""
    function = fuser.fuse(lambda a, weight: a * weight)
    for _ in range(3):
        function(X, weight=X)
    hits = function._native.hits
    made = "".join(["wei", "ght"])
    assert made is not list(function.__wrapped__.__code__.co_varnames)[1]
    assert np.array_equal(function(X, **{made: X}), X * X)
    assert function._native.hits == hits + 1
    with pytest.raises(TypeError, match="heavy"):
        function(X, heavy=X)
    with pytest.raises(TypeError, match="multiple values"):
        function(X, X, weight=X)
