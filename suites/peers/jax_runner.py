"""JAX: the formula with jax.numpy in the place of np, compiled by jax.jit for the CPU."""

from collections.abc import Callable
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from fuser.suites.formula import Rebuilding, in_module
from fuser.suites.runners import Runner, refusals
from fuser.suites.workload import Arguments


class JaxRunner(Runner):
    """Runs the workload's own function on jax.numpy, with 64-bit types, and waits for results."""

    name = "jax"
    needs = MappingProxyType({"jax": "jax", "jaxlib": "jaxlib"})
    starts = True
    typical_first_call_s = 0.2
    description = "jax.jit of the formula on jax.numpy, CPU, x64; block_until_ready in each call"
    platform: ClassVar[str] = "cpu"

    def __init__(self) -> None:
        self.compiled: list[Any] = []

    def start(self) -> None:
        """Set JAX to the platform and 64 bits before anything is compiled."""
        import jax

        jax.config.update("jax_platforms", self.platform)
        jax.config.update("jax_enable_x64", True)
        super().start()

    def prepare(self, function: Callable[..., Any], arguments: Arguments) -> Callable[..., Any]:
        """Return the compiled function; its call ends when the results are there."""
        import jax.numpy

        copied = Rebuilding(swap=in_module(jax.numpy)).copy(function, jax.jit)
        return self.lowered(copied, arguments)

    def lowered(self, jitted: Any, arguments: Arguments) -> Callable[..., Any]:
        """Return a call of what JAX compiles that ends when the results are there."""
        import jax
        from jax import errors

        with refusals("jax.jit", TypeError, errors.JAXIndexError, AttributeError):
            jitted.lower(*self.accept(arguments))
        self.compiled.append(jitted)
        wait = jax.block_until_ready
        return lambda *given: wait(jitted(*given))

    def accept(self, arguments: Arguments) -> Arguments:
        """Return copies as JAX arrays; numbers stay Python's, which JAX takes as weak."""
        import jax.numpy

        given: Arguments = jax.block_until_ready(tuple(
            jax.numpy.array(each) if isinstance(each, np.ndarray) else each for each in arguments
        ))
        return given

    def compiled_kernels(self) -> int:
        """Return how many programs the jitted functions hold."""
        return sum(int(each._cache_size()) for each in self.compiled)


class JaxCudaRunner(JaxRunner):
    """The same on a CUDA device."""

    name = "jax_cuda"
    needs = MappingProxyType({**JaxRunner.needs, "jax_cuda13_plugin": "'jax[cuda13]'"})
    description = "jax.jit of the formula on jax.numpy, CUDA, x64; block_until_ready in each call"
    platform = "cuda"
