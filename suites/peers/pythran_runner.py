"""Pythran: the formula's own source, compiled to C++ ahead of time for the types of the arguments.

A module takes about ten seconds, so what was compiled is kept in a folder of temporary files; a
workload that is found there has no first call.
"""

import sys
import tempfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from fuser.suites.formula import loaded, module_text
from fuser.suites.runners import Runner, refusals
from fuser.suites.workload import Arguments

FLAGS = ("-O3", "-march=native", "-fopenmp")
"""Without -ffast-math: results are those of the operations that stand there."""


class PythranRunner(Runner):
    """Compiles the workload's own function."""

    name = "pythran"
    needs = MappingProxyType({"pythran": "pythran"})
    typical_first_call_s = 10.0
    description = f"pythran of the formula, compiled ahead of time with {' '.join(FLAGS)}"

    def prepare(self, function: Callable[..., Any], arguments: Arguments) -> Callable[..., Any]:
        """Return the compiled function.

        Raises:
            NotExpressibleError: Pythran, or the C++ compiler behind it, refuses it.
        """
        import pythran

        types = ", ".join(_spelled(each) for each in arguments)
        text = f"#pythran export {function.__name__}({types})\n{module_text(function)}"
        key = sha256(repr((text, FLAGS, pythran.__version__, sys.version)).encode()).hexdigest()
        name = f"pythran_{key[:16]}"
        path = Path(tempfile.gettempdir()) / "fuser-bench-pythran" / f"{name}.so"
        self.reused = path.exists()
        if not self.reused:
            path.parent.mkdir(exist_ok=True)
            with refusals("pythran", Exception):  # its compilers raise many kinds
                made = pythran.compile_pythrancode(
                    name, text, extra_compile_args=list(FLAGS), extra_link_args=["-fopenmp"]
                )
            Path(made).rename(path)
        compiled: Callable[..., Any] = getattr(loaded(name, path), function.__name__)
        return compiled


def _spelled(argument: Any) -> str:
    """A type as Pythran spells it."""
    if isinstance(argument, np.ndarray):
        return f"{argument.dtype.name}[{','.join(':' * argument.ndim)}]"
    return type(argument).__name__
