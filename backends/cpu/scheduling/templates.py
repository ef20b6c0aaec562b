"""The kinds of schedules: for which nests and lengths each is legal, and what runs and emits it.

A schedule and a nest have one kind, or none: `kind_of` says which from the fields that choose an
emitter. The other fields are parameters of the emitter, and the kind says which of their values are
legal. A new way to run nests is a row of a table of kinds, in `map_templates` or
`reduction_templates`, and what that row names.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from fuser.backends.cpu.body import Module
from fuser.backends.cpu.costs import Extent
from fuser.backends.cpu.schedule import DEFAULT, Schedule
from fuser.base.records import changed, record
from fuser.codegen import LoopNest

Lengths = Sequence[int]
Strides = Sequence[Sequence[int]]
Fits = Callable[[LoopNest, Schedule, Lengths, Strides], bool]
Values = Iterable[Any] | Callable[[LoopNest, Strides], Iterable[Any]]


@record
class Kind:
    """What of a nest and of a schedule says which template it is of."""

    strategy: str
    vector_axis: str = "contiguous"
    layout: str = "direct"
    is_flattened: bool = False
    is_unrolled: bool = False
    combine: str = "tree"
    passes: str = "staged"


def kind_of(nest: LoopNest, schedule: Schedule) -> Kind:
    """The kind of a schedule of a nest."""
    return Kind(
        nest.strategy, schedule.vector_axis, schedule.layout, schedule.flattened > 0,
        schedule.unroll > 0, schedule.combine, schedule.passes,
    )  # fmt: skip


@record
class Template:
    """One way to run nests.

    Attributes:
        emit: appends a nest's function to a module: module, nest, name, schedule.
        launch: words and extent: nest, schedule, lengths, strides, turns.
        legal: whether the emitter takes this nest with these parameters.
        fits: whether what is emitted is right for these lengths and strides.
        parameters: the fields that the kind leaves open, with the values that they may have; or
            with what proposes values for a nest and strides, of which `legal` is the judge.
    """

    emit: Callable[[Module, LoopNest, str, Schedule], None]
    launch: Callable[[LoopNest, Schedule, Lengths, Strides, int], tuple[list[int], Extent]]
    legal: Callable[[LoopNest, Schedule], bool] = lambda nest, schedule: True
    fits: Fits = lambda *_: True
    parameters: Mapping[str, Values] = {}

    def schedules(self, kind: Kind, nest: LoopNest, strides: Strides) -> Iterator[Schedule]:
        """Every schedule of a kind that is proposed for a nest, legal or not."""
        usual = _usual(kind)
        values = (each(nest, strides) if callable(each) else each
                  for each in self.parameters.values())  # fmt: skip
        for chosen in itertools.product(*values):
            yield changed(usual, **dict(zip(self.parameters, chosen, strict=True)))

    def is_legal(self, kind: Kind, nest: LoopNest, schedule: Schedule) -> bool:
        """Whether a schedule of a kind has values that its parameters may have, for this nest."""
        given = {name: getattr(schedule, name) for name in self.parameters}
        listed = (values for values in self.parameters.values())
        known = all(callable(values) or value in values
                    for value, values in zip(given.values(), listed, strict=True))  # fmt: skip
        return known and schedule == changed(_usual(kind), **given) and self.legal(nest, schedule)


def _usual(kind: Kind) -> Schedule:
    """The fields that a kind fixes, and the default's others."""
    return changed(
        DEFAULT, layout=kind.layout, vector_axis=kind.vector_axis, combine=kind.combine,
        passes=kind.passes,
    )  # fmt: skip
