"""PyTorch: the formula traced through torch's NumPy support and compiled by torch.compile."""

import shutil
import types
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from fuser.suites.runners import Runner, refusals
from fuser.suites.workload import Arguments

COMPILERS = ("g++", "clang++", "c++")


class TorchRunner(Runner):
    """torch.compile of NumPy code as torch offers it, on tensors, without graph breaks."""

    name = "torch"
    needs = types.MappingProxyType({"torch": "torch"})
    starts = True
    typical_first_call_s = 2.5
    description = "torch.compile(fullgraph=True) of the NumPy formula, inductor, CPU"

    def unavailable(self) -> str | None:
        """Return what to install, or None."""
        if (reason := super().unavailable()) is not None:
            return reason
        if not any(map(shutil.which, COMPILERS)):
            return "torch.compile needs a C++ compiler: apt-get install g++"
        return None

    def prepare(self, function: Callable[..., Any], arguments: Arguments) -> Callable[..., Any]:
        """Return the compiled function, compiled here for these arguments."""
        import torch
        from torch._dynamo.exc import TorchDynamoException

        def compiled() -> Any:
            if not self.reuses:
                torch._dynamo.reset()
            on_tensors = _with_its_own_code(torch.compiler.wrap_numpy(function))
            # another size makes torch compile once more, then for every size at once
            dynamic = None if self.reuses else False
            return torch.compile(on_tensors, fullgraph=True, dynamic=dynamic)

        call = self.once(function, compiled)
        with torch.no_grad(), refusals("torch.compile", TorchDynamoException):
            call(*self.accept(arguments))
        return cast(Callable[..., Any], call)

    def accept(self, arguments: Arguments) -> Arguments:
        """Return tensors on the same memory; what torch cannot view is copied."""
        import torch

        return tuple(
            torch.from_numpy(each if _viewable(each) else each.copy())
            if isinstance(each, np.ndarray)
            else each
            for each in arguments
        )

    def compiled_kernels(self) -> int:
        """Return how many graphs torch has compiled in this process."""
        from torch._dynamo.utils import counters

        return int(counters["stats"]["unique_graphs"])


def _with_its_own_code(function: Any) -> Any:
    """Return a copy with a code object of its own.

    torch counts and looks up what it compiled by code object, and all wrapped functions share one.
    """
    code = function.__code__.replace(co_name=f"{function.__name__}_on_tensors")
    return types.FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )


def _viewable(array: Any) -> bool:
    return bool(array.flags.writeable and all(stride >= 0 for stride in array.strides))
