"""The elementary functions' results at special values, and the machine code they become."""

import math
import re
from collections.abc import Callable

import llvmlite.binding as llvm
import numpy as np
import pytest

from fuser.backends.cpu.elementary import trigonometric  # noqa: F401 - registers its functions
from fuser.backends.cpu.elementary.table import ELEMENTARY
from fuser.backends.cpu.machine.target import KNOWN_TARGETS, cross_machine
from fuser.backends.cpu.shared_functions import HUGE, module_text
from tests.backends.cpu.accuracy import BINARY, DTYPES, SPECIALS, Array, Kernel, host_target

WITH_SLOW_BLOCK = {"sin", "cos", "tan", "arctan2"}
TARGETS = ("avx2", "avx512")
FORMS = {"fma": host_target(), "plain": "baseline"}
SCALARS = ["float", "double"]

NOT_IN_NUMPY: dict[str, Callable[..., Array]] = {
    "sigmoid": lambda x: np.where(x < 0, np.exp(x) / (1 + np.exp(x)), 1 / (1 + np.exp(-x))),
    "erf": np.vectorize(math.erf),
    "erfc": np.vectorize(math.erfc),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("scalar", SCALARS)
@pytest.mark.parametrize("name", list(ELEMENTARY))
def test_special_values_are_those_of_numpy(name: str, scalar: str, form: str) -> None:
    """NaN, infinities and signed zeros come out where NumPy has them."""
    x = SPECIALS.astype(DTYPES[scalar]) if scalar == "double" else narrow(SPECIALS)
    inputs = [np.repeat(x, x.size), np.tile(x, x.size)] if name in BINARY else [x]
    reference = NOT_IN_NUMPY.get(name) or getattr(np, name)
    with np.errstate(all="ignore"):
        wanted = reference(*inputs).astype(DTYPES[scalar])
    found = Kernel(name, scalar, FORMS[form])(*inputs)
    special = np.isnan(wanted) | np.isinf(wanted) | (wanted == 0)
    special |= np.isnan(found) | np.isinf(found) | (found == 0)
    same = (found == wanted) & (np.signbit(found) == np.signbit(wanted))
    same |= np.isnan(found) & np.isnan(wanted)
    # Results at the very end of the range may round to either side of it.
    edge = np.isclose(found, wanted, rtol=1e-6, atol=np.finfo(wanted.dtype).smallest_subnormal)
    bad = special & ~same & ~edge
    assert not bad.any(), [array[bad][:3] for array in (*inputs, found, wanted)]


def narrow(values: Array) -> Array:
    """The values in float32, those beyond it as infinities."""
    with np.errstate(all="ignore"):
        return values.astype(np.float32)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("scalar", SCALARS)
def test_exact_results_are_exact(scalar: str, form: str) -> None:
    """Powers of two, integer powers and perfect cubes have no error at all."""
    dtype, target = DTYPES[scalar], FORMS[form]
    whole = np.arange(-100, 101, dtype=dtype)
    assert (Kernel("exp2", scalar, target)(whole) == np.exp2(whole)).all()
    assert (Kernel("log2", scalar, target)(np.exp2(whole)) == whole).all()
    assert (Kernel("cbrt", scalar, target)(whole**3) == whole).all()
    base, exponent = np.repeat(whole[90:111], 7), np.tile(np.arange(7, dtype=dtype), 21)
    assert (Kernel("power", scalar, target)(base, exponent) == base**exponent).all()
    legs = whole[101:]
    assert (Kernel("hypot", scalar, target)(3 * legs, 4 * legs) == 5 * legs).all()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("scalar", SCALARS)
@pytest.mark.parametrize("name", list(ELEMENTARY))
def test_the_common_path_is_vector_code_without_calls(name: str, scalar: str, target: str) -> None:
    """The loop can be gone round without a call; a call, if any, is to one `patch` helper."""
    blocks = basic_blocks(Kernel(name, scalar, target).assembly())
    calls = [line for _, lines, _ in blocks for line in lines if line.startswith("call")]
    assert len(calls) == (name in WITH_SLOW_BLOCK), calls
    assert all("patch." in line for line in calls)
    loop = lines_of_the_loop(blocks)
    assert loop, "no way round the loop without a call"
    text = "\n".join(loop)
    register = "zmm" if target == "avx512" else "ymm"
    assert register in text
    scalars = r"\bv?(f?n?m?(add|sub)|mul|div|sqrt|cvt\w*2|ucomi|max|min)\w*s[sd]\b"
    assert not re.search(scalars, text), re.search(scalars, text)


@pytest.mark.parametrize("scalar", SCALARS)
@pytest.mark.parametrize("name", list(ELEMENTARY))
def test_every_function_compiles_for_the_baseline(name: str, scalar: str) -> None:
    """Nothing asks for instructions that the oldest x86-64 lacks, nor for other C functions."""
    kernel = Kernel(name, scalar, "baseline")
    assert "ymm" not in kernel.assembly()
    wanted = {"arctan2": ["atan2"], **{name: [f"{HUGE}{name}"] for name in ("sin", "cos", "tan")}}
    assert kernel.imports == wanted.get(name, [])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_huge_arguments_are_served_by_vectors_too(name: str, target: str) -> None:
    """The shared function takes a register of doubles at a time, and calls nothing."""
    text = module_text(f"{HUGE}{name}", KNOWN_TARGETS[target][2])
    assert text is not None
    assembly = str(cross_machine(target).emit_assembly(llvm.parse_assembly(text)))
    assert "call" not in assembly
    register = "zmm" if target == "avx512" else "ymm"
    assert len(re.findall(rf"vpmuludq.*{register}", assembly)) >= 10
    if target == "avx512":  # others load lane by lane: gathering is slow on some of them
        assert "vpgatherqq" in assembly


@pytest.mark.parametrize(
    ("name", "scalar", "most"), [("exp", "float", 20), ("exp", "double", 26), ("tanh", "float", 36)]
)
def test_common_functions_stay_short(name: str, scalar: str, most: int) -> None:
    """Compile time and speed both depend on the number of instructions, here with AVX-512."""
    blocks = basic_blocks(Kernel(name, scalar, "avx512").assembly())
    assert len(lines_of_the_loop(blocks)) <= most


Block = tuple[str, list[str], list[str]]


def basic_blocks(assembly: str) -> list[Block]:
    """Split the function `f` into (label, instructions, labels that may follow)."""
    body = assembly[assembly.index("\nf:") :]
    body = body[: body.index(".Lfunc_end")]
    blocks: list[Block] = [("", [], [])]
    for raw in body.split("\n")[2:]:
        line = raw.split("#")[0].strip()
        if not line or (line.startswith(".") and not line.endswith(":")):
            continue
        if line.endswith(":"):
            blocks[-1][2].append(line[:-1])
            blocks.append((line[:-1], [], []))
            continue
        blocks[-1][1].append(" ".join(line.split()))
        if line.startswith("j"):
            blocks[-1][2].append(line.split()[1])
            after = f"after{len(blocks)}"
            if not line.startswith("jmp"):
                blocks[-1][2].append(after)
            blocks.append((after, [], []))
    return blocks


def lines_of_the_loop(blocks: list[Block]) -> list[str]:
    """The instructions of the blocks that lie on a cycle without calls."""
    quiet = {
        label: (lines, following)
        for label, lines, following in blocks
        if not any(line.startswith("call") for line in lines)
    }
    return [line for label in quiet if label in reachable(quiet, label) for line in quiet[label][0]]


def reachable(blocks: dict[str, tuple[list[str], list[str]]], start: str) -> set[str]:
    """The blocks that one or more steps lead to."""
    found: set[str] = set()
    waiting = list(blocks[start][1])
    while waiting:
        label = waiting.pop()
        if label in blocks and label not in found:
            found.add(label)
            waiting.extend(blocks[label][1])
    return found
