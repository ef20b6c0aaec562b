"""`fuse`, and what the layers below are handed from above."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, overload

from fuser.calls.fused_function import FusedFunction, looks_inside
from fuser.ir.opaque_calls import ELEMENT_LOOP, LOOP, SPECIAL
from fuser.program_spec import made_by

if TYPE_CHECKING:
    from fuser.calls.explained import Explained
    from fuser.program_spec import ElementLoop, LoopRegion

P = ParamSpec("P")
Result = TypeVar("Result")
Mode = Literal["fused", "unfused", "fallback"]
Fallback = Literal["warn", "allow", "error"]
Results = Literal["backend", "arguments"]


@overload
def fuse(
    function: Callable[P, Result],
    *,
    backend: str | None = ...,
    mode: Mode = ...,
    fallback: Fallback = ...,
    fastmath: bool = ...,
    errstate: bool = ...,
    kernel_name: str | None = ...,
    results: Results = ...,
) -> FusedFunction[P, Result]: ...
@overload
def fuse(
    function: None = None,
    *,
    backend: str | None = ...,
    mode: Mode = ...,
    fallback: Fallback = ...,
    fastmath: bool = ...,
    errstate: bool = ...,
    kernel_name: str | None = ...,
    results: Results = ...,
) -> Callable[[Callable[P, Result]], FusedFunction[P, Result]]: ...
def fuse(
    function: Callable[..., Any] | None = None,
    *,
    backend: str | None = None,
    mode: str = "fused",
    fallback: str = "warn",
    fastmath: bool = False,
    errstate: bool = False,
    kernel_name: str | None = None,
    results: str = "backend",
) -> Any:
    """Make a function run its array operations as fused kernels.

    Args:
        function: ordinary NumPy code; without it `fuse(...)` is a decorator with options.
        backend: run on this backend only. A call with arrays that it does not own falls back, with
            the reason: nothing is copied between devices. By default the arrays decide.
        mode: "fused"; "unfused" (our kernels, one an operation); "fallback" (NumPy or CuPy).
        fallback: what cannot be fused runs unfused: "warn" (once for each reason), "allow"
            (silently, but counted), or "error" (raise FusionError).
        fastmath: allow rewrites that change results by rounding errors.
        errstate: notice floating-point exceptions and let NumPy warn or raise as `np.errstate`
            says; such calls run twice.
        kernel_name: what reasons, logs and profiles call the function; by default its own name.
            So `cupy.fuse(kernel_name=...)` may become `fuser.fuse(kernel_name=...)`.
        results: "backend" (NumPy's or CuPy's arrays); "arguments": where arguments are another
            library's arrays on a device, such as torch's, results are its arrays, by DLPack.

    Returns:
        A FusedFunction, or the decorator.

    Raises:
        ArgumentError: no function, or an option with a value that it cannot have.
    """
    def make(wrapped: Callable[P, Result]) -> FusedFunction[P, Result]:
        return FusedFunction(
            wrapped,
            backend=backend,
            mode=mode,
            fallback=fallback,
            fastmath=fastmath,
            errstate=errstate,
            kernel_name=kernel_name,
            results=results,
        )

    return make if function is None else make(function)


def _explained(function: FusedFunction[..., Any], args: Any, kwargs: Any) -> Explained:
    """What a call of a fused function does, and why."""
    from fuser.explain.explanation import explain_call  # most programs need none

    return explain_call(function, args, kwargs)


def _kernels(function: FusedFunction[..., Any], args: Any, kwargs: Any) -> Any:
    """The kernels that a call of a fused function runs."""
    from fuser.explain.explanation import kernels_of_call  # most programs need none

    return kernels_of_call(function, args, kwargs)


# -- what runs loops, which most programs have none of ---------------------------------------


def _loop(step: LoopRegion) -> Callable[..., list[Any]]:
    """What runs a loop of a program."""
    from fuser.calls.loop_bodies import Runner

    return Runner(step)


def _element_loop(step: ElementLoop) -> Callable[..., list[Any]]:
    """What runs a loop over elements of a program."""
    from fuser import fallback

    return fallback.steps_runner(step)


def _run_loop(*args: Any) -> list[Any]:
    """Run a loop region operation by operation."""
    from fuser import fallback

    return fallback.run_loop(*args)


def _run_element_loop(*args: Any) -> list[Any]:
    """Run a loop over elements that no program has prepared."""
    from fuser import fallback

    return fallback.run_elements(*args)


looks_inside(_explained, _kernels)
made_by.update({"loop": _loop, "element loop": _element_loop})
SPECIAL.update({LOOP: _run_loop, ELEMENT_LOOP: _run_element_loop})
