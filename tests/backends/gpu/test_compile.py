"""Generated CUDA C++ compiles for every architecture that CUDA 13 has in the field."""

from __future__ import annotations

import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from fuser.backends.gpu import nvrtc
from tests.backends.gpu.nvrtc import compile_with_nvrtc
from tests.backends.gpu.units import program_texts, table_unit
from tests.requirements import find, require

ARCHITECTURES = ("75", "80", "90", "100")


@pytest.fixture(scope="module")
def programs() -> str:
    """Every program in one unit: namespaces keep their helpers apart."""
    wrapped = []
    texts = dict.fromkeys(text for texts in program_texts().values() for text in texts)
    for place, text in enumerate(texts):
        text = re.sub(r"^(#define|typedef) .*$", "", text, flags=re.MULTILINE)
        wrapped.append(f"namespace program{place} {{\n{text}\n}}")
    head = (
        "#define INLINE static __device__ __forceinline__\ntypedef unsigned long long word;\n"
    )
    return head + "\n".join(wrapped)


def run_nvcc(source: str, folder: Path, *arguments: str) -> Path:
    """Compile with the flags that NVRTC gets; warnings are errors."""
    unit, result = folder / "unit.cu", folder / "unit.out"
    unit.write_text(source)
    command = [require("nvcc"), *nvrtc.flags(32)[:-1], "-Werror", "all-warnings", *arguments]
    done = subprocess.run(
        [*command, "-o", str(result), str(unit)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return result


def _with_nvrtc(source: str, number: str) -> tuple[int, str]:
    """Compile with the backend's flags: bytes of machine code, and the log."""
    options = (*nvrtc.flags(32), f"--gpu-architecture=sm_{number}")
    return compile_with_nvrtc(require("nvrtc"), source, options)


@pytest.mark.timeout(1200)
def test_the_whole_table_compiles_for_every_architecture(tmp_path: Path) -> None:
    """Each row on each dtype and each cast.

    nvcc translates it once and assembles it for all; where there is only NVRTC, it does it all
    again for each.
    """
    if not find("nvcc"):
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for size, log in pool.map(partial(_with_nvrtc, table_unit()), ARCHITECTURES):
                assert size, log
        return
    codes = ",".join(f"sm_{number}" for number in ARCHITECTURES)
    target = f"-gencode=arch=compute_{ARCHITECTURES[0]},code=[{codes}]"
    fat = run_nvcc(table_unit(), tmp_path, "-fatbin", target, "--threads=0", "-DINDEX_BITS=32")
    assert fat.stat().st_size > 100_000


@pytest.mark.parametrize("number", ARCHITECTURES)
def test_every_program_compiles_with_nvcc(number: str, programs: str, tmp_path: Path) -> None:
    """All layouts, in both index widths."""
    assert run_nvcc(programs, tmp_path, "-cubin", f"-arch=sm_{number}").stat().st_size


@pytest.mark.parametrize("number", ARCHITECTURES)
def test_every_program_compiles_with_nvrtc(number: str, programs: str) -> None:
    """The compiler that the backend uses, with its flags."""
    size, log = _with_nvrtc(programs, number)
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
