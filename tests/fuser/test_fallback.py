"""What cannot be fused runs as NumPy runs it; its reason is counted, shown and said once."""

import datetime
import random
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backend import CompileError
from fuser.base import config
from fuser.base.errors import REASONS
from tests.fuser.comparing import compare

X = np.arange(6, dtype=np.float32).reshape(2, 3)


class Special(np.ndarray):
    """A subclass."""


class Totals:
    """A class with an array, which functions find by its name."""

    total = np.zeros(3, np.float32)


def into_class(x: Any) -> Any:
    """The array is NumPy's own, not a traced one, and not this function's."""
    return np.multiply(x[0], 2, out=Totals.total)


def write_part(x: Any) -> Any:
    """Write into what may be a view or a copy."""
    x = x.T * 1
    x.reshape(-1)[...] = 3
    return x


def view_of(x: Any, kind: type[np.ndarray[Any, Any]]) -> Any:
    """The same memory as a subclass."""
    return x.view(kind)


CASES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "unsupported-function": (lambda x: np.sort(x), (X,)),
    "unsupported-argument": (lambda x: x[x > 1], (X,)),
    "unsupported-dtype": (lambda x: x + x, (X.astype(np.longdouble),)),
    "unsupported-array": (lambda x: x * 2, (view_of(X, Special),)),
    "byte-order": (lambda x: x * 2, (X.astype(">f4"),)),
    "control-flow": (lambda x: x if 7 in x else -x, (X,)),
    "array-conversion": (lambda x: x * len(x.tolist()), (X,)),
    "impure": (lambda x: np.where(x > -1 - random.random(), x, 7), (X,)),
    "write-into-view": (write_part, (X,)),
    "write-into-constant": (into_class, (X,)),
    "where-without-out": (lambda x: np.add(x, 1, where=x > -1), (X,)),
    "scalar-range": (lambda x: x < 1000, (X.astype(np.int8),)),
    "not-traceable": (lambda x, s: x * len(float.hex(s)), (X, 0.5)),
}
DTYPES: dict[str, Any] = {
    "object": np.array([1, 2.5, 3], object),
    "long complex": np.array([1, 2j], np.clongdouble),
    "string": np.array(["a", "b"]),
    "bytes": np.array([b"a", b"b"]),
    "datetime": np.array([datetime.date(2020, 1, 1)], "M8[D]"),
    "timedelta": np.array([3], "m8[s]"),
    "structured": np.array([(1, 2.0)], [("a", "i4"), ("b", "f8")]),
    "longdouble": np.array([1, 2], np.longdouble),
    "big endian": np.array([1, 2], ">i4"),
    "variable strings": np.array(["a", "b"], np.dtypes.StringDType()),
    "masked": np.ma.array([1.0, 2.0], mask=[True, False]),
    "matrix": np.asmatrix([[1.0, 2.0]]),
    "recarray": np.rec.array([(1, 2.0)], [("a", "i4"), ("b", "f8")]),
    "memmap": None,
}


def codes() -> dict[str, int]:
    """Fallbacks counted so far."""
    return {k: v for k, v in fuser.stats().items() if k.startswith("fallback.")}


@pytest.fixture(autouse=True)
def fresh_settings() -> Iterator[None]:
    """Settings as they were, and warnings given anew."""
    before = config.current()
    fuser.clear_caches()
    yield
    config.restore(before)


@pytest.mark.parametrize("code", CASES)
def test_reasons_are_counted_shown_and_said_once(code: str) -> None:
    """One warning, one count a call, the reason in `explain`, and the right answer."""
    function, args = CASES[code]
    fused = fuser.fuse(function)
    before = codes().get(f"fallback.{code}", 0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = [fused(*args) for _ in range(3)]
    said = [w for w in caught if issubclass(w.category, fuser.FallbackWarning)]
    assert len(said) == 1
    assert code in str(said[0].message)
    assert said[0].filename == __file__
    assert codes()[f"fallback.{code}"] == before + 3
    assert [reason.code for reason in fused.fallbacks] == [code]
    assert [reason.code for reason in fused.explain(*args).fallbacks] == [code]
    assert code in str(fused.explain(*args))
    for one in found:
        assert type(one) is type(function(*args))
        np.testing.assert_array_equal(np.asarray(one), np.asarray(function(*args)))


@pytest.mark.parametrize("code", CASES)
def test_policies(code: str) -> None:
    """The policy "error" raises the reason and what to do; "allow" is silent."""
    function, args = CASES[code]
    with pytest.raises(fuser.FusionError) as caught:
        fuser.fuse(function, fallback="error")(*args)
    assert caught.value.reason.code == code
    assert REASONS[code][1] in str(caught.value)
    with warnings.catch_warnings():
        warnings.simplefilter("error", fuser.FallbackWarning)
        fuser.fuse(function, fallback="allow")(*args)


@pytest.mark.parametrize("name", DTYPES)
def test_arrays_of_other_kinds(name: str, tmp_path: Any) -> None:
    """Run by NumPy with the reason; type, values and exceptions are NumPy's."""
    array = DTYPES[name]
    if name == "memmap":
        array = np.memmap(tmp_path / "data", np.float32, "w+", shape=(3,))
    for function in (lambda x: x + x, lambda x: x[:1], lambda x: x == x, lambda x: np.exp(x)):
        fused = fuser.fuse(function, fallback="allow")
        try:
            with np.errstate(all="ignore"):
                wanted = function(array)
        except Exception as error:  # noqa: BLE001 - whatever NumPy raises is expected
            with pytest.raises(type(error)):
                fused(array)
            continue
        found = fused(array)
        assert type(found) is type(wanted)
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted))


def test_switched_off() -> None:
    """override_can_fuse_on_cpu(False): every call runs unfused, and the reason is counted."""
    fused = fuser.fuse(lambda x: x * 2 + 1, fallback="allow")
    fused(X)
    fused(X)
    fuser.override_can_fuse_on_cpu(False)
    assert not fuser.can_fuse_on_cpu()
    before = fuser.n_compiled_kernels()
    np.testing.assert_array_equal(fused(X), X * 2 + 1)
    assert fused.fallbacks[-1].code == "switched-off"
    assert fused.explain(X).fallbacks[-1].code == "switched-off"
    assert fuser.n_compiled_kernels() == before
    graph = fuser.trace(lambda x: x - 1, X)
    with pytest.warns(fuser.FallbackWarning, match="switched-off"):
        (found,) = fuser.run_fusion(fuser.register_fusion(graph), [X])
    np.testing.assert_array_equal(found, X - 1)
    with pytest.raises(fuser.FusionError, match="switched-off"):
        fuser.debug_launch_graph(graph, [X])
    fuser.override_can_fuse_on_cpu(True)
    assert fuser.can_fuse_on_cpu()
    fused(X)
    assert fuser.debug_launch_graph(graph, [X])[0].shape == X.shape


@pytest.mark.parametrize("code", ["compile-failed", "missing-symbol"])
def test_failures_of_the_compiler(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message is kept, the answer is right, the next call may succeed."""
    from fuser.backends.cpu.backend import CpuBackend

    def refuse(*_: Any, **__: Any) -> Any:
        """Fail as the loader fails."""
        raise CompileError(code, "the compiler says no because of 42")

    fused = fuser.fuse(lambda x: x * 3.25 - 7, fallback="allow")
    with monkeypatch.context() as patch:
        patch.setattr(CpuBackend, "compile", refuse)
        np.testing.assert_array_equal(fused(X), X * 3.25 - 7)
        assert fused.fallbacks[-1].code == code
        assert "because of 42" in str(fused.fallbacks[-1])
        room = np.empty_like(X)
        np.testing.assert_array_equal(fused(X, out=room), X * 3.25 - 7)
        with pytest.raises(fuser.FusionError, match="because of 42"):
            fuser.debug_launch_graph(fuser.trace(fused, X), [X])
    before = codes().get(f"fallback.{code}", 0)
    np.testing.assert_array_equal(fused(X), X * 3.25 - 7)
    assert codes().get(f"fallback.{code}", 0) == before


def test_a_backend_that_cannot_spell_an_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reason "unsupported-op", named for the operation."""
    from fuser.backends.cpu.backend import CpuBackend
    from fuser.base.errors import Unsupported

    def refuse(*_: Any) -> str:
        """No form for anything."""
        raise Unsupported("unsupported-op", "add", "float32", "")

    monkeypatch.setattr(CpuBackend, "emit", refuse)
    fused = fuser.fuse(lambda x: x + 1.125, fallback="allow")
    np.testing.assert_array_equal(fused(X), X + 1.125)
    assert fused.fallbacks[-1].code == "unsupported-op"


def test_a_backend_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reason "backend-unavailable", with what to install."""
    from fuser import backend

    fuser.clear_caches()
    monkeypatch.setitem(backend._missing, "cpu", "no compiler; install one")
    assert not fuser.can_fuse_on_cpu()
    fused = fuser.fuse(lambda x: x + 2.125, fallback="allow")
    np.testing.assert_array_equal(fused(X), X + 2.125)
    assert "install one" in str(fused.fallbacks[-1])
    assert fused.fallbacks[-1].code == "backend-unavailable"


def test_values_for_which_numpy_raises_or_warns() -> None:
    """Negative integer powers; with errstate=True divisions by zero too."""
    power = fuser.fuse(lambda x, y: x**y, fallback="allow")
    assert compare(power, np.arange(4), np.array([2, 3, 0, 1])) == ""
    assert compare(power, np.arange(4), np.array([2, -3, 0, 1])) == ""
    divide = fuser.fuse(lambda x, y: x / y, errstate=True)
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        divide(np.ones(3), np.array([1.0, 0, 2]))
    with np.errstate(divide="warn"), pytest.warns(RuntimeWarning):
        divide(np.ones(3), np.array([1.0, 0, 2]))
    with np.errstate(divide="raise"):
        np.testing.assert_array_equal(divide(np.ones(3), np.full(3, 2.0)), 0.5)


def test_the_vocabulary_is_whole() -> None:
    """Every reason says what it means and what to do, in sentences."""
    for code, (meaning, advice) in REASONS.items():
        assert code == code.lower()
        assert meaning
        assert advice.endswith(".")
    reason = fuser.Reason("impure", "f", "found", "file.py:3")
    assert str(reason).endswith("[impure]")
    assert "file.py:3" in str(reason)
