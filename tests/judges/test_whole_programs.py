"""Whole programs, plain and fused, over calls with other sizes and numbers: values, budget, form.

The programs are those of the suites' families and of `kernels.py`. `FORMS` says what each one runs
as, and why; a program may only come to a better form than its own there.
"""

import copy
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
import pytest

import fuser
from fuser.base import budget
from fuser.suites.registry import program_workloads
from fuser.suites.workload import Workload
from tests.judges.kernels import KERNELS

#: The forms from the worst to the best: NumPy runs the call; NumPy's functions run between kernels;
#: kernels, or loops of kernels, are all there is.
RANKS = {"numpy": 0, "calls": 1, "fused": 2}
#: Elements and seeds of the calls: the second differs in values, the others in lengths, too.
CALLS = ((400, 1), (400, 2), (900, 3), (100, 4))
#: Names of numbers that later calls change.
COUNTS = ("steps", "most", "turns", "inner", "bins")

FORMS = {
    "fused": """
        jacobi_1d jacobi_2d heat_2d heat_3d wave_leapfrog fdtd_2d gray_scott game_of_life
        advection_upwind n_body garch exponential_smoothing biquad thomas thomas_columns horner
        logistic_map durbin deriche_rows newton_cube_root floyd_warshall nussinov edit_distance
        lu cholesky trisolv crc16 spmv seidel_2d gram_schmidt masked_mean syrk arc_distance
        embedding_mean line_search azimint_naive cavity_flow channel_flow compute deriche go_fast
        hdiff ludcmp softmax_rows stockham symm syr2k trmm vadv
    """,
    "calls:unsupported-argument": """
        table_lookup mandelbrot_masked mandelbrot_shrinking
    """,
    "calls:unsupported-argument,unsupported-function": """
        equalised scattered_forces lenet
    """,
    "calls:unsupported-dtype,unsupported-function": """
        contour_integral
    """,
    "calls:unsupported-function": """
        conjugate_gradients cumulative_share moving_average drawdown weighted_histogram mlp
        attention_head gelu_block covariance correlation mvt gemver gesummv azimint_hist gemm
        k2mm bodies_energy resnet_block cholesky_rows
    """,
    "numpy:array-conversion": """
        clip_by_norm secant_search
    """,
    "numpy:control-flow": """
        power_iteration jacobi_solver poisson k_means escape_time clipping
    """,
    "numpy:no-gain": """
        adi
    """,
    "numpy:unrolled-loop": """
        convolution doitgen scattering
    """,
    "numpy:unsupported-function": """
        atax bicg k3mm
    """,
}


def _of_the_suites(work: Workload) -> Iterator[tuple[Any, ...]]:
    for elements, seed in CALLS:
        yield work.inputs(elements, work.dtypes[0], seed)


def _of_a_kernel(name: str) -> Iterator[tuple[Any, ...]]:
    for elements, seed in CALLS:
        yield KERNELS[name][1](round(elements**0.5) // 2 + 2, np.random.default_rng(seed))


def _cases() -> dict[str, Any]:
    """The function, what makes the arguments of its calls, and the tolerance, of each program."""
    found: dict[str, Any] = {}
    for name, work in program_workloads().items():
        tolerance = work.tolerance(work.dtypes[0], CALLS[0][0])
        found[name] = work.function, lambda work=work: _of_the_suites(work), tolerance
    for name, (function, _) in KERNELS.items():
        found[name] = function, lambda name=name: _of_a_kernel(name), 1e-11
    return found


CASES = _cases()


class Watched(budget.Budget):
    """A budget that is kept, to see what a call has used."""

    opened: ClassVar[list[budget.Budget]] = []

    def __init__(self, name: str) -> None:
        """Keep it."""
        super().__init__(name)
        Watched.opened.append(self)


def _with_other_counts(function: Callable[..., Any], given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments of which those that count steps are two more."""
    names = function.__code__.co_varnames
    return tuple(
        value + 2 if type(value) is int and name in COUNTS else value
        for name, value in zip(names, given, strict=False)
    )


def _leaves(value: Any) -> list[Any]:
    return [part for each in value for part in _leaves(each)] if type(value) is tuple else [value]


def _assert_alike(found: Any, wanted: Any, tolerance: float) -> None:
    """Kinds, types, shapes; values within the tolerance of the largest, integers equal."""
    assert len(_leaves(found)) == len(_leaves(wanted))
    for ours, right in zip(_leaves(found), _leaves(wanted), strict=True):
        assert type(ours) is type(right)
        if right is None:
            continue
        ours, right = np.asarray(ours), np.asarray(right)
        assert (ours.dtype, ours.shape) == (right.dtype, right.shape)
        if right.dtype.kind in "fc":
            scale = float(np.max(np.abs(right), initial=0.0)) or 1.0
            np.testing.assert_allclose(ours, right, rtol=0, atol=tolerance * scale)
        else:
            np.testing.assert_array_equal(ours, right)


def form_of(found: Any) -> str:
    """What an explanation says that a call runs as: a key of `RANKS`, with the reason."""
    reasons = ",".join(sorted({reason.code for reason in found.fallbacks}))
    if found.ledger is None or not (found.groups or found.loops):
        return f"numpy:{reasons}"
    return f"calls:{reasons}" if found.fallbacks else "fused"


@pytest.mark.parametrize("name", CASES)
def test_a_program_does_what_numpy_does(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In each call; no first call takes more than its budget; its form is no worse than it was."""
    function, arguments, tolerance = CASES[name]
    monkeypatch.setattr(budget, "Budget", Watched)
    Watched.opened = []
    fused = fuser.fuse(function, fallback="allow")
    for number, given in enumerate(arguments()):
        given = _with_other_counts(function, given) if number == 2 else given
        ours = copy.deepcopy(given)
        wanted = function(*given)
        _assert_alike(fused(*ours), wanted, tolerance)
        _assert_alike(ours, given, tolerance)
    for used in Watched.opened:
        for unit, limit in budget.LIMITS.items():
            assert limit - used.left[unit] <= 1.1 * limit, unit
    form = form_of(fused.explain(*next(arguments())))
    was = next(form for form, names in FORMS.items() if name in names.split())
    assert RANKS[form.partition(":")[0]] >= RANKS[was.partition(":")[0]], form


def test_every_program_has_a_form() -> None:
    """The table has each of them once, and none that is gone."""
    assert sorted(name for names in FORMS.values() for name in names.split()) == sorted(CASES)
