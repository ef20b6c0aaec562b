"""The public names: register, run, ask, override, debug, count."""

from typing import Any

import numpy as np
import pytest

import fuser

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def scaled(x: Any, y: Any, s: Any) -> Any:
    """Two results."""
    return x * s + y, x > y


GRAPH = fuser.trace(scaled, X, X, 2.0)


@pytest.mark.parametrize("mode", ["fused", "unfused", "fallback"])
def test_a_registered_graph_runs_in_every_mode(mode: str) -> None:
    """A tuple of arrays, for other sizes and other broadcasting too."""
    key = fuser.register_fusion(GRAPH)
    assert isinstance(key, int)
    for x, y in ((X, X + 1), (X.T, X.T), (X[:0], X[:0]), (X, X[:1]), (X[:, :1], X), (X, X[:, :1])):
        found = fuser.run_fusion(key, [x, y, 3.0], mode=mode)
        assert isinstance(found, tuple)
        for one, other in zip(scaled(x, y, 3.0), found, strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("args", "error"),
    [
        ([X, X], TypeError),
        ([X, X, 2], TypeError),
        ([X, X, 2.0, 1], TypeError),
        ([X, X.astype(np.float64), 2.0], TypeError),
        ([X, X[0], 2.0], ValueError),
        ([X, X[:2], 2.0], ValueError),
        ([X, [1, 2], 2.0], TypeError),
    ],
)
def test_arguments_that_do_not_fit_a_graph(args: list[Any], error: type[Exception]) -> None:
    """Every argument is checked before machine code sees it."""
    key = fuser.register_fusion(GRAPH)
    with pytest.raises(error):
        fuser.run_fusion(key, args)
    with pytest.raises((error, fuser.FusionError)):
        fuser.debug_launch_graph(GRAPH, args)


def test_graphs_with_captured_arrays() -> None:
    """They may be left out, or given."""
    weights = np.full((3, 4), 2, np.float32)
    graph = fuser.trace(lambda x: x * weights, X)
    key = fuser.register_fusion(graph)
    np.testing.assert_array_equal(fuser.run_fusion(key, [X])[0], X * 2)
    np.testing.assert_array_equal(fuser.run_fusion(key, [X, weights * 2])[0], X * 4)


def test_wrong_keys_modes_and_graphs() -> None:
    """Errors that name what is wanted."""
    with pytest.raises(fuser.ArgumentError, match="no fusion with key"):
        fuser.run_fusion(10**9, [])
    with pytest.raises(fuser.ArgumentError, match="mode"):
        fuser.run_fusion(fuser.register_fusion(GRAPH), [X, X, 1.0], mode="quick")
    with pytest.raises(fuser.ArgumentError, match="Graph"):
        fuser.register_fusion(lambda x: x)  # type: ignore[arg-type]
    for options in ({"mode": "quick"}, {"fallback": "perhaps"}):
        with pytest.raises(fuser.ArgumentError):
            fuser.fuse(scaled, **options)
    with pytest.raises(fuser.ArgumentError):
        fuser.fuse(3)  # type: ignore[call-overload]
    for count in (0, -1, 1.5, True, "2"):
        with pytest.raises(fuser.ArgumentError):
            fuser.set_num_threads(count)  # type: ignore[arg-type]
    with pytest.raises(fuser.BackendError):
        fuser.generate_code(GRAPH, backend="abacus")


def test_debugging() -> None:
    """Launch without fallback; the code of the kernels that would run."""
    found = fuser.debug_launch_graph(GRAPH, [X, X, 2.0])
    np.testing.assert_array_equal(found[0], X * 2 + X)
    code = fuser.debug_get_fused_kernel_code(GRAPH, [X, X, 2.0])
    assert "define" in code
    assert code != fuser.debug_get_fused_kernel_code(GRAPH, [X, np.asfortranarray(X), 2.0])
    with pytest.raises(fuser.FusionError, match="shape-pattern"):
        fuser.debug_launch_graph(GRAPH, [X, X[:1], 2.0])


def test_code_needs_no_arguments() -> None:
    """generate_code gives each kernel's text, the same each time."""
    texts = fuser.generate_code(GRAPH, backend="cpu")
    assert texts
    assert all(isinstance(text, str) and "define" in text for text in texts.values())
    assert fuser.generate_code(fuser.parse(str(GRAPH)), backend="cpu") == texts


def test_text_of_graphs_that_divide_lengths() -> None:
    """Groups of channels divide the lengths that stand in for unknown ones."""
    images = np.ones((2, 8, 4, 4), np.float32)
    graph = fuser.trace(lambda x: fuser.functional.group_norm(x, 4), images)
    assert len(fuser.generate_code(graph, backend="cpu")) == 1


def test_tracing_a_fused_function() -> None:
    """`trace` takes plain and fused functions; what it cannot trace raises with the reason."""
    assert fuser.trace(fuser.fuse(scaled), X, X, 2.0) == GRAPH
    with pytest.raises(fuser.FusionError, match="unsupported-function"):
        fuser.trace(np.sort, X)


def test_counting_and_clearing() -> None:
    """Specs and kernels are counted; clearing forgets specs and keys."""
    fuser.clear_caches()
    assert fuser.debug_num_cached_kernel_specs() == 0
    fused, before = fuser.fuse(lambda x: x * 5.5), fuser.n_compiled_kernels()
    fused(X)
    fused(X)
    assert fuser.debug_num_cached_kernel_specs() == 1
    assert fuser.n_compiled_kernels() == before + 1
    assert fuser.stats()["cached_specs"] == 1
    key = fuser.register_fusion(GRAPH)
    fuser.clear_caches()
    with pytest.raises(fuser.ArgumentError):
        fuser.run_fusion(key, [X, X, 1.0])
    np.testing.assert_array_equal(fused(X), X * 5.5)


def test_code_for_lengths_that_a_trace_needs() -> None:
    """Lengths that fit are looked for; where none is found, an error says how to give them."""
    for function, x in (
        (lambda x: x[200] + x[:4], np.arange(300.0)),
        (lambda x: x.reshape(-1, 7).sum(1), np.arange(21.0)),
        (lambda x: x.max(axis=1) + x[0, 2000], np.ones((5, 3000))),
    ):
        graph = fuser.trace(function, x)
        for backend in ("cpu", "gpu"):
            assert fuser.generate_code(graph, backend)
    graph = fuser.trace(lambda x: x.reshape(-1, 97).sum(1), np.arange(97.0))
    with pytest.raises(fuser.FusionError, match="debug_get_fused_kernel_code"):
        fuser.generate_code(graph)
    assert fuser.debug_get_fused_kernel_code(graph, [np.arange(194.0)])


def test_arguments_of_another_kind() -> None:
    """No list of arguments, and flags that are none: errors of ours say what was found."""
    key = fuser.register_fusion(GRAPH)
    for args in (None, 3, "abc", {"x": X}):
        with pytest.raises(fuser.ArgumentError, match=type(args).__name__):
            fuser.run_fusion(key, args)  # type: ignore[arg-type]
    options: Any
    for options in ({"fastmath": "no"}, {"errstate": 2}):
        with pytest.raises(fuser.ArgumentError, match="use True or False"):
            fuser.fuse(lambda x: x, **options)


MISFITS: dict[str, tuple[Any, Any, Any]] = {
    "broadcast": (lambda x, y: x * 2 + y, (np.ones((3, 4)), np.ones(4)), np.ones(5)),
    "divided": (lambda x, y: x.reshape(y.shape[0], -1) + 1, (np.ones(6), np.ones(3)), np.ones(0)),
    "remainder": (lambda x, y: x.reshape(y.shape[0], -1) + 1, (np.ones(6), np.ones(3)), np.ones(4)),
    "joined": (
        lambda x, y: np.concatenate([x, y], 1), (np.ones((2, 3)), np.ones((2, 4))), np.ones((3, 3))
    ),
    "index": (lambda x, y: x + y[5], (np.ones(3), np.ones(7)), np.ones(3)),
}  # fmt: skip


@pytest.mark.parametrize("name", MISFITS)
def test_lengths_that_a_graph_cannot_have(name: str) -> None:
    """What was found, where, and what to do, in every mode."""
    function, args, other = MISFITS[name]
    key = fuser.register_fusion(fuser.trace(function, *args))
    for mode in ("fused", "unfused", "fallback"):
        with pytest.raises(fuser.ShapeError, match=rf"\({other.shape[0]},"):
            fuser.run_fusion(key, (args[0], other), mode=mode)


@pytest.mark.parametrize("sizes", [3, {"n0": -3}, {"n0": "a"}, {0: 1}, {"length": 3}])
def test_sizes_that_are_none(sizes: Any) -> None:
    """No error of the machinery behind."""
    with pytest.raises(fuser.ArgumentError, match="sizes"):
        fuser.fusion_candidates(GRAPH, sizes)
