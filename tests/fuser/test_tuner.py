"""Schedules that are timed and kept: results stay, the table is this machine's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fuser
from fuser import tuner
from fuser.backend import get_backend
from fuser.backends.cpu import fused_kernel
from fuser.backends.cpu.schedule import DEFAULT, Schedule
from fuser.backends.cpu.scheduling import kept
from fuser.base import config
from tests.children import said

X = np.random.default_rng(3).normal(size=(600, 200)).astype("float32")


def _greatest(x: Any) -> Any:
    return np.max(x, -1)


def _place(x: Any, w: Any) -> Any:
    return np.tanh(x @ w) + 1


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache folder of its own, on a machine that is not continuous integration's."""
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    before = config.current().disk_cache
    config.change(disk_cache=True)
    monkeypatch.setattr(kept, "_known", None)
    fuser.clear_caches()
    yield tmp_path
    config.change(disk_cache=before)
    kept._known = None
    fuser.clear_caches()


def _kept_for(function: Any, *args: Any) -> tuple[Any, Any]:
    """A nest of a call, and a schedule of the same bits that it does not use."""
    ((backend, bind, _, _),) = tuner.launches_of(fuser.fuse(function), args)
    (choice,) = backend.choices(bind)
    return choice, next(each for each in choice.same_bits if each != choice.used)


def test_what_is_found_prints_and_arguments_stay() -> None:
    """Every nest has a line; nothing is kept where that was not asked for."""
    x = X.copy()
    found = fuser.tune(lambda x: np.add(x, 1, out=x), x, keep=False, seconds=0.02)
    assert (x == X).all()
    for each in found.nests:
        assert each.schedules >= 1
        assert each.regret > 0
        assert each.kept == ""
    assert str(fuser.tune(_greatest, X, keep=False, seconds=0.02)).count(" schedules, ") == 1


def test_stages_of_a_program_are_tuned() -> None:
    """What NumPy runs between kernels is left as it is."""
    found = fuser.tune(
        fuser.fuse(_place, fallback="allow"), X, X.T.copy(), keep=False, seconds=0.02
    )
    assert len(found.nests) == 1


def test_a_kept_schedule_runs_for_lengths_of_its_class(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this process and in another; others have the chosen one, and results stay."""
    choice, other = _kept_for(_greatest, X)
    get_backend("cpu").keep(choice, other)
    fuser.clear_caches()
    again, _ = _kept_for(_greatest, X)
    assert (again.chosen, again.used) == (choice.chosen, other)
    assert (list(folder.rglob("*.tuned"))) != []
    function = fuser.fuse(_greatest)
    for rows in (600, 601, 700, 3000, 600):  # 3000 has more digits
        x = np.resize(X, (rows, 200))
        for _ in range(3):
            np.testing.assert_array_equal(function(x), np.max(x, -1))
    monkeypatch.setattr(kept, "_known", None)
    assert kept.known()  # as another process reads it
    get_backend("cpu").keep(again, choice.chosen)
    assert _kept_for(_greatest, X)[0].used == choice.chosen


def test_the_best_is_kept_only_where_it_is_worth_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ratios say what is faster; here they are given."""
    choice, _ = _kept_for(_greatest, X)
    halves = lambda timers, seconds: [1.0, *[0.5] * (len(timers) - 1)]  # noqa: E731
    monkeypatch.setattr(tuner, "_ratios", halves)
    by_chance = iter(range(1000, 0, -1))
    monkeypatch.setattr(tuner.Timer, "median_s", property(lambda self: next(by_chance)))
    found = fuser.tune(_greatest, X, seconds=0.02).nests[0]
    assert found.kept in {tuner.spelled(each) for each in choice.same_bits if each != choice.chosen}
    monkeypatch.setattr(tuner, "_ratios", lambda timers, seconds: [1.0] * len(timers))
    fuser.clear_caches()
    assert fuser.tune(_greatest, X, seconds=0.02).nests[0].kept == ""


def test_a_table_that_is_not_understood_is_none(folder: Path) -> None:
    """Damaged, of another form, with a schedule that is no longer legal: the chosen one runs."""
    choice, _ = _kept_for(_greatest, X)
    nest, lengths = choice.nest.nest, choice.nest.lengths
    kept.keep(nest, lengths, Schedule(layout="pack", unroll=2))
    fuser.clear_caches()
    assert _kept_for(_greatest, X)[0].used == choice.chosen
    (file,) = folder.rglob("*.tuned")
    for content in (b"", b"[1, 2]", b'{"a": [[["x"], {}]]}', b'{"a": [[[1], {"nothing": 2}]]}'):
        fused_kernel.kept.disk_cache.write(file.stem, content, kept.SUFFIX)
        kept._known = None
        fuser.clear_caches()
        assert kept.known() == {}
    file.write_bytes(b"damaged")
    kept._known = None
    with pytest.warns(UserWarning, match="damaged"):
        assert kept.known() == {}


def test_continuous_integration_keeps_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does it read what is kept."""
    choice, other = _kept_for(_greatest, X)
    get_backend("cpu").keep(choice, other)
    monkeypatch.setenv("CI", "true")
    monkeypatch.setattr(kept, "_known", None)
    assert kept.known() == {}


def test_samples_are_taken_again_in_another_process() -> None:
    """By the names that were printed."""
    found = fuser.tune(_greatest, X, keep=False, seconds=0.02).nests[0]
    code = (
        "import numpy as np; from fuser.tuner import time_again\n"
        "x = np.ones((600, 200), 'float32')\n"
        f"print(time_again(lambda x: np.max(x, -1), (x,), {{{found.nest!r}: {found.best!r}}}, .02))"
    )
    assert found.nest in said("-c", code)


def test_arguments_of_tune_are_checked() -> None:
    """With what was found."""
    for seconds in (0, -1, float("nan"), float("inf"), "1"):
        with pytest.raises(fuser.ArgumentError, match="positive number of seconds"):
            fuser.tune(_greatest, X, seconds=seconds)  # type: ignore[arg-type]
    with pytest.raises(fuser.FusionError):
        fuser.tune(lambda x: x, np.array(["a"]))
    assert Schedule() == DEFAULT
