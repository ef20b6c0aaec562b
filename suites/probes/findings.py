"""Gathers what the experiments of several processes found, as fields of the record."""

from collections import defaultdict
from typing import Any, ClassVar

from fuser.reports.record import Anatomy, Arithmetic, FirstCall


class Findings:
    """Everything found so far, one number a process in each list."""

    NAMES: ClassVar[frozenset[str]] = frozenset({"anatomy", "first_calls", "arithmetic"})
    """The events it takes in."""

    def __init__(self) -> None:
        self._anatomy: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
        self._first: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
        self._arithmetic: list[Arithmetic] = []

    def add(self, event: dict[str, Any]) -> None:
        """Take in one event of one process."""
        name = event["event"]
        if name == "anatomy":
            key = (event["subject"], event["path"], event["method"])
            self._anatomy[key].append(event)
        elif name == "first_calls":
            self._first[event["workload"], event["state"]].append(event)
        elif name == "arithmetic":
            self._arithmetic.append(Arithmetic(**{k: v for k, v in event.items() if k != "event"}))

    def fields(self) -> dict[str, Any]:
        """Return the record's fields."""
        return {
            "anatomy": [
                Anatomy(
                    found[0]["subject"], found[0]["path"], found[0]["method"],
                    _columns(found, "parts_s"), [each["whole_s"] for each in found],
                    [each["unexplained_s"] for each in found],
                )
                for found in self._anatomy.values()
            ],
            "first_calls": [
                FirstCall(
                    found[0]["workload"], found[0]["state"],
                    [each["seconds"] for each in found], _columns(found, "stages_s"),
                )
                for found in self._first.values()
            ],
            "arithmetic": list(self._arithmetic),
        }


def _columns(found: list[dict[str, Any]], name: str) -> dict[str, list[float]]:
    """Turn one mapping a process into one list a part, of the parts that every process has."""
    parts = found[0][name]
    return {
        part: [each[name][part] for each in found]
        for part in parts
        if all(part in each[name] for each in found)
    }
