"""Functions with loops over arrays, each as somebody may write it, and arguments for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

WEIGHTS = np.linspace(0.5, 1.5, 32)


def jacobi(a: Any, b: Any, n: int) -> None:
    """Two stencils that write into each other's argument."""
    for _ in range(1, n + 1):
        b[1:-1] = 0.33333 * (a[:-2] + a[1:-1] + a[2:])
        a[1:-1] = 0.33333 * (b[:-2] + b[1:-1] + b[2:])


def heat(a: Any, b: Any, n: int) -> Any:
    """A stencil of two axes, whose result is a copy."""
    u = a.copy()
    for _ in range(n):
        u[1:-1] = u[1:-1] + 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2]) + b[1:-1]
    return u


def in_its_own_place(a: Any, b: Any, n: int) -> Any:
    """Each step reads what the same step overwrites."""
    for _ in range(n):
        a[1:] = a[:-1] + b[1:]
    return a


def swapped(a: Any, b: Any, n: int) -> Any:
    """Names change places after each step; the arguments keep what was written into them."""
    u, v = a, b
    for _ in range(n):
        v[1:-1] = 2.0 * u[1:-1] - v[1:-1] + 0.1 * (u[2:] - 2.0 * u[1:-1] + u[:-2])
        u, v = v, u
    return u, v


def three_in_a_ring(a: Any, b: Any, n: int) -> Any:
    """Three arrays in turn."""
    c = a * 0.5
    for _ in range(n):
        c[1:-1] = a[2:] - b[:-2] + c[1:-1]
        a, b, c = b, c, a
    return a, b, c


def new_each_time(a: Any, b: Any, n: int) -> Any:
    """Names of new arrays, and a temporary value."""
    x = a
    for _ in range(n):
        step = x * b
        x = x + 0.25 * step
    return x


def history(a: Any, b: Any, n: int) -> Any:
    """The values of the last two iterations are kept."""
    old, now = a, b
    for _ in range(n):
        new = now + 0.5 * old
        old = now
        now = new
    return old, now


def last_value(a: Any, b: Any, n: int) -> Any:
    """What is set in an iteration is read after the loop."""
    x = a * 1.0
    step = b
    for _ in range(n):
        step = x * b
        x = x - 0.1 * step
    return x + step


def index_as_number(a: Any, b: Any, n: int) -> Any:
    """The index takes part in arithmetic."""
    m = a * 0.0
    for t in range(1, n + 1):
        m = 0.9 * m + 0.1 * b * t
        a = a - m / (1.0 - 0.9**t)
    return a


def index_read_afterwards(a: Any, b: Any, n: int) -> Any:
    """The index outlives the loop."""
    t = 7
    for t in range(3, n + 3):  # noqa: B007 - it is read below
        a = a + b
    return a * t


def backwards(a: Any, b: Any, n: int) -> Any:
    """A range that counts down by two."""
    for t in range(2 * n, 0, -2):
        a = a * 0.5 + b * t
    return a


def number_carried(a: Any, b: Any, n: int) -> Any:
    """A Python number changes with each iteration."""
    time, dt = 0.0, 0.125
    for _ in range(n):
        a = a + dt * (b - time)
        time = time + dt
    return a


def whole_number_carried(a: Any, b: Any, n: int) -> Any:
    """A Python integer does."""
    k = 1
    for _ in range(n):
        a = a + b * k
        k = (k * 3) % 1000
    return a


def accumulated(a: Any, b: Any, n: int) -> Any:
    """A sum of sums that begins as a Python number."""
    total = 0.0
    for _ in range(n):
        a = a * 0.5 + b
        total += a.sum()
    return a * total


def grows_a_type(a: Any, b: Any, n: int) -> Any:
    """The first iteration makes another dtype."""
    x = a.astype(np.float32)
    for _ in range(n):
        x = x + b
    return x


def of_booleans(a: Any, b: Any, n: int) -> Any:
    """Truth values and selections."""
    z, steps = np.zeros_like(a), np.zeros(a.shape, dtype=np.int64)
    for _ in range(n):
        alive = np.abs(z) < 2.0
        steps = steps + alive
        z = np.where(alive, z * z + b, z)
    return z, steps


def nested(a: Any, b: Any, n: int) -> Any:
    """A loop in a loop."""
    for _ in range(n):
        for _ in range(n + 2):
            a = a * 0.9 + b
        b = b * 0.5
    return a, b


def nested_by_the_outer_index(a: Any, b: Any, n: int) -> Any:
    """The inner loop's bound is the outer one's index."""
    for i in range(1, n + 1):
        for j in range(i):
            a = a * 0.9 + b * j
    return a


def one_after_the_other(a: Any, b: Any, n: int) -> Any:
    """Two loops; names of the first mean other things in the second."""
    for _ in range(n):
        t = a * b
        a = a - 0.1 * t
    for _ in range(2 * n):
        t = b + 1.0
        b = b * 0.5 + t
    return a + b


def view_from_before(a: Any, b: Any, n: int) -> Any:
    """A view that was made before the loop sees what the loop writes, and is written through."""
    inner = a[1:-1]
    for _ in range(n):
        inner[:] = 0.5 * (a[:-2] + a[2:])
        b[1:-1] = b[1:-1] + inner
    return inner


def view_of_a_swapped_array(a: Any, b: Any, n: int) -> Any:
    """A view looks at memory whose name moves on."""
    first = a[:1]
    u, v = a, b
    for _ in range(n):
        v[:] = u * 0.5 + first
        u, v = v, u
    return u, v, first


def augmented(a: Any, b: Any, n: int) -> Any:
    """Statements that change arrays in place."""
    for _ in range(n):
        a += b
        b *= 0.5
        a[2:] -= b[:-2]
    return a


def out_given(a: Any, b: Any, n: int) -> Any:
    """`out=` of a function."""
    buffer = np.zeros_like(a)
    for _ in range(n):
        np.multiply(a, 0.5, out=buffer)
        np.add(buffer, b, out=a)
    return a, buffer


def step_of(u: Any, b: Any) -> Any:
    """One step, for `by_a_helper`."""
    return u * 0.75 + b * WEIGHTS[: u.shape[0]].sum()


def by_a_helper(a: Any, b: Any, n: int) -> Any:
    """The body calls another function, which reads a global array."""
    for _ in range(n):
        a = step_of(a, b)
    return a


def by_its_own_function(a: Any, b: Any, n: int) -> Any:
    """The body calls a function that is made in this one, and reads an array of it."""
    pull = b * 0.25

    def slope(time: float, u: Any) -> Any:
        return np.array([u[1], -u[0] * time]) + pull[:2]

    path, step = np.zeros((n + 1, 2)), 0.125
    path[0] = a[:2]
    for k in range(n):
        first = slope(k * step, path[k])
        second = slope(k * step + step / 2, path[k] + step / 2 * first)
        path[k + 1] = path[k] + step * second
    return path


def by_its_own_function_that_writes(a: Any, b: Any, n: int) -> Any:
    """Likewise, and the function writes into an array of this one."""
    total = np.zeros_like(a)

    def note(u: Any) -> Any:
        total[...] += u
        return np.add(u, b, out=u)

    for _ in range(n):
        a = note(a * 0.5) - total * 0.25
    return a, total


def by_its_own_function_that_counts(a: Any, b: Any, n: int) -> Any:
    """Likewise, and it changes a number of this one: every iteration is another's."""
    count = 0

    def note(u: Any) -> Any:
        nonlocal count
        count += 1
        return u + b

    for _ in range(n):
        a = note(a)
    return a, count


def relax(a: Any, b: Any) -> None:
    """A loop of its own over a new array, and one value at several places, for `by_two_loops`."""
    old = np.empty_like(a)
    for _ in range(3):
        old = a.copy()
        a[1:-1] = 0.5 * (old[2:] + old[:-2]) + b[1:-1]
        a[0] = a[1]


def by_two_loops(a: Any, b: Any, n: int) -> Any:
    """The body calls a function that writes into its argument, in a loop of its own."""
    for _ in range(n):
        c = b * a
        relax(a, c)
        b[1:-1] = b[1:-1] * 0.5 + a[1:-1]
        a[0] = b[0] = b[-1] = 0
    return b


def global_weights(a: Any, b: Any, n: int) -> Any:
    """The body reads a global array."""
    for _ in range(n):
        a = a * WEIGHTS[0] + b * WEIGHTS[1]
    return a


def products(a: Any, b: Any, n: int) -> Any:
    """A matrix product, which NumPy runs, in each iteration."""
    matrix = np.outer(b, b) * 0.01
    x = a
    for _ in range(n):
        x = matrix @ x + b
    return x


def conjugate_gradients(a: Any, b: Any, n: int) -> Any:
    """The method with a fixed number of steps."""
    matrix = np.outer(a, a) + np.diag(np.abs(b) + 1.0)
    x = np.zeros_like(b)
    r = b - matrix @ x
    p = r.copy()
    rs = r @ r
    for _ in range(min(n, 4)):
        q = matrix @ p
        alpha = rs / (p @ q)
        x = x + alpha * p
        r = r - alpha * q
        new = r @ r
        p = r + (new / rs) * p
        rs = new
    return x


def decided_by_a_flag(a: Any, b: Any, n: int) -> Any:
    """A decision that is the same in every iteration."""
    mode = "half"
    for _ in range(n):
        if mode == "half":
            a = a * 0.5
        else:
            a = a * 2.0
        a = a + b
    return a


def other_dtype_written(a: Any, b: Any, n: int) -> Any:
    """Values are converted when they are stored."""
    counts = np.zeros(a.shape, dtype=np.int32)
    for _ in range(n):
        counts[1:-1] = a[2:] * 10
        a = a - counts * 0.001 + b
    return a, counts


def same_array_twice(a: Any, b: Any, n: int) -> Any:
    """Two names for one array."""
    c = a
    for _ in range(n):
        a[1:] = c[:-1] * 0.5 + b[1:]
    return a, c


def two_names_become_one(a: Any, b: Any, n: int) -> Any:
    """After an iteration two names stand for one array, which is written into."""
    c = b * 1.0
    for _ in range(n):
        c[1:] = a[:-1] + 1.0
        a = c
    return a, c


def chosen_by_index(a: Any, b: Any, n: int) -> Any:
    """The index decides."""
    for t in range(n):
        if t % 2 == 0:
            a = a + b
        else:
            a = a * 0.5
    return a


def indexed_by_index(a: Any, b: Any, n: int) -> Any:
    """The index is an index."""
    for t in range(min(n, a.shape[0] - 1)):
        a[t + 1] = a[t] * 0.5 + b[t]
    return a


def left_early(a: Any, b: Any, n: int) -> Any:
    """`break`, `continue` and `else`."""
    for t in range(n):
        if t == 3:
            break
        if t == 1:
            continue
        a = a + b
    else:
        a = a * 3.0
    return a


def returned_early(a: Any, b: Any, n: int) -> Any:
    """`return` in a loop."""
    for t in range(n):
        a = a + b
        if t == 2:
            return a * 2.0
    return a


def appended(a: Any, b: Any, n: int) -> Any:
    """A list that is appended to."""
    found = []
    for _ in range(min(n, 6)):
        a = a * 0.5 + b
        found.append(a.sum())
    return np.array(found) if found else a


def tuple_of_arrays(a: Any, b: Any, n: int) -> Any:
    """Arrays in a tuple."""
    state = (a, b)
    for _ in range(n):
        state = (state[0] + state[1], state[1] * 0.5)
    return state[0]


def conditionally_set(a: Any, b: Any, n: int) -> Any:
    """A name is set in the first iteration."""
    for t in range(n):
        if t == 0:
            c = b * 2.0
        a = a + c
    return a


def sorted_each_time(a: Any, b: Any, n: int) -> Any:
    """A function that NumPy runs, and a written slice of its result."""
    for _ in range(n):
        c = np.sort(a)
        c[1:] = c[:-1] * 0.5
        a = c + b
    return a


def transposed(a: Any, b: Any, n: int) -> Any:
    """The carried array is seen another way after each step."""
    m = np.outer(a, b)
    for _ in range(n):
        m = (m * 0.5 + 1.0).T
    return m


def by_length(a: Any, b: Any, n: int) -> Any:
    """As many iterations as there are elements."""
    for _ in range(len(a)):
        a = a * 0.75 + b
    return a + n


def stated(a: Any, b: Any, n: int) -> Any:
    """The code states the number of iterations."""
    for _ in range(50):
        a[1:-1] = 0.5 * (a[2:] + a[:-2])
    return a + b * n


def invariants(a: Any, b: Any, n: int) -> Any:
    """What all iterations compute alike."""
    for _ in range(n):
        a = a * np.exp(-b * b) + np.sqrt(np.abs(b)).sum()
    return a


def length_by_integer(a: Any, b: Any, n: int) -> Any:
    """An integer argument is a length and a bound before the loop, and the number of iterations."""
    x = np.zeros(n + 3) + a[0]
    first = b[: n + 1]
    for _ in range(n):
        x = x * 0.5 + 1.0
        first = first * 0.25 - 1.0
    return x, first


def integer_inside(a: Any, b: Any, n: int) -> Any:
    """An integer argument is a bound in the body."""
    k = min(n, 4)
    for _ in range(6):
        a[k:] = a[k:] * 0.5 + b[k:]
        a[:k] = b[:k] - a[:k]
    return a


#: Seen as loops: one trace serves every number of iterations from some number on.
REGIONS: tuple[Callable[..., Any], ...] = (
    jacobi, heat, in_its_own_place, swapped, three_in_a_ring, new_each_time, history, last_value,
    index_as_number, index_read_afterwards, backwards, number_carried, whole_number_carried,
    accumulated, grows_a_type, of_booleans, nested, one_after_the_other, view_from_before,
    augmented, out_given, by_a_helper, by_its_own_function, by_two_loops, global_weights,
    products, decided_by_a_flag,
    other_dtype_written, same_array_twice, sorted_each_time, by_length, stated, invariants,
    nested_by_the_outer_index, conjugate_gradients,
)  # fmt: skip
#: Unrolled, or left to NumPy.
OTHERS: tuple[Callable[..., Any], ...] = (
    view_of_a_swapped_array, two_names_become_one, chosen_by_index, indexed_by_index, left_early,
    returned_early, appended, tuple_of_arrays, conditionally_set, transposed, integer_inside,
    length_by_integer, by_its_own_function_that_writes, by_its_own_function_that_counts,
)  # fmt: skip


def arguments(dtype: str, length: int = 12, seed: int = 3) -> tuple[Any, Any]:
    """Two arrays of some dtype, a NaN, an infinity and both zeros among them."""
    random = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "i":
        return random.integers(-9, 9, length).astype(dtype), random.integers(
            -9, 9, length).astype(dtype)
    a, b = random.standard_normal((2, length)).astype(dtype)
    if seed == 5:
        a[2], b[4], a[6], b[6] = np.nan, np.inf, 0.0, -0.0
    return a, b
