"""Workloads of a person who made a mistake, each in one way; processes import them by name."""

import os
import signal
import time
from typing import Any

import numpy as np

from fuser.suites.workload import Workload, normals

MODULE = "tests.suites.bad_workloads"
SIZES = {"S": 64, "M": 1024, "L": 4096}


def raising(x: Any) -> Any:
    """Refuse everything."""
    raise RuntimeError("no such values")


def refusing_nan(x: Any) -> Any:
    """Refuse what no input holds."""
    if not np.isfinite(x).all():
        raise ValueError("not finite")
    return x + x


class RaisingLater:
    """Raises from its ninth call on."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, x: Any) -> Any:
        """Count the call."""
        self.calls += 1
        if self.calls > 8:
            raise RuntimeError("once too often")
        return x + x


def hanging(x: Any) -> Any:
    """Never return."""
    while True:
        time.sleep(0.1)


def killing(x: Any) -> Any:
    """End the process."""
    os.kill(os.getpid(), signal.SIGKILL)


def hanging_in_float64(x: Any) -> Any:
    """Never return from the call that says what is right."""
    return hanging(x) if x.dtype == np.float64 else x + x


def returning_nothing(x: Any) -> Any:
    """Forget the return."""


def writing(x: Any) -> Any:
    """Write into the argument."""
    x += x
    return x


def _declared(function: Any) -> Workload:
    return Workload("bad", "test", "a mistake", function, normals(1), sizes=SIZES)


RAISING, RAISING_LATER, REFUSING_NAN, HANGING, KILLING, NOTHING, WRITING, HALF_HANGING = map(
    _declared,
    (
        raising, RaisingLater(), refusing_nan, hanging, killing, returning_nothing, writing,
        hanging_in_float64,
    ),
)
NO_INPUTS = Workload("bad", "test", "a mistake", writing, lambda *given: 1 / 0, sizes=SIZES)
GOOD = Workload("good", "test", "twice", refusing_nan, normals(1), sizes=SIZES)
