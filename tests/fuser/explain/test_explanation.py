"""The ledger against bytes counted by hand, the candidates, and the text."""

from typing import Any

import numpy as np
import pytest

import fuser

F = np.ones((10, 20), np.float32)
ROW, COLUMN, V = np.ones(20, np.float32), np.ones((10, 1), np.float32), np.ones(100)
N = 800  # bytes of F
COLUMNS = [
    "first", "second", "kind", "score", "bytes_saved", "fused", "reason", "verdict", "distance",
    "kind_bonus",
]  # fmt: skip

#: name -> (function, arguments, (unfused, planned, least) bytes, operations, kernels)
LEDGERS: dict[str, tuple[Any, tuple[Any, ...], tuple[int, int, int], int, int]] = {
    "one": (lambda x: -x, (F,), (2 * N, 2 * N, 2 * N), 1, 1),
    "two": (lambda x: -x * 2, (F,), (4 * N, 2 * N, 2 * N), 2, 1),
    "binary": (lambda x, y: x + y, (F, F), (3 * N, 3 * N, 3 * N), 1, 1),
    "fma": (lambda x, y, z: x * y + z, (F, F, F), (6 * N, 4 * N, 4 * N), 2, 1),
    "same twice": (lambda x: x * x, (F,), (2 * N, 2 * N, 2 * N), 1, 1),
    "polynomial": (lambda x: (x * 2 + 1) * x + 3, (F,), (9 * N, 2 * N, 2 * N), 4, 1),
    "scalar": (lambda x, s: x * s, (F, 2.0), (2 * N, 2 * N, 2 * N), 1, 1),
    "row": (lambda x, r: x + r, (F, ROW), (2 * N + 80, 2 * N + 80, 2 * N + 80), 1, 1),
    "column": (lambda x, c: x + c, (F, COLUMN), (2 * N + 40, 2 * N + 40, 2 * N + 40), 1, 1),
    "outputs": (lambda x: (x + 1, x * 2), (F,), (4 * N, 3 * N, 3 * N), 2, 1),
    "comparison": (lambda x: x > 0, (F,), (N + 200, N + 200, N + 200), 1, 1),
    "where": (lambda x: np.where(x > 0, x, 0), (F,), (N + 200 + 200 + N + N, 2 * N, 2 * N), 2, 1),
    "operand cast": (lambda x, d: x[0, :] + d[:20], (F, V), (80 + 160 + 160,) * 3, 1, 1),
    "astype": (lambda x: x.astype("f8") + 1, (F,), (N + 2 * N + 4 * N, 3 * N, 3 * N), 2, 1),
    "half": (lambda x: x[::2] * 2, (V,), (800, 800, 800), 1, 1),
    "difference": (lambda x: x[1:] - x[:-1], (V,), (3 * 792, 800 + 792, 800 + 792), 1, 1),
    "flip": (lambda x: x[::-1] + x, (V,), (2400, 1600, 1600), 1, 1),
    "join": (lambda x: np.concatenate([x, -x]), (V,), (1600 + 800 + 800 + 1600, 2400, 2400), 2, 1),
    "chain of ten": (lambda x: ten(x), (F,), (20 * N, 2 * N, 2 * N), 10, 1),
    "dead code": (lambda x: (x * 7, x + 1)[1], (F,), (2 * N, 2 * N, 2 * N), 1, 1),
}


def ten(x: Any) -> Any:
    """Ten unary operations."""
    for _ in range(10):
        x = abs(x) if _ % 2 else -x
    return x


@pytest.mark.parametrize("name", LEDGERS)
def test_bytes_counted_by_hand(name: str) -> None:
    """Every operation reads its operands and writes its result; scalars are free."""
    function, args, (unfused, planned, least), operations, kernels = LEDGERS[name]
    book = fuser.fuse(function, fallback="error").explain(*args).ledger
    assert book is not None
    assert (book.kernels_unfused, book.kernels_fused) == (operations, kernels)
    assert book.unfused_bytes == unfused
    assert (book.planned_bytes, book.least_bytes) == (planned, least)


def test_candidates_are_every_producer_and_consumer() -> None:
    """One row a pair, best first, with what fusing it saves."""
    graph = fuser.trace(lambda x: np.exp(x * 2) + x, F)
    frame = fuser.fusion_candidates(graph)
    assert list(frame.columns) == COLUMNS
    assert len(frame) == 2
    assert frame["fused"].all()
    assert (frame["bytes_saved"] == 2 * 1024 * 1024 * 4).all()
    assert (frame["score"].diff().dropna() <= 0).all()
    small = fuser.fusion_candidates(graph, {"n0": 10, "n1": 20})
    assert (small["bytes_saved"] == 2 * N).all()
    stored = fuser.fusion_candidates(fuser.trace(lambda x: np.concatenate([x, x])[1:] * 2, V))
    assert not stored["fused"].all()
    assert stored.loc[~stored["fused"], "reason"].str.len().gt(0).all()


def test_an_explanation_reads_well() -> None:
    """Kernels, bytes, guards and rewrites; in notebooks as HTML."""
    fused = fuser.fuse(lambda x, s: (x * 1)[::s] ** 3, fallback="error")
    explained = fused.explain(V, 5)
    text = str(explained)
    for part in (
        "1 kernel",
        "bytes a call",
        "holds while",
        "s is 5",
        "rewrites",
        "x * 1 -> x",
        "loop over",
    ):
        assert part in text
    assert explained.graph is not None
    assert list(explained.candidates.columns) == COLUMNS
    assert "<pre " in explained._repr_html_()
    refused = fuser.fuse(np.sort, fallback="allow").explain(V)
    assert refused.fallbacks
    assert refused.ledger is None
    assert list(refused.candidates.columns) == COLUMNS
    assert "not fused" in str(refused)


def test_arguments_that_the_function_does_not_take_are_refused() -> None:
    """No call with them could be explained."""
    fused = fuser.fuse(lambda x, y: x + y)
    for look in (fused.explain, fused.source):
        with pytest.raises(fuser.ArgumentError, match="missing a required argument: 'y'"):
            look(V)
    fused.explain(V, V, out=V)


class Scaler:
    """With a fused method."""

    scale = 3.0

    @fuser.fuse
    def scaled(self, x: Any, power: int = 1) -> Any:
        """Scaled."""
        return x**power * self.scale


def test_methods_are_explained_with_their_instance() -> None:
    """An attribute of a bound method does not know the instance: that is said."""
    assert len(Scaler.scaled.explain(Scaler(), V).groups) == 1
    for args in ((), (V,), (V, 2)):
        with pytest.raises(fuser.ArgumentError, match=r"explain\(instance, "):
            Scaler().scaled.explain(*args)


def test_source_of_every_kind() -> None:
    """Generated, optimized and assembler text of each kernel."""
    fused = fuser.fuse(lambda x: x * 3 - 1, fallback="error")
    for kind in ("source", "optimized", "asm"):
        ((name, text),) = fused.source(V, kind=kind).items()
        assert name.startswith("fused_")
        assert len(text) > 50
    with pytest.raises(ValueError, match="poem"):
        fused.source(V, kind="poem")
    with pytest.raises(fuser.FusionError):
        fuser.fuse(np.sort, fallback="allow").source(V)


OFFSETS, SCALES = np.arange(20.0, dtype=np.float32), np.ones(20, np.float32)


def test_what_a_function_reaches_is_named() -> None:
    """Captured arrays are told apart, and defaults are not called by Python's names."""
    def reaching(x: Any, *, k: Any = 2) -> Any:
        return x * SCALES + OFFSETS + k

    text = str(fuser.fuse(reaching, fallback="error").explain(F))
    assert "captured array," in text
    assert "captured array 2" in text
    assert "__" not in text


def test_numpys_mode_says_so() -> None:
    """A function that runs in NumPy by choice has no kernels, and no reason against them."""
    text = str(fuser.fuse(lambda x: x + 1, mode="fallback").explain(F))
    assert "not fused: this mode is NumPy" in text
