"""The backend contract, and the registry of backends."""

from __future__ import annotations

import importlib
import math
import operator
import struct
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from fuser.base import caches, config, forks
from fuser.base.contexts import assigned
from fuser.base.errors import BackendError, Unsupported
from fuser.base.packages import ARRAYS, NO_FOREIGN_ARRAYS, root
from fuser.base.protocols import attribute, module_of
from fuser.base.records import record
from fuser.codegen import LoopNest
from fuser.ir.ops import Op, admits
from fuser.scheduling.capabilities import Capabilities
from fuser.scheduling.row_tiles import ROW_CACHE_BYTES

if TYPE_CHECKING:
    from fuser.element_loops.code import Code


class Kernel(ABC):
    """Compiled code of one kernel, ready to launch."""

    #: as `Backend.compile` was given it; `source` shows the text by it
    name: str

    def lay_out(
        self, section: int, lengths: Sequence[int], strides: Sequence[Sequence[int]]
    ) -> tuple[bytes, Any]:
        """Prepare one loop nest for shapes and strides; done once for many launches.

        Args:
            section: the number of the loop nest in the kernel.
            lengths: of the loops, outermost first.
            strides: in bytes, for each load and then each store, for each loop.

        Returns:
            The packed arguments between addresses and scalars, and the launch configuration, which
            `launch` takes as `extent`. Here: lengths of the outer loops and all strides as 8-byte
            words; and the number of outer iterations and the length of the innermost loop.
        """
        words, extent = self.words_of(section, lengths, strides)
        return struct.pack(f"={len(words)}q", *words), extent

    def words_of(
        self, section: int, lengths: Sequence[int], strides: Sequence[Sequence[int]]
    ) -> tuple[list[int], Any]:
        """What `lay_out` packs, before it is packed; lengths may be symbolic.

        Args:
            section: the number of the loop nest in the kernel.
            lengths: of the loops, outermost first.
            strides: in bytes, for each load and then each store, for each loop.

        Returns:
            The arguments as numbers, and the launch configuration.
        """
        words = [*lengths[:-1], *(step for operand in strides for step in operand)]
        return words, (math.prod(lengths[:-1]), lengths[-1])

    def lay_out_rows(
        self, section: int, lengths: Sequence[int], strides: Sequence[Sequence[int]], turns: int
    ) -> tuple[bytes, Any]:
        """As `lay_out`, for one block of rows of a loop nest that runs in several.

        Args:
            section: the number of the loop nest in the kernel.
            lengths: of the loops of this block of rows, outermost first.
            strides: in bytes, for each load and then each store, for each loop.
            turns: how many blocks of rows there are; a block is never split further.

        Returns:
            What `lay_out` gives.
        """
        return self.lay_out(section, lengths, strides)

    @abstractmethod
    def launch(self, section: int, block: Any, extent: Any) -> int:
        """Run one loop nest.

        Args:
            section: the number of the loop nest in the kernel.
            block: packed arguments, as the backend's `pack` made them.
            extent: what `lay_out` gave.

        Returns:
            0, or not 0 when some element had a value for which NumPy raises.
        """

    @abstractmethod
    def text(self, kind: str) -> str:
        """The kernel as text.

        Args:
            kind: "source", "optimized", "asm" or "ptx", where the backend has it.
        """


#: Calls that are sent to the plain function before one is looked at again, at first; and how often
#: that number doubles.
FEWEST_PLAIN, MOST_DOUBLINGS = 16, 10


@record
class ServedCall:
    """A call that has been served, as a pattern for those that a backend may serve natively.

    Attributes:
        specialisation: what it ran.
        launch: how it ran.
        arrays: array arguments by parameter name, and `o0`, `o1` …, the arrays of `out=`, or the
            parts of arguments that kernels write results into.
        sizes: lengths by symbol.
        leaves: its arguments: positional ones, then keywords in their order but `out`.
        names: its keywords in their order, `out` too where it is the function's own.
        out: the array, or the tuple of arrays, of `out=`, or None.
        structure: how positional arguments and keywords nest, see `trees.flatten`.
        direct: outputs that kernels write into arguments.
    """

    specialisation: Any
    launch: Any
    arrays: Mapping[str, Any]
    sizes: dict[str, int]
    leaves: Sequence[Any]
    names: tuple[str, ...]
    out: Any
    structure: Any
    direct: frozenset[int] = frozenset()


@record
class NestChoice:
    """A loop nest of a bound launch, and the schedules by which it may run.

    Attributes:
        label: the kernel's name and the nest's number in it.
        chosen: the schedule that its lengths and strides are given.
        used: what runs: the chosen one, or one that is kept for this machine.
        legal: every schedule that computes it rightly, the chosen one among them.
        same_bits: those of them that give the same bits as the chosen one.
        nest: what the backend knows it by.
    """

    label: str
    chosen: Any
    used: Any
    legal: tuple[Any, ...]
    same_bits: tuple[Any, ...]
    nest: Any


@record
class Compared:
    """Calls whose arguments have been compared by types, dtypes, shapes and strides.

    Attributes:
        count: of arguments; what serves such a call has a parameter for each.
        function: puts the call's result together; None where that is the one array.
        leaves: places of the arguments that it takes behind the arrays.
    """

    count: int
    function: Callable[..., Any] | None
    leaves: Sequence[int]


@record
class DeviceCall:
    """A call of arrays in a device's memory, as native code runs it.

    Attributes:
        device: the number of the device that has to be current.
        template: arguments of the kernels, one block of 8-byte words after another; where an
            address belongs, how far behind it.
        operands: those words, and what they are added to: an array's name, or "" for the memory
            that the call takes for itself.
        scalars: words that are numbers of the call, with the place among the arguments and the
            dtype.
        made: name, lengths and dtype of the arrays that it makes, in C order.
        scratch_bytes: the memory that it takes for itself.
        counters: gives the address of zeros for a stream; None where none are wanted.
        launches: of each, its words by `layout.FIELDS["LAUNCH"]`.
        wanted: names of the arrays that it gives.
        compared: what makes them the call's result.
    """

    device: int
    template: Sequence[int]
    operands: Sequence[tuple[int, str]]
    scalars: Sequence[tuple[int, int, np.dtype[Any]]]
    made: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]]
    scratch_bytes: int
    counters: Callable[[int], int] | None
    launches: Sequence[Mapping[str, int]]
    wanted: Sequence[str]
    compared: Compared


@record
class PythonCall:
    """What serves calls in Python, where a backend compares their arguments natively.

    Attributes:
        function: it takes the leaves of the arguments and gives the result, or `MISSED`.
        guards: of names that the function reads.
        holds: whether these, and settings, are as they were.
        counts: what each such call adds to the counters.
        leaves: the arguments of one call, see `ServedCall`.
        names: likewise.
        structure: likewise.
        places: leaves that are arrays, by parameter name: their layouts are compared.
        captured: arrays that are no arguments, likewise.
        written: arrays that have to be writeable.
        apart: pairs of arrays that must not share memory.
        device_fields: what the dispatcher has to know of arrays in a device's memory, by its names;
            None where that is not known.
        out: the array of `out=`, which is an argument behind the leaves, and the first of each pair
            in `apart`: it may be the other one where it is in this call; None where there is none.
        natively: what the dispatcher does in place of the function, where it can.
    """

    function: Callable[..., Any]
    guards: Sequence[Any]
    holds: Callable[[], bool]
    counts: Mapping[str, int]
    leaves: Sequence[Any]
    names: tuple[str, ...]
    structure: Any
    places: Mapping[str, int]
    captured: Mapping[str, Any] = MappingProxyType({})
    written: tuple[str, ...] = ()
    apart: tuple[tuple[str, ...], ...] = ()
    device_fields: Mapping[str, int] | None = None
    out: Any = None
    natively: DeviceCall | None = None


#: What such a function gives where the call has to be looked at again.
MISSED = object()


@record
class PlainCall:
    """A call that took a long look, and ended in the plain function or in an error.

    Attributes:
        function: the plain function.
        key: what such calls have in common.
        leaves: its arguments: positional ones, then keywords in their order.
        names: those in their order.
        structure: how positional arguments and keywords nest, see `trees.flatten`.
        counts: what each such call adds to the counters.
        told: is called with how many such calls are new, whenever counters are read.
        seen: how many of them have been looked at.
        whole: arrays of any lengths are alike, if they are in C order.
        out: None: `out=` is the fused function's.
    """

    function: Any
    key: Any
    leaves: Sequence[Any]
    names: tuple[str, ...]
    structure: Any
    counts: Mapping[str, int]
    told: Callable[[int], None]
    seen: int
    whole: bool = False
    out: Any = None

    @property
    def number(self) -> int:
        """How many calls to serve before one is looked at again: more each time."""
        return FEWEST_PLAIN << min(self.seen, MOST_DOUBLINGS)


class Backend(ABC):
    """A device class that can run fused kernels.

    `emit` is pure text and needs neither compiler nor device. A row of the op table that a
    backend cannot spell raises `Unsupported`, which becomes a fallback with its reason.
    """

    name: str
    #: what its kernels can do; plans are made for that
    capabilities: Capabilities = Capabilities()

    @property
    def extra_dtypes(self) -> frozenset[np.dtype[Any]]:
        """Dtypes beyond those of the op table that it spells some rows for."""
        return frozenset()

    def admits(self, row: Op, dtype: np.dtype[Any]) -> bool:
        """Whether a row takes operands of a dtype."""
        return admits(row, dtype)

    def load(self) -> None:  # noqa: B027 - some have nothing to load
        """Import the modules that a first call needs; no compiler or device is asked for."""

    @abstractmethod
    def unavailable(self) -> str | None:
        """Why this backend cannot run here, and what to install; None when it can."""

    @abstractmethod
    def owns(self, array: Any) -> bool:
        """Whether an array lives on this backend's devices."""

    @abstractmethod
    def supports(self, op: str, dtype: str) -> bool:
        """Whether a row of the op table can be spelled for operands of a dtype."""

    @abstractmethod
    def emit(self, nests: Sequence[LoopNest], name: str) -> str:
        """Spell loop nests as one module's text.

        Args:
            nests: in the order in which they run.
            name: of the kernel, which the functions' names begin with.

        Raises:
            Unsupported: an operation cannot be spelled; that becomes the call's fallback reason.
        """

    @abstractmethod
    def compile(self, text: str, nests: Sequence[LoopNest], name: str) -> Kernel:
        """Turn text into a kernel.

        Args:
            text: what `emit` gave.
            nests: what it was given.
            name: likewise.

        Raises:
            CompileError: the compiler refused, or a symbol is missing.
        """

    @abstractmethod
    def pack(self, pointers: Sequence[int], rest: bytes) -> Any:
        """Join one loop nest's arguments as `Kernel.launch` takes them.

        Args:
            pointers: addresses of each load and then each store, in bytes.
            rest: what `lay_out` packed, and the scalars after it.
        """

    @abstractmethod
    def address(self, array: Any) -> int:
        """The address of an array's first element."""

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """A new C-ordered array of this shape and dtype, with any content."""
        return self.array_module.empty(shape, dtype)

    def empty_in_order(self, shape: tuple[int, ...], dtype: Any, order: Sequence[int]) -> Any:
        """A new array of a shape and dtype whose axes lie in memory in `order`, outermost first."""
        laid = self.empty(tuple(shape[axis] for axis in order), dtype)
        return laid.transpose(tuple(sorted(range(len(order)), key=order.__getitem__)))

    def keeps_rows(self, rows: int, row_bytes: int) -> bool:
        """Whether a row stays near its processor from one run through it to the next.

        Args:
            rows: how many there are.
            row_bytes: of one row of all operands that are reduced.
        """
        return row_bytes <= ROW_CACHE_BYTES

    def sequence(self, launch: Any) -> Any:
        """An object whose `run(arrays, numbers)` does all of a bound launch at once, or None."""
        return None

    def install(self, function: Any, call: ServedCall | PythonCall | PlainCall) -> bool:
        """Have calls of a function like this one begin natively, where the backend can.

        Those that are served run without Python. Of those that Python serves the arguments are
        compared before. Of those that are the plain function's a number go there at once.

        Args:
            function: the fused function.
            call: what was just run for it.

        Returns:
            Whether it will.
        """
        return False

    def batch(self, functions: Sequence[Any], specs: Sequence[Any]) -> Any:
        """What runs several iterations of a loop at once, or None.

        It has `begin(size_bytes)`, which says whether it does so in this thread from now on, then
        `iterated()` after each iteration, `flush()` before anything else looks at the arrays, and
        `end()`.

        Args:
            functions: what the loop calls: fused functions that write into their arguments alone.
            specs: the kernels of each.
        """
        return None

    @property
    def device_fields(self) -> Mapping[str, int] | None:
        """What the dispatcher has to know of this backend's arrays, see `PythonCall`."""
        return None

    def choices(self, bind: Callable[[], Any]) -> list[NestChoice]:
        """The loop nests of a launch that may run by several schedules.

        Args:
            bind: binds the launch.
        """
        return []

    def bound_by(self, bind: Callable[[], Any], choice: NestChoice, schedule: Any) -> Any:
        """A launch with one of its loop nests by a given schedule, the others by chosen ones.

        Args:
            bind: binds the launch.
            choice: the loop nest.
            schedule: one of its legal ones.
        """
        return bind()

    def keep(self, choice: NestChoice, schedule: Any) -> None:  # noqa: B027 - some have no choice
        """Run such a loop nest by a schedule from now on, also in other processes of this machine.

        Args:
            choice: the loop nest, at lengths like these.
            schedule: one that gives the same bits as the chosen one, which forgets what is kept.
        """

    def device_number(self) -> int:
        """Which of its devices runs a call made now: launches are bound for one."""
        return 0

    def scalar(self, value: np.generic) -> Any:
        """An array of no axes with a NumPy scalar's value, on the device."""
        return self.array_module.asarray(value)

    def elsewhere(self, leaves: Sequence[Any]) -> AbstractContextManager[Any] | None:
        """What makes the device current that a call's arrays are on, where another one is.

        Args:
            leaves: what the arguments of a call contain.
        """
        return None

    def adopter(self, array: Any) -> Callable[[Any], Any]:
        """What gives arrays of another library as `array_module`'s: memory is shared.

        Args:
            array: one like them, in the devices' memory.
        """
        return lambda own: own

    def hold(self, arrays: Sequence[Any]) -> None:  # noqa: B027 - some wait for their kernels
        """Keep adopted arrays until the kernels that were launched for them have run."""

    @property
    def threads(self) -> int:
        """How many threads of this machine a kernel may use."""
        return 1

    def element_kernel(self, code: Code) -> Any:
        """What runs a loop over elements, see `fuser.element_loops.region.run`.

        Args:
            code: the loop.

        Raises:
            Unsupported: this backend has no such kernels.
        """
        found = f"the {self.name} backend runs no loops over single elements"
        raise Unsupported("control-flow", "loop", found)

    def release_memory(self) -> int:
        """Give back memory that waits to be used again; returns how many bytes that is."""
        return 0

    def meaning(self, op: Op) -> Callable[..., Any]:
        """What a row of the op table means on this backend's arrays, for the fallback."""
        return op.numpy

    @property
    @abstractmethod
    def array_module(self) -> Any:
        """NumPy, or CuPy: for outputs, views and the fallback."""


class CompileError(BackendError):
    """Generated code was refused; `code` is the fallback reason."""

    def __init__(self, code: str, message: str) -> None:
        """Keep the reason's code beside the message."""
        super().__init__(message)
        self.code = code


_factories: dict[str, Callable[[], Backend]] = {}
_instances: dict[str, Backend] = {}
_missing: dict[str, str | None] = {}
_lock = forks.lock()


def _ours(module: str, name: str) -> Callable[[], Backend]:
    """A backend of this package, found by name: the core imports no backend."""

    def make() -> Backend:
        made: Backend = getattr(importlib.import_module(module), name)()
        return made

    return make


_factories["cpu"] = _ours("fuser.backends.cpu.backend", "CpuBackend")
_factories["gpu"] = _ours("fuser.backends.gpu.backend", "GpuBackend")
_plugins_read = False


def register_backend(name: str, factory: Callable[[], Backend]) -> None:
    """Add a backend under a name; entry points of group `fuser.backends` do the same.

    Args:
        name: what `fuse(backend=...)` and `FUSER_BACKEND` call it; it replaces one of that name.
        factory: gives the backend when it is asked for the first time.
    """
    with _lock:
        _factories[name] = factory
        _instances.pop(name, None)
        _missing.pop(name, None)


def get_backend(name: str) -> Backend:
    """The backend called `name`, made on first use.

    Raises:
        BackendError: there is no such backend.
    """
    found = _instances.get(name)
    if found is not None:
        return found
    if name not in _factories:
        _read_plugins()
    with _lock:
        if name not in _factories:
            from fuser.base.near import near_it  # only for the message

            near = near_it(name, _factories)
            raise BackendError(f"there is no backend called {name!r}; {near}")
        if name not in _instances:
            made = _factories[name]()
            made.name = name  # kernels are kept by it: two registrations share none
            _instances.setdefault(name, made)
        return _instances[name]


@caches.clears
def release_memory() -> None:
    """Have every backend that is in use give back what waits to be used again."""
    for each in list(_instances.values()):
        each.release_memory()


def _read_plugins() -> None:
    """Read entry points once: it costs tens of milliseconds, so only when a name is missing."""
    global _plugins_read
    if _plugins_read:
        return
    _plugins_read = True
    from importlib.metadata import entry_points

    for point in entry_points(group="fuser.backends"):
        _factories.setdefault(point.name, point.load())


def available_backends() -> dict[str, str | None]:
    """Every backend's name, with None where it can run and the reason where it cannot."""
    _read_plugins()
    return {name: get_backend(name).unavailable() for name in sorted(_factories)}


def available(name: str) -> str | None:
    """Why a backend cannot run here, asked once a process; None when it can."""
    if name not in _missing:
        _missing[name] = get_backend(name).unavailable()
    return _missing[name]


#: Backends by the device types of the DLPack specification: kDLCUDA, and kDLCUDAManaged.
_DLPACK = {2: "gpu", 13: "gpu"}


def adopted(leaf: Any) -> Any:
    """Another library's array in a device's memory, as the backend's own; all else as it is.

    The memory is shared, by DLPack; of arrays without it, by CUDA's array interface.
    """
    if root(module_of(type(leaf))) in NO_FOREIGN_ARRAYS:
        return leaf
    where = attribute(leaf, "__dlpack_device__")
    try:
        name = _DLPACK.get(where()[0]) if where is not None else None
        if where is None and attribute(leaf, "__cuda_array_interface__") is not None:
            name = "gpu"
    except Exception:  # noqa: BLE001 - foreign code may raise anything
        return leaf
    return leaf if name is None or available(name) else get_backend(name).adopter(leaf)(leaf)


def adopted_leaves(leaves: list[Any]) -> list[Any]:
    """Each leaf as `adopted`; the same list where none changes."""
    taken = [adopted(leaf) for leaf in leaves]
    return leaves if all(map(operator.is_, taken, leaves)) else taken


def elsewhere(leaves: Sequence[Any]) -> AbstractContextManager[Any] | None:
    """What makes the device current that all arrays of a call are on; None where it is."""
    names = {ARRAYS.get(root(module_of(type(leaf)))) for leaf in leaves} - {None, "cpu"}
    (name,) = names if len(names) == 1 else ("",)
    return get_backend(name).elsewhere(leaves) if name and not available(name) else None


_chosen: ContextVar[str] = ContextVar("chosen backend", default="")


def chosen_name() -> str:
    """The backend that this context's function, or the settings, name; "" where none is named."""
    return _chosen.get() or config.current().backend


def chosen(name: str | None) -> AbstractContextManager[None]:
    """Have calls in this context run on a backend, if one is named, whatever the settings say."""
    return assigned(_chosen, name or _chosen.get())


def backend_for(arrays: Iterable[Any]) -> str:
    """The name of the backend for a call: the function's, else the settings', else the owner.

    Raises:
        BackendError: no backend owns an array, two backends do, or one that is not the function's.
    """
    name = _chosen.get()
    if not name:
        return config.current().backend or backend_of(arrays)
    owned = [array for array in arrays if not isinstance(array, np.generic)]
    if name in OWNERS and owned:
        owner = backend_of(owned)
        if owner != name:
            raise BackendError(
                f"the function is for backend {name!r}, its arguments are arrays of backend "
                f"{owner!r}: move them there, or fuse the function without backend="
            )
    return name


#: Backends that take none but arrays of their own module.
OWNERS = ("cpu", "gpu")


def backend_of(arrays: Iterable[Any]) -> str:
    """The name of the backend that owns the arrays; "cpu" when there are none.

    NumPy's scalars go where the arrays are.

    Raises:
        BackendError: no backend owns one of them, or two backends do.
    """
    names: list[str] = []
    for array in arrays:
        if isinstance(array, np.generic):
            continue
        name = ARRAYS.get(root(module_of(type(array)))) or _owner(array)
        if name not in names:
            names.append(name)
    if len(names) > 1:
        raise BackendError(
            f"arguments are on different devices: {' and '.join(names)}. "
            "Move all arrays to one device first."
        )
    return names[0] if names else "cpu"


def array_module_of(arrays: Mapping[str, Any]) -> Any:
    """NumPy, or the array module of the backend that owns the arrays."""
    if all(isinstance(array, (np.ndarray, np.generic)) for array in arrays.values()):
        return np
    return get_backend(backend_of(arrays.values())).array_module


def _owner(array: Any) -> str:
    """Ask the registered backends."""
    _read_plugins()
    for name in _factories:
        if name == "gpu" and "cupy" not in sys.modules:
            continue
        if get_backend(name).owns(array):
            return name
    raise BackendError(f"no backend owns arrays of type {type(array).__name__}")
