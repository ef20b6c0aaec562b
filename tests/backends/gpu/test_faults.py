"""The double and the host find what they are there for: each fault is put back, and a test fails.

A fault is what was once wrong, or would be: what a device punishes and a careless host does not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backends.gpu import device, nvrtc
from fuser.backends.gpu.device import CudaDevice
from fuser.backends.gpu.emit import emit
from fuser.backends.gpu.emit_map import Map
from fuser.backends.gpu.emit_reduction import Reduction
from fuser.backends.gpu.geometry import Resources
from tests.backends.gpu import fake_arrays, fake_cupy
from tests.backends.gpu import test_device_rules as rules
from tests.backends.gpu.programs import numbers
from tests.backends.gpu.units import nests_of

cupy = fake_cupy.for_a_file()

Patch = Callable[[pytest.MonkeyPatch], None]


def _raised(function: Any, *arguments: Any) -> Any:
    raise


def _rows(cupy: Any) -> None:
    """Rows that begin between the words that memory moves."""
    rows = numbers(9, 67)
    found = fuser.fuse(lambda x: x / x.sum(axis=1, keepdims=True), fallback="error")(
        cupy.asarray(rows)
    )
    np.testing.assert_allclose(found.get(), rows / rows.sum(axis=1, keepdims=True), rtol=1e-5)


def _product(cupy: Any) -> None:
    """A product, that a sum might follow."""
    x = numbers(5)
    assert not rules.loose_products(emit(nests_of(lambda x: x * x, x), "product"))


def _short(cupy: Any) -> None:
    """An array that ends within a vector."""
    before = fake_arrays.pool.written_beyond
    found = fuser.fuse(lambda x: np.where(x > 0, x, 1), fallback="error")(
        cupy.asarray(numbers(5))
    )
    found.get()
    del found
    assert fake_arrays.pool.written_beyond == before


def _wide(cupy: Any) -> None:
    """A row that is kept in shared memory beyond what every kernel may have."""
    rows = numbers(2, 16_384).astype(np.float64)
    found = fuser.fuse(lambda x: x - x.max(-1, keepdims=True), fallback="error")(
        cupy.asarray(rows)
    )
    np.testing.assert_array_equal(found.get(), rows - rows.max(-1, keepdims=True))


#: name -> (how it comes back, what then fails, a part of what is said; none: a result is wrong)
FAULTS: dict[str, tuple[Patch, Callable[[Any], None], str]] = {
    "memory of a captured graph is given back": (
        lambda patch: patch.setattr(CudaDevice, "is_capturing", lambda *_: False)
        or patch.setattr(CudaDevice, "calls", _without("captured", lambda memory: None)),
        lambda cupy: rules.test_a_replayed_graph_writes_into_nobodys_memory(cupy, "two kernels"),
        "",
    ),
    "a fresh thread has no context": (
        lambda patch: patch.setattr(device, "in_new_context", _raised),
        lambda cupy: rules.test_a_fresh_thread_may_be_the_first_to_call(cupy, "split rows"),
        "INVALID_CONTEXT",
    ),
    "a plan for one device is another's": (
        lambda patch: patch.setattr(CudaDevice, "resources", lambda _: device._resources(0)),
        rules.test_a_plan_is_for_the_device_that_it_was_made_on,
        "INVALID_VALUE",
    ),
    "an adopted array dies at once": (
        lambda patch: patch.setattr(CudaDevice, "hold", lambda *_: None),
        rules.test_an_adopted_array_lives_until_its_kernels_have_run,
        "",
    ),
    "NumPy's scalars are copied from the host": (
        lambda patch: patch.setattr(CudaDevice, "scalar", lambda _, value: _copied(value)),
        lambda cupy: rules.test_numpys_scalars_can_be_captured(cupy, np.float32(2.5)),
        "cannot be captured|StreamCaptureUnsupported",
    ),
    "states of columns want more shared memory than there is": (
        lambda patch: patch.setattr(
            CudaDevice, "resources", lambda _: Resources(1, shared_bytes=1 << 30)
        ),
        rules.test_columns_with_many_results_have_room,
        "INVALID_VALUE",
    ),
    "products may be contracted": (
        lambda patch: patch.setattr(
            nvrtc, "FLAGS", tuple(flag for flag in nvrtc.FLAGS if "fmad" not in flag)
        ),
        _product,
        "",
    ),
    "counters are whatever memory has": (
        lambda patch: patch.setattr(fake_arrays.Memory, "memset_async", lambda *_: None),
        rules.test_blocks_of_a_stream_a_thread_and_a_graph_count_on_their_own,
        "",
    ),
    "kernels are not asked to have their shared memory": (
        lambda patch: patch.setattr(device, "_SHARED_FREE", 1 << 30),
        _wide,
        "INVALID_VALUE",
    ),
    "a vector is written where an array has ended": (
        lambda patch: patch.setattr(Map, "whole", lambda *_: "true"),
        _short,
        "",
    ),
    "words are moved from between words": (
        lambda patch: patch.setattr(Reduction, "whole", lambda *_: "true"),
        _rows,
        "cudaErrorMisalignedAddress",
    ),
}  # fmt: skip


def _without(name: str, value: Any) -> Callable[[CudaDevice], dict[str, Any]]:
    """What generated lines call, one of them replaced."""
    own = CudaDevice.calls
    return lambda self: {**own(self), name: value}


def _copied(value: Any) -> Any:
    import cupy

    return cupy.asarray(value)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found(cupy: Any, name: str) -> None:
    """Right as it is; wrong, and said so, with the fault."""
    broken, judge, said = FAULTS[name]
    fake_cupy._forget()
    judge(cupy)
    fake_cupy._forget()
    with pytest.MonkeyPatch.context() as patch:
        broken(patch)
        with pytest.raises(Exception if said else AssertionError, match=said or None):
            judge(cupy)
    fake_arrays.pool.written_beyond = 0
    fake_arrays.under_way.clear()
    fake_arrays.state.update(capturing=False, strict=False)
    fake_cupy._forget()
