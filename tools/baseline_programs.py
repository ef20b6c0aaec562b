"""Programs as graphs' texts: gathered from the tests, and run again by any checkout.

`baseline.py` starts this file in processes of their own, whose path has the checkout that is looked
at. As a plugin of pytest (`-p baseline_programs`) it writes down every graph that the tests have
compiled, with the layouts of the arrays that it was called with. As a script it takes such
programs, or names of workloads, one a line, and prints what the checkout makes of each: plans,
bytes, the digests of all kernels' texts, and of the bits of results.

What it knows of the fuser's inside is the class `Inside`; the rest is the public interface.
"""

from __future__ import annotations

import importlib
import itertools
import json
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

import numpy as np

CALLS = 3
"""Layouts that are kept of one program, so many at most."""
LARGEST_BYTES = 1 << 24
"""Calls whose arrays span more are not kept."""
NOMINAL = (96, 104, 112, 80, 88, 72)
"""Lengths that bytes are counted for."""
LAST_CACHE_BYTES = 32 << 20
"""Whatever the machine has: kernels choose by it whether to write past the caches."""

Program = Mapping[str, Any]
Found = dict[str, Any]


def digest(text: str | bytes) -> str:
    """Eight letters that stand for a text."""
    return sha256(text.encode() if isinstance(text, str) else text).hexdigest()[:8]


class Inside:
    """What is asked of the fuser beside its public interface."""

    @staticmethod
    def pin(target: str) -> dict[str, Any]:
        """Have texts made for a stated processor, whatever this one is; what was pinned."""
        machine: Any = importlib.import_module("fuser.backends.cpu.machine.target")
        features = machine.KNOWN_TARGETS[target][2]
        machine.host_features = lambda: features
        machine.stream_bytes = lambda: LAST_CACHE_BYTES
        return {"target": target, "features": str(features), "last_cache": LAST_CACHE_BYTES}

    @staticmethod
    def texts(found: list[str]) -> None:
        """Have the digest of every text of a CPU kernel appended to a list."""
        module = importlib.import_module("fuser.backends.cpu.emit")
        emit = module.emit

        def noted(nests: Any, name: str, *given: Any, **more: Any) -> str:
            text: str = emit(nests, name, *given, **more)
            found.append(digest(text.replace(name, "kernel")))
            return text

        _replace(emit, noted)

    @staticmethod
    def prepared(graph: Any, mode: str, fastmath: bool, checked: bool) -> int:
        """The key of a graph that is compiled upfront."""
        partition = importlib.import_module("fuser.programs.partition")
        spec = partition.prepare(graph, mode, fastmath, checked)
        keep = getattr(importlib.import_module("fuser.kernel_cache"), "keep", None)
        return int(spec.key if keep is None else keep(spec))  # older checkouts keep all

    @staticmethod
    def plan(key: int) -> Found:
        """The plan's digest, its kernels, and the bytes that it moves at nominal lengths."""
        spec = importlib.import_module("fuser.kernel_cache").retrieve(key)
        text = importlib.import_module("fuser.compiler").describe(spec)
        found: Found = {"plan": digest(text), "kernels": len(spec.plan.groups)}
        names = sorted(set(re.findall(r"\bn\d+\b", spec.graph.text)), key=lambda n: int(n[1:]))
        sizes = dict(zip(names, itertools.cycle(NOMINAL), strict=False))
        try:
            ledger = importlib.import_module("fuser.traffic.ledger").ledger(spec, sizes)
        except Exception:  # noqa: BLE001 - lengths that this graph does not take
            return found
        return {**found, "bytes": ledger.planned_bytes}

    @staticmethod
    def watch(compiled: Callable[..., object], called: Callable[..., object]) -> None:
        """Say which graphs are compiled, with which options, and called with which arrays."""
        cache = importlib.import_module("fuser.kernel_cache")
        executor = importlib.import_module("fuser.executor")
        lookup, bound = cache.lookup, executor.bound

        def noted_lookup(graph: Any, options: Any, build: Any) -> Any:
            if not graph.has_externs:
                compiled(graph.text, options)
            return lookup(graph, options, build)

        def noted_bound(spec: Any, buffers: Any, sizes: Any, backend_name: str) -> Any:
            arrays = [buffers.get(each.name) for each in spec.graph.parameters]
            called(spec.text, (spec.mode, spec.fastmath, spec.checked), arrays)
            return bound(spec, buffers, sizes, backend_name)

        _replace(lookup, noted_lookup)
        _replace(bound, noted_bound)


def _replace(old: Any, new: Any) -> None:
    """Put a function in another one's place, wherever it was imported to."""
    for module in list(sys.modules.values()):
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if value is old:
                setattr(module, name, new)


# -- gathered from the tests ------------------------------------------------------------------


class Gathered:
    """The programs of one pytest process."""

    def __init__(self) -> None:
        """Watch the fuser from now on."""
        self.test = ""
        self.programs: dict[tuple[str, tuple[Any, ...]], Found] = {}
        Inside.watch(self.compiled, self.called)

    def compiled(self, text: str, options: tuple[Any, ...]) -> Found:
        """Remember a graph, and the test that was first to have it."""
        return self.programs.setdefault((text, options), {"test": self.test, "calls": []})

    def called(self, text: str, options: tuple[Any, ...], arrays: Sequence[Any]) -> None:
        """Remember the layouts of a call."""
        if not all(each is None or isinstance(each, np.ndarray) for each in arrays):
            return
        if sum(map(span, (each for each in arrays if each is not None))) > LARGEST_BYTES:
            return
        call = [each if each is None else [each.shape, each.strides] for each in arrays]
        calls = self.compiled(text, options)["calls"]
        if call not in calls and len(calls) < CALLS:
            calls.append(call)

    def write(self) -> None:
        """Write down what is known so far, where the environment says: one program a line."""
        lines = [
            json.dumps({"graph": text, "mode": mode, "fastmath": fast, "checked": checked, **found})
            for (text, (mode, fast, checked)), found in sorted(self.programs.items())
        ]
        with open(f"{os.environ['BASELINE_PROGRAMS']}.{os.getpid()}", "w", encoding="utf-8") as to:
            to.writelines(f"{line}\n" for line in lines)


def span(array: Any) -> int:
    """The bytes of memory from an array's first to its last element."""
    low, high = np.lib.array_utils.byte_bounds(array)
    return int(high - low)


def pytest_configure(config: Any) -> None:
    """Watch from before the first test."""
    importlib.import_module("fuser.executor")
    config.gathered = Gathered()


def pytest_runtest_setup(item: Any) -> None:
    """Remember which test runs; after each file, what came of it: a run may not reach its end."""
    gathered, test = item.config.gathered, item.nodeid.partition("[")[0]
    if gathered.test.partition("::")[0] != test.partition("::")[0]:
        gathered.write()
    gathered.test = test


def pytest_unconfigure(config: Any) -> None:
    """Write down all."""
    config.gathered.write()


# -- run again --------------------------------------------------------------------------------


def arrays_of(program: Program, call: Sequence[Any], parameters: Iterable[Any]) -> list[Any]:
    """Arguments of a call of a program: the same values each time, NaN and zeros among them."""
    generator = np.random.default_rng(7)
    numbers = {"float": 1.25, "int": 3, "bool": True}
    found: list[Any] = []
    for parameter, layout in zip(parameters, call, strict=True):
        if parameter.dtype is None:
            found.append(numbers[parameter.kind])
            continue
        shape, strides = (tuple(each) for each in layout)
        found.append(_laid_out(generator, parameter.dtype, shape, strides))
    return found


def _laid_out(generator: Any, dtype: Any, shape: Any, strides: Any) -> Any:
    """An array of a dtype, shape and strides, filled with values of both signs."""
    reach = [(n - 1) * step for n, step in zip(shape, strides, strict=True) if n > 0]
    low = sum(min(step, 0) for step in reach)
    count = (sum(max(step, 0) for step in reach) - low) // dtype.itemsize + 2
    values = generator.standard_normal(min(count, 4099)) * 3
    values[::97], values[50::389] = 0.0, np.nan if dtype.kind in "fc" else 0.0
    if dtype.kind in "iub":
        values = np.abs(values) if dtype.kind == "u" else np.rint(values)
    memory = np.resize(values.astype(dtype), count)
    return np.ndarray(shape, dtype, memory, -low, strides)


def result_digest(results: Iterable[Any]) -> str:
    """Of dtypes, shapes and bits; every NaN is one."""
    known = sha256()
    for each in results:
        array = np.asarray(each)
        known.update(f"{array.dtype} {array.shape}".encode())
        if array.dtype.kind in "fc":
            array = np.where(np.isnan(array), array.dtype.type(np.nan), array)
        known.update(np.ascontiguousarray(array).tobytes())
    return known.hexdigest()[:8]


class Again:
    """Runs programs and workloads, and notes what comes of each."""

    def __init__(self, target: str) -> None:
        """Pin the target and watch texts."""
        self.fuser: Any = importlib.import_module("fuser")
        self.pinned = Inside.pin(target)
        self.emitted: list[str] = []
        Inside.texts(self.emitted)
        if (missing := self.fuser.available_backends()["cpu"]) is not None:
            raise SystemExit(missing)

    @contextmanager
    def _noted(self, found: Found) -> Iterator[None]:
        """Nothing cached at first; afterwards `found` has the texts, or the error's class."""
        self.fuser.clear_caches()
        self.emitted.clear()
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                yield
        except Exception as error:  # noqa: BLE001 - it is what comes of this program
            found["error"] = type(error).__name__
        found["texts"] = sorted(set(self.emitted))

    def program(self, program: Program) -> Found:
        """What comes of a graph."""
        found: Found = {}
        with self._noted(found):
            graph = self.fuser.parse(program["graph"])
            options = (program["mode"], program["fastmath"], program["checked"])
            key = Inside.prepared(graph, *options)
            found |= Inside.plan(key)
            results = []
            for call in program["calls"]:
                given = arrays_of(program, call, graph.parameters)
                results.append(self._ran(self.fuser.run_fusion, key, given))
            if results:
                found["results"] = results
            if options == ("fused", False, False):
                self._ran(self.fuser.generate_code, graph)
                found["gpu"] = self._gpu(graph)
        return found

    def _ran(self, call: Callable[..., Iterable[Any]], *given: Any) -> str:
        """A digest of results, or the class of what was raised."""
        try:
            return result_digest(call(*given))
        except Exception as error:  # noqa: BLE001 - as above
            return type(error).__name__

    def _gpu(self, graph: Any) -> str:
        """A digest of a graph's texts for a GPU."""
        try:
            texts = self.fuser.generate_code(graph, "gpu")
        except self.fuser.FuserError as error:
            return type(error).__name__
        return digest("\n".join(text.replace(name, "kernel") for name, text in texts.items()))

    def workload(self, cell: Program) -> Found:
        """What comes of a workload in one mode, at one dtype and size."""
        registry = importlib.import_module("fuser.suites.registry")
        found: Found = {}
        with self._noted(found):
            work = registry.workloads()[cell["workload"]]
            axes = tuple((name, length) for name, length in cell["axes"].items())
            given = work.inputs(cell["elements"], cell["dtype"], 0, axes)
            function = self.fuser.fuse(work.function, mode=cell["mode"], fallback="allow")
            explanation = function.explain(*given)
            found["plan"] = digest("\n".join([*explanation.groups, *explanation.graph_breaks]))
            found["kernels"] = len(explanation.groups)
            if explanation.ledger is not None:
                found["bytes"] = explanation.ledger.planned_bytes
            results = function(*given)
            leaves = results if isinstance(results, (tuple, list)) else (results,)
            found["results"] = [result_digest(leaves)]
        return found


def cells() -> Iterator[Found]:
    """Every workload in both modes, at its dtypes and sizes; further axes at the first of them."""
    registry = importlib.import_module("fuser.suites.registry")
    for work in registry.workloads().values():
        if work.unavailable() is not None:
            continue
        further: list[dict[str, int]] = [{}]
        for name, values in work.axes.items():
            further += [{name: value} for value in values[1:]]
        for dtype, (letter, elements), mode in itertools.product(
            work.dtypes, work.sizes.items(), ("fused", "unfused")
        ):
            for axes in further if letter != "L" else further[:1]:
                at = "".join(f"-{name}{value}" for name, value in axes.items())
                yield {
                    "id": f"{work.name}-{dtype}-{letter}{at}-{mode}", "workload": work.name,
                    "dtype": dtype, "elements": elements, "mode": mode, "axes": axes,
                }  # fmt: skip


def main() -> None:
    """Answer each line on the input by one; first say what this is.

    `--cells`: say which workloads there are, and end.
    """
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    if sys.argv[1] == "--cells":
        answers.writelines(f"{json.dumps(cell)}\n" for cell in cells())
        return
    again = Again(sys.argv[1])
    where = os.path.dirname(os.path.dirname(os.path.realpath(str(again.fuser.__file__))))
    print(json.dumps({**again.pinned, "checkout": where}), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        run = again.workload if "workload" in request else again.program
        print(json.dumps(run(request)), file=answers, flush=True)


if __name__ == "__main__":
    main()
