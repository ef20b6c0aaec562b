"""One program, plain and fused, in two namespaces: what can be told apart is a difference.

Equality: bits, unless the program computes with rounding that NumPy leaves open. How far that may
carry is found by running the plain program again with every such operation a little off
(first-order propagation; Higham, "Accuracy and Stability of Numerical Algorithms", section 3.4).
What those runs leave as it is has to be equal bit for bit, unless they move most of its array.
"""

from __future__ import annotations

import ast
import linecache
import re
import time
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import fuser
from tests.fuser.comparing import faults

#: Operations with a rounding of their own. Of reductions the operands are off, too.
REDUCTIONS = frozenset("sum mean var std prod dot matmul outer norm cumsum inner einsum".split())
INEXACT = REDUCTIONS | frozenset(
    "exp expm1 exp2 log log1p log2 log10 sin cos tan sinh cosh tanh arcsin arccos arctan arctan2 "
    "hypot cbrt power logaddexp".split()
)
#: Programs without any of these are exact.
MAY_ROUND = re.compile(r"\*\*|@|\dj\b|\b(" + "|".join(sorted(INEXACT)) + r")\(")
#: Units in the last place by which an operation is off: NumPy's own and ours lie within.
ULP = 4.0
#: Runs with errors of these signs (0: at random), and what is allowed beyond their largest change.
SIGNS = (1.0, -1.0, 0.0, 0.0, 0.0)
SLACK = 4.0
CANARY = 64
SLOW_S = 5.0

#: What later calls are still judged after: sharing, and what follows from it.
WEAK = re.compile(r"sharing: |earlier |[^:]*: writeable ")

Leaf = tuple[str, Any]


@dataclass
class World:
    """A namespace for one program: the memory that it was given, and what it made."""

    namespace: dict[str, Any] = field(default_factory=dict)
    memories: list[tuple[Any, Any]] = field(default_factory=list)
    kept: list[Leaf] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Give it `array` and what programs import."""
        names = {"array": self.array, "np": np, "SimpleNamespace": types.SimpleNamespace}
        self.namespace.update(names)

    def array(self, seed: int, dtype: str, shape: tuple[int, ...], layout: str = "C") -> Any:
        """Make an array of chosen values, between bytes that nobody may change."""
        kind = np.dtype(dtype)
        step = {"strided": 2, "reversed": -1}.get(layout, 1) if shape else 1
        room = (*shape[:-1], shape[-1] * abs(step)) if shape else ()
        size = int(np.prod(room)) * kind.itemsize
        start = CANARY + (layout == "misaligned")
        memory = np.full(start + size + CANARY, 0xA5, np.uint8)
        whole = np.ndarray(room, kind, memory, start, order="F" if layout == "F" else "C")
        whole[...] = _values(np.random.default_rng(seed), kind, room)
        self.memories.append((memory, whole))
        view = np.ndarray(room, kind, memory, start, whole.strides)
        view = view[..., ::step] if step != 1 else view
        view.flags.writeable = layout != "readonly"
        return view

    def contents(self) -> list[Leaf]:
        """The arrays that were made, with the gaps between their elements."""
        return [(f"memory {k}", whole) for k, (_, whole) in enumerate(self.memories)]

    def spoilt(self) -> str:
        """Which canaries were changed, if any."""
        for k, (memory, whole) in enumerate(self.memories):
            start = whole.ctypes.data - memory.ctypes.data
            edges = np.concatenate([memory[:start], memory[start + whole.nbytes :]])
            if (edges != 0xA5).any():
                return f"bytes around memory {k} of {whole.shape}"
        return ""


def _values(random: np.random.Generator, kind: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    """Small numbers; in each third seed some zeros of both signs, infinities and NaN."""
    if kind.kind == "b":
        return random.random(shape) < 0.5
    if kind.kind in "iu":
        return random.integers(0 if kind.kind == "u" else -4, 9, shape)
    found = np.where(random.random(shape) < 0.5, random.normal(size=shape),
                     random.integers(-8, 9, shape) / 4)  # fmt: skip
    if random.random() < 0.3:
        edges = random.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0], shape)
        found = np.where(random.random(shape) < 0.15, edges, found)
    return found


class _Noise(ast.NodeTransformer):
    """Sends operations that round in ways of their own through `_noisy`."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """A call by a name of the list."""
        self.generic_visit(node)
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if name not in INEXACT:
            return node
        return ast.Call(ast.Name("_noisy", ast.Load()), [node.func, *node.args], node.keywords)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """A power, a matrix product; a product or quotient that may be complex."""
        self.generic_visit(node)
        names = {ast.Pow: "power", ast.MatMult: "matmul", ast.Mult: "multiply", ast.Div: "divide"}
        if type(node.op) not in names:
            return node
        name = ast.Constant(names[type(node.op)])
        return ast.Call(ast.Name("_operated", ast.Load()), [name, node.left, node.right], [])


def _noise(sign: float, seed: int) -> dict[str, Callable[..., Any]]:
    """The two functions that an inexact program calls."""
    random = np.random.default_rng(seed)

    def off(value: Any) -> Any:
        """A value with errors; anything but floats as it is."""
        if not isinstance(value, (np.ndarray, np.generic)) or value.dtype.kind not in "fc":
            return value
        part = np.abs(value)
        signs = sign or random.uniform(-1.0, 1.0, np.shape(value))
        moved = value + (ULP * signs * np.spacing(part)).astype(part.dtype)
        moved = np.where(np.isfinite(value), moved, value)
        if isinstance(value, np.generic):
            return value.dtype.type(moved)
        found = np.empty_like(value)
        found[...] = moved
        return found

    def noisy(function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
        name = getattr(function, "__name__", "")
        out = keywords.get("out")
        if name in REDUCTIONS:
            args = tuple(off(_array(arg)) for arg in args)
            owner = getattr(function, "__self__", None)
            if isinstance(owner, (np.ndarray, np.generic)):
                function = getattr(off(owner), name)
        found = function(*args, **keywords)
        if out is not None:
            out[...] = off(np.asarray(out))
            return found
        return off(found)

    def operated(name: str, a: Any, b: Any) -> Any:
        import operator

        signs = {"power": "pow", "matmul": "matmul", "multiply": "mul", "divide": "truediv"}
        function = getattr(operator, signs[name])
        if name == "matmul":
            return off(function(off(a), off(b)))
        found = function(a, b)
        inexact = name == "power" or getattr(found, "dtype", np.dtype(int)).kind == "c"
        return off(found) if inexact else found

    return {"_noisy": noisy, "_operated": operated}


def _array(value: Any) -> Any:
    """A list of numbers and arrays as the array that a reduction makes of it; else the value."""
    with suppress(ValueError):  # they are of several lengths
        return np.asarray(value) if isinstance(value, list) else value
    return value


def _load(text: str, name: str, noise: dict[str, Any] | None = None) -> World:
    """Run a program's module in a world of its own."""
    world = World()
    world.namespace["__name__"] = name
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    tree = ast.parse(text)
    if noise is not None:
        world.namespace.update(noise)
        tree = ast.fix_missing_locations(_Noise().visit(tree))
    exec(compile(tree, name, "exec"), world.namespace)
    return world


@dataclass
class Changeable:
    """A list or a dict, of which its kind and its identity are compared."""

    kind: type
    thing: Any = field(compare=False)


class Told(set[type[Warning]]):
    """Kinds of warnings, all of which have to come; a trace that gives up may add others."""

    def __eq__(self, other: object) -> bool:
        """Whether the other has them."""
        return isinstance(other, Told) and self <= other

    __hash__ = None  # type: ignore[assignment] # as sets


def _leaves(value: Any, path: str) -> Iterator[Leaf]:
    """Everything in nested containers and holders, by its path."""
    if type(value) in (list, dict):
        yield path, Changeable(type(value), value)
    if isinstance(value, (tuple, list)):
        yield path, type(value)
        for k, part in enumerate(value):
            yield from _leaves(part, f"{path}[{k}]")
    elif isinstance(value, dict):
        yield path, tuple(value)
        for key, part in value.items():
            yield from _leaves(part, f"{path}[{key!r}]")
    elif isinstance(value, types.SimpleNamespace):
        yield from _leaves(vars(value), path)
    else:
        yield path, value


def _step(world: World, arguments: Any, keep: bool = True) -> tuple[list[Leaf], float]:
    """One call: all that can be seen afterwards, and the processor's seconds."""
    start = time.process_time()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            result: Any = world.namespace["f"](*arguments)
            seen = list(_leaves(result, "result"))
        except Exception as error:  # noqa: BLE001 - an exception is an outcome
            seen = [("error", error)]
    took = time.process_time() - start
    kinds = {each.category for each in told if not issubclass(each.category, RuntimeWarning)}
    seen.append(("warnings", Told(kinds)))  # of floating-point numbers there are none from kernels
    named = {k: v for k, v in world.namespace.items() if k in ("W", "P")}
    seen += [*_leaves(tuple(arguments), "arguments"), *_leaves(named, "globals")]
    seen += [*world.contents(), *world.kept]
    if keep:
        world.kept = [(f"earlier {p}", v) for p, v in seen if p.startswith("result")]
    return seen, took


def _sharing(seen: list[Leaf]) -> list[tuple[str, str, str, int]]:
    """Which arrays are one object or look at the same memory, and how far apart they begin.

    Of lists and dicts, which of the results are one object, or one of the others.
    """
    arrays = [(p, v) for p, v in seen if isinstance(v, np.ndarray) and v.size]
    held = [(path, value) for path, value in seen if type(value) is Changeable]
    found = [
        (path, other_path, "is", 0) for k, (path, one) in enumerate(held)
        for other_path, other in held[k + 1 :]
        if path.startswith("result") and one.thing is other.thing
    ]  # fmt: skip
    for k, (path, one) in enumerate(arrays):
        if not path.startswith(("result", "arguments", "globals")):
            continue
        for other_path, other in arrays[k + 1 :]:
            if other_path.startswith("memory") and not path.startswith("result"):
                continue
            if one is other:
                found.append((path, other_path, "is", 0))
            elif np.may_share_memory(one, other) and np.shares_memory(one, other):
                apart = one.ctypes.data - other.ctypes.data
                found.append((path, other_path, "shares memory with", apart))
    return found


def _same_error(one: BaseException, two: BaseException) -> bool:
    """Whether two exceptions are of one type and begin with the same words, or the second is ours.

    Ours say more: a `ShapeError` is the `ValueError` that NumPy raises, with the line.
    """
    if isinstance(two, fuser.FuserError):
        return isinstance(two, type(one))
    first, second = (str(error).split()[:2] for error in (one, two))
    return type(one) is type(two) and first == second


def _differs(wanted: Any, found: Any, others: list[Any], laid_out: bool) -> str:
    """How one value differs from NumPy's; `others` are those of runs with errors.

    Args:
        wanted: NumPy's.
        found: ours.
        others: those of runs with errors.
        laid_out: whether strides and flags count.
    """
    if isinstance(wanted, BaseException) and isinstance(found, BaseException):
        return "" if _same_error(wanted, found) else f"{wanted!r} against {found!r}"
    if type(wanted) is not type(found):
        return f"{type(wanted).__name__} {wanted!r} against {type(found).__name__} {found!r}"
    if not isinstance(wanted, (np.ndarray, np.generic)):
        if isinstance(wanted, (float, complex)):
            numbers = [np.asarray(value) for value in (wanted, found, *others)]
            same = not _wrong(numbers[0], numbers[1], numbers[2:]).any()
        else:
            same = bool(wanted == found) or any(bool(other != wanted) for other in others)
        return "" if same else f"{wanted!r} against {found!r}"
    for name in ("dtype", "shape"):
        if getattr(wanted, name) != getattr(found, name):
            return f"{name} {getattr(wanted, name)} against {getattr(found, name)}"
    if laid_out and isinstance(wanted, np.ndarray) and wanted.size:
        if _moves(wanted) != _moves(found):
            return f"strides {wanted.strides} against {found.strides} of {wanted.shape}"
        if wanted.flags.writeable != found.flags.writeable:
            return f"writeable {wanted.flags.writeable} against {found.flags.writeable}"
    wrong = _wrong(np.asarray(wanted), np.asarray(found), [np.asarray(v) for v in others])
    if not wrong.any():
        return ""
    place = tuple(int(k) for k in np.argwhere(wrong)[0])
    return (
        f"{np.asarray(wanted)[place]!r} against {np.asarray(found)[place]!r} at {place} "
        f"of {wanted.shape}, {int(wrong.sum())} in all"
    )


def _moves(array: Any) -> list[int]:
    """The strides that can be seen: of axes with more than one element."""
    return [s for n, s in zip(array.shape, array.strides, strict=True) if n > 1]


def _wrong(wanted: Any, found: Any, others: list[Any]) -> Any:
    """Where values are not NumPy's, and no error of rounding can make them so."""
    if any(other.shape != wanted.shape for other in others):
        return np.zeros(wanted.shape, bool)  # an error decided which way the program went
    if wanted.dtype.kind == "c":
        parts = [np.stack([v.real, v.imag]) for v in (wanted, found, *others)]
        return _wrong(parts[0], parts[1], parts[2:]).any(0)
    if wanted.dtype.kind != "f":
        wrong = (wanted != found) & ((wanted == wanted) | (found == found))  # objects may be NaN
        for other in others:
            wrong &= wanted == other
        return wrong
    same = (wanted == found) & (np.signbit(wanted) == np.signbit(found))
    same |= np.isnan(wanted) & np.isnan(found)
    allowed = np.zeros(wanted.shape)
    for other in others:
        gap = np.abs(wanted.astype(float) - other.astype(float))
        both = (wanted == other) | (np.isnan(wanted) & np.isnan(other))
        allowed = np.maximum(allowed, np.where(both, 0.0, np.where(np.isnan(gap), np.inf, gap)))
    moved = allowed > 0
    if moved.sum() * 2 >= moved.size > 0:  # no luck: what rounded back to the same may not again
        allowed = np.maximum(allowed, allowed[moved].min())
    near = np.abs(wanted.astype(float) - found.astype(float)) <= SLACK * allowed
    return ~(same | (near & (allowed > 0)) | np.isinf(allowed))


@dataclass
class Verdict:
    """What came of a program: calls, those without a fallback, and the first difference."""

    calls: int = 0
    fused: int = 0
    difference: str = ""


def judge(text: str, name: str = "<program>") -> Verdict:
    """Run a program plainly and fused, call by call, and say how they first differ."""
    found = Verdict()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            plain, fused = _load(text, name), _load(text, name)
            signs = SIGNS if MAY_ROUND.search(text) else ()
            noisy = [_load(text, name, _noise(sign, k)) for k, sign in enumerate(signs)]
        except Exception:  # noqa: BLE001 - a program that cannot be loaded says nothing
            return found
        fused.namespace["f"] = fuser.fuse(fused.namespace["f"], fallback="allow")
        worlds = [plain, fused, *noisy]
        calls = [world.namespace["calls"]() for world in worlds]
        while True:
            before, faulty = fuser.stats().get("fallbacks", 0), faults()
            try:  # one after the other: what a program puts into a module may be for its own world
                steps = [_step(w, next(call)) for w, call in zip(worlds, calls, strict=True)]
            except (StopIteration, Exception):  # noqa: BLE001 - a change of a global may raise
                return found
            found.calls += 1
            found.fused += fuser.stats().get("fallbacks", 0) == before
            text_found = _compared(steps, worlds) or ("fault: " if faults() > faulty else "")
            weak = WEAK.match(text_found)
            if text_found and not (weak and found.difference):
                found.difference = f"call {found.calls}: {text_found}"
            if text_found and not weak:
                return found


def _compared(steps: list[tuple[list[Leaf], float]], worlds: list[World]) -> str:
    """How the second of some outcomes differs from the first; the others have errors."""
    (wanted, plain_s), (found, fused_s), *others = steps
    if fused_s > SLOW_S + 10 * plain_s:
        return f"{fused_s:.1f} s against {plain_s:.1f}"
    if spoilt := worlds[1].spoilt() or (not worlds[0].spoilt() and ""):
        return f"{spoilt} were changed"
    paths = [[path for path, _ in leaves] for leaves in (wanted, found)]
    if any([path for path, _ in leaves] != paths[0] for leaves, _ in others):
        return ""  # rounding decides what happens
    if paths[0] != paths[1]:
        first = next((v for p, v in (*found, *wanted) if p == "error"), "")
        return f"{paths[0][:4]} against {paths[1][:4]} {first!r}"
    one, two = _sharing(wanted), _sharing(found)
    after = f" after {type(wanted[0][1]).__name__}" if wanted[0][0] == "error" else ""
    copies = {s[0] for s in one if s not in two}  # their strides are of no interest
    for k, (path, value) in enumerate(wanted):
        if isinstance(value, np.ndarray) and any(
            np.shape(leaves[k][1]) != value.shape for leaves, _ in others
        ):
            return ""  # rounding decides how long a result is
        off = [leaves[k][1] for leaves, _ in others]
        if text := _differs(value, found[k][1], off, path not in copies):
            return f"{path}: {text}{after}"
    if one != two:
        only = [("fused", s) for s in two if s not in one]
        only += [("NumPy", s) for s in one if s not in two]
        return "sharing: " + "; ".join(f"{who}: {s[0]} {s[2]} {s[1]}" for who, s in only[:9])
    return ""
