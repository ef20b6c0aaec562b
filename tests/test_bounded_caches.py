"""What is remembered for a whole process stays small, however many functions come and go."""

import ast
from collections.abc import Iterator

import numpy as np
import pytest

import fuser
from fuser import kernel_cache
from fuser.base import caches
from fuser.base.errors import Reason, Unsupported
from tests.tree import ROOT, files_with, source_files

#: Caches without a bound whose arguments are few by themselves: names of ours, or types.
FEW = frozenset((
    "_fused_row", "_shared_address", "address_of", "vector_type", "mangled",
    "_hints", "_hand_written",
))  # fmt: skip

#: What is filled while modules are imported or libraries loaded, by module and name.
FILLED_ONCE = frozenset((
    "fuser.backend._factories", "fuser.backend._instances", "fuser.backend._missing",
    "fuser.ir.function_table.HANDLERS", "fuser.ir.function_table._loaders",
    "fuser.ir.opaque_calls._functions", "fuser.ir.opaque_calls._names",
    "fuser.calls.pickling._kinds", "fuser.calls.fused_function._looking",
    "fuser.calls.loading._loaded", "fuser.calls.native_call._keep",
    "fuser.backends.gpu.helpers.HELPERS", "fuser.backends.gpu.complex_helpers.COMPLEX_HELPERS",
    "fuser.base.caches._clears", "fuser.base.caches._memos",
    "fuser.base.forks._locks", "fuser.base.forks._waits", "fuser.base.forks._given_back",
    "fuser.backends.cpu.shared_functions._writers", "fuser.backends.cpu.machine.loader._keep",
    "fuser.backends.cpu.machine.workers._teams", "fuser.backends.cpu.entries.entry._loaded",
))  # fmt: skip
#: What belongs to one of `caches.CACHES`, or is as small as the number of its names.
IN_CACHES = frozenset((
    "fuser.kernel_cache._by_text", "fuser.kernel_cache._by_number", "fuser.kernel_cache._building",
    "fuser.calls.fused_function._all_functions", "fuser.ir.graph._nodes",
    "fuser.base.notices._warned",
    "fuser.base.counters._counts", "fuser.base.counters._pending", "fuser.base.counters._tallies",
    "fuser.base.disk_cache._said",
))  # fmt: skip
#: What is there while a trace is under way, and its thread.
UNDER_WAY = frozenset(("fuser.base.watchdog._watched", "fuser.base.watchdog._watching"))
#: Methods that change a container.
CHANGES = frozenset(
    "add append clear discard extend insert pop popleft remove setdefault update".split()
)


def _changed(scope: ast.AST) -> Iterator[str]:
    """Names of what statements change in place."""
    for node in ast.walk(scope):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in CHANGES and isinstance(node.func.value, ast.Name):
                yield node.func.value.id
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            if isinstance(node.value, ast.Name):
                yield node.value.id


def changing() -> set[str]:
    """Module-level names whose contents some function of their module changes."""
    found = set()
    for module, path in source_files().items():
        if not str(path.relative_to(ROOT)).startswith(("fuser", "backends")):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = {
            target.id
            for statement in tree.body
            if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None
            for target in ast.walk(statement)
            if isinstance(target, ast.Name) and isinstance(target.ctx, ast.Store)
        }
        for scope in (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)):
            own = {n.id for n in ast.walk(scope)
                   if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
            found |= {f"{module}.{name}" for name in {*_changed(scope)} & names - own}
    return found


def unbounded() -> set[str]:
    """Functions of the package that remember a result for each of their arguments."""
    found = set()
    for _, _, tree in files_with(r"\w*cache|maxsize"):
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.args.args:
                marks = {ast.unparse(each) for each in node.decorator_list}
                if any(mark.endswith("cache") or "maxsize=None" in mark for mark in marks):
                    found.add(node.name)
    return found


def test_no_cache_grows_with_what_users_do() -> None:
    """Texts, constants, code and workloads are remembered up to a number of them."""
    assert unbounded() == FEW


def test_what_changes_is_a_table_or_a_cache() -> None:
    """Whatever outlives calls is filled once, or belongs to a cache of the table or to a trace."""
    assert changing() == FILLED_ONCE | IN_CACHES | UNDER_WAY


def test_memo_tables_are_in_the_one_table() -> None:
    """Nothing but `caches.memo` remembers by arguments, so that clearing reaches it."""
    marks = {
        (module, ast.unparse(mark))
        for module, _, tree in files_with("lru_cache")
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        for mark in node.decorator_list
        if "lru_cache" in ast.unparse(mark) and module.split(".")[1] not in ("suites", "reports")
    }
    assert not marks


def test_there_are_four_caches_at_most() -> None:
    """Each has its file, its key, its limit and what clears it."""
    assert len(caches.CACHES) <= 4
    for cache in caches.CACHES:
        assert (ROOT / cache.place).exists()
        row = f"| {cache.name} | `{cache.place}` | {cache.key} | {cache.limit} | {cache.cleared} |"
        assert row in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_clear_caches_empties_all() -> None:
    """Specs, memo tables, signatures: nothing is left, and calls work as before."""
    x = np.arange(5.0)
    fused = fuser.fuse(lambda x: x * 2 + 1)
    fused(x)
    assert kernel_cache.count() > 0
    fuser.clear_caches()
    assert kernel_cache.count() == 0
    assert not fused._signatures
    assert not any(each.cache_info().currsize for each in caches._memos)
    assert np.array_equal(fused(x), x * 2 + 1)


def test_the_oldest_specs_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that have a key stay until the caches are cleared."""
    monkeypatch.setattr(kernel_cache, "LIMIT", 3)
    x = np.arange(4.0)
    graphs = [fuser.trace(lambda x, k=k: x * k, x) for k in (2.0, 3.0, 5.0, 7.0, 11.0)]
    keys = [fuser.register_fusion(graph) for graph in graphs]
    assert kernel_cache.count() == 3
    for key, factor in zip(keys, (2.0, 3.0, 5.0, 7.0, 11.0), strict=True):
        assert np.array_equal(fuser.run_fusion(key, (x,))[0], x * factor)


def test_reasons_of_one_function_are_not_kept_without_end() -> None:
    """Each is kept once; the first ones are."""
    fused = fuser.fuse(lambda x: x)
    for number in range(2000):
        fused.note_reason(Reason("impure", "f", f"reason {number % 1000}"))
    assert len(fused.fallbacks) == 256
    assert str(Unsupported("impure", "f", "reason 3", "").reason) == str(fused.fallbacks[3])
