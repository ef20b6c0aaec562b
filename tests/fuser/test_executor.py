"""Checks before launching: arguments, sizes, devices, and where kernels may write directly."""

import numpy as np
import pytest

import fuser
from fuser.compiler import compile_upfront
from fuser.executor import check_arguments, sizes_of
from fuser.ir import dims
from fuser.runtime.aliasing import overlaps_itself
from fuser.runtime.launch import contiguous_specs

X = np.ones((3, 4), np.float32)
GRAPH = fuser.trace(lambda x, y, s: (x + y) * s, X, X, 2.0)


def test_arguments_are_matched_by_place() -> None:
    """Arrays and scalars by the graph's own names."""
    arrays, numbers = check_arguments(GRAPH, [X, X, 2.0])
    assert list(arrays) == ["x0", "x1"]
    assert numbers == {"s0": 2.0}


@pytest.mark.parametrize("scalar", [2, True, np.float64(2), X, "2"])
def test_scalars_have_exact_types(scalar: object) -> None:
    """An int is another graph than a float."""
    with pytest.raises(fuser.ArgumentError):
        check_arguments(GRAPH, [X, X, scalar])


def test_sizes_bind_symbols_and_check_guards() -> None:
    """None where the shapes broadcast in another way than the traced ones."""
    assert sizes_of(GRAPH, {"x0": (3, 4), "x1": (3, 4)}) == {"n0": 3, "n1": 4}
    assert sizes_of(GRAPH, {"x0": (3, 4), "x1": (3, 1)}) is None
    graph = fuser.trace(lambda x, y: x[1:] + y[:-2], np.ones(5), np.ones(6))
    found = sizes_of(graph, {"x0": (5,), "x1": (6,)})
    assert found is not None
    assert dims.evaluate(graph.outputs[0].shape[0], found) == 4
    assert sizes_of(graph, {"x0": (5,), "x1": (9,)}) is None


@pytest.mark.parametrize(
    ("array", "answer"),
    [
        (np.zeros((3, 4)), False),
        (np.zeros((3, 4)).T, False),
        (np.zeros((6, 8))[::-2, ::2], False),
        (np.zeros((1, 1)), False),
        (np.zeros(0), False),
        (np.broadcast_to(np.zeros(4), (3, 4)), True),
        (np.lib.stride_tricks.sliding_window_view(np.zeros(9), 3), True),
    ],
)
def test_arrays_that_overlap_themselves(array: np.ndarray, answer: bool) -> None:
    """Kernels do not write into those directly."""
    assert overlaps_itself(array) is answer


def test_axes_of_length_one_are_no_loops() -> None:
    """Parts of a stack along a new last axis are written in one strided loop each."""
    spec = compile_upfront(fuser.trace(lambda x, y: np.stack([x + y, x - y], axis=-1), X, X))
    (arg_spec,) = contiguous_specs(spec, "cpu")
    assert [section.rank for section in arg_spec.sections] == [1]


def test_arrays_on_several_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """No backend owns them all: the plain function runs, with the reason."""
    from fuser import executor

    def several(_: object) -> str:
        """As where NumPy and CuPy arrays meet."""
        raise fuser.BackendError("cpu and gpu")

    fused = fuser.fuse(lambda x: x * 1.75, fallback="allow")
    monkeypatch.setattr(executor, "backend_for", several)
    np.testing.assert_array_equal(fused(np.ones(3)), 1.75)
    assert [reason.code for reason in fused.fallbacks] == ["mixed-devices"]
