"""Complex numbers, of twice the size of the cell's dtype: signals, spectra, iterated maps."""

from typing import Any

import numpy as np

from fuser.suites.workload import Array, Workload, drawn, given, normal

FAMILY = "complex numbers"


def cross_spectrum(x: Array, y: Array) -> Any:
    """One signal's spectrum times the conjugate of another's, with a part of its own added."""
    return x * y.conj() + 0.5j * x


def phase_shift(z: Array, phase: Array) -> Any:
    """Each number turned by an angle (Euler's formula)."""
    return z * np.exp(1j * phase)


def power_spectrum(z: Array) -> Any:
    """Squared magnitudes in decibels."""
    return 10 * np.log10(z.real**2 + z.imag**2 + 1e-6)


def transfer_function(z: Array) -> Any:
    """A filter of second order at points of the plane: a quotient of polynomials."""
    return (1 + 0.4 * z + 0.2 * z * z) / (3 + 0.5j * z - 0.1 * z * z)


def coherence(x: Array, y: Array) -> Any:
    """How alike two signals are over the first axis, from 0 to 1 (Carter, 1987)."""
    cross = (x * y.conj()).mean(0)
    power = (np.abs(x) ** 2).mean(0) * (np.abs(y) ** 2).mean(0)
    return np.abs(cross) ** 2 / power


def _numbers(generator: np.random.Generator, shape: Any, dtype: "np.dtype[Any]") -> Array:
    """Return complex numbers whose parts are standard normal values of a dtype."""
    pairs = normal(generator, (*np.atleast_1d(shape).tolist(), 2), dtype)
    return pairs.view(np.result_type(dtype, np.complex64))[..., 0]


_number = drawn(_numbers)
_window = drawn(_numbers, shape=lambda elements: (32, max(1, elements // 32)))


WORKLOADS = (
    Workload(
        "cross_spectrum", FAMILY, "a spectrum times another's conjugate", cross_spectrum,
        given(_number, _number),
    ),
    Workload("phase_shift", FAMILY, "numbers turned by angles", phase_shift,
             given(_number, drawn(normal))),
    Workload(
        "power_spectrum", FAMILY, "squared magnitudes in decibels", power_spectrum, given(_number),
        tolerance_eps=32,
    ),
    Workload(
        "transfer_function", FAMILY, "a quotient of polynomials", transfer_function,
        given(_number), tolerance_eps=32,
    ),
    Workload(
        "coherence", FAMILY, "how alike two signals are, over windows", coherence,
        given(_window, _window),
        tolerance_eps=64,
    ),
)  # fmt: skip
