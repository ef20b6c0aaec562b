"""Formulas as C: a traced graph as a loop over its elements, and what compiles it.

`-O3 -march=native -ffp-contract=off -fno-math-errno -fno-trapping-math -fopenmp`; mathematical
functions are those of glibc's vector library, whose errors are at most 4 ulp, where ours are at
most 2 or 3: the looser bound is the cheaper one, so a share of this ceiling is rather too low than
too high.
"""

import ctypes
import subprocess
import tempfile
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import numpy as np

from fuser.ir.graph import Graph, Node, constant_value
from fuser.suites.runners import NotExpressibleError

FLAGS = (
    "-O3", "-march=native", "-mprefer-vector-width=512", "-ffp-contract=off", "-fno-math-errno",
    "-fno-trapping-math", "-fopenmp", "-shared", "-fPIC",
    # gcc would join a sine and a cosine into one scalar call, which it cannot vectorise.
    *(f"-fno-builtin-{name}" for name in ("sin", "cos", "sinf", "cosf")),
)  # fmt: skip
TYPES = {
    "bool": "uint8_t", "int16": "int16_t", "int32": "int32_t", "int64": "int64_t",
    "uint8": "uint8_t", "float32": "float", "float64": "double",
}  # fmt: skip
INFIX = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "greater": ">", "less": "<",
    "greater_equal": ">=", "less_equal": "<=", "equal": "==", "not_equal": "!=",
    "bitwise_and": "&", "bitwise_or": "|",
}  # fmt: skip
VECTOR_MATH = {
    "exp": "exp", "log": "log", "sin": "sin", "cos": "cos", "tan": "tan", "tanh": "tanh",
    "sinh": "sinh", "power": "pow", "arctan2": "atan2", "arcsin": "asin",
}  # fmt: skip
INCLUDED = ("stdint", "string", "math", "immintrin")
HEAD = "".join(f"#include <{name}.h>\n" for name in INCLUDED) + "".join(
    f'__attribute__((simd("notinbranch"))) {kind} {name}{suffix}({kind}'
    f"{', ' + kind if name in ('pow', 'atan2') else ''});\n"
    for name in VECTOR_MATH.values()
    for kind, suffix in (("float", "f"), ("double", ""))
)


def compiled(text: str) -> ctypes.CDLL:
    """Compile C text, after the declarations of vector functions, and load it.

    Raises:
        NotExpressibleError: gcc refuses it.
    """
    with tempfile.TemporaryDirectory(prefix="fuser-bench-c-") as folder:
        source, library = Path(folder) / "code.c", Path(folder) / "code.so"
        source.write_text(HEAD + text, encoding="utf-8")
        command = ["gcc", *FLAGS, str(source), "-o", str(library), "-lmvec", "-lm"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise NotExpressibleError(f"gcc: {done.stderr.strip().splitlines()[0][:160]}")
        return ctypes.CDLL(str(library))


def written(name: str) -> str:
    """Return C that is installed beside this module."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def expression(node: Node, names: dict[int, str]) -> str:
    """One operation as a C expression.

    Raises:
        NotExpressibleError: it has no C form here.
    """
    op, given = node.op.name, [names[id(each)] for each in node.args]
    suffix = "f" if node.dtype.name == "float32" else ""
    kind = TYPES.get(node.dtype.name)
    if kind is None:
        raise NotExpressibleError(f"no C type for {node.dtype}")
    if node.op.is_constant:
        value = constant_value(node)
        text = float(value).hex() if node.dtype.kind == "f" else str(int(value))
        return f"({kind}){text}"
    if op in INFIX:
        return f"({kind})({given[0]} {INFIX[op]} {given[1]})"
    if op in VECTOR_MATH:
        return f"{VECTOR_MATH[op]}{suffix}({', '.join(given)})"
    forms: dict[str, Callable[[], str]] = {
        "negative": lambda: f"-{given[0]}",
        "square": lambda: f"{given[0]} * {given[0]}",
        "sqrt": lambda: f"sqrt{suffix}({given[0]})",
        "absolute": lambda: f"fabs{suffix}({given[0]})",
        "where": lambda: f"{given[0]} ? {given[1]} : {given[2]}",
        "maximum": lambda: f"{given[0]} > {given[1]} ? {given[0]} : {given[1]}",
        "minimum": lambda: f"{given[0]} < {given[1]} ? {given[0]} : {given[1]}",
        "cast": lambda: f"({kind}){given[0]}",
        "remainder": lambda: _remainder(node, given, suffix),
        "invert": lambda: f"!{given[0]}" if node.dtype.name == "bool" else f"~{given[0]}",
    }
    if op not in forms:
        raise NotExpressibleError(f"no C form of {op}")
    return forms[op]()


def _remainder(node: Node, given: list[str], suffix: str) -> str:
    """The short form of a float's remainder, which is right by a power of two alone."""
    if not _is_power_of_two(node.args[1]):
        raise NotExpressibleError("no C form of remainder by this")
    return f"{given[0]} - {given[1]} * floor{suffix}({given[0]} / {given[1]})"


def _is_power_of_two(node: Node) -> bool:
    """Whether it is a constant, and a power of two."""
    known = node.op.is_constant and node.dtype.kind == "f"
    return known and np.frexp(float(constant_value(node)))[0] == 0.5


def function_text(graph: Graph) -> str:
    """The whole formula as a function `run` of `n` rows of `m` elements.

    Raises:
        NotExpressibleError: an operation has no C form, or a result another shape.
    """
    names: dict[int, str] = {}
    lines: list[str] = []
    arguments: list[str] = []
    places = {each.name: place for place, each in enumerate(graph.parameters)}
    widest = max(len(each.shape) for each in graph.parameters)
    for number, node in enumerate(graph.nodes):
        kind = TYPES.get(node.dtype.name)
        name = names[id(node)] = f"v{number}"
        if not (node.op.is_input or node.op.is_scalar):
            lines.append(f"const {kind} {name} = {expression(node, names)};")
            continue
        parameter = graph.parameters[places[node.text]]
        if parameter.dtype is None:
            arguments.append(f"{kind} {name}")
            continue
        arguments.append(f"const {kind} *p{number}")
        index = "j" if len(parameter.shape) < widest else "i * m + j"
        lines.append(f"const {kind} {name} = p{number}[{index}];")
    for number, node in enumerate(graph.outputs):
        if len(node.shape) != widest:
            raise NotExpressibleError("a result of another shape")
        arguments.append(f"{TYPES[node.dtype.name]} *restrict t{number}")
        lines.append(f"t{number}[i * m + j] = {names[id(node)]};")
    along = "for (int64_t j = 0; j < m; j++)"
    if widest == 1:
        loop = f"const int64_t i = 0;\n#pragma omp parallel for simd schedule(static)\n{along}"
    else:
        loop = (
            "#pragma omp parallel for schedule(static)\nfor (int64_t i = 0; i < n; i++)\n"
            f"#pragma omp simd\n{along}"
        )
    body = "\n".join(lines)
    return f"void run(int64_t n, int64_t m, {', '.join(arguments)}) {{\n{loop} {{\n{body}\n}}\n}}\n"
