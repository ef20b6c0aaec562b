"""Texts of graphs are data: what is no number, length or listed function is a GraphError."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fuser
from fuser.base import host_expressions
from fuser.base.errors import FuserError, GraphError, Unsupported
from fuser.base.host_expressions import LENGTH, SCALAR

#: A graph with a hole for each thing that a text may say.
PLACES = {
    "scalar": "graph(x0: float64[n0], s0: int):\n%0 = scalar{HERE} : float64[]\nreturn %0",
    "constant": "graph(x0: float64[n0]):\n%0 = constant{HERE} : float64[]\nreturn %0",
    "index": "graph(x0: float64[n0]):\n%0 = index{HERE} x0 : float64[n0]\nreturn %0",
    "part": "graph(x0: float64[n0]):\n%0 = part{0; HERE; n0} x0 : float64[n0]\nreturn %0",
    "update": "graph(x0: float64[n0]):\n%0 = update{HERE:n0} x0 x0 : float64[n0]\nreturn %0",
    "cast": "graph(x0: float64[n0]):\n%0 = cast{HERE} x0 : float64[n0]\nreturn %0",
    "sum": "graph(x0: float64[n0]):\n%0 = sum{HERE} x0 : float64[]\nreturn %0",
    "reshape": "graph(x0: float64[n0]):\n%0 = reshape{HERE} x0 : float64[HERE]\nreturn %0",
    "length": "graph(x0: float64[HERE]):\nreturn x0",
    "guard": "graph(x0: float64[n0]):\nwhere n0 == HERE\nreturn x0",
    "name": "graph(HERE: float64[n0]):\nreturn HERE",
    "dtype": "graph(x0: HERE[n0]):\nreturn x0",
    "argument": (
        "graph(x0: float64[n0]):\n%0 = extern{0.0 numpy.sort(a0, HERE)} x0 : float64[n0]\nreturn %0"
    ),
    "function": (
        "graph(x0: float64[n0]):\n%0 = extern{0.0 HERE(a0)} x0 : float64[n0]\nreturn %0"
    ),
    "host": (
        "graph(x0: float64[n0]):\n"
        "%0 = extern{0.0 numpy.sort(a0, host('HERE'))} x0 : float64[n0]\nreturn %0"
    ),
    "called": (
        "graph(x0: float64[n0]):\n"
        "%0 = extern{0.0 numpy.apply_along_axis(function('HERE'), 0, a0)} x0 : float64[n0]\n"
        "return %0"
    ),
}
HOSTILE = [
    "__import__('os').system('touch MARK')", '__import__("os").system("touch MARK")',
    "().__class__.__base__.__subclasses__()", "s0.real", "x0.tofile", "s0[0]", "(lambda: 1)()",
    "[s for s in (1, 2)]", "f'{s0}'", "'{0.__class__}'.format(1)", "(y := 3)", "print(1)",
    "eval(s0)", "max", "max(s0)", "max(*s0)", "max(s0, s0, key=abs)", "min(max, 1)", "abs(1, 2)",
    "divmod(s0, 2)", "pow(9, 9)", "s0 and 1", "not s0", "s0 if s0 else 1", "s0 is s0", "s0 @ s0",
    "q0 + n9", "__class__", "await s0", "yield", "**s0", "(s0 = 1)", "s0; s0", "1 2", "2 **",
    "(" * 10_000 + "1" + ")" * 10_000, "-" * 20_000 + "1", "1+" * 20_000 + "1", "9" * 5_000,
    "0x" + "f" * 40_000, "9" * 60_000, "s0\0", "\0", "\uff530", "\uff4e0", "n0 // 0 * é", "{}",
    "}}{{",
    "os.system", "builtins.eval", "numpy.load", "numpy.save", "numpy.ctypeslib.load_library",
    "numpy.ndarray.tofile", "numpy.ndarray.dump", "numpy.ndarray.__reduce__", "numpy.fromfile",
    "numpy.lib._npyio_impl.os.system", "numpy.sort.__globals__.clear", "numpy.add.__call__",
    "numpy.seterr", "numpy.testing.assert_", "numpy.random.seed", "math.__loader__.load_module",
    "scipy.special.seterr", "scipy.fft.set_global_backend", "scipy.io.loadmat", "__main__.main",
    "fuser.changed", "fuser.functional.gelu",
]  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_hostile_texts_are_refused(place: str, tmp_path: Path) -> None:
    """Each in each place: GraphError, and nothing was called."""
    mark = tmp_path / "mark"
    for text in HOSTILE:
        with pytest.raises(GraphError):
            fuser.parse(PLACES[place].replace("HERE", text.replace("MARK", str(mark))))
    assert not mark.exists()


PIECES = st.sampled_from(
    "x0 s0 n0 n1 a0 % 0 1 9 -1 0x1 1e9 1j ( ) [ ] { } , ; : . = == != < << >> + - * ** / // | & ^ "
    "~ @ := -> ' \" \\ # \n \t \0 é lambda if else for in not is max min abs inf nan host function "
    "closure slice dtype dict None True numpy. math. scipy. fuser. sort __import__ os "
    "eval".split(" ")
)


@given(place=st.sampled_from(sorted(PLACES)), text=st.lists(PIECES, max_size=8).map("".join))
def test_any_text_is_read_or_refused(place: str, text: str) -> None:
    """What is read has a text that reads back as the same graph; the rest is an error of ours."""
    try:
        graph = fuser.parse(PLACES[place].replace("HERE", text))
    except FuserError:
        return
    assert fuser.parse(str(graph)) == graph


@given(text=st.text(max_size=60))
def test_any_text_is_no_graph(text: str) -> None:
    """Neither alone nor as a line."""
    for whole in (text, f"graph(x0: float64[n0]):\n{text}\nreturn x0"):
        try:
            fuser.parse(whole)
        except FuserError:
            continue
        assert not text.strip() or text.strip().startswith(("where", "return", "graph", "%"))


@pytest.mark.parametrize(
    "text",
    ["9**9**9", "s0**s0**s0", "1 << 9**9", "2**(s0*10**9)", "*".join(["9**9999"] * 50),
     "((9**999)**999)**999"],
)  # fmt: skip
def test_long_integers_stop(text: str) -> None:
    """Computing takes a time that is bounded, whatever the powers."""
    with pytest.raises(Unsupported, match="bits"):
        host_expressions.evaluate(text, SCALAR, {"s0": 9})


def test_expressions_mean_what_python_says() -> None:
    """Numbers, operators and functions of both languages."""
    names = {"s0": 5, "s1": 0.25}
    for text in (
        "s0**2 % 7 - s1/3", "max(s0, 2**s0) >> 1 | 1", "abs(-s1) < inf", "~s0 ^ 3 != 2", "-2**2",
        "(-1)**s0 * 2**-2", "s0 << 3 * 2", "1 <= s0 < 9", "True + 2j*s1",
        "abs(imag(s0*1j) - real(s1))",
    ):  # fmt: skip
        found = host_expressions.evaluate(text, SCALAR, names)
        parts = {"inf": math.inf, "real": lambda x: x.real, "imag": lambda x: x.imag}
        assert found == eval(text, parts, names)
    assert host_expressions.evaluate("max(n0 - 5, 0)//2*n1", LENGTH, {"n0": 9, "n1": 3}) == 6
    assert host_expressions.names_in("max(s0, n1) * inf", SCALAR) == {"s0", "n1"}


def test_functions_with_long_integers_are_numpy_s() -> None:
    """The plain function runs where an integer has too many bits, at later calls too."""
    function: Any = lambda x, s: (x * ((s**3000) % 7), s << s)  # noqa: E731 - to be fused
    fused = fuser.fuse(function, fallback="allow")
    x = np.arange(3.0)
    for number in (3, 4, 5, 70_000, 3, 70_000, 2**16, 5):
        for one, other in zip(fused(x, number), function(x, number), strict=True):
            np.testing.assert_array_equal(one, other)
