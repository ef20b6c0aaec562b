"""Small loops before and after large ones: one kernel, bytes by hand, and NumPy's results."""

from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backends.cpu.machine import workers
from fuser.compiler import compile_upfront, planned
from fuser.scheduling import nest_sequences
from fuser.scheduling.capabilities import Capabilities
from fuser.traffic import ledger
from tests.fuser.comparing import assert_near
from tests.fuser.passes.test_concatenated_reductions import book_of


def clusters(x: Any, c: Any) -> Any:
    """The loss of k-means: a mean of what rows of distances have given."""
    return ((x[:, None] - c) ** 2).sum(-1).min(1).mean()


def cosines(a: Any, b: Any) -> Any:
    """Rows of unit length are made before all pairs are looked at."""
    a = a / np.sqrt((a * a).sum(1, keepdims=True))
    b = b / np.sqrt((b * b).sum(1, keepdims=True))
    return (a[:, None] * b).sum(-1)


def contrast(a: Any, b: Any) -> Any:
    """InfoNCE: what belongs together beside all others."""
    a = a / np.sqrt((a * a).sum(1, keepdims=True))
    b = b / np.sqrt((b * b).sum(1, keepdims=True))
    scores = (a[:, None] * b).sum(-1) / 0.1
    top = scores.max(1, keepdims=True)
    total = (top + np.log(np.exp(scores - top).sum(1, keepdims=True)))[:, 0]
    return (total - (a * b).sum(1) / 0.1).mean()


def power_step(w: Any, u: Any) -> Any:
    """A step towards the largest singular vector."""
    v = (w * u[:, None]).sum(0)
    return v / np.sqrt((v * v).sum() + 1e-12)


def pooled(x: Any, mask: Any) -> Any:
    """The mean of the chosen rows: how many, is counted first."""
    return (x * mask[:, None]).sum(1) / mask.sum()


def attended(x: Any, s: Any) -> Any:
    """Rows weighted by a softmax of their scores."""
    e = np.exp(s - s.max(1, keepdims=True))
    return (x * (e / e.sum(1, keepdims=True))[:, :, None]).sum(1)


def gates(x: Any, v: Any) -> Any:
    """A costly row."""
    return x * np.exp(v)


def residual(u: Any, f: Any) -> Any:
    """A step on a plate with fixed edges, and how much it changes it."""
    new = u.copy()
    inner = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
    new[1:-1, 1:-1] = 0.25 * (inner - f[1:-1, 1:-1])
    return new, np.sqrt(((new - u) ** 2).sum())


P, N, M, K = 3, 12, 7, 5
#: name -> (function, shapes, elements moved by hand: arguments once, results once)
COUNTED: dict[str, tuple[Any, list[tuple[int, ...]], int]] = {
    "clusters": (clusters, [(N, M), (K, M)], N * M + K * M + 1),
    "cosines": (cosines, [(N, M), (K, M)], N * M + K * M + N * K),
    "contrast": (contrast, [(N, M), (N, M)], 2 * N * M + 1),
    "power_step": (power_step, [(N, M), (N,)], N * M + N + M),
    "pooled": (pooled, [(P, N, M), (N,)], P * N * M + N + P * M),
    "attended": (attended, [(P, N, M), (P, N)], P * N * M + P * N + P * M),
    "gates": (gates, [(N, M), (M,)], N * M + M + N * M),
    "residual": (residual, [(N, M), (N, M)], 2 * N * M + (N - 2) * (M - 2) + 1),
}


def arguments(name: str, dtype: str = "float64", seed: int = 0) -> list[Any]:
    """Random numbers above 0."""
    random = np.random.default_rng(seed)
    return [(random.random(shape) + 0.1).astype(dtype) for shape in COUNTED[name][1]]


@pytest.mark.parametrize("name", COUNTED)
def test_planned_bytes_are_the_hand_count(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One kernel; where what is small is larger than the cache, kernels of their own."""
    function, _, moved = COUNTED[name]
    book = book_of(function, *arguments(name))
    assert (book.kernels_fused, book.planned_bytes) == (1, 8 * moved)
    assert book.least_bytes == book.planned_bytes
    monkeypatch.setattr(nest_sequences, "ROW_CACHE_BYTES", 0)
    book = book_of(function, *arguments(name))
    assert book.kernels_fused > 1
    assert book.planned_bytes > 8 * moved


@pytest.mark.parametrize("name", COUNTED)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_results(name: str, dtype: str) -> None:
    """NumPy's, whatever lies in memory; NaN and infinities spread as there."""
    function = COUNTED[name][0]
    fused = fuser.fuse(function, fallback="error")
    for seed in range(4):
        args = arguments(name, dtype, seed)
        if seed == 1:
            args = [np.repeat(arg, 2, axis=-1)[..., ::2] for arg in args]
        if seed == 2:
            args = [np.asfortranarray(arg[::-1]) for arg in args]
        if seed == 3:
            args[0][(1,) * args[0].ndim] = np.nan
            args[0][(2,) * args[0].ndim] = np.inf
        with np.errstate(all="ignore"):
            wanted = function(*args)
        for _ in range(3):  # by Python, then natively
            assert_near(wanted, fused(*args))


@pytest.mark.parametrize("name", COUNTED)
def test_other_lengths(name: str) -> None:
    """One function for all of them; lengths of 1 and 2, and some that threads share."""
    function, shapes, _ = COUNTED[name]
    fused = fuser.fuse(function, fallback="error")
    random = np.random.default_rng(3)
    for factor in (2, 1, 9, 40, 2, 9):
        args = [random.random(tuple(n * factor for n in shape)) + 0.1 for shape in shapes]
        assert_near(function(*args), fused(*args))
    short = [random.random(tuple(min(n, 3) for n in shape)) + 0.1 for shape in shapes]
    assert_near(function(*short), fused(*short))


def test_the_same_bits_with_any_number_of_threads() -> None:
    """Nests of one kernel wait for each other."""
    random = np.random.default_rng(5)
    x, c = random.random((3000, 16)), random.random((40, 16))
    fused, known = fuser.fuse(clusters, fallback="error"), set()
    before = workers.thread_count()
    try:
        for threads in (1, 2, 4):
            fuser.set_num_threads(threads)
            known |= {float(fused(x, c)) for _ in range(3)}
    finally:
        fuser.set_num_threads(before)
    assert len(known) == 1


def test_results_may_be_given() -> None:
    """Into an array of the caller's, which may be an argument."""
    (x, v) = arguments("gates")
    wanted = gates(x, v)
    fused = fuser.fuse(gates, fallback="error")
    for _ in range(3):
        y = x.copy()
        assert fused(y, v, out=y) is y
        np.testing.assert_allclose(y, wanted, rtol=1e-12)


def test_loops_of_one_size_are_kernels_of_their_own() -> None:
    """Two passes over an array are no small loops; the text says what runs after what."""
    x = np.arange(1.0, 13.0).reshape(4, 3)
    turned = fuser.fuse(lambda x: (lambda y: y / y.sum(0))(x / x.sum(1, keepdims=True)))
    assert len(turned.explain(x).groups) == 2
    told = fuser.fuse(pooled).explain(*arguments("pooled"))
    assert len(told.groups) == 1
    assert "loops run one after another" in told.groups[0]


def test_others_get_the_kernels_apart() -> None:
    """A backend that starts each nest by itself compiles them so."""

    class Plain:
        """A backend without rows."""

        capabilities = Capabilities(complex_values=True)

    graph = fuser.trace(gates, *arguments("gates"))
    spec = compile_upfront(graph)
    served: Any = planned(spec, Plain())  # type: ignore[arg-type]
    assert [len(group.turns) for group in spec.plan.groups] == [2]
    assert [len(group.turns) for group in served.plan.groups] == [0, 0]
    assert ledger.ledger(served, {"n0": 4, "n1": 3}).kernels_fused == 2
