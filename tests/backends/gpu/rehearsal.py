"""`tools/device_run.py` without a device: over the double of CuPy, with small arrays and no clocks.

    python -m tests.backends.gpu.rehearsal FOLDER [the options of device_run.py]

It says what the script says; every variant runs, with as few rows as it has on the host. What
ncu and compute-sanitizer would do is left out, and said.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from tests.backends.gpu import fake_cupy

device_run = pytest.importorskip("tools.device_run", reason="tools/ is in a checkout only")
device_checks = sys.modules["device_checks"]

#: Elements of an array of a variant, at most; parts that need no device.
MOST = 100_000
PARTS = "machine,smoke,variants,capture,overhead,sanitizer,traffic,speeds,summary"


def _once(run: Any, sets: Any, limit_s: float) -> list[float]:
    run(*sets[0])
    return [1.0]


def _in_turns(runs: Any, sets: Any, limit_s: float) -> dict[str, list[float]]:
    return {way: _once(run, sets, limit_s) * 2 for way, run in runs.items()}


@contextmanager
def rehearsed(*variants: str) -> Iterator[Any]:
    """The script with small arrays, no clocks, and none of the libraries that take seconds.

    Args:
        variants: which to run; all where none is named.
    """
    cheap, ways = ("fuser", "eager", "raw"), device_run.ways
    known = device_checks.VARIANTS
    small = {
        name: (function, tuple((max(1, min(rows, MOST // columns)), columns)
                               for rows, columns in shapes if columns <= MOST))
        for name, (function, shapes) in known.items()
    } if not variants else {
        name: (known[name][0], tuple((min(r, 40), min(c, 700)) for r, c in known[name][1]))
        for name in variants
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch, fake_cupy.installed() as double:
        patch.setattr(device_run, "HIDDEN", (16,))
        patch.setattr(device_run, "ways", lambda n: (w for w in ways(n) if w[0] in cheap))
        patch.setattr(device_run, "event_times_ms", _once)
        patch.setattr(device_run, "batch_times_ms", _in_turns)
        sized = {"speeds": device_run.speeds, "traffic-child": device_run.traffic_child}
        for part, function in sized.items():
            patch.setitem(
                device_run.PARTS, part, lambda record, function=function: function(record, 1 << 13)
            )
        patch.setitem(device_run.PARTS, "overhead", lambda r: device_run.overhead(r, calls=20))
        patch.setattr(device_checks, "VARIANTS", small)
        patch.setattr(device_run, "device_checks_variants", small, raising=False)
        patch.setattr(device_run, "TRAFFIC_TOO", (("softmax", 67),))
        double.get_default_memory_pool = lambda: SimpleNamespace(free_all_blocks=lambda: None)
        device_run.fused.cache_clear()
        yield device_run
        device_run.fused.cache_clear()


if __name__ == "__main__":
    given = sys.argv[1:]
    given += [] if "--parts" in given else ["--parts", PARTS]
    with rehearsed() as script:
        raise SystemExit(script.main([*given, "--no-pool", "--cache", f"{given[0]}/kept"]))
