"""Measure every elementary function and write docs/accuracy.md.

    python tools/accuracy_table.py --jobs 8 --results accuracy.json docs/accuracy.md

Unary float32 functions are tried on all 2^32 inputs, which takes some minutes of one core for
each function; binary ones and float64 on random samples and hard cases. What has been measured is
kept in the file of results, so that an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from fuser.backends.cpu.elementary.table import ELEMENTARY  # noqa: E402
from tests.backends.cpu.accuracy import (  # noqa: E402
    BINARY,
    DTYPES,
    Array,
    Kernel,
    hard_cases,
    host_target,
    reference,
    sample_bits,
    sample_pairs,
    sample_ranges,
    ulp_errors,
    worst,
)

CHUNK = 1 << 16
PIECE = 1 << 26
FORMS = ("fma", "plain", "numpy")
FIRST = ("exp", "tanh", "log", "sigmoid", "sin", "cos", "erf")
"""Measured before the others, being the most used."""


class Extreme(NamedTuple):
    """The greatest error that was found, and where."""

    ulp: float
    at: tuple[float, ...]


def implementation(name: str, scalar: str, form: str) -> Callable[..., Array] | None:
    """The function to measure: our form with FMA, our plain form, or NumPy's."""
    if form == "numpy":
        found: Callable[..., Array] | None = getattr(np, name, None)
        return found
    return Kernel(name, scalar, host_target() if form == "fma" else "baseline")


@cache
def float_kernel(name: str) -> Kernel:
    """A float32 function, compiled once in each process."""
    return Kernel(name, "float", host_target())


def all_floats(name: str, piece: int) -> Extreme:
    """The greatest error over one of the 2^32 / PIECE pieces of the float32 inputs."""
    function, found = float_kernel(name), Extreme(-1.0, ())
    for start in range(piece * PIECE, (piece + 1) * PIECE, CHUNK):
        bits = np.arange(start, start + CHUNK, dtype=np.uint64).astype(np.uint32)
        x = bits.view(np.float32)
        with np.errstate(all="ignore"):
            found = max(found, Extreme(*worst(ulp_errors(function(x), reference(name, x)), x)))
    return found


def sampled(name: str, scalar: str, form: str) -> Extreme | None:
    """The greatest error over samples: bit patterns, ranges and hard cases, or random pairs."""
    function = implementation(name, scalar, form)
    if function is None:
        return None
    found = Extreme(-1.0, ())
    for inputs in samples(name, scalar):
        with np.errstate(all="ignore"):
            errors = ulp_errors(function(*inputs), reference(name, *inputs))
        found = max(found, Extreme(*worst(errors, *inputs)))
    return found


def samples(name: str, scalar: str) -> Iterator[tuple[Array, ...]]:
    """Input arrays, about 10^7 numbers in all."""
    if name in BINARY:
        for seed in range(5):
            yield from sample_pairs(name, scalar, 250_000, seed)
        return
    yield (hard_cases(scalar),)
    yield (sample_bits(scalar, 1 << 21),)
    for seed in range(4):
        for values in sample_ranges(name, scalar, 500_000, seed):
            yield (values,)


def measure(names: list[str], jobs: int, path: Path, *, exhaustive: bool) -> dict[str, Any]:
    """Fill the file of results with what is not in it yet."""
    results: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    with ProcessPoolExecutor(jobs) as pool:
        for name in names:
            if exhaustive and name not in BINARY and f"{name}/float/all" not in results:
                pieces = range((1 << 32) // PIECE)
                found = max(pool.map(all_floats, [name] * len(pieces), pieces))
                results[f"{name}/float/all"] = found
                path.write_text(json.dumps(results, indent=1))
            keys = [(scalar, form) for scalar in DTYPES for form in FORMS]
            wanted = [key for key in keys if f"{name}/{key[0]}/{key[1]}" not in results]
            waiting = {key: pool.submit(sampled, name, *key) for key in wanted}
            for (scalar, form), future in waiting.items():
                results[f"{name}/{scalar}/{form}"] = future.result()
            path.write_text(json.dumps(results, indent=1))
            print(name, results.get(f"{name}/float/all"), flush=True)
    return results


def cell(found: list[Any] | None) -> str:
    """One error, for the table."""
    if found is None:
        return "none"
    at = ", ".join(f"{value:.9g}" for value in found[1])
    return f"{found[0]:.2f} ({at})"


HEAD = f"""# Accuracy of the elementary functions

The greatest error found, in units in the last place of the true value, and where.
Written by `python tools/accuracy_table.py`.

- *all*: all 2^32 inputs of float32, against double. "not run" where only the sample has been
  measured.
- *sample*: about 10^7 inputs (bit patterns, ranges, hard cases), against double for float32 and the
  C library's 80-bit functions for float64. A sample, not a bound.
- *plain*: the form for processors without FMA, on the sample. It computes float32 in double.
- *NumPy*: NumPy {np.__version__} on the same machine and the same sample.
- *target*: at most 2, and 3 for power, tan and erfc.

Beyond |x| = 1.2e5 float32's sin, cos and tan are computed in double, with as many digits of pi as
it takes, and rounded once. The worst double for argument reduction, 6381956970095103 x 2^797, is
left out of the sample, because the 80-bit references are wrong there; the tests have it.
"""


def document(results: Mapping[str, Any]) -> str:
    """The page."""
    lines = HEAD.split("\n")
    for scalar, dtype in DTYPES.items():
        columns = ["all"] * (scalar == "float") + ["sample", "plain", "NumPy"]
        lines += [f"## {dtype.name}", "", f"| function | {' | '.join(columns)} |"]
        lines.append("|---" * (len(columns) + 1) + "|")
        for name in ELEMENTARY:
            if f"{name}/{scalar}/fma" not in results:
                continue
            cells = [cell(results[f"{name}/{scalar}/{form}"]) for form in FORMS]
            if scalar == "float":
                everything = results.get(f"{name}/float/all")
                cells.insert(0, cell(everything) if everything else "not run")
            lines.append(f"| {name} | {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    """Measure and write, as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("page", type=Path)
    parser.add_argument("--results", type=Path, default=Path("accuracy.json"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", nargs="*", choices=sorted(ELEMENTARY))
    parser.add_argument("--sample-only", action="store_true", help="not all of float32")
    chosen = parser.parse_args()
    names = chosen.only or [*FIRST, *(name for name in ELEMENTARY if name not in FIRST)]
    results = measure(names, chosen.jobs, chosen.results, exhaustive=not chosen.sample_only)
    chosen.page.write_text(document(results))


if __name__ == "__main__":
    main()
