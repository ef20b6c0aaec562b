"""Generated CUDA C++ compiles for every architecture that CUDA 13 has in the field."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path

import pytest

from fuser.backends.gpu import nvrtc
from fuser.backends.gpu.variants import NARROW, Variant
from tests.backends.gpu.nvrtc import compile_with_nvrtc
from tests.backends.gpu.units import program_texts, table_unit
from tests.requirements import find, require

ARCHITECTURES = ("75", "80", "90", "100")


#: What says nothing of instructions is compiled in a third of the time: see compile_with_nvrtc.
QUICK = ("--Ofast-compile=max",) if os.environ.get("QUICK_CODE") else ()
#: The oldest one and the newest: no text asks for which it is compiled.
ENDS = ARCHITECTURES[::3]
#: An architecture, a variant, and of the programs those from `start` in steps: every program for
#: the oldest architecture, half of them for one of the others, which can do more, and some in the
#: rarer variants, which differ from it in few lines.
SHARES = [
    pytest.param("75", NARROW, 0, 1, id="sm_75-narrow"),
    *(
        pytest.param(number, NARROW, start, 6, id=f"sm_{number}-narrow")
        for start, number in enumerate(ARCHITECTURES[1:])
    ),
    pytest.param("80", Variant(wide=True), 1, 4, id="sm_80-wide"),
    pytest.param("100", Variant(split=True), 0, 2, id="sm_100-split"),
    pytest.param("75", Variant(held=3), 0, 2, id="sm_75-held"),
    pytest.param("80", Variant(split=True, held=4), 0, 3, id="sm_80-long"),
    pytest.param("90", Variant(held=2, tail=True), 1, 2, id="sm_90-tail"),
    pytest.param("80", Variant(held=4, tail=True, odd=True), 0, 4, id="sm_80-odd"),
]


@cache
def _texts() -> tuple[str, ...]:
    """Every program's text, once."""
    return tuple(dict.fromkeys(text for texts in program_texts().values() for text in texts))


def _joined(texts: Sequence[str]) -> str:
    """Programs in one unit: namespaces keep their helpers apart."""
    wrapped = []
    for place, text in enumerate(texts):
        bare = re.sub(r"(?m)^(#define INLINE|typedef|extern __shared__) .*$", "", text)
        wrapped.append(f"namespace program{place} {{\n{bare}\n}}")
    head = (
        "#define INLINE static __device__ __forceinline__\ntypedef unsigned long long word;\n"
        "extern __shared__ uint4 pool[];\n"
    )
    return head + "\n".join(wrapped)


def run_nvcc(source: str, folder: Path, *arguments: str) -> Path:
    """Compile with the flags that NVRTC gets; warnings are errors."""
    unit, result = folder / "unit.cu", folder / "unit.out"
    unit.write_text(source)
    command = [require("nvcc"), *nvrtc.flags(), "-Werror", "all-warnings", *arguments]
    done = subprocess.run(
        [*command, "-o", str(result), str(unit)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return result


def _with_nvrtc(
    source: str, number: str, variant: Variant = NARROW
) -> tuple[int, str]:
    """Compile with the backend's flags: bytes of machine code, and the log."""
    options = (*nvrtc.flags(variant), f"--gpu-architecture=sm_{number}")
    return compile_with_nvrtc(require("nvrtc"), source, options)


@pytest.mark.timeout(1200)
def test_the_whole_table_compiles(tmp_path: Path) -> None:
    """Each row on each dtype and each cast.

    nvcc translates it once and assembles it twice; NVRTC alone does it all again.
    """
    if not find("nvcc"):
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for size, log in pool.map(partial(_with_nvrtc, table_unit()), ENDS):
                assert size, log
        return
    codes = ",".join(f"sm_{number}" for number in ENDS)
    target = f"-gencode=arch=compute_{ENDS[0]},code=[{codes}]"
    fat = run_nvcc(table_unit(), tmp_path, "-fatbin", target, *QUICK, "--threads=0",
                   "-DINDEX_BITS=32")  # fmt: skip
    assert fat.stat().st_size > 100_000


def test_programs_compile_without_warnings(tmp_path: Path) -> None:
    """All layouts, in every variant: nvcc makes warnings errors."""
    some = _joined(_texts()[::4])
    assert run_nvcc(some, tmp_path, *QUICK, "-ptx", "-arch=compute_90").stat().st_size


@pytest.mark.parametrize(("number", "variant", "start", "step"), SHARES)
def test_programs_compile_with_nvrtc(
    number: str, variant: Variant, start: int, step: int
) -> None:
    """The compiler that the backend uses, with its flags."""
    kind = variant.name.rpartition("_")[0]
    texts = [text for text in _texts() if f"_0_{kind}" in text]
    size, log = _with_nvrtc(_joined(texts[start::step]), number, variant)
    assert size, log
    assert "warning" not in log, log


def test_nvrtc_says_what_is_wrong() -> None:
    """Text that is not C++ gives no code and a log."""
    size, log = _with_nvrtc("nonsense", "90")
    assert not size
    assert "error" in log


def test_instructions_are_as_meant(tmp_path: Path) -> None:
    """Vector loads through the read-only path; no contraction, no flush to zero."""
    (text,) = program_texts()["axpy"]
    ptx = run_nvcc(text, tmp_path, "-ptx", "-arch=compute_90", "-DINDEX_BITS=32").read_text()
    assert re.search(r"ld\.global\.nc\.v4", ptx)
    assert "st.global.v4" in ptx
    assert "mul.f32" in ptx or "mul.rn.f32" in ptx
    assert "fma" not in ptx
    assert ".ftz" not in ptx
    assert "div." not in ptx
