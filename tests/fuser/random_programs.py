"""Random NumPy programs, and how far rounding may carry two ways of running them apart.

A program is a list of steps over a growing list of values, so it shrinks well and runs on arrays
and on traced arrays alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

from fuser.ir.ops import TABLE

Array = Any
DTYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split()
#: Steps that jump: an error of their operands is not bounded by slopes.
JUMPS = frozenset(
    "floor_divide remainder fmod sign rint floor ceil trunc equal not_equal less less_equal "
    "greater greater_equal logical_and logical_or logical_xor logical_not isnan isinf isfinite "
    "signbit copysign nextafter spacing heaviside cast".split()
)
#: Not fmax and fmin (of 0.0 and -0.0 NumPy gives either, by the place in its loop), logaddexp
#: (NumPy cancels near 0) and reciprocal (of the integer 0 it converts infinity).
BINARY = (
    "add subtract multiply divide floor_divide remainder fmod maximum minimum "
    "equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor "
    "bitwise_and bitwise_or bitwise_xor left_shift right_shift copysign nextafter heaviside "
    "gcd arctan2 hypot true_divide".split()
)
UNARY = (
    "negative positive absolute fabs sign square sqrt cbrt exp exp2 expm1 log log2 log10 log1p "
    "sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh deg2rad rint floor ceil trunc "
    "logical_not invert isnan isinf isfinite signbit spacing bitwise_count".split()
)
#: NumPy's own vectorised functions are this many units in the last place off, or better.
NUMPY_ULP = 4.0


@dataclass(frozen=True)
class Step:
    """One operation: its name, the function, the values it takes, and whether it may jump."""

    name: str
    apply: Callable[..., Array]
    operands: tuple[int, ...]
    ulp: float = 0.0


@dataclass
class Program:
    """Inputs, steps and outputs; calling it runs the steps."""

    inputs: list[Array]
    steps: list[Step] = field(default_factory=list)
    outputs: tuple[int, ...] = ()

    def __call__(self, *inputs: Array) -> tuple[Array, ...]:
        """Run the steps on arrays or on traced arrays."""
        values = list(inputs)
        for step in self.steps:
            values.append(step.apply(*(values[place] for place in step.operands)))
        return tuple(values[place] for place in self.outputs)

    def function(self) -> Callable[..., tuple[Array, ...]]:
        """The program as a user writes it, a statement for each step."""
        lines = [f"v{k}" for k in range(len(self.inputs))]
        body = [f"def program({', '.join(lines)}):"]
        first = len(self.inputs)
        body += [
            f"    v{first + k} = f{k}({', '.join(f'v{place}' for place in step.operands)})"
            for k, step in enumerate(self.steps)
        ]
        body.append(f"    return {''.join(f'v{place}, ' for place in self.outputs)}")
        names: dict[str, Any] = {f"f{k}": step.apply for k, step in enumerate(self.steps)}
        exec("\n".join(body), names)
        found: Callable[..., tuple[Array, ...]] = names["program"]
        return found

    def __repr__(self) -> str:
        """For hypothesis: inputs by dtype, shape and strides, then the steps."""
        lines = [f"v{k}: {v.dtype}{v.shape} {v.strides}" for k, v in enumerate(self.inputs)]
        first = len(self.inputs)
        lines += [
            f"v{first + k} = {step.name}({', '.join(f'v{place}' for place in step.operands)})"
            for k, step in enumerate(self.steps)
        ]
        return "\n  ".join(["Program", *lines, f"return {self.outputs}"])


def random_array(random: Random, dtype: str, shape: Sequence[int]) -> Array:
    """An array with some edge values, in C, Fortran, strided, reversed or repeated layout."""
    kind = np.dtype(dtype).kind
    size = int(np.prod(shape, dtype=int))
    if kind == "b":
        flat = np.array([random.random() < 0.5 for _ in range(size)], bool)
    elif kind in "iu":
        limits = np.iinfo(dtype)
        edges = [0, 1, limits.min, limits.max, 2, 3]
        flat = np.array(
            [
                random.choice(edges) if random.random() < 0.2 else random.randint(0, 9)
                for _ in range(size)
            ],
            dtype,
        )
    else:
        edges = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, float(np.finfo(dtype).tiny)]
        flat = np.array(
            [
                random.choice(edges) if random.random() < 0.15 else random.uniform(-3, 3)
                for _ in range(size)
            ],
            dtype,
        )
    return laid_out(random, flat.reshape(shape))


def laid_out(random: Random, array: Array) -> Array:
    """The same values in some other memory layout."""
    order = list(range(array.ndim))
    random.shuffle(order)
    back = np.argsort(order)
    style = random.randrange(4)
    moved = array.transpose(order)
    if style == 0 or not array.ndim:
        return np.ascontiguousarray(array).reshape(array.shape)
    if style == 1:
        return moved.copy("C").transpose(back)
    steps = tuple(random.choice((1, 2, -1, -2)) for _ in moved.shape)
    room = np.zeros([n * abs(s) for n, s in zip(moved.shape, steps, strict=True)], array.dtype)
    view = room[tuple(slice(None, None, step) for step in steps)]
    view[...] = moved
    if style == 3 and array.size:  # one axis repeats
        axis = random.randrange(array.ndim)
        first = view[tuple(slice(0, 1) if k == axis else slice(None) for k in range(array.ndim))]
        view = np.broadcast_to(first, moved.shape)
    return view.transpose(back)


def random_program(random: Random, dtypes: Sequence[str] = DTYPES, length: int = 8) -> Program:
    """Inputs of a few shapes that broadcast, then steps that NumPy accepts."""
    a, b = random.choice((0, 1, 2, 3, 5, 17)), random.choice((1, 2, 3, 4, 33))
    shapes = [(a, b), (b,), (a, 1), (1, b), (), (a, b), (a, b), (2, a, b), (1, 1), (b, a)]
    program = Program(
        [
            random_array(random, random.choice(list(dtypes)), random.choice(shapes))
            for _ in range(random.randint(1, 4))
        ]
    )
    values: list[Array] = list(program.inputs)
    inexact = [False] * len(values)
    made = 0
    for _ in range(6 * length):
        if made == length:
            break
        step = random_step(random, values, inexact)
        if step is None:
            continue
        try:
            with np.errstate(all="ignore"):
                value = step.apply(*(values[place] for place in step.operands))
        except (TypeError, ValueError, IndexError, OverflowError):
            continue
        if not isinstance(value, (np.ndarray, np.generic)) or value.size > 20_000:
            continue
        if value.dtype.name not in DTYPES:
            continue
        program.steps.append(step)
        values.append(value)
        inexact.append(step.ulp > 0 or any(inexact[place] for place in step.operands))
        made += 1
    last = range(len(program.inputs), len(values))
    wanted = {random.choice(last) for _ in range(random.randint(1, 3))} if last else {0}
    program.outputs = tuple(sorted(wanted))
    return program


def random_step(random: Random, values: list[Array], inexact: list[bool]) -> Step | None:
    """One step over the values so far; None where the choice does not fit."""
    place = random.randrange(len(values))
    value = values[place]
    kind = random.choice(("binary", "binary", "binary", "unary", "unary", "view", "view",
                          "scalar", "where", "cast", "join", "clip", "copy"))  # fmt: skip
    if kind == "binary":
        other = random.randrange(len(values))
        name = random.choice(BINARY)
        if name in JUMPS and (inexact[place] or inexact[other]):
            return None
        return Step(name, getattr(np, name), (place, other), ulp_of(name))
    if kind == "unary":
        name = random.choice(UNARY)
        if name in JUMPS and inexact[place]:
            return None
        return Step(name, getattr(np, name), (place,), ulp_of(name))
    if kind == "scalar":
        name = random.choice(("add", "multiply", "subtract", "divide", "maximum"))
        number = random.choice((0, 1, 2, 3, 0.5, -1.5, 2.0, True, np.float32(0.5), np.int8(3)))
        ufunc = getattr(np, name)
        if random.random() < 0.5:
            return Step(f"{name}[., {number!r}]", lambda x: ufunc(x, number), (place,))
        return Step(f"{name}[{number!r}, .]", lambda x: ufunc(number, x), (place,))
    if kind == "where":
        masks = [k for k, v in enumerate(values) if v.dtype == bool]
        if not masks:
            return None
        other = random.randrange(len(values))
        return Step("where", np.where, (random.choice(masks), place, other))
    if kind == "cast":
        return None if inexact[place] else cast_step(random, place, value)
    if kind == "copy":
        name = random.choice(("copy", "np.copy", "astype", "zeros_like"))
        forms: dict[str, Callable[[Array], Array]] = {
            "copy": lambda x: x.copy(),
            "np.copy": lambda x: np.copy(x),
            "astype": lambda x: x.astype(x.dtype),
            "zeros_like": lambda x: np.zeros_like(x) + x,
        }
        return Step(name, forms[name], (place,))
    if kind == "clip":
        low, high = random.choice(((0, 1), (None, 2), (1, None), (-0.5, 0.5)))
        return Step(f"clip[{low}, {high}]", lambda x: np.clip(x, low, high), (place,))
    if kind == "join":
        step = join_step(random, place, values)
        meets = step is not None and step.name.startswith(("diff", "split"))
        # Two elements of one operand meet there: slopes do not tell how their errors add.
        return None if meets and inexact[place] else step
    return view_step(random, place, value)


def ulp_of(name: str) -> float:
    """The error of a row, in units in the last place."""
    row = TABLE.get({"true_divide": "divide"}.get(name, name))
    return row.ulp + NUMPY_ULP if row is not None and row.ulp else 0.0


def cast_step(random: Random, place: int, value: Array) -> Step:
    """A conversion; floats are brought into range first: out of range is unspecified."""
    wanted = random.choice(DTYPES)
    if value.dtype.kind == "f" and np.dtype(wanted).kind in "iu":
        low = -100 if np.dtype(wanted).kind == "i" else 0
        return Step(
            f"cast {wanted}",
            lambda x: np.where(np.isfinite(x), np.clip(x, low, 100), 0).astype(wanted),
            (place,),
        )
    return Step(f"cast {wanted}", lambda x: x.astype(wanted), (place,))


def join_step(random: Random, place: int, values: list[Array]) -> Step | None:
    """Concatenate, stack, or split and join the other way round."""
    value = values[place]
    if not value.ndim:
        return None
    axis = random.randrange(value.ndim)
    same = [k for k, v in enumerate(values) if v.shape == value.shape]
    other = random.choice(same)
    form = random.choice(("concatenate", "stack", "roll", "split", "diff"))
    if form == "concatenate":
        return Step(f"cat {axis}", lambda x, y: np.concatenate([x, y], axis), (place, other))
    if form == "stack":
        return Step(f"stack {axis}", lambda x, y: np.stack([x, y], axis), (place, other))
    if form == "roll" and value.shape[axis] > 2:  # else NumPy and we differ in memory order
        return Step(f"roll {axis}", lambda x: np.roll(x, 1, axis), (place,))
    if form == "diff":
        return Step(f"diff {axis}", lambda x: np.diff(x, axis=axis), (place,))
    return Step(f"split {axis}", lambda x: np.subtract(*np.split(x, 2, axis)), (place,))


def view_step(random: Random, place: int, value: Array) -> Step | None:
    """Look at a value in another way."""
    rank = value.ndim
    axis = random.randrange(rank) if rank else 0
    lead = (slice(None),) * axis
    slices = (slice(1, None), slice(None, -1), slice(None, None, 2), slice(None, None, -1),
              slice(1, -1), slice(-2, None), slice(None, 2), slice(3, 0, -2))  # fmt: skip
    part = random.choice(slices)
    order = list(range(rank))
    random.shuffle(order)
    forms: dict[str, Callable[[Array], Array]] = {
        f"transpose {order}": lambda x: np.transpose(x, order),
        "reshape -1": lambda x: x.reshape(-1),
        "newaxis": lambda x: x[(*lead, None)],
        "broadcast_to": lambda x: np.broadcast_to(x, (2, *value.shape)),
    }
    if rank:
        forms |= {
            f"index {axis} {part}": lambda x: x[(*lead, part)],
            f"flip {axis}": lambda x: np.flip(x, axis),
            f"pick {axis}": lambda x: x[(*lead, 0)],
            f"split axis {axis}": lambda x: x.reshape(
                (*value.shape[:axis], 1, *value.shape[axis:])
            ),
        }
    if rank > 1:
        forms["reshape merged"] = lambda x: x.reshape((-1, value.shape[-1]))
    name = random.choice(list(forms))
    return Step(name, forms[name], (place,))


def expected(program: Program) -> tuple[list[Array], list[Array]]:
    """NumPy's outputs, and for each how far another right answer may be from it.

    First-order propagation (Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed.,
    section 3.4): a step adds its own units in the last place, and carries each operand's error
    on by its slope there, taken as the change when the operand moves by its error.
    """
    values: list[Array] = list(program.inputs)
    errors: list[Array] = [None] * len(values)
    with np.errstate(all="ignore"):
        for step in program.steps:
            operands = [values[place] for place in step.operands]
            value = step.apply(*operands)
            errors.append(_error(step, operands, [errors[p] for p in step.operands], value))
            values.append(value)
    return [values[p] for p in program.outputs], [errors[p] for p in program.outputs]


def _error(step: Step, operands: list[Array], errors: list[Array], value: Array) -> Array:
    """The absolute error of one step's result, or None where it is exact."""
    if not step.ulp and all(error is None for error in errors):
        return None
    total = np.zeros(value.shape)
    if value.dtype.kind == "f":
        # A conversion of the operands to float64 keeps every one of their values.
        rounding = step.ulp if step.ulp else 1.0
        total = total + rounding * np.spacing(np.abs(value)).astype(np.float64)
    wide = [x.astype(np.float64) if x.dtype.kind == "f" else x for x in operands]
    for place, error in enumerate(errors):
        if error is None:
            continue
        for sign in (1.0, -1.0):
            moved = list(wide)
            moved[place] = wide[place] + sign * error
            change = step.apply(*moved).astype(np.float64) - step.apply(*wide).astype(np.float64)
            total = total + np.where(np.isnan(change), np.inf, np.abs(change))
    return total


def beyond(wanted: Array, found: Array, error: Array) -> Array:
    """Where a result is further from NumPy's than its error allows."""
    wanted, found = np.asarray(wanted), np.asarray(found)
    if wanted.dtype.kind != "f":
        return wanted != found
    same = (wanted == found) | (np.isnan(wanted) & np.isnan(found))
    if error is None:
        return ~(same & ((np.signbit(wanted) == np.signbit(found)) | np.isnan(wanted)))
    with np.errstate(all="ignore"):
        gap = np.abs(wanted.astype(np.float64) - found.astype(np.float64))
        return ~(same | (gap <= error) | np.isinf(error) | np.isnan(error))
