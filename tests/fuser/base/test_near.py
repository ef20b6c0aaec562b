"""What messages say about misspelt names, and that every place where a name is given says it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.base import config
from fuser.base.near import near_it


def twice(x: Any) -> Any:
    """A function to fuse."""
    return x * 2


def test_names_near_a_misspelt_one_are_told() -> None:
    """With all names where they are few; case is nothing; else what the caller says."""
    assert near_it("fusd", ("fused", "unfused")) == "near it: fused, unfused; known: fused, unfused"
    assert near_it("GELU", ["gelu"] * 20 + list("abcdefghijklm")) == "near it: gelu"
    assert near_it("zzz", "abcdefghijklm", "look there") == "look there"
    assert near_it("zzz", "ab") == "known: a, b"
    assert near_it("fusd", ("fused", "other"), "look there") == "near it: fused"
    assert near_it(None, ()) == "there are none"


@pytest.mark.parametrize(
    ("give", "near"),
    [
        (lambda: fuser.fuse(twice, mode="fusde"), "near it: fused"),
        (lambda: fuser.fuse(twice, fallback="eror"), "near it: error"),
        (lambda: fuser.fuse(twice, backend="cpuu"), "near it: cpu"),
        (lambda: fuser.parse(str(fuser.trace(twice, np.ones(3))).replace("mul", "mlu")),
         "near it: multiply"),
        (lambda: config.read_environment({"FUSER_CACH": "off"}), "near it: FUSER_CACHE"),
        (lambda: config.read_environment({"FUSER_DUMP": "grahp"}), "near it: graph"),
        (lambda: config.read_environment({"FUSER_CACHE": "offf"}), "near it: off"),
    ],
    ids=["mode", "fallback", "backend", "operation", "switch", "stage", "yes or no"],
)  # fmt: skip
def test_misspelt_names_have_what_is_near(give: Callable[[], object], near: str) -> None:
    """In the library: options, backends, operations of a graph's text, switches and values."""
    with pytest.raises(fuser.FuserError, match=near):
        give()
