"""Conditions under which a row fails its test: `axpy-*-fused:speedup<1.5`."""

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

FORM = re.compile(r"(?:(?P<rows>.+):)?(?P<metric>\w+)(?P<sign><=|>=|<|>)(?P<limit>[^<>=]+)")
SIGNS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}


class ThresholdError(ValueError):
    """A condition that cannot be read; the message says what its form is."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """One condition on one metric of the rows whose `cell-variant` a pattern matches."""

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
        found = FORM.fullmatch(text.strip())
        known = ", ".join(sorted(metrics))
        try:
            if found is None or found["metric"] not in metrics:
                raise ValueError
            limit = float(found["limit"])
        except ValueError:
            raise ThresholdError(
                f"{text!r}: expected PATTERN:METRIC<NUMBER, as in '*-fused:speedup<1'; "
                f"the metrics are {known}"
            ) from None
        return Threshold(found["rows"] or "*", found["metric"], found["sign"], limit)

    def crossed(self, row: str, metrics: Mapping[str, Any]) -> str | None:
        """Return what is wrong with a row, or None; a metric that is not known is wrong too."""
        if not fnmatchcase(row, self.rows):
            return None
        value = metrics.get(self.metric)
        condition = f"{self.metric} {self.sign} {self.limit:g}"
        if value is None:
            return f"{row}: {self.metric} was not measured, so that {condition} cannot be judged"
        if SIGNS[self.sign](float(value), self.limit):
            return f"{row}: {self.metric} is {float(value):.4g}: {condition}"
        return None
