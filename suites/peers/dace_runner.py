"""DaCe: the formula as a dataflow graph, optimised automatically and compiled through C++."""

import os
import tempfile
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from fuser.suites.formula import loaded, module_text
from fuser.suites.runners import Runner, refusals
from fuser.suites.workload import Arguments

NEEDED = (
    "dace 'networkx<3.4' aenum astunparse dill fparser mpmath ordered_set packaging ply pyyaml six "
    "sympy"
)
"""Without dependencies: DaCe's own ask for NumPy 1, and it runs with NumPy 2."""


class DaceRunner(Runner):
    """Compiles the workload's own function for the shapes of the arguments."""

    name = "dace"
    needs = MappingProxyType({"dace": f"--no-deps {NEEDED}"})
    typical_first_call_s = 15.0
    description = "dace.program(auto_optimize=True) of the formula, CPU"

    def start(self) -> None:
        """Import DaCe and have it build in a folder of temporary files."""
        import dace

        self.temporary = tempfile.TemporaryDirectory(prefix="fuser-bench-dace-")
        self.folder = Path(self.temporary.name)
        dace.Config.set("default_build_folder", value=str(self.folder))
        dace.Config.set("compiler", "use_cache", value=False)
        dace.Config.set("compiler", "allow_view_arguments", value=True)

    def prepare(self, function: Callable[..., Any], arguments: Arguments) -> Callable[..., Any]:
        """Return the compiled function; a call copies the result, which DaCe writes over.

        Raises:
            NotExpressibleError: DaCe, or the C++ compiler behind it, refuses it.
        """
        import dace

        with (
            refusals("dace", Exception),  # its parser and compilers raise many kinds
            warnings.catch_warnings(), open(os.devnull, "w") as out, redirect_stdout(out),
        ):  # fmt: skip
            warnings.simplefilter("ignore")
            path = self.folder / f"{function.__name__}.py"
            path.write_text(module_text(function), encoding="utf-8")
            plain = getattr(loaded(path.stem, path), function.__name__)
            program: Any = dace.program(auto_optimize=True)(plain)
            compiled = program.compile(*arguments)
            names = program.f.__code__.co_varnames

        def call(*given: Any) -> Any:
            result = compiled(**dict(zip(names, given, strict=False)))
            if isinstance(result, tuple | list):
                return tuple(np.array(each) for each in result)
            return np.array(result)

        return call
