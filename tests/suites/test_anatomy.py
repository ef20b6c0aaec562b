"""The parts of a call are what they are called, and add up to the whole that is measured apart."""

import numpy as np
import pytest

from fuser import trees
from fuser.suites import anatomy
from fuser.timeline import Phase


def test_native_entries_do_one_thing() -> None:
    """One gives its argument back, one makes an array like it; neither leaks a reference."""
    import sys

    entries = anatomy.native_entries()
    if entries is None:
        pytest.skip("this interpreter has no native entries")
    x = np.ones(7, np.float32)
    before = sys.getrefcount(x)
    for _ in range(10):
        assert entries["give_back"](x) is x
        made = entries["allocate"](x)
        assert (made.shape, made.dtype, made.flags.owndata) == (x.shape, x.dtype, True)
    assert sys.getrefcount(x) == before


def test_every_path_is_taken_apart_and_the_parts_add_up() -> None:
    """The stamped paths within 5%, the native one within a third even on a busy machine."""
    for _ in range(3):
        found = list(anatomy.measure())
        residuals = [abs(sum(each["parts_s"].values()) / each["whole_s"] - 1) for each in found]
        limits = [0.05 if each["method"] == "stamps" else 1 / 3 for each in found]
        closed = all(map(float.__le__, residuals, limits))
        if closed:
            break
    assert closed, found
    paths = {each["path"] for each in found}
    assert {"python", "fallback"} <= paths
    python = next(each for each in found if each["path"] == "python")
    assert {"interpreter and entry", "launch", "stamps"} <= set(python["parts_s"])


def test_stamping_leaves_everything_as_it_was() -> None:
    """The steps are the fuser's own functions again afterwards."""
    before = trees.flatten
    with anatomy.stamped_steps():
        assert trees.flatten is not before
    assert trees.flatten is before


def test_every_step_is_there() -> None:
    """A step that was renamed would silently become part of another."""
    found = {part for *_, part in anatomy._steps()}
    assert found == {part for *_, part in anatomy.STEPS}


def test_a_part_is_without_its_parts_and_their_stamps() -> None:
    """Ten inside a hundred, each stamp costing one."""
    phases = [Phase("inner", "", 20, 10, 1), Phase("outer", "", 0, 100, 1)]
    parts = anatomy.self_seconds(phases, 1e-9)
    assert parts == pytest.approx({"outer": 89e-9, "inner": 10e-9, "stamps": 1e-9})
