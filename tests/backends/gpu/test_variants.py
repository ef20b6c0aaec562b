"""Kernels of a section, and what leaves the others out of a compilation."""

from __future__ import annotations

import re

import numpy as np

from fuser.backends.gpu.emit import emit, variants_of
from fuser.backends.gpu.variants import NARROW, Variant
from tests.backends.gpu.units import nests_of


def test_names_tell_variants_apart() -> None:
    """Six for reductions of rows, two for other nests, each with its own entry."""
    reducing = nests_of(lambda x: x.sum(), np.ones(8))
    names = [variant.name for variant in variants_of(reducing[0])]
    assert names == [
        kind + width for kind in ("", "split_", "held_") for width in ("narrow", "wide")
    ]
    text = emit(reducing, "total")
    assert re.findall(r"^total_0_(\w+)\(const", text, re.MULTILINE) == names
    assert len(variants_of(nests_of(lambda x: x + 1, np.ones(8))[0])) == 2
    across = nests_of(lambda x, y: x + y.T, np.ones((4, 5)), np.ones((5, 4)))[0]
    assert [each.name for each in variants_of(across)] == [
        kind + width for kind in ("", "tiles_") for width in ("narrow", "wide")
    ]


def test_a_compilation_makes_one() -> None:
    """Each macro is tested by the text of every entry."""
    rest = ("-DTILES=0", "-DCLUSTER=1", "-DAHEAD=0")
    zeros = ("-DHELD_ROWS=0", "-DHELD_TAIL=0", "-DODD_ROWS=0", *rest)
    assert NARROW.defines == ("-DINDEX_BITS=32", "-DSPLIT_ROWS=0", *zeros)
    split = Variant(wide=True, split=True)
    assert split.defines == ("-DINDEX_BITS=64", "-DSPLIT_ROWS=1", *zeros)
    held = Variant(held=4, tail=True, odd=True)
    assert held.defines[2:] == ("-DHELD_ROWS=4", "-DHELD_TAIL=1", "-DODD_ROWS=1", *rest)
    assert "INDEX_BITS == 64" in Variant(wide=True).condition
