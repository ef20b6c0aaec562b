"""Written arguments, views and nests of results, natively: what the plain function gives."""

import gc
import sys
from typing import Any

import numpy as np
import pytest

import fuser
from tests.fuser.result_kinds import KINDS, check, in_place, own_out, silent_out, step
from tests.threads import on_threads


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_result_is_native(name: str) -> None:
    """Results, whose memory they are, and what is written into arguments; other lengths too."""
    function, args = KINDS[name]
    fused = fuser.fuse(function, fallback="error")
    for _ in range(4):
        check(function, fused, args)
    assert fused._native.hits == 3
    longer = [
        np.concatenate([each, each], axis=-1) if isinstance(each, np.ndarray) else each
        for each in args
    ]
    for _ in range(4):
        check(function, fused, longer)
    assert fused._native.hits >= 6


def _layouts() -> dict[str, Any]:
    """Vectors of six elements in every kind of memory, cut from one piece."""
    memory = np.linspace(1, 2, 60)
    shifted = np.zeros(49, np.uint8)[1:].view(np.float64)
    shifted[:] = memory[:6]
    return {
        "plain": memory[20:26], "strided": memory[:12:2], "backwards": memory[11:5:-1],
        "misaligned": shifted, "empty": memory[:0], "other": memory[40:46],
        "overlapping": memory[22:28], "same": memory[20:26], "shifted back": memory[18:24],
        "tables": memory[30:36].reshape(2, 3), "columns": memory[:12].reshape(2, 6)[:, ::2],
    }  # fmt: skip


WRITERS = {
    "own out": (own_out, 3), "silent": (silent_out, 3), "in place": (in_place, 2),
    "several": (lambda x, y: (x.__iadd__(y), np.multiply(y, 2, out=y))[0], 2),
    "reads afterwards": (lambda a, b, out: np.add(a, b, out=out) * b, 3),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::fuser.FallbackWarning")
@pytest.mark.parametrize("name", WRITERS)
def test_written_arguments_in_every_memory(name: str) -> None:
    """Strided, misaligned, empty, overlapping in every way: as NumPy does it, each time."""
    function, count = WRITERS[name]
    fused = fuser.fuse(function, fallback="allow")
    names = list(_layouts())
    shifts = [(1, 2), (0, 0), (0, 3), (5, 1), (7, 7), (8, 8), (6, 0)]
    for turn in range(3):
        for k, first in enumerate(names):
            for one, two in shifts[turn:] if turn == 2 else shifts:
                picked = [first, names[(k + one) % 11], names[(k + two) % 11]][:count]
                _compare(function, fused, picked)
    assert fused._native.hits > 20


def _compare(function: Any, fused: Any, picked: list[str]) -> None:
    """One call on arrays of one memory, and the same by NumPy alone."""
    outcomes = []
    for run in (fused, function):
        arrays = _layouts()
        with np.errstate(all="ignore"):
            try:
                result = run(*(arrays[name] for name in picked))
            except ValueError:
                result = np.array("an error")
        after = [arrays[name].tobytes() for name in sorted(arrays)]
        outcomes.append((after, None if result is None else result.tobytes()))
    assert outcomes[0] == outcomes[1], picked


def test_read_only_and_other_arguments_are_not_written() -> None:
    """The error is NumPy's, natively served before or not; nothing changes."""
    fused = fuser.fuse(in_place)
    x, y = np.ones(4), np.ones(4)
    for _ in range(3):
        assert fused(x, y) is x
    frozen = np.ones(4)
    frozen.flags.writeable = False
    for _ in range(2):
        with pytest.raises(ValueError, match="read-only"):
            fused(frozen, y)
        with pytest.raises(ValueError, match="broadcast"):
            fused(x, np.ones((2, 4)))
        with pytest.raises(TypeError, match="Cannot cast"):
            fused(np.ones(4, int), y)
    assert frozen.tolist() == [1] * 4
    assert x.tolist() == [4] * 4


@pytest.mark.filterwarnings("ignore::fuser.FallbackWarning")
def test_subclasses_are_numpys() -> None:
    """They take the fallback, and are written to there."""

    class Own(np.ndarray):
        pass

    fused = fuser.fuse(in_place)
    x = np.ones(3)
    for _ in range(2):
        fused(x, x * 0)
        result = fused(x.view(Own), np.ones(3))
        assert type(result) is Own
    assert x.tolist() == [3] * 3


def test_32_arguments_change_in_place() -> None:
    """Half of them are read, half are written."""
    def update(*arrays: Any) -> None:
        for target, value in zip(arrays[:16], arrays[16:], strict=True):
            target += value

    fused = fuser.fuse(update)
    for length in (1, 1, 1, 5, 5, 5):
        mine = [np.full(length, float(k)) for k in range(32)]
        wanted = [np.full(length, float(k if k >= 16 else 2 * k + 16)) for k in range(32)]
        assert fused(*mine) is None
        assert all(map(np.array_equal, mine, wanted))
    assert fused._native.hits >= 3


def test_reference_counts_stay_as_they_are() -> None:
    """Of arguments, results, constants and containers, native or not."""
    x, y, out = np.ones(3), np.ones(3), np.ones(3)
    marker = "a marker of this test"
    calls = [
        (fuser.fuse(own_out), (x, y, out)), (fuser.fuse(silent_out), (x, y, out)),
        (fuser.fuse(lambda a: (a, a * 2, marker, None)), (x,)),
        (fuser.fuse(lambda a: (z := a * 2, z[1:], {"a": a})), (x,)),
        (fuser.fuse(lambda p, d: p[0] * d["x"] + d["y"][0]), ([x, y], {"x": x, "y": (y,)})),
        (fuser.fuse(step), (x, y, out, x * 2, 0.5)),
    ]  # fmt: skip
    for fused, args in calls:
        for _ in range(4):
            fused(*args)
        watched = [x, y, out, marker, None, fused, *args, x.dtype]
        gc.collect()
        before = [sys.getrefcount(thing) for thing in watched]
        for _ in range(300):
            fused(*args)
        gc.collect()
        after = [sys.getrefcount(thing) for thing in watched]
        assert all(abs(b - a) < 5 for a, b in zip(before, after, strict=True))
        assert fused._native.hits >= 300


def test_threads_write_into_arrays_of_their_own() -> None:
    """Short and long calls of one function at once."""
    fused = fuser.fuse(step)
    wrong: list[int] = []

    def work(_: int) -> None:
        for length in (3, 50_000, 3, 200) * 3:
            given = [np.linspace(1, 2, length) for _ in range(4)]
            wanted = [each.copy() for each in given]
            for _ in range(3):
                fused(*given, 0.25)
                step(*wanted, 0.25)
            if any(a.tobytes() != b.tobytes() for a, b in zip(given, wanted, strict=True)):
                wrong.append(length)

    on_threads(work, 6)
    assert not wrong
