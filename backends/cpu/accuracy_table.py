"""Measure every elementary function and write docs/accuracy.md.

    python -m fuser.backends.cpu.accuracy_table --jobs 8 --results accuracy.json docs/accuracy.md

Unary float32 functions are tried on all 2^32 inputs, which takes a minute or two of one core for
each function; binary ones and float64 on random samples and hard cases. What has been measured is
kept in the file of results, so that an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fuser.backends.cpu.accuracy import (
    BASELINE_TARGET,
    FloatErrors,
    Kernel,
    Reference,
    host_target,
    ulp_errors,
    worst,
)
from fuser.backends.cpu.accuracy_samples import (
    BINARY,
    DTYPES,
    Array,
    hard_cases,
    sample_bits,
    sample_pairs,
    sample_ranges,
)
from fuser.backends.cpu.elementary.table import ELEMENTARY

CHUNK = 1 << 18
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
    return Kernel(name, scalar, host_target() if form == "fma" else BASELINE_TARGET)


@cache
def float_tools(name: str) -> tuple[dict[str, Callable[..., Array]], Reference, FloatErrors]:
    """What one process needs to measure a float32 function."""
    measured = {form: implementation(name, "float", form) for form in ("fma", "numpy")}
    found = {form: function for form, function in measured.items() if function is not None}
    return found, Reference(name, "float"), FloatErrors()


def all_floats(name: str, piece: int) -> dict[str, Extreme]:
    """The greatest errors over one of the 2^32 / PIECE pieces of the float32 inputs."""
    functions, reference, errors_of = float_tools(name)
    found = dict.fromkeys(functions, Extreme(-1.0, ()))
    for start in range(piece * PIECE, (piece + 1) * PIECE, CHUNK):
        bits = np.arange(start, start + CHUNK, dtype=np.uint64).astype(np.uint32)
        x = bits.view(np.float32)
        true = reference(x)
        for form, function in functions.items():
            with np.errstate(all="ignore"):
                errors = errors_of(function(x), true)
            found[form] = max(found[form], Extreme(*worst(errors, x)))
    return found


def sampled(name: str, scalar: str, form: str) -> Extreme | None:
    """The greatest error over samples: bit patterns, ranges and hard cases, or random pairs."""
    function = implementation(name, scalar, form)
    if function is None:
        return None
    reference = Reference(name, scalar)
    found = Extreme(-1.0, ())
    for inputs in samples(name, scalar):
        with np.errstate(all="ignore"):
            errors = ulp_errors(function(*inputs), reference(*inputs))
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


def measure_everything(names: list[str], jobs: int, path: Path) -> dict[str, Any]:
    """Fill the file of results with what is not in it yet."""
    results: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    with ProcessPoolExecutor(jobs) as pool:
        for name in names:
            for scalar, form in ((s, f) for s in DTYPES for f in FORMS):
                key = f"{name}/{scalar}/{form}"
                everything = scalar == "float" and form != "plain" and name not in BINARY
                if key not in results and not everything:
                    results[key] = pool.submit(sampled, name, scalar, form).result()
        for name in (name for name in names if name not in BINARY):
            if f"{name}/float/fma" in results:
                continue
            pieces = range((1 << 32) // PIECE)
            parts = list(pool.map(all_floats, [name] * len(pieces), pieces))
            for form in ("fma", "numpy"):
                found = [part[form] for part in parts if form in part]
                results[f"{name}/float/{form}"] = max(found) if found else None
            path.write_text(json.dumps(results, indent=1))
            print(name, results[f"{name}/float/fma"], flush=True)
    path.write_text(json.dumps(results, indent=1))
    return results


def cell(found: list[Any] | None) -> str:
    """One error, for the table."""
    if found is None:
        return "none"
    at = ", ".join(f"{value:.9g}" for value in found[1])
    return f"{found[0]:.2f} ({at})"


def document(results: Mapping[str, Any]) -> str:
    """The page."""
    lines = [
        "# Accuracy of the elementary functions",
        "",
        "The greatest error found, in units in the last place of the true value, and where.",
        "Written by `python -m fuser.backends.cpu.accuracy_table`.",
        "",
        "- float32, unary: all 2^32 inputs, against the C library's double functions.",
        "- float32, binary, and float64: about 10^7 inputs (bit patterns, ranges, hard cases),",
        "  against the C library's 80-bit functions for float64. A sample, not a bound.",
        "- *plain* is the form for processors without FMA, on samples.",
        f"- NumPy is {np.__version__} on the same machine and the same inputs.",
        "",
    ]
    for scalar, dtype in DTYPES.items():
        lines += [f"## {dtype.name}", "", "| function | ulp | plain | NumPy |", "|---|---|---|---|"]
        for name in ELEMENTARY:
            keys = [f"{name}/{scalar}/{form}" for form in FORMS]
            if keys[0] in results:
                cells = [cell(results.get(key)) for key in keys]
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
    chosen = parser.parse_args()
    names = chosen.only or [*FIRST, *(name for name in ELEMENTARY if name not in FIRST)]
    results = measure_everything(names, chosen.jobs, chosen.results)
    chosen.page.write_text(document(results))


if __name__ == "__main__":
    main()
