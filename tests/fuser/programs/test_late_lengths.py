"""Short ways of functions whose graph breaks tell lengths, give views, or end in writes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from tests.results import parts_of

LENGTH = 200


def chosen(x: Any) -> Any:
    """The mean of what is positive, and how many these are."""
    found = x[x > 0]
    return np.log(found).mean(), found.size


def standardised(x: Any) -> Any:
    """Kernels write what is as long as the choice."""
    found = x[x > 0]
    return (found - found.mean()) / found.std()


def paired(x: Any) -> Any:
    """Two choices that are equally long, as a guard says."""
    return x[x > 0] * np.sqrt(x)[x > 0]


def largest(x: Any) -> Any:
    """NumPy raises where nothing is chosen."""
    return (x[x > 0] * 2).max()


def counted(x: Any) -> Any:
    """A named tuple, of which one part is used."""
    _, counts = np.unique(np.round(x), return_counts=True)
    return counts / counts.sum()


def rows(x: Any) -> Any:
    """Rows of two axes."""
    table = x.reshape(-1, 4)
    return table[table[:, 0] > 0].mean(axis=1)


def sorted_again(x: Any) -> Any:
    """A function reads what was chosen."""
    return np.sort(x[x > 0])[::-1] + 1


def half(x: Any) -> Any:
    """A view that a function reads depends on the number that was chosen."""
    found = x[x > 0]
    return np.sort(found[: found.size // 2]) * 2


def bits(x: Any) -> Any:
    """A view of another dtype."""
    return x.view(np.int64) >> 52


def windows(x: Any) -> Any:
    """A view whose elements share memory."""
    return np.lib.stride_tricks.sliding_window_view(x, 3).std(axis=1)


def centred(x: Any) -> None:
    """A write of all."""
    x -= np.median(x)


def cleared(x: Any) -> Any:
    """A write of some, and the argument itself as a result."""
    x[::2] = np.sort(x)[::2] * 3
    return x, x.sum()


FUNCTIONS: list[Callable[..., Any]] = [
    chosen, standardised, paired, largest, counted, rows, sorted_again, half, bits, windows,
    centred, cleared,
]  # fmt: skip


def _inputs(rng: np.random.Generator) -> list[Any]:
    """Of one length: some positive, none, one, all."""
    made = [rng.standard_normal(LENGTH) for _ in range(4)]
    none, one = -np.abs(made[0]), -np.abs(made[0])
    one[4] = 0.5
    return [*made, none, made[1], one, np.abs(made[0]), made[2]]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("function", FUNCTIONS)
def test_calls_give_what_numpy_gives(function: Callable[..., Any]) -> None:
    """Whatever number of elements a call chooses: values, writes and exceptions."""
    fused = fuser.fuse(function, fallback="allow")
    for array in _inputs(np.random.default_rng(7)):
        mine, theirs = array.copy(), array.copy()
        try:
            wanted, error = function(mine), None
        except ValueError as raised:
            wanted, error = None, raised
        if error is not None:
            with pytest.raises(ValueError, match="zero-size"):
                fused(theirs)
            continue
        found = fused(theirs)
        for one, other in zip(parts_of(wanted), parts_of(found), strict=True):
            assert type(one) is type(other)
            if one is not mine and one is not None:
                np.testing.assert_allclose(other, one, rtol=1e-12, atol=1e-14)
                assert np.asarray(other).dtype == np.asarray(one).dtype
        np.testing.assert_allclose(theirs, mine, rtol=1e-12, atol=1e-14)
        if function is cleared:
            assert found[0] is theirs


@pytest.mark.parametrize("function", [f for f in FUNCTIONS if f is not half])
def test_calls_have_a_short_way(
    function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once it is known, no call is looked at again, whatever number of elements it chooses."""
    fused = fuser.fuse(function, fallback="allow")
    rng = np.random.default_rng(8)
    for _ in range(3):
        fused(rng.standard_normal(LENGTH))
    monkeypatch.setattr(fused, "_find_and_run", None)
    for _ in range(4):
        fused(rng.standard_normal(LENGTH))


def test_a_read_only_argument_is_not_written() -> None:
    """The short way leaves it to NumPy's words."""
    fused = fuser.fuse(centred, fallback="allow")
    for _ in range(3):
        fused(np.arange(5.0))
    array = np.arange(5.0)
    array.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        fused(array)
    assert array[0] == 0


def test_a_view_between_kernels_is_of_the_argument() -> None:
    """What a call returns looks at the memory at which NumPy's result looks."""

    def seen(x: Any) -> Any:
        return x.view(np.int32), x.sum()

    fused = fuser.fuse(seen, fallback="allow")
    for _ in range(4):
        array = np.arange(6.0)
        found, _ = fused(array)
        assert np.shares_memory(found, array)
