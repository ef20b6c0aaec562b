"""Conditions under which a row fails its test: `axpy-*-fused:speedup<1.5`."""

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from fuser.base.near import near_it

FORM = re.compile(r"(?:(?P<rows>.+):)?(?P<metric>\w+)(?P<sign><=|>=|<|>)(?P<limit>[^<>=]+)")
SIGNS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}


class ThresholdError(ValueError):
    """A condition that cannot be read; the message says what its form is."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """One condition on one metric of the rows that a pattern names."""

    rows: str
    metric: str
    sign: str
    limit: float

    @staticmethod
    def parse(text: str, metrics: Iterable[str]) -> "Threshold":
        """Return the threshold of a text.

        Raises:
            ThresholdError: it has another form, or nothing is called so.
        """
        found, known = FORM.fullmatch(text.strip()), sorted(metrics)
        if found is not None and found["metric"] not in known:
            near = near_it(found["metric"], known)
            raise ThresholdError(f"{text!r}: there is no metric {found['metric']!r}; {near}")
        try:
            if found is None:
                raise ValueError
            limit = float(found["limit"])
        except ValueError:
            raise ThresholdError(
                f"{text!r}: expected PATTERN:METRIC<NUMBER, as in '*-fused:speedup<1'; "
                f"the metrics are {', '.join(known)}"
            ) from None
        return Threshold(found["rows"] or "*", found["metric"], found["sign"], limit)

    def names(self, names: Iterable[str]) -> bool:
        """Return whether it is for a row: by its id, its cell's, or its family's."""
        return any(fnmatchcase(each, self.rows) for each in names)

    def holds(self, metrics: Mapping[str, Any]) -> bool:
        """Return whether a row fails; one whose metric is not known fails too."""
        value = metrics.get(self.metric)
        return value is None or SIGNS[self.sign](float(value), self.limit)

    def undecided(self, metrics: Mapping[str, Any]) -> bool:
        """Return whether the interval of a metric that has one holds the limit.

        A metric that was not measured is undecided too, and so is a ratio without an interval:
        fewer than three processes give none.
        """
        if metrics.get(self.metric) is None:
            return True
        if f"{self.metric}_low" not in metrics:  # counted, or a plain median
            return False
        low, high = metrics[f"{self.metric}_low"], metrics[f"{self.metric}_high"]
        return low is None or high is None or low <= self.limit <= high

    def finding(self, row: str, metrics: Mapping[str, Any]) -> str:
        """Return what is wrong with a row for which it holds."""
        condition = f"{self.metric} {self.sign} {self.limit:g}"
        value = metrics.get(self.metric)
        if value is None:
            return f"{row}: {self.metric} was not measured, so that {condition} cannot be judged"
        text = f"{row}: {self.metric} is {float(value):.4g}: {condition}"
        if not self.undecided(metrics):
            return text
        low, high = metrics[f"{self.metric}_low"], metrics[f"{self.metric}_high"]
        if low is None or high is None:
            return f"{text}, inconclusive: no interval, give --fuser-processes more"
        return f"{text}, inconclusive: its interval is {low:.4g} to {high:.4g}"
