"""Files import downwards: no circles, whatever kind of import, and no import of a higher layer."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

import pytest

from tests.tree import source_files

SOURCES = source_files()

# Circles that are left, as one file of each and how many files it has. It may only shrink.
CIRCLES: dict[str, int] = {}

# The layers of a package, the lowest first, each a name and its files: a file imports files of its
# own layer and of those below, in functions and for types too. `room.*` are all files of a folder
# that are not named elsewhere. In the core each layer is one folder, the room of that name, with
# the component of the classic design that stands over it at the top.
LAYERS = {
    "fuser": """
        base: base.*
        ir: ir.*
        element loops: element_loops.*
        passes: passes.*
        scheduling: scheduling.*
        loop nests: codegen kernel_spec
        traffic: traffic.*
        backend contract: backend
        compiler: program_spec kernel_cache compiler
        runtime: runtime.* executor fallback
        tracing: tracing.*
        NumPy functions: numpy_functions.*
        capture: capture.*
        programs: programs.*
        calls: calls.*
        explain: explain.*
        interface: interface graph_interface functional random_functions control
        dask: dask.*
        tuner: tuner
    """,
    "fuser.backends.cpu": """
        text: tuning body conversion floats integers division loops spelling spacing interleaving
            vector_memory gathers shared_functions packing section vector_loop scan_loop
            scatter_loop wrappers elementary.*
        costs: schedule costs reducing.reduction_stages reducing.accumulators
        machine: machine.*
        element calls: element_calls element_threads
        element loops: element_loops
        loop nests: emit flattened_loops reducing.* scheduling.*
        kernels: fused_kernel sequence element_kernels
        entries: entries.*
        backend: backend
    """,
    "fuser.backends.gpu": """
        text: cxx variants complex_helpers reduction_helpers special helpers spelling geometry
            section accumulators stages long_rows reduction_loops reduction_plan emit_reduction
            emit_held emit_long emit_map emit_tiles emit
        device: arguments c_functions array_fields nvrtc device meaning
        kernels: fused_kernel step straight_call native_launch sequence
        backend: backend
    """,
    "fuser.suites": """
        workloads: workload cold cold_figures families.* registry
        machine: children machine_load probes.machine probes.counters
        references: checks.verify
        runners: statement sampling details formula runners into peers.* ceilings.*
        plans: pace plan presets rounds
        checks: cell_state checks.*
        measuring: preparing checks.checked_samples measuring
        probes: probes.*
        workers: other_checkout worker cold_processes
        engine: progress inconclusive collect engine local
        saved runs: commands.exit_codes commands.saved_runs
        pytest: thresholds rows door plugin conftest test_suites
        commands: commands.*
    """,
    "fuser.reports": """
        record: plain record spelling
        statistics: statistics verdicts ceilings break_even labels plots.style plots.marks
        analysis: analysis
        tables: columns tables weaknesses history cost_model comparison aims best_peers call_tables
            chunks comparison_output side_by_side whole_programs collection
        page: answers display headline evidence row_details plots.* sections markdown_page page
            history_page
    """,
}


def spelled(call: ast.Call) -> str:
    """The name that `import_module` is given, up to its first part that is computed."""
    called = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    called = call.func.id if isinstance(call.func, ast.Name) else called
    if called not in ("import_module", "__import__") or not call.args:
        return ""
    name = call.args[0]
    if isinstance(name, ast.JoinedStr) and name.values:
        name = name.values[0]
        return f"{name.value}*" if isinstance(name, ast.Constant) else ""
    return name.value if isinstance(name, ast.Constant) and isinstance(name.value, str) else ""


def named(tree: ast.AST) -> Iterator[str]:
    """Yield the files that a file imports: at its top, in functions, for types, by their names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            files = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from [name for name in files if name in SOURCES] or [node.module]
        elif isinstance(node, ast.Call) and (name := spelled(node)):
            start = name.removesuffix("*")
            yield from ([name] if start == name else _starting(start))


def _starting(start: str) -> list[str]:
    """The files that a name may mean whose rest is computed: none, if all is."""
    if start.count(".") < 2:
        return []
    return [
        name for name, path in SOURCES.items()
        if name.startswith(start) and path.name != "__init__.py"
    ]  # fmt: skip


@cache
def imports() -> dict[str, frozenset[str]]:
    """What each file imports of this project."""
    return {
        module: frozenset(named(ast.parse(path.read_text(encoding="utf-8")))) & SOURCES.keys()
        - {module}
        for module, path in SOURCES.items()
    }  # fmt: skip


def circles() -> list[frozenset[str]]:
    """Groups of files each of which needs, over some way, all others of its group.

    Source:
        Tarjan, "Depth-first search and linear graph algorithms", SIAM J. Comput. 1(2), 1972.
    """
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found = []
    for start in SOURCES:
        if start in number:
            continue
        number[start] = lowest[start] = len(number)
        stack.append(start)
        ways = [(start, iter(sorted(imports()[start])))]
        while ways:
            module, rest = ways[-1]
            for target in rest:
                if target not in number:
                    number[target] = lowest[target] = len(number)
                    stack.append(target)
                    ways.append((target, iter(sorted(imports()[target]))))
                    break
                if target in stack:
                    lowest[module] = min(lowest[module], number[target])
            else:
                ways.pop()
                if ways:
                    lowest[ways[-1][0]] = min(lowest[ways[-1][0]], lowest[module])
                if lowest[module] == number[module]:
                    place = stack.index(module)
                    found.append(frozenset(stack[place:]))
                    del stack[place:]
    return [each for each in found if len(each) > 1]


def test_circles_of_files_only_shrink() -> None:
    """Two files that need each other are one idea in two places, or one in the wrong one."""
    found = {
        next((name for name in CIRCLES if name in each), min(each)): each for each in circles()
    }
    new = {name: sorted(each) for name, each in found.items() if name not in CIRCLES}
    assert not new, f"these files import each other in a circle: {new}"
    sizes = {name: len(found.get(name, ())) for name in CIRCLES}
    grown = {name: n for name, n in sizes.items() if n > CIRCLES[name]}
    assert not grown, f"more files are in the circle: {grown}, not {CIRCLES}"
    assert sizes == CIRCLES, f"a circle got smaller: write {sizes} into CIRCLES of this file"


def layers_of(package: str) -> dict[str, tuple[int, str]]:
    """The place of each file of a package among its layers, and that layer's name."""
    found: dict[str, tuple[int, str]] = {}
    rooms: dict[str, tuple[int, str]] = {}
    place = (-1, "")
    for line in LAYERS[package].strip().splitlines():
        name, colon, files = line.strip().rpartition(":")
        place = (place[0] + 1, name) if colon else place
        for file in files.split():
            full = f"{package}.{file}"
            assert full.endswith(".*") or full in SOURCES, f"{full} is no file"
            assert full not in found | rooms, f"{full} is named twice"
            (rooms if full.endswith(".*") else found)[full] = place
    for room, place in rooms.items():
        inside = [each for each in SOURCES if f"{each}.".startswith(room.removesuffix("*"))]
        assert inside, f"{room} is no folder"
        for each in inside:
            found.setdefault(each, place)
    return found


@pytest.mark.parametrize("package", LAYERS)
def test_no_file_imports_a_higher_layer(package: str) -> None:
    """Where a lower layer needs what a higher one has, the higher one hands it in."""
    layers = layers_of(package)
    above = len(SOURCES), "in no layer"
    upwards = [
        f"{module} ({name}) -> {target} ({layers.get(target, above)[1]})"
        for module, (place, name) in layers.items()
        for target in sorted(imports()[module])
        if target.startswith(f"{package}.") and layers.get(target, above)[0] > place
    ]
    assert not upwards, "imports of higher layers:\n" + "\n".join(upwards)


@pytest.mark.parametrize("package", LAYERS)
def test_every_file_has_a_layer(package: str) -> None:
    """What a new file is for is said by where it stands."""
    others = ("fuser.backends.", "fuser.suites.", "fuser.reports.") if package == "fuser" else ()
    files = {
        module for module, path in SOURCES.items()
        if module.startswith(f"{package}.") and path.name != "__init__.py"
        and not module.startswith(others)
    }  # fmt: skip
    assert not files - layers_of(package).keys()
