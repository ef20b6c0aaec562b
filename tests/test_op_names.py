"""Operations are told apart by the rows of one table: code around the tables names none."""

import ast
from collections.abc import Iterator

from fuser.ir.ops import TABLE
from tests import tree

#: Files that are tables by operation: what rows are, infer and rewrite rules, how rows are spelled.
TABLES = {
    "fuser/ir/ops.py", "fuser/ir/infer.py", "fuser/passes/rules.py", "backends/cpu/spelling.py",
    "backends/gpu/spelling.py",
}  # fmt: skip


def _names(expression: ast.expr) -> set[str]:
    """Rows of the table that a literal, or a tuple of them, names."""
    parts = expression.elts if isinstance(expression, ast.Tuple | ast.List | ast.Set) else [
        expression
    ]  # fmt: skip
    return {
        part.value for part in parts
        if isinstance(part, ast.Constant) and isinstance(part.value, str) and part.value in TABLE
    }  # fmt: skip


def _is_name_of_op(expression: ast.AST, known: set[str]) -> bool:
    """Whether an expression is an operation's name: of a node, of an instruction, of a row."""
    if isinstance(expression, ast.Name):
        return expression.id in known
    if not isinstance(expression, ast.Attribute):
        return False
    if expression.attr == "op":  # an instruction's, or an accumulator's
        return True
    inner = expression.value
    of_row = isinstance(inner, ast.Attribute) and inner.attr in ("op", "row")
    of_row = of_row or (isinstance(inner, ast.Name) and inner.id in ("op", "row"))
    return expression.attr == "name" and of_row


def _pairs(statement: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Which names an assignment gives to which expressions."""
    if isinstance(statement, ast.NamedExpr):
        yield statement.target, statement.value
    elif isinstance(statement, ast.Assign):
        for target in statement.targets:
            if isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
                yield from zip(target.elts, statement.value.elts, strict=False)
            else:
                yield target, statement.value


def compared(module: ast.Module) -> list[str]:
    """Comparisons in a file of an operation's name with a literal one."""
    found = []
    functions = [n for n in ast.walk(module) if isinstance(n, ast.FunctionDef)]
    for scope in functions:
        known = {
            target.id
            for statement in ast.walk(scope)
            for target, value in _pairs(statement)
            if isinstance(target, ast.Name) and _is_name_of_op(value, set())
        }
        for node in ast.walk(scope):
            if not isinstance(node, ast.Compare):
                continue
            sides = [node.left, *node.comparators]
            if any(_names(s) for s in sides) and any(_is_name_of_op(s, known) for s in sides):
                found.append(ast.unparse(node))
    return sorted(set(found))


def test_operations_are_compared_by_name_in_tables_only() -> None:
    """Passes, the tracer, schedules and emitters ask a row's facts, as `Op` lists them."""
    found = {
        str(path.relative_to(tree.ROOT)): names
        for _, path, module in tree.files_with("op|row")
        if str(path.relative_to(tree.ROOT)) not in TABLES and (names := compared(module))
    }
    assert not found


def test_comparisons_are_found() -> None:
    """The test above finds names of nodes, instructions, rows and what is assigned from these."""
    source = '''
def told(node, instruction, row):
    name, place = node.op.name, 0
    return (
        node.op.name == "input" or instruction.op in ("max", "min") or row.name != "cast"
        or name == "index" or place == "input"
    )
'''
    assert compared(ast.parse(source)) == [
        "instruction.op in ('max', 'min')",
        "name == 'index'",
        "node.op.name == 'input'",
        "row.name != 'cast'",
    ]


def test_facts_of_rows_agree() -> None:
    """Every reduction and scan says how it combines, every view is structure with one operand."""
    for row in TABLE.values():
        combines = row.reduction or row.scans or (row.scatters and row.name != "scatter")
        assert bool(row.combine) == combines
        assert not row.combine or row.combine in TABLE
        views = row.indexes or row.permutes or row.reshapes or row.repeats or row.slices
        assert not views or row.is_view
        assert not (row.is_view and row.joins)
        assert not row.given or row.arity == 0
        assert not row.places or row.selects
