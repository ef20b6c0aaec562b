"""Integer arguments as indices, bounds and lengths: one specialisation a class, and right."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from tests.fuser.comparing import compare

ROWS: dict[str, Callable[[Any, int], Any]] = {
    "x[k]": lambda x, k: x[k] * 2 + 1,
    "x[..., k]": lambda x, k: x[..., k] * 2,
    "x[-k]": lambda x, k: x[-k] * 2,
    "x[k] * k": lambda x, k: x[k] * k,
    "x[k + 1] + x[k]": lambda x, k: x[k + 1] + x[k],
    "x[len(x) - k]": lambda x, k: x[len(x) - k] + 1,
    "x[k % len(x)]": lambda x, k: x[k % len(x)] + 1,
    "x[None, :k]": lambda x, k: x[None, :k] * 2,
    "x[:k]": lambda x, k: x[:k] * 2 + 1,
    "x[k:]": lambda x, k: x[k:] * 2 + 1,
    "x[1:k]": lambda x, k: x[1:k] + 1,
    "x[k:-1]": lambda x, k: x[k:-1] + 1,
    "x[k:k + 2]": lambda x, k: x[k : k + 2] * 3,
    "x[:k // 2]": lambda x, k: x[: k // 2] + 1,
    "x[k::2]": lambda x, k: x[k::2] * 2,
    "x[k::-1]": lambda x, k: x[k::-1] * 2,
    "x[k:] - x[:-k]": lambda x, k: x[k:] - x[:-k],
    "x[:k] + x[:k]": lambda x, k: x[:k] + x[:k],
    "x[:k][1:] - x[:k][:-1]": lambda x, k: x[:k][1:] - x[:k][:-1],
    "x[k:][:k]": lambda x, k: x[k:][:k] * 2,
    "view": lambda x, k: (x[:k], x[k:], x[k : k + 1]),
    "x[:k].sum()": lambda x, k: x[:k].sum(),
    "x[:k] - mean": lambda x, k: x[:k] - x[:k].mean(),
    "x[:k] * len": lambda x, k: x[:k] * x[:k].shape[0],
    "clipped": lambda x, k: x[: max(k, 1)] + x[: min(k, 1)].sum(),
    "decided": lambda x, k: x[k] * 2 if k > 1 else x * 2,
    "rotated": lambda x, k: np.concatenate([x[k:], x[:k]]) * 2,
    "sorted": lambda x, k: np.sort(x[:k], axis=0) * 2,
    "reshape": lambda x, k: x.reshape(-1, k) * 2,
    "zeros": lambda x, k: np.zeros(k) + 1,
    "arange": lambda x, k: np.arange(k) * 2.0,
    "ones": lambda x, k: x[:k] * np.ones((k, *x.shape[1:])),
}


def one_row(x: Any, k: int) -> Any:
    """A row is replaced."""
    x[k] = 7
    return x + 1


def head_by_last(x: Any, k: int) -> Any:
    """A slice is replaced by what lies in it, perhaps."""
    x[:k] = x[-1]
    return x.sum()


def window(x: Any, k: int) -> None:
    """Two rows are changed in place."""
    x[k : k + 2] += 1


def column(x: Any, k: int) -> None:
    """A column is cleared."""
    x[..., k] = 0


def neighbour(x: Any, k: int) -> Any:
    """A row is made from the one before it."""
    x[k] = x[k - 1] * 2
    return x * 2


def overlapping(x: Any, k: int) -> None:
    """What is written overlaps what is read."""
    x[:k] = x[k : 2 * k]


def shifted(x: Any, k: int) -> Any:
    """As `np.roll` does it."""
    y = np.empty_like(x)
    y[k:] = x[: len(x) - k]
    y[:k] = x[len(x) - k :]
    return y


def moved_row(x: Any, k: int) -> None:
    """One row is made from another, or from itself."""
    x[k] = x[k - 2 : k + 1].sum(axis=0) - x[1]


def overlapping_window(x: Any, k: int) -> None:
    """What is written is read beside it, too."""
    x[2:5] = x[k : k + 3] * 2


def two_rows(x: Any, k: int) -> Any:
    """Perhaps the same one twice."""
    x[k] = 5
    x[2] = x[k] + 1
    return x[k] * 2, x[:k].sum()


def reversed_class(x: Any, k: int) -> Any:
    """Writes in place, and a plan is chosen by what it moves."""
    y = np.zeros(6)
    x[:] = x[k] * 2
    y[:2] += k
    y[k + 1 : 6] = y[:2:2] * 2
    return y.sum(), x[k:-k] * 2


def around(x: Any, k: int) -> Any:
    """A place in a ring, and all that comes after it."""
    n = len(x) + 1
    y = x * 1
    y[k % n] = k
    y[k:k] = x[0]
    return y[k % n :] + 1


WRITES = (
    around,
    reversed_class,
    moved_row, overlapping_window, two_rows, one_row, head_by_last, window, column, neighbour,
    overlapping, shifted,
)  # fmt: skip
PROGRAMS = {**ROWS, **{function.__name__: function for function in WRITES}}
LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "C": lambda x: x,
    "F": np.asfortranarray,
    "apart": lambda x: np.repeat(x, 2, axis=0)[::2],
}


@pytest.mark.parametrize("mode", ["fused", "unfused", "fallback"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_number_is_right(name: str, mode: str) -> None:
    """Negative ones, those beyond the ends, and those for which NumPy raises."""
    fused = fuser.fuse(PROGRAMS[name], mode=mode, fallback="allow")
    for shape in ((5,), (4, 3), (1,), (0,), (6,)):
        x = np.arange(1.0, 1 + np.prod(shape)).reshape(shape)
        every = mode == "fused" and shape in ((5,), (4, 3))
        for layout in LAYOUTS.values() if every else (LAYOUTS["C"],):
            for k in range(-shape[0] - 2, shape[0] + 3):
                assert compare(fused, layout(x), k) == "", (shape, k)


NUMPY_ROWS = (
    "x[k]", "x[..., k]", "x[-k]", "x[k] * k", "x[k + 1] + x[k]", "x[:k]", "x[k:k + 2]", "view",
    "x[k:] - x[:-k]", "sorted", "x[k::2]", "x[k::-1]", "two_rows", "column", "shifted",
)  # fmt: skip


@pytest.mark.parametrize("kind", [np.int64, np.int8, np.uint16, np.array, bool, np.bool_])
@pytest.mark.parametrize("name", NUMPY_ROWS)
def test_every_number_of_numpy_is_right(name: str, kind: Any) -> None:
    """Its scalars, arrays without axes, and truth values, which are no integers."""
    fused = fuser.fuse(PROGRAMS[name], fallback="allow")
    for shape in ((5,), (4, 3)):
        x = np.arange(1.0, 1 + np.prod(shape)).reshape(shape)
        low = 0 if kind is np.uint16 else -shape[0] - 2
        for k in (0, 1) if kind in (bool, np.bool_) else range(low, shape[0] + 3):
            with np.errstate(over="ignore"):
                assert compare(fused, x, kind(k)) == "", (shape, k)


#: Indices of a square matrix that lie beyond an axis for some k.
BEYOND: dict[str, Callable[[Any, Any], Any]] = {
    "x[k, k + 2]": lambda x, k: x[k, k + 2] * x,
    "x[k - n, k]": lambda x, k: x[k - x.shape[1], k] + x,
    "x[k // 2, k]": lambda x, k: x[k // 2, k] + x,
    "x[k // 2, :k]": lambda x, k: x[k // 2, :k] + 1,
    "x[[0, -1], k]": lambda x, k: x[[0, -1], k] + 1,
    "x[:k, [0, -1]]": lambda x, k: x[:k, [0, -1]] + 1,
    "x[x[:, 0] > 2, :k]": lambda x, k: x[x[:, 0] > 2, :k] + 1,
    "x[k][k + 1]": lambda x, k: x[k][k + 1] * x,
    "x[::2][k]": lambda x, k: x[::2][k] + x,
}


def sum_of_some(x: Any, k: Any) -> Any:
    """A loop over elements, some of which may be none."""
    s = 0.0
    for i in range(0, len(x), 2):
        if x[i, i + k] > 1:
            s += x[i, k - i]
    return s


def rows_added(x: Any, k: Any) -> Any:
    """A loop over rows, some of which may be none."""
    for i in range(2):
        x[i] += x[i + k, i]
    return x * 2


def one_set(x: Any, k: Any) -> Any:
    """Writes into elements and rows that may be none."""
    x[k // 2, k] = 3
    x[k - 1] = 4
    return x + 1


@pytest.mark.parametrize("kind", [int, np.int64], ids=["int", "int64"])
@pytest.mark.parametrize("name", [*BEYOND, "sum_of_some", "rows_added", "one_set"])
def test_indices_beyond_an_axis(name: str, kind: type) -> None:
    """They raise as NumPy's do, after any call, and no fault of the fuser hides in a fallback."""
    fused = fuser.fuse(BEYOND.get(name) or globals()[name], fallback="allow")
    calls = [(n, k) for n in (3, 1, 2, 4) for k in range(-n - 2, n + 3)]
    for n, k in [*calls, *reversed(calls)]:
        assert compare(fused, np.arange(1.0, n * n + 1).reshape(n, n), kind(k)) == "", (n, k)
    assert not any("NameError" in reason.found for reason in fused.fallbacks)


def test_numpy_integers_are_symbols_too() -> None:
    """One specialisation for each class, also of sums; beyond 2**62 sums may wrap."""
    x = np.arange(40.0)
    fused = fuser.fuse(lambda x, k: x[k] + x[k + 1 : k + 3].sum())
    for k in range(30):
        assert compare(fused, x, np.int64(k)) == ""
    (entry,) = fused._signatures.values()
    assert len(entry.found) == 1
    graph = fuser.trace(lambda x, k: x[:k] * 2, x, np.int64(3))
    assert "where n1 == x1" in str(graph)
    assert fuser.parse(str(graph)) == graph
    key = fuser.register_fusion(graph)
    for k in (3, 5, 0):
        assert np.array_equal(fuser.run_fusion(key, [x, np.int64(k)])[0], x[:k] * 2)
    fused = fuser.fuse(lambda x, k: x[: k + 1] * 2, fallback="allow")
    with np.errstate(over="ignore"):
        for k in (3, 2**63 - 1, 2**62, 2**62 - 1, -(2**63), 2**40, -5):
            assert compare(fused, x, np.int64(k)) == "", k


@pytest.mark.usefixtures("never_brief")
@pytest.mark.parametrize(
    ("name", "classes"),
    [
        ("x[k]", 2), ("x[..., k]", 2), ("x[:k]", 4), ("x[k:]", 4), ("x[k + 1] + x[k]", 3),
        ("one_row", 2), ("column", 2), ("zeros", 1), ("around", 4), ("x[:k].sum()", 4),
        ("x[k % len(x)]", 2),
    ],
)  # fmt: skip
def test_a_class_of_numbers_is_one_specialisation(name: str, classes: int) -> None:
    """Within the axis from either end, and beyond either end."""
    fused = fuser.fuse(PROGRAMS[name], fallback="allow")
    for n in (40, 41):
        for k in sorted(range(-n - 2, n + 3), key=lambda k: _raises(PROGRAMS[name], n, k)):
            compare(fused, np.arange(1.0 * n), k)
    (entry,) = fused._signatures.values()
    assert len(entry.found) == classes
    assert not any(reason.code == "value-guards" for reason in fused.fallbacks)


def _raises(function: Any, n: int, k: int) -> bool:
    """Whether NumPy raises: calls that do so again and again are the plain function's."""
    try:
        function(np.arange(1.0 * n), k)
    except (IndexError, ValueError):
        return True
    return False


def test_an_index_is_no_launch_of_its_own() -> None:
    """It only moves what is read and written: one binding serves all; a length has one each."""
    x = np.arange(600.0).reshape(30, 20)
    for program in (ROWS["x[k]"], ROWS["x[..., k]"], ROWS["x[k:k + 2]"], window, column):
        fused = fuser.fuse(program)
        for k in range(2, 18):
            assert compare(fused, x, k) == ""
        assert len(launches_of(fused, x)) <= 2, program  # in place, and beside
    fused = fuser.fuse(ROWS["x[:k]"])
    for k in range(2, 18):
        assert compare(fused, x, k) == ""
    assert len(launches_of(fused, x)) <= 16


def launches_of(fused: Any, x: Any) -> list[Any]:
    """What calls with an array like this one have been bound to; specs are shared."""
    (entry,) = fused._signatures.values()
    (found,) = entry.found
    return [key for key in found.spec.launches if ("x0", x.shape, x.strides) in key]


def test_later_calls_do_not_look_for_a_specialisation(monkeypatch: pytest.MonkeyPatch) -> None:
    """They take the short way, in every class that has been met twice."""
    x = np.arange(60.0).reshape(12, 5)
    programs = (ROWS["x[k]"], ROWS["x[k:k + 2]"], ROWS["view"], window, column)
    made = [fuser.fuse(program) for program in programs]
    for fused in made:
        for k in (0, 1, -1, -2, 3, -4):
            fused(x.copy(), k)

    def unexpected(*_: Any) -> Any:
        raise AssertionError("the long way")

    monkeypatch.setattr(type(made[0]), "_find_call", unexpected)
    for fused in made:
        for k in (2, -3, 0, -4):
            assert compare(fused, x, k) == ""


def test_the_graph_says_which_argument_it_is() -> None:
    """A length is bound by the integer; the text is read back, and it runs."""
    graph = fuser.trace(ROWS["x[k:] - x[:-k]"], np.zeros((8, 3)), 3)
    assert "where n2 == s0" in str(graph)
    assert fuser.parse(str(graph)) == graph
    x = np.arange(24.0).reshape(8, 3)
    key = fuser.register_fusion(graph)
    for k in (1, 2, 5):
        for mode in ("fused", "unfused", "fallback"):
            (found,) = fuser.run_fusion(key, [x, k], mode)
            assert np.array_equal(found, x[k:] - x[:-k])
    for k in (-1, 9):
        with pytest.raises(fuser.ShapeError, match="trace again"):
            fuser.run_fusion(key, [x, k])
    assert list(fuser.generate_code(graph, "gpu"))
    assert list(fuser.generate_code(graph, "cpu"))


def test_a_text_cannot_read_beyond_an_array() -> None:
    """Its guards may not say where a view has to lie."""
    text = """graph(x0: float64[n0], s0: int):
      where n1 == s0
      %0 = part{0; n1; n1 + 1} x0 : float64[1]
      %1 = add %0 %0 : float64[1]
      return %1"""
    key = fuser.register_fusion(fuser.parse(text))
    x = np.arange(4.0)
    for k in (0, 3):
        assert fuser.run_fusion(key, [x, k])[0] == [2 * k]
    for k in (4, 400, 2**40, -1):
        with pytest.raises((fuser.ShapeError, fuser.FusionError, ValueError)):
            fuser.debug_launch_graph(fuser.parse(text), [x, k])
    with pytest.raises(fuser.GraphError, match="n1"):
        fuser.parse(text.replace("n1 == s0", "n0 == n0"))


def test_explanations_name_the_argument() -> None:
    """In the words of the function, not of the graph."""
    fused = fuser.fuse(lambda x, k: x[k] + 1)
    found = fused.explain(np.zeros(9), 4)
    assert found.guards[:2] == ["k >= 0", "n0 - k >= 1"]
    assert "n1 = k = 4" in str(found)
    found = fused.explain(np.zeros(9), -4)
    assert found.guards[:2] == ["k <= -1", "k + n0 >= 0"]
    found = fuser.fuse(lambda x, k: x[:k] + 1).explain(np.zeros(9), -12)
    assert found.guards[:2] == ["k <= -1", "-k - n0 >= 1"]


def test_integers_that_decide_remain_guards() -> None:
    """`range`, an axis, a step."""
    fused = fuser.fuse(lambda x, k: sum(x[i] for i in range(k)) + x.sum(axis=k - 2))
    for k in (2, 3):
        assert compare(fused, np.arange(9.0).reshape(3, 3), k) == ""
    (entry,) = fused._signatures.values()
    assert len(entry.found) == 2
