"""Definitions that reductions call are found, in an order that compiles."""

from __future__ import annotations

from fuser.backends.gpu.helpers import HELPERS, used_helpers
from fuser.backends.gpu.reduction_helpers import REDUCTION_HELPERS


def test_what_a_helper_calls_stands_before_it() -> None:
    """`combine_row` brings the functions that it needs, and no others."""
    assert REDUCTION_HELPERS.keys() <= HELPERS.keys()
    wanted = [HELPERS[name] for name in ("exchange", "combine_lanes", "combine_row")]
    assert used_helpers(["combine_row(s, team, room);"]) == wanted
