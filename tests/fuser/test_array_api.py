"""Functions written for the Array API: the namespace is asked of an argument."""

import array
from typing import Any

import numpy as np
import pytest

import fuser

X = np.random.default_rng(4).random((5, 4))


def standardised(x: Any) -> Any:
    """Names of the standard that NumPy has since version 2."""
    xp = x.__array_namespace__()
    centred = x - xp.mean(x, axis=0, keepdims=True)
    return xp.concat([centred / xp.std(x, axis=0, keepdims=True), xp.astype(x, xp.float64)], axis=1)


FUNCTIONS = {
    "standardised": standardised,
    "elementwise": lambda x: x.__array_namespace__().exp(x) * 2 + 1,
    "version": lambda x: x.__array_namespace__(api_version="2024.12").acos(x),
    "permuted": lambda x: x.__array_namespace__().permute_dims(x, (1, 0)) * x.mT,
    "device": lambda x: x.__array_namespace__().zeros_like(x, device=x.device) + (x * 2).sum(),
    "twice": lambda x: (x * 2).__array_namespace__().pow(x, 2.0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_namespace_of_a_stand_in_is_numpys(name: str) -> None:
    """So what is called by it is fused."""
    fused = fuser.fuse(FUNCTIONS[name], fallback="error")
    for values in (X, X[::-1], X.astype("float32")):
        found = fused(values)
        np.testing.assert_allclose(found, FUNCTIONS[name](values), rtol=1e-6)
        assert found.dtype == FUNCTIONS[name](values).dtype


def test_a_version_that_numpy_does_not_know() -> None:
    """NumPy's own exception."""
    fused = fuser.fuse(lambda x: x.__array_namespace__(api_version="1999.1") and x + 1,
                       fallback="allow")  # fmt: skip
    with pytest.raises(ValueError, match="1999"):
        fused(X)


class Lent:
    """Memory that DLPack alone gives."""

    def __init__(self, array: Any) -> None:
        """Keep what it is of."""
        self.array = array

    def __dlpack__(self, **named: Any) -> Any:
        """NumPy's own."""
        return self.array.__dlpack__(**named)

    def __dlpack_device__(self) -> Any:
        """The CPU."""
        return self.array.__dlpack_device__()


def test_dlpack_alone_is_no_array() -> None:
    """NumPy's functions refuse it, so fused ones do; from_dlpack reads the same memory."""
    values = np.arange(8.0)
    for function in (lambda x: np.exp(x) * 2, lambda x: np.multiply(x, 2.0) + 1):
        with pytest.raises(TypeError) as plain:
            function(Lent(values))
        with pytest.raises(TypeError) as fused:
            fuser.fuse(function, fallback="allow")(Lent(values))
        assert str(fused.value) == str(plain.value)
    reads = fuser.fuse(lambda x: np.from_dlpack(x) * 2 + 1)
    for first in (0.0, 7.0):
        values[0] = first
        np.testing.assert_array_equal(reads(Lent(values)), values * 2 + 1)
    assert reads.fallbacks == []


def test_buffers_are_arguments_of_numpy() -> None:
    """The reason says what to pass instead: it has the same memory."""
    buffer = array.array("d", range(8))
    function = fuser.fuse(lambda x: np.exp(np.asarray(x)) * 2, fallback="allow")
    for given in (buffer, memoryview(buffer)):
        for buffer[0] in (1.0, 2.0):
            np.testing.assert_array_equal(function(given), function.__wrapped__(given))
        assert {"numpy.asarray" in each.found for each in function.fallbacks} == {True}
    assert [each.operation for each in function.fallbacks] == ["array", "memoryview"]
    assert "not fused" not in str(function.explain(np.asarray(buffer)))


def _reads(x: Any, scale: float = 2.0) -> Any:
    total = np.exp(x) + np.multiply(x, scale)
    x = np.asarray(x)
    return total + x * x, x


def _changes(x: Any) -> None:
    """Nothing else reads it."""
    x = np.asarray(x)
    x[1:] *= 2


def _measures(x: Any) -> Any:
    return np.exp(x) + len(x)


def _keeps(x: Any) -> Any:
    copy = x
    return np.exp(x), copy


def _multiplies(x: Any) -> Any:
    return np.add(x, 1) + x[0] * 2


def _renames_late(x: Any) -> Any:
    if np.sum(np.asarray(x)) > 0:
        x = np.asarray(x)
    return x * 2


def _looks_around(x: Any) -> Any:
    return np.exp(x) + locals()["x"][0]


MADE: dict[str, Any] = {
    "array": lambda: array.array("d", range(8)), "bytearray": lambda: bytearray(range(8)),
    "memoryview": lambda: memoryview(array.array("i", range(8)))[::2],
    "0-d": lambda: np.array(2.0).data, "2-d": lambda: np.ones((3, 4)).data,
}  # fmt: skip


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("function", [_reads, _changes])
def test_buffers_that_numpys_functions_alone_read_are_not_copied(function: Any, made: str) -> None:
    """Kernels read and write their memory; nothing holds it afterwards."""
    fused = fuser.fuse(function, fallback="error")
    if (made, function) == ("0-d", _changes):
        return  # it raises
    for _ in range(3):
        own, plain = MADE[made](), MADE[made]()
        found, wanted = fused(own), function(plain)
        assert bytes(own) == bytes(plain)
        for place in range(len(found or ())):
            np.testing.assert_allclose(found[place], wanted[place], rtol=1e-14)
            assert type(found[place]) is type(wanted[place])
            assert found[place].dtype == wanted[place].dtype
        assert found is None or np.shares_memory(found[1], own)
    assert "not fused" not in str(fused.explain(MADE[made]()))
    del found
    if isinstance(own, array.array):
        own.append(1.0)


@pytest.mark.parametrize(
    "function", [_measures, _keeps, _multiplies, _renames_late, _looks_around]
)
def test_buffers_that_something_else_reads_are_left_as_they_are(
    function: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plain function gets them, or raises, however large they are."""
    monkeypatch.setattr("fuser.calls.wrapped_arrays._LEAST", 0)
    fused = fuser.fuse(function, fallback="allow")
    for kind in (lambda made: made, memoryview):
        given = kind(array.array("d", [1.0, 2.0, 3.0]))
        told = []
        for called in (function, fused):
            try:
                told.append(str(called(given)))
            except TypeError as error:
                told.append(str(error))
        assert told[0] == told[1]
    assert fused.fallbacks


def test_small_buffers_are_numpys() -> None:
    """Their calls would take longer to begin than NumPy takes."""
    fused = fuser.fuse(_reads, fallback="allow")
    small, large = array.array("d", [0.5] * 8), array.array("d", [0.5] * (1 << 16))
    for own in (large, small):
        np.testing.assert_allclose(fused(own)[0], _reads(own)[0])
        assert ("not fused" in str(fused.explain(own))) == (own is small)
    assert [reason.code for reason in fused.fallbacks] == ["unsupported-array"]


def test_array_api_compat() -> None:
    """Its namespace for NumPy is NumPy's functions; what looks for it sees arrays."""
    xp = pytest.importorskip("array_api_compat.numpy", reason="not installed: pip install it")
    import array_api_compat

    fused = fuser.fuse(lambda x: xp.mean(xp.std(x, axis=0)) + xp.concat([x, x]))
    np.testing.assert_allclose(fused(X), np.mean(np.std(X, axis=0)) + np.concat([X, X]))
    assert fused.fallbacks == []
    try:
        array_api_compat.array_namespace(X, 1.0)
    except TypeError:  # older ones take arrays alone, and ask all packages that there are
        return
    looks = fuser.fuse(lambda x: array_api_compat.array_namespace(x, 1.0).exp(x) * 2)
    np.testing.assert_allclose(looks(X), np.exp(X) * 2)
    asks = fuser.fuse(lambda x: x * 2 + 1 if array_api_compat.is_numpy_array(x) else x)
    np.testing.assert_array_equal(asks(X), X * 2 + 1)
    assert looks.fallbacks == asks.fallbacks == []
