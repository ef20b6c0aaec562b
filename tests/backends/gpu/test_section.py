"""What the texts of all nests share: who may be an output, and what is noticed."""

from __future__ import annotations

import numpy as np

from fuser.backends.gpu.section import Section, is_flagged
from fuser.base.records import changed
from tests.backends.gpu.units import nests_of


def test_an_input_is_read_only_unless_it_may_be_the_output() -> None:
    """Outputs of the same size and layout may be the input itself."""
    (nest,) = nests_of(lambda x, y: x * y, np.ones(8, np.float32), np.ones(8))
    alone = Section(nest, 0, several=False)
    assert [alone.may_be(k) for k in (0, 1)] == [[], [2]]
    assert not Section(nest, 0, several=True).may_be(1)
    (nest,) = nests_of(lambda x, y: (x * y, x - y, x > y), np.ones(8), np.ones(8))
    assert [Section(nest, 0, several=False).may_be(k) for k in (0, 1)] == [[2, 3], [2, 3]]


def test_checks_are_made_where_numpy_warns() -> None:
    """A negative exponent always; what is not finite only where it is asked for."""
    (powers,) = nests_of(lambda x: x**x, np.ones(8, np.int64))
    assert is_flagged(powers)
    (sums,) = nests_of(lambda x: x + 1.5, np.ones(8))
    assert not is_flagged(sums)
    assert is_flagged(changed(sums, checked=True))
