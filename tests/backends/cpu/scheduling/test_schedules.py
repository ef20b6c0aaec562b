"""Legal schedules: each gives NumPy's values on lengths of all kinds, every other one raises."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest

import fuser
from fuser.backends.cpu import fused_kernel, schedule, tuning
from fuser.backends.cpu.body import Module
from fuser.backends.cpu.machine.target import host_features
from fuser.backends.cpu.schedule import DEFAULT, IllegalScheduleError, Schedule
from fuser.backends.cpu.scheduling import map_templates, reduction_templates
from fuser.backends.cpu.scheduling.schedules import emit_nest, legal_schedules, template_of
from fuser.backends.cpu.scheduling.templates import kind_of
from fuser.base.records import changed
from fuser.codegen import LoopNest
from fuser.runtime.symbolic import NotSymbolic, Symbolic
from fuser.suites.registry import workloads
from tests.quick_code import quick_code

Function = Callable[..., Any]
Met = tuple[LoopNest, tuple[int, ...], tuple[tuple[int, ...], ...]]


def _softmax(x: Any, axis: int = -1) -> Any:
    weights = np.exp(x - np.max(x, axis, keepdims=True))
    return weights / np.sum(weights, axis, keepdims=True)


def _losses(x: Any) -> Any:
    rows = np.log(np.exp(x - x.max(-1, keepdims=True)).sum(-1))
    return rows.mean(), rows


FUNCTIONS: dict[str, Function] = {
    "sums of rows": lambda x: np.sum(x, -1),
    "several of rows": lambda x: (np.max(x, -1), np.sum(x * x, -1), np.var(x, -1)),
    "places of rows": lambda x: np.argmax(x, -1),
    "softmax": _softmax,
    "centred rows": lambda x: x - np.mean(x, -1, keepdims=True),
    "sums of columns": lambda x: np.sum(x, 0),
    "variances of columns": lambda x: np.var(x, 0),
    "standardised columns": lambda x: (x - x.mean(0)) / x.std(0),
    "places of columns": lambda x: np.argmin(x, 0),
    "weighted columns": lambda x: np.sum(x * x[:, :1], 0),
    "losses": _losses,
    "distances": lambda x: np.sum((x[:, None] - x[None, :7]) ** 2, -1),
    "elements": lambda x: x * 2 + x[:1],
    "what rows share": lambda x: x / np.sqrt(x[0] * x[0] + 1),
}
SHAPES = ((1, 1), (7, 3), (65, 8), (40, 16), (130, 33), (3, 300), (300, 5), (2, 9001), (9001, 2))


def _numbers(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """The first row is far from all others: no column of two varies by next to nothing."""
    values = np.random.default_rng(shape).uniform(-1, 1, size=shape)
    values[0] += 4
    return values.astype(dtype)


@cache
def _legal(given: Met) -> tuple[Schedule, ...]:
    """The legal schedules of a nest at its lengths: many calls ask for them."""
    return tuple(legal_schedules(*given))


def _called(
    function: Function, x: np.ndarray, monkeypatch: pytest.MonkeyPatch, wanted: Schedule | None
) -> tuple[Any, list[Met]]:
    """Results, and what was asked of the chooser; nests that can be are run as wanted."""
    met: list[Met] = []
    real = fused_kernel.choose

    def spy(
        nest: LoopNest, lengths: Sequence[int], strides: Any, features: Any, turns: int = 0
    ) -> Schedule:
        """Binding on expressions, which comes first, is refused: what runs is bound on numbers."""
        if any(isinstance(length, Symbolic) for length in lengths):
            raise NotSymbolic
        given = nest, tuple(lengths), tuple(map(tuple, strides))
        met.append(given)
        if wanted is None or turns or wanted not in _legal(given):
            return real(nest, lengths, strides, features, turns)
        return wanted

    with monkeypatch.context() as patch:
        patch.setattr(fused_kernel, "choose", spy)
        fuser.clear_caches()
        return fuser.fuse(function, fallback="error")(x), met


def _same(found: Any, expected: Any, tolerance: float, about: object) -> None:
    """Compare with NumPy's results."""
    if not isinstance(expected, tuple):
        found, expected = (found,), (expected,)
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(
            mine, theirs, rtol=tolerance, atol=tolerance, err_msg=str(about)
        )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_legal_schedule_gives_numpys_values(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lengths that fill vectors, tiles and batches, and such that do not; both dtypes in turn."""
    function, tried = FUNCTIONS[name], set()
    for place, shape in enumerate(SHAPES):
        dtype = ("float32", "float64")[place % 2]
        x = _numbers(shape, dtype)
        expected = function(x.astype("float64"))
        tolerance = 2e-4 if dtype == "float32" else 1e-9
        if "places" in name:
            expected = function(x)
        found, met = _called(function, x, monkeypatch, None)
        _same(found, expected, tolerance, shape)
        assert met
        for given in met:
            assert DEFAULT in _legal(given)
        every = {each for given in met for each in _legal(given)}
        for wanted in sorted(every - {DEFAULT}, key=str):
            with quick_code():
                found, _ = _called(function, x, monkeypatch, wanted)
            _same(found, expected, tolerance, (shape, str(wanted)))
            tried.add(wanted)
    assert tried


def _every_schedule() -> Iterator[Schedule]:
    """Schedules with one, two or three fields that are not the default's."""
    values: dict[str, tuple[Any, ...]] = {
        "flattened": (1, 2), "unroll": (1, 3, 8), "tile": (8, 16),
    }  # fmt: skip
    hints = get_type_hints(Schedule)
    for field in Schedule.__match_args__:
        if field not in values:
            values[field] = get_args(hints[field])[1:]
    fields = [(field, value) for field, some in values.items() for value in some]
    for count in (1, 2, 3):
        for chosen in itertools.combinations(fields, count):
            if len({field for field, _ in chosen}) == count:
                yield changed(DEFAULT, **dict(chosen))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_other_schedules_raise(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A nest has the text of the schedule that was asked for, or none."""
    x = _numbers((130, 33), "float32")
    _, met = _called(FUNCTIONS[name], x, monkeypatch, None)
    for given in met:
        nest, legal = given[0], _legal(given)
        refused = 0
        for wanted in _every_schedule():
            try:
                template_of(nest, wanted)
            except IllegalScheduleError:
                refused += 1
                assert wanted not in legal
        assert refused > 1000
        with pytest.raises(IllegalScheduleError, match="layout=pack unroll=2"):
            emit_nest(
                Module(host_features()), nest, "k", Schedule(layout="pack", unroll=2)
            )


def test_the_chosen_schedule_is_legal(monkeypatch: pytest.MonkeyPatch) -> None:
    """For every length, whatever its nest."""
    shapes = ((1, 1), (5000, 3), (5000, 17), (3000, 65), (3, 70_000), (300, 1000), (700, 700))
    for function in FUNCTIONS.values():
        for shape in shapes:
            x = _numbers(shape, "float32")
            _, met = _called(function, x, monkeypatch, None)
            for given in met:
                chosen, legal = fused_kernel.choose(*given, host_features()), _legal(given)
                assert chosen in legal, (shape, str(chosen))
                assert len(set(legal)) == len(legal)


def test_every_kind_is_met_by_its_own_schedules() -> None:
    """What a template proposes is of its kind, so that no two take the same schedule."""
    for table in (map_templates.TEMPLATES, reduction_templates.TEMPLATES):
        for kind, template in table.items():
            names = set(template.parameters)
            assert names <= set(Schedule.__match_args__)
            assert ("unroll" in names) == kind.is_unrolled
            assert ("flattened" in names) == kind.is_flattened


def test_a_schedule_is_spelled_by_what_is_not_usual() -> None:
    """As messages and labels have it."""
    assert str(DEFAULT) == ""
    assert str(Schedule(unroll=3, combine="lane_transpose")) == "unroll=3 combine=lane_transpose"
    assert Schedule() == schedule.DEFAULT
    assert kind_of(LoopNest(1, (), (), (), (), ()), DEFAULT).strategy == "map"


def test_constants_say_their_unit_and_their_command() -> None:
    """Every assignment of the table is followed by what it means."""
    import ast
    from pathlib import Path

    body = ast.parse(Path(tuning.__file__).read_text()).body
    assigned = [k for k, node in enumerate(body) if isinstance(node, ast.Assign)]
    assert len(assigned) > 60
    for k in assigned:
        said = body[k + 1]
        assert isinstance(said, ast.Expr), ast.unparse(body[k])
        text = str(ast.literal_eval(said.value))
        assert text.startswith("["), text
        measured_by = text.partition("]")[0].partition("; ")[2]
        named = measured_by == "no command" or measured_by.startswith("`")
        assert named or set(measured_by.split()) <= set(workloads()), text
