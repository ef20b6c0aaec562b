"""Every peer runs NumPy's own formulas, gives their results, and says what it cannot take."""

import tomllib
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

import fuser
from fuser.suites import runners
from fuser.suites.checks.verify import compare, other_dtypes, reference
from fuser.suites.families.elementwise import axpy
from fuser.suites.families.must_refuse import newton_until_converged
from fuser.suites.formula import Rebuilding
from fuser.suites.peers import numexpr_runner
from fuser.suites.registry import resolve
from fuser.suites.runners import NotExpressibleError
from tests.suites import cheats

SLOW_TO_START = ("jax", "torch")
PEERS = [
    pytest.param(name, marks=pytest.mark.filterwarnings("ignore")) for name in runners.PEERS
]


@pytest.fixture
def peer(request: pytest.FixtureRequest) -> runners.Runner:
    """The runner of a peer that is installed."""
    runner = runners.load(runners.PEERS[request.param])
    if (reason := runner.unavailable()) is not None:
        pytest.skip(reason)
    return runner


@pytest.mark.parametrize("peer", PEERS, indirect=True)
def test_a_peer_gives_numpys_result(peer: runners.Runner) -> None:
    """axpy has a number among its arguments; results have NumPy's dtypes and values."""
    peer.start()
    workload = resolve("axpy")
    arguments = workload.inputs(1000, "float32", 0)
    call = peer.prepare(workload.function, arguments)
    given = peer.accept(arguments)
    result = call(*given)
    expected = reference(workload, arguments)
    assert other_dtypes(result, expected) is None
    assert not compare(result, expected, workload.tolerance("float32")).problem
    compiled = peer.compiled_kernels()
    call(*given)
    assert peer.compiled_kernels() == compiled
    assert peer.kind == "peer"
    assert peer.own_process


@pytest.mark.parametrize("peer", ["numexpr", "jax"], indirect=True)
def test_what_a_peer_cannot_take_is_said(peer: runners.Runner) -> None:
    """Control flow that reads the data: the row is not run, with the peer's reason."""
    peer.start()
    arguments = (np.ones(10, np.float32),)
    with pytest.raises(runners.NotExpressibleError, match=r"bool|values of arrays"):
        peer.prepare(newton_until_converged, arguments)


def dot(x: Any, y: Any) -> Any:
    """Bears the name of NumPy's function that it calls, as a workload does."""
    return np.dot(x, y)


def down(x: Any) -> Any:
    """Calls itself."""
    return down(x - 1) if np.max(x) > 0 else x


def test_a_function_is_copied_whatever_its_name() -> None:
    """An attribute of that name is no call of itself; a real one is refused with the reason."""
    x = np.arange(3.0)
    assert Rebuilding().copy(dot, lambda same: same)(x, x) == 5.0
    with pytest.raises(NotExpressibleError, match="down calls itself"):
        Rebuilding().copy(down, lambda same: same)


def test_an_absent_peer_says_what_to_install() -> None:
    """The reason names the command."""

    class Absent(runners.Runner):
        """A runner of two modules, one of which is there."""

        needs = MappingProxyType({"numpy": "numpy", "nosuchmodule": "nosuch"})

    assert Absent().unavailable() == "nosuchmodule is not installed: pip install nosuch"
    assert runners.Runner().unavailable() is None


def test_entry_points_are_the_table() -> None:
    """What pyproject.toml declares is what a checkout without installation uses."""
    project = Path(fuser.__file__).parents[1] / "pyproject.toml"
    if not project.is_file():
        pytest.skip("installed: no pyproject.toml")
    declared = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["entry-points"]
    assert declared[runners.ENTRY_POINTS] == dict(runners.PEERS)


def _spelled(function: Any, *arguments: Any) -> tuple[str, dict[str, Any]]:
    return numexpr_runner.expression(fuser.trace(function, *arguments))


def test_numexpr_gets_one_expression() -> None:
    """Whole numbers stand in the text; others are named, in the array's dtype."""
    x = np.ones(5, np.float32)
    assert _spelled(axpy, 2.5, x, x) == ("((s0 * x0) + x1)", {})
    text, constants = _spelled(lambda a: np.maximum(2 * a - 0.5, 0), x)
    assert text == "where(((2 * x0) - c0) > 0, ((2 * x0) - c0), 0)"
    assert constants == {"c0": np.float32(0.5)}
    assert constants["c0"].dtype == np.float32


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda a: (a + 1, a - 1), "2 results"),
        (lambda a: a[1:] + a[:-1], "index"),
        (lambda a: a % 2, "remainder"),
        (resolve("cos_sin_chain").function, "longer than"),
    ],
)
def test_numexpr_refuses_with_the_reason(function: Any, reason: str) -> None:
    """Several results, views, what it has no form of, and expressions that explode."""
    with pytest.raises(runners.NotExpressibleError, match=reason):
        _spelled(function, np.ones(5, np.float32))


def test_numbas_messages_are_one_plain_line() -> None:
    """Without colours and without the line that every message starts with."""
    error = ValueError("Failed in nopython mode pipeline (step: x)\n\x1b[1m\x1b[1mno such\x1b[0m\n")
    assert runners.first_line(error) == "no such"
    assert runners.first_line(ValueError()) == "ValueError"


def test_what_a_peer_cannot_take_is_not_run() -> None:
    """Neither failed nor wrong: the harness lists it with the reason."""
    from fuser.suites.local import measure_here
    from fuser.suites.plan import VariantPlan

    variants = [
        VariantPlan("refusing", cheats.spec(cheats.Refusing), "peer"),
        VariantPlan("widening", cheats.spec(cheats.Widening), "peer"),
    ]
    runs = measure_here(cheats.DOUBLE, 64, variants).runs
    assert [(each.status, each.reason) for each in runs] == [
        ("not_run", "no form of sort"),
        ("not_run", "widening means another type: output 0: float64, NumPy gives float32"),
    ]


def test_a_peer_gets_its_own_arrays_outside_of_timing() -> None:
    """Converted once, and again when the values change: the checks still see fresh ones."""
    from fuser.suites.local import measure_here
    from fuser.suites.plan import VariantPlan

    cheats.Converting.converted = 0
    variants = [VariantPlan("converting", cheats.spec(cheats.Converting), "peer")]
    run = measure_here(cheats.DOUBLE, 64, variants).runs[0]
    assert (run.status, run.reason) == ("ok", "")
    assert 3 <= cheats.Converting.converted < 40
