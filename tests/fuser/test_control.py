"""Switches, counters and caches of a process."""

from typing import Any

import numpy as np
import pytest

import fuser
from fuser.base import config

X = np.ones(8)


def test_show_config(capsys: pytest.CaptureFixture[str]) -> None:
    """Versions, backends, settings and the processor, printed and returned."""
    text = fuser.show_config()
    assert text in capsys.readouterr().out
    for part in ("numpy", "llvmlite", "cpu", "backend", "settings"):
        assert part in text
    assert fuser.available_backends()["cpu"] is None


def test_devices_are_switched_off_and_on() -> None:
    """Calls then run in NumPy, which is counted with its reason."""
    fused = fuser.fuse(lambda x: x * 2 + 1, fallback="allow")
    assert fuser.can_fuse_on_cpu()
    fuser.override_can_fuse_on_cpu(False)
    try:
        before = fuser.stats().get("fallback.switched-off", 0)
        np.testing.assert_array_equal(fused(X), X * 2 + 1)
        assert not fuser.can_fuse_on_cpu()
        assert fuser.stats()["fallback.switched-off"] == before + 1
    finally:
        fuser.override_can_fuse_on_cpu(True)
    assert fuser.can_fuse_on_cpu()


def test_how_many_threads_there_are() -> None:
    """What was asked for, and by default what the machine has."""
    before = config.current().num_threads
    try:
        fuser.set_num_threads(3)
        assert fuser.get_num_threads() == 3
    finally:
        config.change(num_threads=before)
    assert fuser.get_num_threads() >= 1


@pytest.mark.parametrize("count", [0, -1, 1.5, True, "2", None])
def test_threads_are_a_positive_number(count: object) -> None:
    """Anything else is refused, and nothing changes."""
    with pytest.raises(fuser.ArgumentError, match="positive integer"):
        fuser.set_num_threads(count)  # type: ignore[arg-type]


@pytest.mark.parametrize("flag", ["yes", 1, None])
def test_switches_take_true_or_false(flag: Any) -> None:
    """A text is neither, whatever it says."""
    for override in (fuser.override_can_fuse_on_cpu, fuser.override_can_fuse_on_gpu):
        with pytest.raises(fuser.ArgumentError, match="takes True or False"):
            override(flag)
