"""The native call of a loop over elements: what it compares, puts back, and gives."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.backend import MISSED, CompileError
from fuser.backends.cpu import element_kernels, element_loops
from fuser.backends.cpu.element_kernels import ElementKernel
from fuser.base import config
from fuser.element_loops.region import CONTIGUOUS, ROWS, STRIDED
from fuser.element_loops.translate import translated
from tests.fuser.comparing import faults, same

_SCALE = "for i in range(len(x)):\n    x[i] = x[i] * a + y[i + first]"
_NAMES = ("x", "float64[1]"), ("y", "float64[1]"), ("a", "pyfloat"), ("first", "pyint")


def _kernel(restored: tuple[int, ...] = (0,), lies: str = CONTIGUOUS) -> Any:
    code, _ = translated(_SCALE, _NAMES, ())
    double = np.dtype(np.float64)
    return ElementKernel(code).native([(double, lies), (double, lies)], restored, bool(restored))


def _flipped(x: Any) -> Any:
    return x.view(x.dtype.newbyteorder()).byteswap()


@pytest.mark.parametrize("optimised", [True, False])
def test_loops_run_as_they_stand_where_no_test_before_them_holds(
    optimised: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long code of that kind is not optimised, which few calls need: such calls give the same."""
    if not optimised:
        monkeypatch.setattr(element_loops, "OPTIMISED_LINES", 0)
    source = "for i in range(len(x)):\n    x[i] *= 2\n    if at:\n        x[i] += y[i + first]"
    names = (*_NAMES[:2], ("at", "pyint"), ("first", "pyint"))
    kernel = ElementKernel(translated(source, names, ())[0])
    double = np.dtype(np.float64)
    call = kernel.native([(double, CONTIGUOUS), (double, CONTIGUOUS)], (0,), True)
    x, y = np.arange(5.0), np.arange(8.0)
    assert call(x, y, 1, 3) is None
    assert same(x, np.arange(5.0) * 2 + y[3:])
    assert len(kernel.kernels) == 1
    assert call(x, y, 0, 9) is None  # which y never has, and never needs
    assert [each.text("source").count(" optnone ") for each in kernel.kernels] == [
        0, not optimised
    ]  # fmt: skip
    assert same(x, (np.arange(5.0) * 2 + y[3:]) * 2)
    assert call(x, y, 1, 9) is MISSED
    assert same(x, (np.arange(5.0) * 2 + y[3:]) * 2)


@pytest.mark.parametrize("error", [MemoryError, CompileError, KeyboardInterrupt])
def test_loops_that_cannot_be_compiled_when_they_are_needed(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plain function runs in their place, with arrays as they were; Ctrl-C is heard."""
    call, x, y = _kernel(), np.arange(3.0), np.ones(3)
    made = CompileError("compile-error", "") if error is CompileError else error()

    def refused(*_: Any) -> Any:
        raise made

    with monkeypatch.context() as patched:
        patched.setattr(element_kernels.loader, "to_object", refused)
        with pytest.raises(error) if error is KeyboardInterrupt else nullcontext():
            assert call(x, y, 2.0, 1) is MISSED
    assert same(x, np.arange(3.0))
    assert call(x, y, 2.0, 1) is MISSED  # an index is outside
    assert call(x, y, 2.0, 0) is None
    assert same(x, np.arange(3) * 2.0 + 1)


@pytest.mark.parametrize("many", [3, 40_000])
def test_a_run_that_ends_early_puts_back_what_it_wrote(many: int) -> None:
    """An index outside; also where memory for what was there comes from the pool."""
    call, x, y = _kernel(), np.arange(many, dtype=float), np.ones(many)
    assert call(x, y, 2.0, 1) is MISSED
    assert same(x, np.arange(many, dtype=float))
    assert call(x, y, 2.0, 0) is None
    assert same(x, np.arange(many) * 2.0 + 1)


def test_arguments_are_compared() -> None:
    """Whatever the code was not made for is missed, and nothing is written."""
    call, y = _kernel(), np.ones(8)
    room = np.zeros(100, np.uint8)
    misaligned = room[1:65].view(np.float64)
    locked = np.zeros(8)
    locked.flags.writeable = False
    whole = np.zeros(16)
    bad: list[tuple[Any, ...]] = [
        (misaligned, y, 1.0, 0), (locked, y, 1.0, 0), (np.zeros(16)[::2], y, 1.0, 0),
        (np.zeros((8, 1)), y, 1.0, 0), (np.zeros(8, np.float32), y, 1.0, 0),
        (_flipped(np.zeros(8)), y, 1.0, 0), (np.zeros(8).view(np.recarray), y, 1.0, 0),
        (whole[:8], whole[4:12], 1.0, 0), (whole[4:12], whole[:8], 1.0, 0), (y, y, 1.0, 0),
        (np.zeros(8), y, 1, 0), (np.zeros(8), y, np.float32(1), 0), (np.zeros(8), y, "1", 0),
        (np.zeros(8), y, 1.0, 2**41), (np.zeros(8), y, 1.0, -(2**70)), (np.zeros(8), y, 1.0, 0.0),
        (np.zeros(8), y, 1.0), (), (None, y, 1.0, 0), (np.zeros(8), y, 1.0, np.int64(2**50)),
    ]  # fmt: skip
    for given in bad:
        assert call(*given) is MISSED, given
    assert call(np.zeros(8), y, 1.0, 0, 1) is MISSED
    assert not whole.any()
    assert call(np.zeros(8), y, np.float64(1.0), np.int64(0)) is None
    assert call(whole[:8], whole[8:], 1.0, 0) is None
    assert call(np.zeros(0), np.zeros(0), 1.0, 0) is None


def test_strides() -> None:
    """Of any sign; where the last axis has to be contiguous, that is compared."""
    x, y = np.arange(16.0)[::-2], np.arange(20.0)[1::2]
    wanted = x * 2.0 + y[:8]
    assert _kernel((), ROWS)(x, y, 2.0, 0) is MISSED
    assert _kernel((), STRIDED)(x, y, 2.0, 0) is None
    np.testing.assert_array_equal(x, wanted)


def _sums(x: Any, y: Any) -> tuple[Any, ...]:
    count, total, seen = 0, 0.0, False
    for i in range(len(x)):
        count += 1
        total += x[i]
        seen = y[i] > 3
    return count, total, seen, y[0]


def test_results_are_scalars() -> None:
    """None, one, or a tuple; of each dtype."""
    fused = fuser.fuse(_sums, fallback="error")
    for _ in range(3):
        for dtype in (np.float32, np.int8, np.uint64, np.int64):
            x, y = np.arange(5.0), np.arange(5).astype(dtype)
            found, wanted = fused(x, y), _sums(x, y)
            assert [type(each) for each in found] == [type(each) for each in wanted]
            assert found == wanted


def _adds(x: Any, y: Any, n: int) -> None:
    for i in range(n):
        x[i] += y[i]


def test_writes_go_into_arguments() -> None:
    """In place by the short way, whatever is handed in; what raises leaves what NumPy leaves."""
    fused = fuser.fuse(_adds, fallback="allow")
    base = np.zeros(24)
    pairs: list[Callable[[], tuple[Any, Any]]] = [
        lambda: (np.arange(8.0), np.ones(8)),
        lambda: (np.arange(16.0)[::2], np.ones(8)),
        lambda: (np.arange(8.0)[::-1], np.ones(8)),
        lambda: (base[:8], base[4:12]),
        lambda: (base[4:12], base[:8]),
    ]
    for make in pairs:
        for n in (8, 8, 8, 0, 9, 9, 8):
            base[:] = np.arange(24.0)
            ours, other = make()
            kept = base.copy()
            with suppress(IndexError):
                _adds(ours, other, n)
            wanted, wanted_base = ours.copy(), base.copy()
            base[:] = kept
            ours, other = make()
            try:
                fused(ours, other, n)
            except IndexError:
                assert n == 9
            np.testing.assert_array_equal(ours, wanted)
            np.testing.assert_array_equal(base, wanted_base)


def _smooths(x: Any, decay: float) -> tuple[Any, Any]:
    forth = np.empty_like(x)
    forth[:, 0] = x[:, 0]
    for j in range(1, x.shape[1]):
        forth[:, j] = x[:, j] + decay * forth[:, j - 1]
    back = np.zeros_like(x)
    for j in range(x.shape[1] - 2, -1, -1):
        back[:, j] = decay * (x[:, j + 1] + back[:, j + 1])
    return forth, back


@pytest.mark.parametrize("shape", [(3, 5), (40, 300), (0, 4), (1, 1)])
def test_scratch_memory_is_no_operand(shape: tuple[int, ...]) -> None:
    """Rows are computed aside where they may overlap; later calls still take the native way."""
    for lies in ("C", "F"):
        x = np.asarray(np.random.default_rng(0).standard_normal(shape), order=lies)
        fused, before = fuser.fuse(_smooths, fallback="error"), faults()
        for _ in range(3):
            assert same(_smooths(x, 0.6), fused(x, 0.6))
        compiled = fuser.stats().get("kernels", 0)
        assert same(_smooths(x + 1, 0.6), fused(x + 1, 0.6))
        assert fuser.stats().get("kernels", 0) == compiled
        assert faults() == before


def test_scratch_memory_is_as_long_as_its_operands() -> None:
    """Its layout is no argument's; its lengths are those of each call."""
    source = "for i in range(1, len(x)):\n    x[i] = x[i] * a + x[i - 1, ::-1]"
    code, _ = translated(source, (("x", "float64[2]"), ("a", "pyfloat")), ())
    assert len(code.operands) == 1 < len(code.arrays)
    double = np.dtype(np.float64)
    for lies in (CONTIGUOUS, ROWS, STRIDED):
        call = ElementKernel(code).native([(double, lies)], ())
        for shape in ((4, 5), (1, 3), (7, 2), (300, 400)):
            x = np.random.default_rng(0).standard_normal(shape)
            wanted = x.copy()
            for i in range(1, len(x)):
                wanted[i] = wanted[i] * 0.5 + wanted[i - 1, ::-1]
            assert call(x, 0.5) is None
            np.testing.assert_array_equal(x, wanted)


def test_first_and_later_calls_have_one_machine_code() -> None:
    """The first works on copies, later ones in arguments that are put back where a run ends."""
    fused, x = fuser.fuse(_adds, fallback="error"), np.arange(8.0)
    fused(x, np.ones(8), 8)
    compiled = fuser.stats().get("kernels", 0)
    for _ in range(3):
        fused(x, np.ones(8), 8)
    assert fuser.stats().get("kernels", 0) == compiled
    assert same(x, np.arange(4.0, 12.0))
    kernel = ElementKernel(translated(_SCALE, _NAMES, ())[0])
    double, y = np.dtype(np.float64), np.ones(8)
    kinds = [(double, CONTIGUOUS)] * 2
    put_back, left = kernel.native(kinds, (0,), restores=True), kernel.native(kinds, (0,))
    assert len(kernel.kernels) == 1
    first, then = np.ones(8), np.ones(8)
    assert put_back(first, y, 2.0, 1) is MISSED
    assert left(then, y, 2.0, 1) is MISSED
    assert same(first, np.ones(8))
    assert then[0] == 3


def _spins(x: Any) -> None:
    while x[0] < 1e300:
        x[0] = x[0] + 1.0


class _TimeIsUpError(Exception):
    """What a handler raises."""


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="this system has no such signal")
def test_what_a_signal_handler_raises_ends_a_run() -> None:
    """Of any signal; the function is not run again on what has been written."""
    fused = fuser.fuse(_spins, fallback="error")
    for _ in range(3):
        fused(np.full(1, 1e300))
    assert threading.current_thread() is threading.main_thread()

    def up(*_: Any) -> None:
        raise _TimeIsUpError

    old = signal.signal(signal.SIGALRM, up)
    x = np.zeros(1)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(_TimeIsUpError):
            fused(x)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert x[0] > 0


def _leaks(x: Any) -> Any:
    total = 0.0
    for i in range(len(x)):
        total = total * 0.4375 + x[i]
    return total


def test_a_kernel_that_cannot_be_made_is_tried_once(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """The reason says that the mistake is ours; arrays of other lengths do not compile again."""
    tries, count = [], faults()

    def broken(*_: Any) -> str:
        tries.append(1)
        raise RuntimeError("not understood")

    monkeypatch.setattr(element_kernels.element_loops, "emit", broken)
    before = config.change(check=False)
    request.addfinalizer(lambda: config.restore(before))
    fused = fuser.fuse(_leaks, fallback="allow")
    for many in (20, 20, 30, 40):
        x = np.linspace(0, 1, many)
        assert fused(x) == _leaks(x)
    assert len(tries) == 1
    assert {reason.code for reason in fused.fallbacks} == {"internal-error"}
    assert faults() > count
