"""Which reductions of a row are had from its parts: by their equations, whatever their names."""

from typing import Any

import numpy as np
import pytest

import fuser
from fuser import functional
from fuser.codegen import loop_nest
from fuser.compiler import compile_upfront
from fuser.ir.specs import CONTIGUOUS, SectionSpec, TensorDesc
from fuser.traffic.online_reductions import Merged, merging
from fuser.traffic.stages import Stages

X = np.ones((4, 50), np.float32)


def _merged(function: Any, *args: Any) -> Merged | None:
    """What is found in the only loop nest of a function."""
    spec = compile_upfront(fuser.trace(function, *args))
    (section,) = spec.plan.groups[0].sections
    nodes = [*section.load_nodes, *(section.node_of(value) for value, _ in section.stores)]
    tensors = tuple(TensorDesc(node.dtype.name, CONTIGUOUS) for node in nodes)
    return merging(loop_nest(section, SectionSpec(2, tensors, "row", 1)))


def _shifted(x: Any) -> Any:
    return x - x.max(-1, keepdims=True)


def _centred(x: Any) -> Any:
    return x - x.mean(-1, keepdims=True)


FOUND = {
    "softmax": lambda x: np.exp(_shifted(x)) / np.exp(_shifted(x)).sum(-1, keepdims=True),
    "weighted": lambda x: (x * np.exp(_shifted(x)) * 3).sum(-1),
    "variance": lambda x: x.var(-1),
    "centred the other way": lambda x: ((x.mean(-1, keepdims=True) - x) ** 2).sum(-1),
    "scaled": lambda x: (-(_centred(x) / x.max(-1, keepdims=True)) * x).sum(-1),
    "cross_entropy": lambda x: functional.cross_entropy(x, x),
    "layer_norm_backward": lambda x: functional.layer_norm_backward(x * 2, x),
    "distances add": lambda x: _centred(x).sum(-1),
}
NOT_FOUND = {
    "absolute": lambda x: np.abs(_centred(x)).sum(-1),
    "cubes": lambda x: (_centred(x) * _centred(x) * _centred(x)).sum(-1),
    "largest distance": lambda x: _centred(x).max(-1),
    "exponential of a mean": lambda x: np.exp(_centred(x)).sum(-1),
    "exponential of a minimum": lambda x: np.exp(-(x - x.min(-1, keepdims=True))).sum(-1),
    "squared logarithms": lambda x: (functional.log_softmax(x) ** 2).sum(-1),
    "halves": lambda x: _centred(x.astype(np.float16)).sum(-1),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_parts_tell(name: str) -> None:
    """Two runs through a part at most, and every later reduction has its equation."""
    found = _merged(FOUND[name], X)
    assert found is not None
    assert found.mergings
    assert set(Stages(found.local).passes()) <= {0, 1}
    assert not found.local.stores


@pytest.mark.parametrize("name", NOT_FOUND)
def test_what_parts_do_not_tell(name: str) -> None:
    """Anything else keeps its form."""
    assert _merged(NOT_FOUND[name], X) is None


def test_references_are_those_that_shifts_name() -> None:
    """A variance needs its mean's reference and the sum of what is centred."""
    found = _merged(FOUND["variance"], X)
    assert found is not None
    (entry,) = found.mergings.values()
    assert [len(factor.shifts) for factor in entry.factors] == [1, 1]
    assert entry.sums[0] == entry.sums[1] is not None
    assert found.references == (entry.factors[0].shifts[0].reference,)
