"""Arguments in a device's memory that the host's dispatcher compares: what it serves, and what not.

Once over the double's arrays, which lie in memory as CuPy's do; and, where CuPy is installed, over
its own arrays, on memory of the host: that takes no device.
"""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backends.gpu import array_fields, c_functions
from tests.backends.gpu import fake_cupy
from tests.requirements import find, needs_native_entry

pytestmark = needs_native_entry
X = np.random.default_rng(5).normal(size=(9, 40)).astype(np.float32)

cupy = fake_cupy.for_a_file()


def served(fused: Any, *arguments: Any, **keywords: Any) -> bool:
    """Whether the dispatcher serves a call; its result is right in any case."""
    before = 0 if fused._native is None else fused._native.hits
    found = fused(*arguments, **keywords)
    plain = fused.__wrapped__(*arguments, **keywords)
    np.testing.assert_array_equal(found.get(), plain.get())
    assert (found.dtype, found.shape) == (plain.dtype, plain.shape)
    assert found.strides == plain.strides or not found.size
    return fused._native is not None and fused._native.hits == before + 1


def test_fields_are_found_in_arrays(cupy: Any) -> None:
    """Four places within an array, two within its pointer; and CuPy's functions."""
    fields = array_fields.array_fields()
    assert fields is not None
    places = {"dtype", "lengths", "strides", "data", "address", "number"}
    assert len({fields[name] for name in ("dtype", "lengths", "strides", "data")}) == 4
    assert fields.keys() == places | c_functions.FUNCTIONS.keys() | {"array"}


def test_other_layouts_are_not_known(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A class that keeps its lengths elsewhere is compared in Python."""
    monkeypatch.setattr("tests.backends.gpu.fake_arrays.lay_out", lambda *_: None)
    assert array_fields.array_fields.__wrapped__() is None  # type: ignore[attr-defined]


def test_functions_of_other_signatures_are_not_called(
    cupy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arguments are compared natively, and Python launches."""
    module, function, _ = c_functions.FUNCTIONS["launch"]
    monkeypatch.setitem(c_functions.FUNCTIONS, "launch", (module, function, "int (void)"))
    monkeypatch.setattr(c_functions, "functions", c_functions.functions.__wrapped__)
    found = array_fields.array_fields.__wrapped__()  # type: ignore[attr-defined]
    assert found.keys() == array_fields.array_fields().keys() - c_functions.FUNCTIONS.keys()
    monkeypatch.setattr(array_fields, "array_fields", lambda: found)
    fused, x = fuser.fuse(lambda x: x * 3, fallback="error"), cupy.asarray(X)
    launch, launched = cupy.cuda.driver.launchKernel, []
    monkeypatch.setattr(cupy.cuda.driver, "launchKernel",
                        lambda *given: launched.append(sys._getframe(1).f_code) or launch(*given))
    for _ in range(3):
        fused(x)
    assert served(fused, x)
    assert launched[-1].co_name == "straight_call"


@pytest.mark.parametrize("home", ["cuda.driver.launchKernel", "cuda.alloc", "ndarray"])
def test_errors_of_what_is_called_are_raised(
    cupy: Any, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By whichever function; what has been made by then is given back, and the next call runs."""
    fused, x = fuser.fuse(lambda x: x.var(-1).sum(), fallback="error"), cupy.asarray(X)
    for _ in range(3):
        served(fused, x)
    used, launches = cupy.get_default_memory_pool().used_bytes(), fuser.stats()["launches"]

    def fail(*_: Any) -> None:
        raise MemoryError("all of it is in use")

    with monkeypatch.context() as patch:
        *path, name = home.split(".")
        if path:
            patch.setattr(functools.reduce(getattr, path, cupy), name, fail)
        else:
            patch.setattr(cupy.ndarray, "__init__", fail)
        with pytest.raises(MemoryError, match="in use"):
            fused(x)
    assert cupy.get_default_memory_pool().used_bytes() == used
    assert fuser.stats()["launches"] == launches
    assert served(fused, x)


def test_calls_are_served_by_what_their_arguments_are(cupy: Any) -> None:
    """Each length, layout and dtype has its own function; others are looked at by Python once."""
    fused = fuser.fuse(lambda x, s: x * s, fallback="error")
    kinds = (X, X[:3], X.T, X.astype(np.float64), X[:, ::2], X[0], X[0, 0, None])
    for x in kinds:
        given = cupy.asarray(x)
        assert not served(fused, given, 2.5)
        assert served(fused, given, 2.5)
        assert served(fused, cupy.asarray(x.copy("K")), 3.5)
        assert not served(fused, given, 3)  # of a number of another type, too
        assert served(fused, given, 4)


def test_the_same_memory_in_another_shape_is_another_argument(cupy: Any) -> None:
    """Ranks, lengths and strides are all compared."""
    fused = fuser.fuse(lambda x: x - x[0], fallback="error")
    x = cupy.asarray(X)
    for _ in range(2):
        for view in (x, x.reshape(40, 9), x.reshape(-1), x[:, :1], x[::2], x[::-1]):
            served(fused, view)
    assert all(served(fused, view) for view in (x, x.reshape(40, 9), x.reshape(-1), x[::-1]))


def test_keywords_and_containers_are_compared_too(cupy: Any) -> None:
    """Where they were a longer way before."""
    fused = fuser.fuse(lambda of, scale=1.0: of["a"] * scale + of["b"][0], fallback="error")
    x, y = cupy.asarray(X), cupy.asarray(X[0])
    for scale in (2.0, 3.0, 4.0):
        found = served(fused, {"a": x, "b": [y]}, scale=scale)
    assert found
    assert not served(fused, {"a": y, "b": [x]}, scale=2.0)
    assert served(fused, {"a": y, "b": [x]}, scale=2.0)
    assert served(fused, {"a": x, "b": [y]}, scale=5.0)


def test_arrays_to_write_into_are_compared_too(cupy: Any) -> None:
    """Apart from the arguments and in place; across them Python looks, and a copy is made."""
    fused = fuser.fuse(lambda x, y, s=1.0: x * 2 + y * s, fallback="error")
    memory, y = cupy.asarray(np.arange(100, dtype=np.float32)), cupy.asarray(X[0])
    x = memory[:40]
    outs = (memory[40:80], x, memory[60:], cupy.empty(40, np.float32), memory[20:60], x)
    for turn in range(3):
        for k, out in enumerate(outs):
            wanted = x.get() * 2 + X[0]
            before = fused._native.hits if fused._native else 0
            assert fused(x, y, out=out) is out
            np.testing.assert_array_equal(out.get(), wanted)
            if turn and k != 4:
                assert fused._native.hits == before + 1
    for turn in range(3):
        assert fused(x, y=y, s=2.0, out=outs[3]) is outs[3]
        np.testing.assert_array_equal(outs[3].get(), x.get() * 2 + X[0] * 2)
        assert turn < 2 or fused._native.hits > before + 1


_FACTOR = 2.0


def test_names_and_settings_are_compared_too(cupy: Any) -> None:
    """A call is served as long as what the function reads is as it was."""
    global _FACTOR
    fused = fuser.fuse(lambda x: x * _FACTOR, fallback="error")
    x = cupy.asarray(X)
    try:
        for factor in (2.0, 3.0, 2.0):
            _FACTOR = factor
            for _ in range(3):
                found = served(fused, x)
            assert found
    finally:
        _FACTOR = 2.0
    launches = fuser.stats()["launches"]
    assert served(fused, x)
    assert fuser.stats()["launches"] == launches + 1
    with fuser.profile():
        assert not served(fused, x)
    served(fused, x)
    assert served(fused, x)


def test_a_call_on_another_device_is_looked_at(cupy: Any) -> None:
    """The function that serves asks which device is current."""
    fused = fuser.fuse(lambda x: x + 1, fallback="error")
    x = cupy.asarray(X)
    served(fused, x)
    assert served(fused, x)
    with cupy.cuda.Device(1):
        assert fused(x).device_id == 0
        y = cupy.asarray(X)
        for _ in range(2):
            assert fused(y).device_id == 1
    assert served(fused, x)


def test_cupys_own_arrays() -> None:
    """They are laid out as the double's are, and calls of them are served."""
    if find("cxx") is None:
        pytest.skip("no C++ compiler on the PATH: apt install g++")
    script = Path(__file__).with_name("cupys_own_arrays.py")
    found = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=300,
    )
    if found.returncode == 77:
        pytest.skip(found.stdout.strip())
    assert found.returncode == 0, found.stdout + found.stderr
