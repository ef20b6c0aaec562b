"""What first calls need is loaded when a function is fused."""


import pytest

import fuser
from tests.children import said
from tests.requirements import needs_native_entry

PROGRAM = """
import sys, numpy as np, fuser
def gelu(x, b):
    y = x + b
    return 0.5 * y * (1 + np.tanh(0.7978845608028654 * (y + 0.044715 * y * y * y)))
before = set(sys.modules)
function = fuser.fuse(gelu, fallback="error")
fused = set(sys.modules)
function(np.ones(100, np.float32), np.ones(100, np.float32))
ours = lambda new: [name for name in new if name.startswith("fuser.")]
print(len(ours(fused - before)), len(ours(set(sys.modules) - fused)), "llvmlite" in fused)
"""


@needs_native_entry
def test_a_first_call_imports_next_to_nothing() -> None:
    """Only the family of its elementary function; and fusing alone starts no code generator."""
    at_fuse, at_call, llvmlite = said("-c", PROGRAM).split()
    assert int(at_fuse) > 20
    assert int(at_call) == 1
    assert llvmlite == "False"


def test_an_unknown_backend_is_an_error_when_fusing() -> None:
    """Not only when the function is called."""
    with pytest.raises(fuser.BackendError, match="no backend called 'abacus'"):
        fuser.fuse(lambda x: x + 1, backend="abacus")
