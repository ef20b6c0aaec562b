"""What a traced function asks of values: numbers that are read, and decisions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.capture.decisions import READS
from tests.fuser.comparing import compare

X = np.array([3.0, -1.0, 2.5, 0.5])


def text_of(function: Callable[..., Any], *args: Any) -> str:
    """The graph of a function."""
    explained = fuser.fuse(function, fallback="error").explain(*args)
    return str(explained.graph)


def test_a_number_is_a_call_and_a_decision_is_another() -> None:
    """The graph's text has both in their order, with the outcome, and reads back."""
    text = text_of(lambda x: x / float(x.max()) if x.sum() > 0 else x, X)
    assert "fuser.read(a0, 's0')" in text
    assert "fuser.decided(host('s0'), True)" in text
    assert "fuser.read(a0, 's1')" in text
    assert "scalar{s1}" in text
    assert str(fuser.parse(text)) == text
    with pytest.raises(fuser.FusionError, match="a call"):  # which one graph cannot stand for
        fuser.trace(lambda x: x * float(x.max()), X)


def test_what_is_only_used_decides_nothing() -> None:
    """`float`, `int`, `item` in arithmetic, as an index, as a length: one graph for all values."""
    for function in (
        lambda x: x * float(x.max()), lambda x: x + x.sum().item(),
        lambda x: x[int(x.argmax())] * x,
        lambda x: np.zeros(x.argmax().item()) + x[0], lambda x: (x.mean().item() * 2 + 1) * x,
        lambda x: x[: (x > 0).sum()] * 2, lambda x: x * int(x.sum() > 1), lambda x: float(x.min()),
    ):  # fmt: skip
        fused = fuser.fuse(function, fallback="error")
        for values in (X, X * 1.5, -X, X + 1):
            assert compare(fused, values) == ""
        (entry,) = fused._signatures.values()
        assert len(entry.found) <= 2  # an integer is read that is an index, or counts: 0 and more


ASKED: dict[str, Callable[[Any], Any]] = {
    "if": lambda x: x * 2 if x[0] > 1 else -x,
    "number": lambda x: x * 2 if x.sum() else x + 1,
    "not": lambda x: x * 2 if not (x > 1).any() else x + 1,
    "and": lambda x: x * 2 if (x > 1).any() and (x < 9).all() else x + 1,
    "one element": lambda x: x * 2 if x[:1] > 1 else x + 1,
    "chained": lambda x: x * 2 if 0 < x.sum() < 4 else x + 1,
    "min": lambda x: x * min(x[0], x[1], 2),
    "range": lambda x: sum(x * k for k in range(int(np.abs(x[0])))) + x,
    "float decides": lambda x: x / float(x[0]) if float(x[0]) > 1 else x,
    "item decides": lambda x: x * 2 if x.argmax().item() == 0 else x,
    "sorted": lambda x: x * 2 if np.sort(x)[0] > -1 else x,
    "all close": lambda x: x * 2 if np.allclose(x, 3) else x,
    "equal": lambda x: x * 2 if np.array_equal(x, x[::-1]) else x,
    "complex": lambda x: x * 2 if (x * 1j).sum() else x,
    "is True": lambda x: x * 2 if bool(x[0] > 1) is True else x,
    "text": lambda x: {"True": x * 2, "False": x * 3}[str(bool(x[0] > 1))],
    "bool of item": lambda x: x * 2 if (x[0] > 1).item() is True else x * 3,
    "square root": lambda x: x * 2 if np.sqrt(float(np.abs(x[0]))) > 1 else x,
}


@pytest.mark.usefixtures("never_brief")
@pytest.mark.parametrize("name", ASKED)
def test_what_decides_is_asked_anew_at_each_call(name: str) -> None:
    """Both outcomes, in both orders, dtypes that differ; never a fallback."""
    for dtype in (np.float64, np.float32, np.int64):
        fused = fuser.fuse(ASKED[name], fallback="allow" if name == "sorted" else "error")
        for values in (X, X * 0, X * 0 + 3, -X, X):
            assert compare(fused, values.astype(dtype)) == ""
        assert {reason.operation for reason in fused.fallbacks} <= {"np.sort"}


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "text of a float": (lambda x: x * len(str(x.sum().item())), "array-conversion"),
    "key of a float": (lambda x: x * {1.0: 2}.get(float(x[0]), 3), "array-conversion"),
    "math": (lambda x: x * math.sqrt(x[0]), "array-conversion"),
    "complex": (lambda x: x * complex(x[0]), "array-conversion"),
    "list": (lambda x: x * len(x.tolist()), "array-conversion"),
    "no integer": (lambda x: x * int(x[0] * math.inf), "array-conversion"),
    "object": (lambda x: x * np.asarray(x).tolist()[0], "array-conversion"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_path_can_be_made_for_says_why(name: str) -> None:
    """The right answer, or NumPy's exception, with the reason and the line."""
    function, code = REFUSED[name]
    fused = fuser.fuse(function, fallback="allow")
    for _ in range(2):
        assert compare(fused, np.abs(X), fallback="allow") == ""
    assert {reason.code for reason in fused.fallbacks} <= {code}


def test_arrays_of_more_elements_have_no_truth() -> None:
    """NumPy's error, whatever the policy."""
    fused = fuser.fuse(lambda x: x if x > 1 else -x, fallback="allow")
    with pytest.raises(ValueError, match="truth value"):
        fused(X)


def test_one_path_asks_so_much_and_no_more() -> None:
    """A chain of decisions that is too long is NumPy's."""

    def chain(x: Any) -> Any:
        for _ in [None] * (READS + 5):
            x = x + 1 if x[0] > 0 else x - 1
        return x

    fused = fuser.fuse(chain, fallback="allow")
    assert compare(fused, X, fallback="allow") == ""
    assert [reason.code for reason in fused.fallbacks] == ["many-paths"]


def test_a_class_that_is_only_called_is_replaced_and_no_other() -> None:
    """`float` as a dtype, as a class, as a name of the module's stays what it is."""

    def used(x: Any) -> Any:
        made = np.zeros(len(x), float) + float(x[0])
        return made if isinstance(1.5, float) else x

    space: dict[str, Any] = {"np": np}
    exec("def own(x): return x * float(x[0])\ndef float(x): return 7", space)
    for function in (used, space["own"]):
        fused = fuser.fuse(function, fallback="allow")
        for values in (X, X + 1):
            assert compare(fused, values, fallback="allow") == ""
