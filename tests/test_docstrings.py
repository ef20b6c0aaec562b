"""Docstrings of what users call: every parameter is named, what is raised, and what fields are.

One letter such as the `x` of a formula counts as named where the formula has it.
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import fuser
from fuser import functional
from fuser.backend import Backend, Kernel
from fuser.base.timeline import Timeline
from fuser.suites.runners import Runner
from fuser.suites.workload import Workload

#: What users meet; fields of the contracts of backends and runners have comments beside them.
CLASSES = (
    fuser.Explanation, fuser.FusedFunction, fuser.Graph, fuser.Ledger, fuser.Reason, Timeline,
    Workload,
)  # fmt: skip
CONTRACTS = (Backend, Kernel, Runner)


def public() -> Iterator[Any]:
    """Every public function, and the public methods of the classes that users meet."""
    for module in (fuser, functional):
        for name in module.__all__:
            found = getattr(module, name)
            if isinstance(found, FunctionType):
                yield pytest.param(found, id=f"{module.__name__}.{name}")
    for kind in (*CLASSES, *CONTRACTS):
        for name, member in vars(kind).items():
            plain = getattr(member, "__func__", member)
            if isinstance(plain, FunctionType) and not name.startswith("_"):
                yield pytest.param(plain, id=f"{kind.__name__}.{name}")


def parts_of(function: Callable[..., Any]) -> ast.FunctionDef:
    """The function's own syntax."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))
    found = next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    assert isinstance(found, ast.FunctionDef)
    return found


@pytest.mark.parametrize("function", list(public()))
def test_docstrings_say_what_applies(function: Callable[..., Any]) -> None:
    """Every parameter by its name, and `Raises` where something is raised."""
    text = inspect.getdoc(function) or ""
    assert text.strip(), "no docstring"
    node = parts_of(function)
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    names = [each.arg for each in arguments if each.arg != "self"]
    missing = [name for name in names if not re.search(rf"\b{name}\b", text)]
    assert not missing, f"not told of: {missing}"
    own = [each for each in ast.walk(node) if isinstance(each, ast.Raise) and each.exc is not None]
    if own and not any("NotImplementedError" in ast.unparse(each) for each in own):
        assert "Raises:" in text


@pytest.mark.parametrize("kind", CLASSES)
def test_attributes_are_told_of(kind: type) -> None:
    """Public fields of a class stand under `Attributes`, its properties have a sentence."""
    text = inspect.getdoc(kind) or ""
    fields = [name for name in inspect.get_annotations(kind) if not name.startswith("_")]
    assert not [name for name in fields if not re.search(rf"\b{name}\b", text)]
    for name, member in vars(kind).items():
        if isinstance(member, property) and not name.startswith("_"):
            assert inspect.getdoc(member)


#: Functions of `fuser.functional` of single elements whose formula has an elementary function or
#: a division: what they make of whole numbers.
DIVIDING = ("sigmoid", "erf", "lgamma", "silu", "gelu", "softplus", "mish", "logit", "hard_swish")


@pytest.mark.parametrize("name", DIVIDING)
def test_dtypes_are_what_the_module_says(name: str) -> None:
    """Floats keep their dtype and shape; whole numbers become the float of `np.exp`."""
    function = getattr(functional, name)
    for dtype in ("float16", "float32", "float64"):
        with np.errstate(all="ignore"):
            found = function(np.full((2, 3), 0.5, dtype))
        assert (found.dtype, found.shape) == (np.dtype(dtype), (2, 3))
    with np.errstate(all="ignore"):
        assert function(np.ones((2, 3), np.int64)).dtype == np.float64
