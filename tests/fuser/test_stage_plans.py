"""One plan for a stage's graph and what a backend can do: made before the stage's first launch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fuser
from fuser import compiler, executor
from fuser.backend import get_backend
from fuser.scheduling import schedule


def phased(x: Any) -> Any:
    """Complex values between real ones, which the CPU computes in parts."""
    return np.abs(np.exp(x * 1j) + 1)


def spread(x: Any) -> Any:
    """A reduction of reductions, which the GPU takes two kernels for."""
    return x.max(-1).sum()


@pytest.mark.parametrize("function", [phased, spread])
@pytest.mark.parametrize("backend", ["cpu", "gpu"])
def test_a_plan_is_made_once_for_a_backend(function: Any, backend: str) -> None:
    """Asked again, it is the same object; what a backend can do all of keeps the first plan."""
    spec = compiler.compile_upfront(fuser.trace(function, np.ones((3, 4))))
    one = compiler.planned(spec, get_backend(backend))
    assert compiler.planned(spec, get_backend(backend)) is one
    able = get_backend(backend).capabilities
    assert one.in_parts == (function is phased and not able.complex_values)


@pytest.mark.parametrize("function", [phased, spread])
def test_execute_plans_nothing(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every plan is there when a stage is launched: of a function's, a graph's, a program's."""
    x = np.linspace(-1, 1, 12).reshape(3, 4)

    def program(x: Any) -> Any:
        return function(np.sort(function(x[None]) + x, -1))

    running: list[bool] = []
    plan, execute = schedule.plan, executor.execute

    def noted(*args: Any, **kwargs: Any) -> Any:
        assert not running, "planned while a stage runs"
        return plan(*args, **kwargs)

    def marked(*args: Any, **kwargs: Any) -> Any:
        running.append(True)
        try:
            return execute(*args, **kwargs)
        finally:
            running.pop()

    monkeypatch.setattr(schedule, "plan", noted)
    monkeypatch.setattr(executor, "execute", marked)
    fuser.clear_caches()
    found = fuser.fuse(function, fallback="error")(x)
    assert np.allclose(found, function(x), rtol=1e-12)
    found = fuser.fuse(program, fallback="allow")(x)
    assert np.allclose(found, program(x), rtol=1e-12)
    fuser.clear_caches()
    graph = fuser.trace(function, x)
    (found,) = fuser.run_fusion(fuser.register_fusion(graph), (x,))
    assert np.allclose(found, function(x), rtol=1e-12)
    (found,) = fuser.debug_launch_graph(graph, (x,))
    assert np.allclose(found, function(x), rtol=1e-12)
