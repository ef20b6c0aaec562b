"""Translation units to compile: the whole op table, and the text of every program."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

import fuser
from fuser.backend import get_backend, register_backend
from fuser.backends.gpu.emit import emit
from fuser.backends.gpu.variants import Variant
from fuser.base import config
from fuser.codegen import Instruction, LoopNest
from fuser.ir import infer
from fuser.ir.ops import DTYPES, PARTS, TABLE, admits, elementwise
from fuser.ir.specs import STRIDED, TensorDesc
from tests.backends.cases import CASES, Case
from tests.backends.gpu.all_programs import ALL
from tests.backends.gpu.host import HostDevice, HostGpuBackend


class RecordingDevice(HostDevice):
    """Keeps the text that it is asked to load, and launches nothing."""

    def __init__(self) -> None:
        """Nothing yet."""
        super().__init__()
        self.texts: list[str] = []

    def load(self, text: str, name: str, variant: Variant) -> Any:
        """Keep the text."""
        self.texts.append(text)
        return text

    def function(self, module: Any, name: str) -> Any:
        """A kernel that does nothing."""
        return lambda grid, block, shared, stream, arguments: None


class _Recorder(HostGpuBackend):
    """Emits kernels as the GPU backend does, and runs none."""

    def __init__(self) -> None:
        """With a device that records."""
        super().__init__("gpu-recorded")
        self._device = self.recording = RecordingDevice()
        self.nests: list[LoopNest] = []

    def emit(self, nests: Sequence[LoopNest], name: str) -> str:
        """Keep the nests."""
        self.nests.extend(nests)
        return super().emit(nests, name)

    def unavailable(self) -> str | None:
        """It needs no compiler."""
        return None


register_backend("gpu-recorded", _Recorder)


def program_texts() -> dict[str, list[str]]:
    """The texts of every program's kernels, by the program's name."""
    recorder = get_backend("gpu-recorded")
    assert isinstance(recorder, _Recorder)
    fuser.clear_caches()  # a kernel that is known is not emitted again
    before = config.change(backend="gpu-recorded")
    found: dict[str, list[str]] = {}
    try:
        for name, (function, arguments) in ALL.items():
            texts = recorder.recording.texts = []
            fuser.fuse(function, fallback="error")(*arguments)
            found[name] = list(dict.fromkeys(texts))
    finally:
        config.restore(before)
        fuser.clear_caches()
    return found


def table_unit() -> str:
    """Every row on every dtype, one nest for each combination of operand dtypes; and all casts."""
    by_dtypes: dict[tuple[str, ...], list[Case]] = {}
    for case in CASES:
        by_dtypes.setdefault(case.dtypes, []).append(case)
    nests = [_nest(dtypes, cases) for dtypes, cases in by_dtypes.items()]
    nests += [_casts(dtype) for dtype in DTYPES]
    nests += _extra_nests()
    return emit(nests, "table")


def _extra_nests() -> list[LoopNest]:
    """Rows and casts on what this backend has beyond the table's dtypes."""
    extra = ["complex64", "complex128", *(["bfloat16"] if find_spec("ml_dtypes") else [])]
    if "bfloat16" in extra:
        import_module("ml_dtypes")
    found = []
    for name in extra:
        dtype = np.dtype(name)
        for arity in (1, 2):
            rows = [
                row for row in (*elementwise(), *(TABLE[part] for part in PARTS))
                if row.arity == arity and row.shared and row.kinds and admits(row, dtype)
                and row.name != "cast"
            ]
            body = tuple(
                Instruction(row.name, tuple(range(arity)),
                            infer.result_dtype(row, [dtype] * arity, "").name, name)
                for row in rows
            )
            found.append(_stored((name,) * arity, body))
        found.append(_casts(name))
        found += [
            _stored((other,), (Instruction("cast", (0,), name, other),)) for other in DTYPES
        ]
    part = _stored(("float32",), (Instruction("join_complex", (0, 0), "complex64", "float32"),))
    return [*found, part]


def _nest(dtypes: tuple[str, ...], cases: list[Case]) -> LoopNest:
    """One result for each row."""
    count = len(dtypes)
    body = tuple(
        Instruction(case.op.name, tuple(range(count)), case.result, case.dtypes[-1])
        for case in cases
    )
    return _stored(dtypes, body)


def _casts(dtype: str) -> LoopNest:
    """From one dtype to all others."""
    others = [name for name in DTYPES if name != dtype]
    return _stored((dtype,), tuple(Instruction("cast", (0,), other, dtype) for other in others))


def _stored(dtypes: tuple[str, ...], body: tuple[Instruction, ...]) -> LoopNest:
    """A flat nest that stores every value, one element at a time: vectors repeat the code."""
    stores = tuple(
        (len(dtypes) + k, TensorDesc(step.dtype, STRIDED)) for k, step in enumerate(body)
    )
    loads = tuple(TensorDesc(dtype, STRIDED) for dtype in dtypes)
    return LoopNest(1, loads, (), (), body, stores)


def nests_of(function: Any, *arguments: Any) -> list[LoopNest]:
    """The loop nests of a function, as they are for these arguments."""
    recorder = get_backend("gpu-recorded")
    assert isinstance(recorder, _Recorder)
    fuser.clear_caches()
    before = config.change(backend="gpu-recorded")
    recorder.nests = []
    try:
        fuser.fuse(function, fallback="error")(*arguments)
    finally:
        config.restore(before)
        fuser.clear_caches()
    return recorder.nests
