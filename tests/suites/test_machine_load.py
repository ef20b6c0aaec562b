"""What else the machine does while a cell is measured is read from its own clocks."""

import subprocess
import sys
import time

import psutil
import pytest

from fuser.reports.record import MachineLoad
from fuser.suites import machine_load as load


def test_what_the_process_does_itself_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two processors that were busy for a second, one was this process's own."""
    moments = iter([
        load.Moment(10.0, 100.0, 5.0, 1.0), load.Moment(11.0, 102.0, 6.0, 1.5),
        load.Moment(20.0, 200.0, 7.0, 1.5), load.Moment(21.0, 201.0, 8.0, 1.5),
    ])  # fmt: skip
    monkeypatch.setattr(load, "moment", lambda: next(moments))
    found = load.CellLoad()
    for _ in range(2):
        found.begin()
        found.end()
    found.end()  # of a block that was not begun
    kept = MachineLoad(0, **found.fields())
    assert (kept.wall_s, kept.others_s, kept.steal_s) == (2.0, 1.0, 0.5)
    assert (kept.other_cores, kept.steal_cores) == (0.5, 0.25)
    assert len(kept.load) == 2


def test_a_system_that_tells_little_leaves_fields_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """No clock rate, no heat, nothing of a hypervisor: absent, and not zero."""
    monkeypatch.setattr(load, "moment", lambda: load.Moment(0.0, 0.0, 0.0, None))
    monkeypatch.setattr(load, "frequency_hz", lambda: None)
    monkeypatch.setattr(load, "throttles", lambda: None)
    found = load.CellLoad()
    found.begin()
    found.end()
    kept = MachineLoad(0, **found.fields())
    assert (kept.steal_s, kept.throttles, kept.frequency_hz) == (None, None, [])
    assert kept.other_cores == 0.0


@pytest.mark.parametrize("error", [NotImplementedError, OSError, RuntimeError])
def test_a_clock_rate_that_cannot_be_read_is_unknown(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library raises where a platform has none."""

    def fails() -> None:
        raise error

    monkeypatch.setattr(psutil, "cpu_freq", fails)
    assert load.frequency_hz() is None


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc is Linux's")
def test_a_busy_neighbour_is_seen() -> None:
    """A process that spins shows among the others, and does not among one's own."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as spinning:
        found = load.CellLoad()
        found.begin()
        before_s = psutil.Process(spinning.pid).cpu_times().user
        while psutil.Process(spinning.pid).cpu_times().user < before_s + 0.3:
            time.sleep(0.05)
        found.end()
        spinning.kill()
    assert found.fields()["others_s"] > 0.2
