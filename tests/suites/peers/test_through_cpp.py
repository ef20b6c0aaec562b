"""Compilers that go through C++: what they are given, and what they give where they are there."""

from pathlib import Path

import numpy as np
import pytest

from fuser.suites import runners
from fuser.suites.checks.verify import compare, reference
from fuser.suites.formula import loaded, module_text
from fuser.suites.registry import program_workloads, resolve
from fuser.suites.runners import NotExpressibleError


def test_a_program_is_a_module_of_its_own(tmp_path: Path) -> None:
    """Its source without types, with the numbers of its module; it gives the same."""
    work = resolve("equalised")
    text = module_text(work.function)
    assert "LEVELS = 256" in text
    assert "Array" not in text
    path = tmp_path / "alone.py"
    path.write_text(text, encoding="utf-8")
    given = work.inputs(600, "float64", 0)
    found = loaded("alone", path).equalised(*given)
    np.testing.assert_array_equal(found, work.function(*given))


def test_every_program_can_be_given_so() -> None:
    """They use nothing of their modules but NumPy and numbers; one that does is refused."""
    for work in program_workloads().values():
        assert module_text(work.function).startswith("import numpy as np\n")
    with pytest.raises(NotExpressibleError, match="of its module"):
        module_text(resolve("black_scholes").function)


@pytest.mark.parametrize("name", runners.THROUGH_CPP)
def test_a_compiler_gives_numpys_result(name: str) -> None:
    """A loop over time; where it is not installed, it says what to install."""
    runner = runners.load(runners.specs()[name])
    if reason := runner.unavailable():
        assert "pip install" in reason
        pytest.skip(reason)
    runner.start()
    work = resolve("jacobi_2d")
    given = work.inputs(100, "float64", 0)
    found = runner.prepare(work.function, given)(*runner.accept(given))
    assert not compare(found, reference(work, given), work.tolerance("float64", 100)).problem
