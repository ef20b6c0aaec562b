"""Every exception that the fuser raises, and the fixed vocabulary of reasons for not fusing."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from fuser.base.records import record


class FuserError(Exception):
    """Base of every error that this package raises on purpose."""


class ShapeError(FuserError, ValueError):
    """Shapes do not fit together."""


class DtypeError(FuserError, TypeError):
    """A dtype that an operation or an argument cannot have."""


class ArgumentError(FuserError, TypeError):
    """Wrong number or kind of arguments."""


class GraphError(FuserError, ValueError):
    """A graph, or its text, that breaks a rule of graphs."""


class BackendError(FuserError, RuntimeError):
    """A backend that is unknown or cannot be used here."""


class MissingProgramError(FuserError, RuntimeError):
    """A program that is not installed here would be needed."""


class FunctionNotFoundError(FuserError, AttributeError):
    """A pickled function whose name leads to nothing in the process that unpickles it."""


class ConfigurationError(FuserError, ValueError):
    """A switch with a name or a value that does not exist."""


@record
class Reason:
    """Why something was not fused: a row of `REASONS` filled with what was found.

    Attributes:
        code: the key in `REASONS`; `fuser.stats()` counts by it.
        operation: the operation or function concerned, in the user's terms.
        found: what was found; empty where the code says it all.
        where: `file:line` in the user's code, or an empty string.
    """

    code: str
    operation: str
    found: str
    where: str = ""

    @property
    def advice(self) -> str:
        """What a user can do about it."""
        return REASONS[self.code][1]

    def __str__(self) -> str:
        """One readable sentence: what, found, where, what to do."""
        place = f" ({self.where})" if self.where else ""
        found = f": {self.found}" if self.found else ""
        meaning, advice = REASONS[self.code]
        return f"{self.operation}{place}: {meaning}{found}. {advice} [{self.code}]"


#: code -> (what it means, what to do). The only place where reasons are spelled.
REASONS: dict[str, tuple[str, str]] = {
    "unsupported-function": (
        "this function has no fused form",
        "Keep it outside the fused function, or write it with elementwise operations.",
    ),
    "unsupported-argument": (
        "this form of the call has no fused form",
        "Use the plain form of the function.",
    ),
    "unsupported-dtype": (
        "arrays of this dtype are not fused",
        "Convert to bool, an integer, float16, float32 or float64.",
    ),
    "unsupported-array": (
        "only plain arrays are fused",
        "Pass numpy.ndarray or cupy.ndarray objects.",
    ),
    "byte-order": (
        "the array is not in native byte order",
        "Convert it once with .astype(dtype.newbyteorder('=')).",
    ),
    "unsupported-op": (
        "the backend has no code for this operation on this dtype",
        "It runs unfused; use another dtype, or another backend.",
    ),
    "control-flow": (
        "Python control flow depends on array values",
        "Use np.where, or keep the decision outside the fused function.",
    ),
    "many-paths": (
        "the values in arrays decide what the function does, in more ways than are compiled",
        "Use np.where, or keep some of the decisions outside the fused function.",
    ),
    "array-conversion": (
        "the function asked for the values of an array while it was being traced",
        "Keep conversions to Python or NumPy objects outside the fused function.",
    ),
    "impure": (
        "its result may differ at the next call, though the arguments are the same",
        "Pass random numbers, clocks and counters in as arguments.",
    ),
    "side-effect": (
        "the function changes something besides its arrays, which kernels would not do",
        "Return it, or assign arrays and numbers to plain attributes of an argument (self.m = …).",
    ),
    "unrolled-loop": (
        "the loop is too long to compile: a trace sees every pass through it as new code",
        "Fuse one step and call it in the loop.",
    ),
    "too-large": (
        "the function is too large to compile within the limits of a first call",
        "Fuse smaller functions, and call them from this one.",
    ),
    "no-gain": (
        "NumPy's own operations would do less work than the kernels",
        "Fuse the parts that gain; explain() shows what each moves.",
    ),
    "internal-error": (
        "the fuser failed on this function",
        "Please report it with the function; NumPy has run the call.",
    ),
    "value-guards": (
        "arguments that decide what is compiled had too many different values",
        "Pass few different values of them, or make them arrays.",
    ),
    "write-into-view": (
        "the function writes into memory that other arrays share, or may share",
        "Write before the other arrays are made, or into a copy.",
    ),
    "write-into-constant": (
        "the function writes into an array that is neither an argument nor made from one",
        "Pass it as an argument, or make it with np.zeros_like or np.full_like of an argument.",
    ),
    "where-without-out": (
        "where= without out= leaves elements unset",
        "Give out= as well, or use np.where.",
    ),
    "scalar-range": (
        "a Python integer does not fit the dtype it meets",
        "Convert the array, or the scalar, to a dtype that holds it.",
    ),
    "floating-point": (
        "the function asks for floating-point errors or warnings, which kernels do not report",
        "Use fuse(errstate=True): it reports all of them but underflow.",
    ),
    "not-traceable": (
        "the function cannot be traced",
        "Keep to NumPy functions, operators and methods on the arguments.",
    ),
    "switched-off": (
        "fusing is switched off for this device",
        "Switch it on with override_can_fuse_on_cpu or override_can_fuse_on_gpu.",
    ),
    "mixed-devices": (
        "the arguments are on different devices",
        "Move all arrays to one device first.",
    ),
    "backend-unavailable": (
        "the backend cannot be used here",
        "fuser.available_backends() says what is missing.",
    ),
    "compile-failed": (
        "the compiler refused the generated code",
        "Please report it with FUSER_DUMP=llvm; the result is still right.",
    ),
    "missing-symbol": (
        "the generated code calls a function that this machine lacks",
        "Install a C library that has it; the result is still right.",
    ),
    "runtime-check": (
        "the kernel met a value that NumPy treats as an error or a warning",
        "NumPy ran the call again and raised or warned as it does.",
    ),
    "unsupported-layout": (
        "the memory layout has no fused form",
        "Pass arrays in C order, for instance through numpy.ascontiguousarray.",
    ),
    "reentered": (
        "the call came while this thread was tracing or compiling, as from a signal handler",
        "NumPy ran it; the next call is looked at again.",
    ),
    "labelled-array": (
        "the result depends on labels or missing values, so the arrays' own library computes it",
        "Pass NumPy arrays, x.to_numpy(), to have kernels.",
    ),
    "lazy-array": (
        "Dask runs this one operation at a time, as values or lengths are known only later",
        "Use da.map_blocks(f, x) for a function of each chunk.",
    ),
    "lazy-write": (
        "Dask arrays are never written into: they are computed later, and may be shared",
        "Return the result; da.store writes results into arrays.",
    ),
    "shape-pattern": (
        "the shapes do not fit the pattern that the graph was traced with",
        "Trace again with arguments of this pattern.",
    ),
}


class FusionError(FuserError, RuntimeError):
    """Fusing was demanded (`fallback="error"`, `debug_launch_graph`) and is not possible."""

    def __init__(self, reason: Reason) -> None:
        """Keep the reason for programs; the message is for people."""
        super().__init__(str(reason))
        self.reason = reason


class Unsupported(FuserError):  # noqa: N818 - it is a signal between components, not a fault
    """Raised inside while tracing or emitting: becomes a fallback with its reason.

    Attributes:
        attributes: objects and names of attributes, where a function assigned these and changed
            nothing else.
        of_order: with arrays in another memory order it might not have been raised.
        stopped: the trace up to the last decision, where decisions led to it: other outcomes may
            not.
    """

    attributes: tuple[tuple[object, str], ...] = ()
    of_order: bool = False
    stopped: object = None

    def __init__(self, code: str, operation: str, found: str, where: str | None = None) -> None:
        """Build the reason; `where` defaults to the user's line on the stack."""
        self.reason = Reason(code, operation, found, user_line() if where is None else where)
        super().__init__(str(self.reason))
        noted = getattr(_refusals, "noted", None)
        if noted is not None:
            noted.append(self)


def let_go(error: BaseException, handled: BaseException | None) -> None:
    """Have an error that has been read keep no frames: arrays in them would live on with it.

    A frame that has the error in a variable would keep itself, until Python looks for circles.

    Args:
        error: with all that led to it.
        handled: the error that somebody else was at before: it is left as it is.
    """
    seen: set[int] = {id(None), id(handled)}
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        waiting += (each.__cause__, each.__context__)
        each.__traceback__ = None


_refusals = threading.local()


@contextmanager
def refusals() -> Iterator[list[Unsupported]]:
    """What is refused inside, on this thread, whether or not anything catches it."""
    before = getattr(_refusals, "noted", None)
    found: list[Unsupported] = []
    _refusals.noted = found
    try:
        yield found
    finally:
        _refusals.noted = before


class FallbackWarning(UserWarning):
    """A call was run unfused; the text names the reason. Given once for each reason."""


_OURS = ("fuser", "numpy", "functools", "contextlib")


def short_path(path: str) -> str:
    """The last two parts of a path: enough to find the file, and no folder of one machine."""
    return "/".join(path.replace("\\", "/").split("/")[-2:])


def user_line() -> str:
    """Return `file:line` of the innermost frame that is neither ours nor NumPy's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name.partition(".")[0] not in _OURS or name.startswith("fuser.suites"):
            return f"{short_path(frame.f_code.co_filename)}:{frame.f_lineno}"
        frame = frame.f_back
    return ""
