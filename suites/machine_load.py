"""What else the machine does while a cell is measured: other processes, clock rate, throttling.

Read before and after each block, which takes some 50 microseconds, never while something is timed.
"""

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

NOT_BUSY = ("idle", "iowait", "steal", "guest", "guest_nice")
"""Fields of processor times in which none of its processes ran, or that are there twice."""

_THROTTLES = "cpu*/thermal_throttle/core_throttle_count"
_CPU = Path("/sys/devices/system/cpu")


@dataclass(frozen=True, slots=True)
class Moment:
    """The machine's clocks at one moment, in seconds of all its processors together.

    Attributes:
        at_s: of the wall's clock.
        busy_s: what all processes have had since the machine started.
        own_s: what this process has had.
        steal_s: what the hypervisor gave to other machines; None where the system does not tell.
    """

    at_s: float
    busy_s: float
    own_s: float
    steal_s: float | None


def moment() -> Moment:
    """Read the clocks of the processors and of this process."""
    times: dict[str, float] = psutil.cpu_times()._asdict()  # its fields are the platform's
    # a guest's time is in the user's already
    other_s = sum(times.get(name, 0.0) for name in NOT_BUSY)
    return Moment(
        time.monotonic(), sum(times.values()) - other_s, time.process_time(), times.get("steal")
    )


def frequency_hz() -> float | None:
    """Return the processors' mean clock rate now, where the system tells."""
    with contextlib.suppress(OSError, NotImplementedError, RuntimeError, AttributeError):
        found = psutil.cpu_freq()
        return float(found.current) * 1e6 or None
    return None


def throttles() -> int | None:
    """Return how often processors were slowed for their heat since the machine started."""
    found = []
    for path in _CPU.glob(_THROTTLES):
        with contextlib.suppress(OSError, ValueError):
            found.append(int(path.read_text(encoding="ascii")))
    return sum(found) if found else None


class CellLoad:
    """What one process's measuring of one cell met; filled block by block."""

    def __init__(self) -> None:
        self.started = (psutil.getloadavg()[0], frequency_hz(), throttles())
        self.wall_s = self.others_s = self.steal_s = 0.0
        self.knows_steal = True
        self.before: Moment | None = None

    def begin(self) -> None:
        """Begin a block."""
        self.before = moment()

    def end(self) -> None:
        """End the block that was begun, if one was."""
        before, self.before = self.before, None
        if before is None:
            return
        after = moment()
        self.wall_s += after.at_s - before.at_s
        # clocks of all processors tick every few milliseconds: right in the sum, not in each block
        self.others_s += (after.busy_s - before.busy_s) - (after.own_s - before.own_s)
        if after.steal_s is None or before.steal_s is None:
            self.knows_steal = False
        else:
            self.steal_s += after.steal_s - before.steal_s

    def fields(self) -> dict[str, Any]:
        """Return what the record keeps of it."""
        load, rate_hz, slowed = self.started
        now = throttles()
        rates = (rate_hz, frequency_hz())
        return {
            "wall_s": self.wall_s, "others_s": max(0.0, self.others_s),
            "steal_s": max(0.0, self.steal_s) if self.knows_steal else None,
            "load": [round(load, 2), round(psutil.getloadavg()[0], 2)],
            "frequency_hz": [] if None in rates else list(rates),
            "throttles": None if now is None or slowed is None else now - slowed,
        }
