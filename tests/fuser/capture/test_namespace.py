"""Arrays made inside a fused function from traced lengths and arrays."""

from typing import Any

import numpy as np
import pytest
from numpy import zeros as made_of_zeros

import fuser
from tests.fuser.comparing import assert_same

CHANCE = np.random.default_rng(5)
X = CHANCE.integers(-5, 6, (6, 4)).astype(np.float32)
COUNT = 0


def sums(x: Any) -> Any:
    """The usual accumulator."""
    total = np.zeros(x.shape[0], np.float32)
    total += x.sum(1)
    return total


def enclosing() -> Any:
    """NumPy as a closure's variable."""
    import numpy

    def inner(x: Any) -> Any:
        result = numpy.ones(x.shape)
        np.multiply(x, 2, out=result)
        return result

    return inner


class Model:
    """A function that is a method."""

    def run(self, x: Any) -> Any:
        """With a helper."""
        return sums(x) * 2


def orbits(a: Any, b: Any) -> Any:
    """A counter in a loop: which points stay near (the Mandelbrot set)."""
    real, imaginary, count = a * 0, b * 0, np.zeros(a.shape, np.int32)
    for _ in range(5):
        real, imaginary = real * real - imaginary * imaginary + a, 2 * real * imaginary + b
        count += real * real + imaginary * imaginary < 4
    return count


FUSED: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "zeros": (sums, (X,)),
    "helper": (lambda x: sums(x) + sums(x * 2), (X,)),
    "method": (Model().run, (X,)),
    "closure": (enclosing(), (X,)),
    "another name": (lambda x: made_of_zeros((2, x.shape[1])) + x[:2], (X,)),
    "loop": (orbits, (X / 4, X[::-1] / 4)),
    "ones and full": (lambda x: np.ones(x.shape, x.dtype) + np.full(x.shape[1], 2) + x, (X,)),
    "full of a scalar": (lambda x, s: np.full(x.shape[0], s) + x[:, 0], (X, 2.5)),
    "empty": (lambda x: (lambda o: (np.add(x, 1, out=o), o)[1])(np.empty(x.shape, x.dtype)), (X,)),
    "returned": (lambda x: (np.zeros(x.shape), np.ones(x.shape[::-1], np.int8), x + 1), (X,)),
    "sizes computed": (lambda x: np.zeros(x.shape[0] * 2 + 1) + 1 + x[0, 0], (X,)),
    "zeros of len": (lambda x: (lambda o: (o.__setitem__(slice(1, -1), x[2:, 0]), o)[1])(
        np.zeros(len(x))), (X,)),
    "asarray": (lambda x: np.asarray(x) * np.asarray(x, np.float64), (X,)),
    "array": (lambda x: np.array(x) + np.array(x, np.float64) + np.array(x, copy=True), (X,)),
    "array of rows": (lambda x: np.array([x[0], x[1] * 2]), (X,)),
    "array of numbers": (lambda x: np.array([[x[0, 0], x[0, 1]], [x[1, 0], -x[1, 1]]]), (X,)),
    "ascontiguousarray": (lambda x: np.ascontiguousarray(x.T) * 2, (X,)),
    "ascontiguousarray alone": (lambda x: np.ascontiguousarray(x.T[::2]), (X,)),
}


@pytest.mark.parametrize("mode", ["fused", "fallback"])
@pytest.mark.parametrize("name", FUSED)
def test_made_inside_and_right(name: str, mode: str) -> None:
    """No fallback; dtype, shape and memory order are NumPy's."""
    function, args = FUSED[name]
    assert_same(function, *args, mode=mode)


def test_lengths_stay_symbolic() -> None:
    """Other sizes are the same kernel, and no guard names a size."""
    fused = fuser.fuse(sums, fallback="error")
    fused(X)
    before = fuser.n_compiled_kernels()
    for size in range(2, 20):
        np.testing.assert_array_equal(fused(np.ones((size, 3), np.float32)), np.full(size, 3))
    assert fuser.n_compiled_kernels() == before


def test_len_stays_symbolic() -> None:
    """As `x.shape[0]` does; of what is not traced it is Python's."""
    fused = fuser.fuse(lambda x: x.sum() / len(x) + len([1, 2]) + len("abc"), fallback="error")
    fused(np.ones(7))
    before = fuser.n_compiled_kernels()
    for size in range(2, 20):
        assert fused(np.ones(size)) == 6
    assert fuser.n_compiled_kernels() == before
    assert_same(lambda x: [len(x), range(len(x)), len(x) // 2, isinstance(len(x), int)], X)
    assert_same(lambda x: len(x[0, 0]), X, fallback="allow")
    assert_same(lambda x: len(x.sum()), X, fallback="allow")


def test_what_is_made_without_arguments_is_numpys() -> None:
    """Fixed lengths, other dtypes and other forms of the call."""

    def function(x: Any) -> Any:
        weights = np.zeros(3)
        weights[1] = 2
        good = [
            type(weights) is np.ndarray,
            np.zeros((2, 2), order="F").flags.f_contiguous,
            np.array([1, 2]).sum() == 3,
            np.full(2, 7).tolist() == [7, 7],
        ]
        if not all(good):
            raise ValueError(good)
        return x * float(weights[1]) + np.asarray([1, 2, 3, 4])

    assert_same(function, X)


def test_the_module_is_otherwise_numpy() -> None:
    """Every other name is NumPy's own object."""

    def function(x: Any) -> Any:
        if np.float32 is not x.dtype.type or np.linalg.norm(np.array([3.0, 4.0])) != 5:
            raise ValueError("another module")
        return x + np.pi

    assert_same(function, X)


def counting(x: Any) -> Any:
    """Writes a global: its own globals stay in place."""
    global COUNT
    COUNT += 1
    return x + np.ones(4)


def test_functions_that_write_globals_are_not_copied() -> None:
    """Their writes arrive."""
    before = COUNT
    fuser.fuse(counting, fallback="allow")(X)
    assert before < COUNT


@pytest.mark.parametrize("shape", [-1, (2, -3)])
def test_negative_lengths_are_numpys_error(shape: Any) -> None:
    """A ValueError, as without fusing."""
    assert_same(lambda x: np.zeros(x.shape[0] * shape if type(shape) is int else shape) + 1, X)


def test_local_functions_that_call_themselves_or_each_other_are_traced() -> None:
    """Their cells lead back to them."""

    def power(x: Any, n: int) -> Any:
        return np.ones(x.shape) if n == 0 else power(x, n - 1) * x

    def even(x: Any, n: int) -> Any:
        return x if n == 0 else odd(x + 1, n - 1)

    def odd(x: Any, n: int) -> Any:
        return -x if n == 0 else even(x * 2, n - 1)

    x = np.arange(4.0)
    for number in (2, 3):
        fused = fuser.fuse(lambda x, n=number: power(x, n) + even(x, n), fallback="error")
        assert fused(x).tolist() == (x**number + even(x, number)).tolist()


def _of_the_class(x: Any) -> Any:
    """An array of a traced length, and one of stated lengths, by NumPy's class."""
    y = np.ndarray(x.shape, dtype=x.dtype)
    y[:] = x * 2
    z = np.ndarray((len(x), 2), np.float32, order="C")
    z[:, 0], z[:, 1] = y, x
    return y, z


def _asked_for_the_class(x: Any) -> Any:
    """The class is the class where it is no maker."""
    y = np.ndarray(x.shape)
    y[...] = x + 1
    return y if isinstance(y, np.ndarray) and type(x) is np.ndarray and np.ndarray is type(x) else x


@pytest.mark.parametrize("function", [_of_the_class, _asked_for_the_class])
def test_the_class_of_arrays_is_a_maker_where_it_is_called(function: Any) -> None:
    """As np.empty; comparisons and isinstance see NumPy's class."""
    x = np.arange(8.0)
    found, wanted = fuser.fuse(function, fallback="error")(x), function(x)
    pairs = zip(found, wanted, strict=True) if type(wanted) is tuple else [(found, wanted)]
    for one, other in pairs:
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype


def test_other_uses_of_the_class_are_numpys() -> None:
    """With a buffer, or by another name."""

    def seen(x: Any) -> Any:
        make = np.ndarray
        return make(x.shape).shape, np.ndarray(4, np.float64, bytearray(32)) * 2

    shape, zeros = fuser.fuse(seen, fallback="allow")(np.arange(8.0))
    assert shape == (8,)
    np.testing.assert_array_equal(zeros, np.zeros(4))


WIDE, NARROW = np.float64, np.float32


def _numbers_called(x: Any) -> Any:
    """Arrays and elements as other numbers, by classes of NumPy's and by global names."""
    total = np.float32(0)
    for k in range(len(x)):
        total += NARROW(x[k])
    return np.uint8(x * 3), WIDE(x), np.complex64(x) * 1j, np.int64(x.sum()), np.bool_(x), total


def _numbers_asked(x: Any) -> Any:
    """Classes are themselves where they are not called; lists and numbers are NumPy's."""
    same = x.dtype == NARROW or x.dtype.type is WIDE or isinstance(x[0], np.int32)
    return x * NARROW(0.5) + np.float64([1, 2, 3, 4]), np.zeros(4, NARROW), same


@pytest.mark.parametrize("function", [_numbers_called, _numbers_asked])
@pytest.mark.parametrize("dtype", ["int32", "float32", "float64"])
def test_classes_of_numbers_convert_arrays_where_they_are_called(function: Any, dtype: str) -> None:
    """They give what NumPy's give: arrays, numbers of arrays without axes, or the array itself."""
    x = np.arange(4).astype(dtype)
    for found, wanted in zip(fuser.fuse(function, fallback="error")(x), function(x), strict=True):
        assert type(found) is type(wanted)
        assert np.asarray(found).dtype == np.asarray(wanted).dtype
        np.testing.assert_array_equal(found, wanted)
        assert (found is x) == (wanted is x)


SIZE, KIND, BOX = len, type, [len]


@pytest.mark.parametrize(
    "function",
    [
        lambda x, other: (x + 1, len, type, [len]),
        lambda x, other: x + 1 if SIZE is len else x - 1,
        lambda x, other: x + 1 if other is len else x - 1,
        lambda x, other: x + 1 if BOX[0] is len else x - 1,
        lambda x, other: x + 1 if KIND(x) is np.ndarray else x - 1,
        lambda x, other: x + SIZE(x),
    ],
)
def test_built_in_functions_are_themselves(function: Any) -> None:
    """As results, and where code asks which function something is."""
    fused, x = fuser.fuse(function, fallback="allow"), np.arange(4.0)
    for _ in range(3):
        found, wanted = fused(x, len), function(x, len)
        if type(wanted) is tuple:
            assert found[1:] == wanted[1:]
            found, wanted = found[0], wanted[0]
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("compares", ["act is sums", "act == sums", "act in (sums, None)"])
def test_a_function_that_is_an_argument_is_the_one_that_a_name_leads_to(compares: str) -> None:
    """While the function is traced, both are the same copy."""
    space = {"sums": sums, "np": np}
    exec(f"def plain(x, act):\n    return act(x) * 2 if {compares} else x", space)
    plain: Any = space["plain"]
    fused = fuser.fuse(plain, fallback="error")
    for act in (sums, np.negative, sums):
        assert np.array_equal(fused(X, act), plain(X, act))
