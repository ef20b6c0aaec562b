"""Records behave as dataclasses do."""

import copy
import pickle
from typing import Any

import pytest

from fuser.base.records import FrozenRecordError, changed, field, record


@record
class Point:
    """A frozen record with a default."""

    x: int
    label: str = "p"


@record(frozen=False, slots=False, eq=False)
class Bag:
    """A record that can be changed, with a default that is made anew."""

    found: list[int] = field(default_factory=list)
    size: int = 0

    def __post_init__(self) -> None:
        """Count."""
        self.size = len(self.found)


def test_fields_are_given_by_place_name_or_default() -> None:
    """As for any function; what is missing or unknown is refused."""
    assert (Point(1).label, Point(x=2, label="q").x, Point(3, "r").label) == ("p", 2, "r")
    wrong: list[dict[str, Any]] = [{}, {"x": 1, "y": 2}]
    for arguments in wrong:
        with pytest.raises(TypeError):
            Point(**arguments)


def test_equal_fields_are_equal_records() -> None:
    """They hash alike, are of one class, and show their fields."""
    assert Point(1) == Point(1) != Point(2)
    assert len({Point(1), Point(1, "p"), Point(1, "q")}) == 2
    assert Point(1) != (1, "p")
    assert repr(Point(1)) == "Point(x=1, label='p')"
    assert Bag() != Bag()


def test_a_frozen_record_cannot_be_changed() -> None:
    """Nor can a field be deleted or an attribute added."""
    with pytest.raises(FrozenRecordError):
        Point(1).x = 2  # type: ignore[misc] # that is what is tested
    with pytest.raises(FrozenRecordError):
        del Point(1).x
    assert not hasattr(Point(1), "__dict__")


def test_a_default_may_be_made_anew() -> None:
    """Two records share nothing, and `__post_init__` runs last."""
    one, other = Bag(), Bag([4, 5])
    one.found.append(1)
    assert (Bag().found, other.size) == ([], 2)


def test_copies_and_pickles_are_equal() -> None:
    """So is one with a field changed and changed back."""
    point = Point(1, "a")
    assert pickle.loads(pickle.dumps(point)) == copy.deepcopy(point) == point
    assert changed(point, x=2) == Point(2, "a")
    assert changed(changed(point, x=2), x=1) == point


def test_arguments_are_bound_as_those_of_any_function() -> None:
    """By place, by name or by default; what is wrong is refused."""

    @record(frozen=False)
    class Triple:
        """Each kind of field."""

        first: int
        second: int = 2
        many: list[int] = field(default_factory=list)
        total: int = field(init=False)

        def __post_init__(self) -> None:
            """Add up."""
            self.total = self.first + self.second

    found = Triple(1), Triple(1, second=5), Triple(second=3, first=4, many=[1])
    assert [each.total for each in found] == [3, 6, 7]
    assert (found[0].many, found[2].many) == ([], [1])
    assert found[0].many is not found[1].many

    @record
    class Pair:
        """Made wrongly from the beginning."""

        left: int
        right: int

    wrong: list[tuple[tuple[int, ...], dict[str, int]]] = [
        ((), {}), ((1,), {}), ((1, 2, 3), {}), ((1,), {"left": 2}), ((1, 2), {"top": 3}),
        ((1, 2), {"right": 2}), ((1,), {"top": 3}),
    ]  # fmt: skip
    for args, kwargs in wrong:
        with pytest.raises(TypeError, match=r"Pair\.__init__\(\)"):
            Pair(*args, **kwargs)
    assert Pair(1, right=2) == Pair(1, 2)
