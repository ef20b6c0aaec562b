"""Compile time by length: chains of the right length, left out where they did not fuse."""

import pytest

from fuser.suites.probes import scaling
from fuser.suites.runners import Runner
from tests.suites import cheats


class Counted:
    """A number that counts the operations applied to it."""

    operations = 0

    def _count(self, other: object) -> "Counted":
        Counted.operations += 1
        return self

    __add__ = __sub__ = __mul__ = _count


@pytest.mark.parametrize("operations", [10, 40])
def test_a_chain_has_its_number_of_operations(operations: int) -> None:
    """Counted by what it is applied to."""
    Counted.operations = 0
    scaling.chain(operations).function(Counted(), Counted())
    assert Counted.operations == operations


def test_stages_are_recorded() -> None:
    """The whole first call, and the stages that the runner tells."""
    found = list(scaling.measure(cheats.Honest(), (10,)))
    assert [each["stage"] for each in found] == ["first call", "trace", "rest"]


@pytest.mark.parametrize("runner", [cheats.Falling(), cheats.wrong()])
def test_a_chain_that_fell_back_or_is_wrong_is_left_out(runner: Runner) -> None:
    """With a note that says why."""
    found = list(scaling.measure(runner, (10,)))
    assert list(found[0]) == ["note"]
    assert "left out" in found[0]["note"]
