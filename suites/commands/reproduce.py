"""Whether a row that is measured again lands where an earlier run found it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fuser.reports.analysis import analyse
from fuser.reports.record import Record, RecordError, load
from fuser.reports.statistics import Estimate, ratio_between, ratio_of
from fuser.suites.commands.saved_runs import RECORD


@dataclass(frozen=True, slots=True)
class Repeated:
    """One row in an earlier run and now: eager's time over its own, with intervals."""

    cell: str
    variant: str
    before: Estimate
    now: Estimate
    change: Estimate  # now / before; its interval holds 1 where the runs agree

    @property
    def inside(self) -> bool | None:
        """Whether the new value agrees with the recorded interval; None without one."""
        if self.change.low is None or self.change.high is None:
            return None
        return self.change.low <= 1 <= self.change.high

    def as_text(self) -> str:
        """Return one line."""
        words = {True: "inside", False: "OUTSIDE", None: "no interval: more processes"}
        return (
            f"{self.cell}, {self.variant}: {self.now.as_text()} times eager's speed, "
            f"recorded {self.before.as_text()}: {words[self.inside]}"
        )


def latest_with(cells: set[str], folder: Path, but: str) -> Record | None:
    """Return the newest saved run that has one of the cells; runs that cannot be read are none."""
    for path in sorted(folder.glob(f"*/{RECORD}"), reverse=True):
        if path.parent.name == but:
            continue
        try:
            found = load(path)
        except (RecordError, OSError):
            continue
        if cells & {each.id for each in found.cells}:
            return found
    return None


def repeated(before: Record, now: Record) -> Iterator[Repeated]:
    """Yield every row that both runs timed beside eager.

    The recorded interval is that of a mean over processes; another run's mean lies in it less
    often than it claims. So the two are compared by Welch's interval of their ratio, which holds
    the noise of both.
    """
    earlier, later = analyse(before), analyse(now)
    known = {(row.cell.id, row.variant.name): row.log_ratios for row in earlier.rows}
    noise_log = max(earlier.noise_log, later.noise_log)
    for row in later.rows:
        first, second = known.get((row.cell.id, row.variant.name)), row.log_ratios
        if not first or not second:
            continue
        old, new = (ratio_of(each, noise_log=noise_log) for each in (first, second))
        change = ratio_between(first, second, noise_log=noise_log)
        if old is not None and new is not None and change is not None:
            yield Repeated(row.cell.id, row.variant.name, old, new, change)
