"""What is remembered for a whole process stays small, however many functions come and go."""

import ast

import fuser
from fuser.base.errors import Reason, Unsupported
from tests.tree import source_files

#: Caches without a bound whose arguments are few by themselves: names of ours, or types.
FEW = frozenset((
    "_fused_row", "_shared_address", "address_of", "float_tools", "vector_type", "mangled",
    "_hints",
))  # fmt: skip


def unbounded() -> set[str]:
    """Functions of the package that remember a result for each of their arguments."""
    found = set()
    for path in source_files().values():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.args.args:
                marks = {ast.unparse(each) for each in node.decorator_list}
                if any(mark.endswith("cache") or "maxsize=None" in mark for mark in marks):
                    found.add(node.name)
    return found


def test_no_cache_grows_with_what_users_do() -> None:
    """Texts, constants, code and workloads are remembered up to a number of them."""
    assert unbounded() == FEW


def test_reasons_of_one_function_are_not_kept_without_end() -> None:
    """Each is kept once; the first ones are."""
    fused = fuser.fuse(lambda x: x)
    for number in range(2000):
        fused.note_reason(Reason("impure", "f", f"reason {number % 1000}"))
    assert len(fused.fallbacks) == 256
    assert str(Unsupported("impure", "f", "reason 3", "").reason) == str(fused.fallbacks[3])
