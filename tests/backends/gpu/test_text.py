"""What generated CUDA C++ looks like; no compiler is asked."""

from __future__ import annotations

import re

import numpy as np
import pytest

import fuser
from fuser.backends.gpu import cxx, nvrtc
from fuser.backends.gpu.backend import GpuBackend
from fuser.backends.gpu.emit import emit
from fuser.backends.gpu.helpers import HELPERS
from fuser.backends.gpu.spelling import COMPLEX, SPELLING, form
from fuser.backends.gpu.variants import NARROW
from fuser.base.errors import Unsupported
from fuser.codegen import Instruction, LoopNest
from fuser.ir.ops import PARTS, TABLE, elementwise
from fuser.ir.specs import CONTIGUOUS, TensorDesc
from tests.backends.cases import CASES
from tests.children import said

PROGRAM = """
import numpy as np, fuser
def f(a, b): return np.tanh(a * 0.5 + b) ** 2, (a.astype("f2") + b[:, :1]).astype("i4") // 3
x = np.ones((3, 5), "f4")
for text in fuser.generate_code(fuser.trace(f, x, x), backend="gpu").values(): print(text)
import sys
assert "cupy" not in sys.modules
"""


def text_of(function: object, *arguments: object) -> str:
    """The text of a function's kernels."""
    graph = fuser.trace(function, *arguments)  # type: ignore[arg-type] # any callable
    return "\n".join(fuser.generate_code(graph, backend="gpu").values())


def test_the_table_is_total() -> None:
    """Every elementwise row has a spelling for every dtype that it admits, and no other row has."""
    assert set(SPELLING) | set(COMPLEX) == {op.name for op in elementwise()} | set(PARTS)
    for case in CASES:
        assert form(case.op.name, case.dtypes[-1]), str(case)
        assert GpuBackend().supports(case.op.name, case.dtypes[-1])


def test_what_cannot_be_spelled_is_refused_with_its_reason() -> None:
    """Not with text that does not compile."""
    desc = TensorDesc("bool", CONTIGUOUS)
    nest = LoopNest(
        1, (desc,), (), (), (Instruction("exp", (0,), "bool", "bool"),), ((1, desc),)
    )
    with pytest.raises(Unsupported, match="exp"):
        emit([nest], "refused")
    assert not GpuBackend().supports("exp", "bool")
    assert not GpuBackend().supports("no such row", "float32")


def test_two_processes_write_the_same_text() -> None:
    """Whatever the hash seed, and without CuPy."""
    texts = [
        said("-c", PROGRAM, environment={"PYTHONHASHSEED": seed}) for seed in ("1", "2")
    ]
    assert texts[0] == texts[1]
    assert texts[0].count("__global__") == 2 * texts[0].count("struct Arguments") > 0


def test_text_stands_alone() -> None:
    """No headers; only the helpers that are used; both index widths."""
    x = np.ones(8, np.float32)
    text = text_of(lambda a, b: a * b + 1, x, x)
    assert "#include" not in text
    assert "_narrow(" in text
    assert "_wide(" in text
    assert "half_to_float" not in text
    assert "floor_division" not in text
    assert text.count("struct Arguments") == 1


def test_pointwise_text_loads_vectors_through_the_read_only_path() -> None:
    """In a grid-wide loop; vectors where addresses allow, checked when the kernel runs."""
    x = np.ones(8, np.float32)
    text = text_of(lambda a, b: a * b + 1, x, x)
    assert "gridDim.x" in text
    assert "__ldg" in text
    assert "uint4" in text
    assert re.search(r"aligned0 = \(\(\(word\)a.p0\) & 15\) == 0", text)


def test_broadcasting_divides_by_multiplication() -> None:
    """The body of a kernel over several axes has no division of indices."""
    x = np.ones((4, 5, 6), np.float32)
    text = text_of(lambda a, b: a * b, x, x[:, :1])
    body = text[text.index("section0") :]
    assert "columns.quotient(" in body
    assert " / " not in body
    assert " % " not in body


@pytest.mark.parametrize("dtype", sorted(cxx.MEMORY))
def test_literals_have_exact_bits(dtype: str) -> None:
    """Decimal integers, hexadecimal floats, bits for what has no literal."""
    if dtype == "bfloat16":  # NumPy knows the name once the package is loaded
        pytest.importorskip("ml_dtypes", reason="not installed: pip install ml_dtypes")
    size = cxx.itemsize(dtype)
    bits = [0, 1] if dtype == "bool" else [0, 1, (1 << 8 * size) - 1, 1 << (8 * size - 1)]
    texts = [cxx.literal(dtype, pattern) for pattern in bits]
    assert len(set(texts)) == len(texts)
    if dtype == "float64":
        assert texts == [
            "0x0.0p+0", "0x0.0000000000001p-1022", "__longlong_as_double(0xffffffffffffffffLL)",
            "-0x0.0p+0",
        ]  # fmt: skip
    if dtype == "int8":
        assert texts == ["(signed char)0", "(signed char)1", "(signed char)-1",
                         "(signed char)-128"]  # fmt: skip


def test_flags_keep_meaning() -> None:
    """No contraction, no flush to zero, exact division and root; nothing fast."""
    flags = nvrtc.flags(NARROW)
    for wanted in ("--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true"):
        assert wanted in flags
    assert not any("fast" in flag for flag in flags)


def test_architectures() -> None:
    """Machine code for what the compiler knows; PTX of the newest older one for newer devices."""
    assert nvrtc.architecture("90", [75, 80, 90]) == "sm_90"
    assert nvrtc.architecture("130", [75, 80, 90]) == "compute_90"


def test_half_rounds_after_every_operation() -> None:
    """Each float16 result but the exact ones goes through memory's precision, if not in pairs."""
    x = np.ones(8, np.float16)
    text = text_of(lambda a, b: (np.maximum(a * b, b) + a).astype(np.float32), x, x)
    body = text[text.index("section0") :]
    assert body.count("round_half(") == 2


def test_helpers_are_spelled_once_and_named_apart() -> None:
    """A definition has its own name in it, and no row of the table is one by accident."""
    for name, text in HELPERS.items():
        assert re.search(rf"\b{name}\b", text), name
        assert name not in TABLE, name
