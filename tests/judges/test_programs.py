"""Random programs do fused what they do plainly, and the judge of that notices what it should."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fuser
from tests.judges.corpus import PROGRAMS
from tests.judges.judging import judge
from tests.judges.programs import Finding, Worker, findings, program

#: How many programs of these seeds are judged in every run, and how many of them ran without a
#: fallback when this was written. A long run: `python -m tests.judges.programs --seconds 3600`.
SEEDS = (1, 2, 3)
COUNT = 40
FUSED = 90
#: Programs of one loop: their seed, how many are judged, and how many ran without a fallback.
LOOPS, LOOPS_COUNT, LOOPS_FUSED = 5, 10, 10


@pytest.fixture(scope="module")
def judged() -> list[Finding]:
    """What came of all of them."""
    return [found for seed in SEEDS for found in findings(seed, range(COUNT))]


@pytest.fixture(scope="module")
def said() -> dict[str, str]:
    """What the judge says of the programs that once failed."""
    worker = Worker()
    found = {name: worker.judge(text)["difference"] for name, text in PROGRAMS.items()}
    worker.stop()
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_fused_programs_do_what_plain_ones_do(judged: list[Finding], seed: int) -> None:
    """Values, types, layout, sharing, writes and exceptions."""
    bad = [f for f in judged if f.seed == seed and f.difference]
    assert not bad, "\n\n".join(
        f"python -m tests.judges.programs --seed {seed} --index {f.index}\n{f.difference}\n{f.text}"
        for f in bad
    )


def test_nine_tenths_of_the_programs_stay_fused(judged: list[Finding]) -> None:
    """Refusing is no way out of a difference; and every program is one."""
    assert all(f.calls for f in judged)
    assert sum(f.calls == f.fused > 0 for f in judged) >= 0.9 * FUSED


def test_loops_do_what_plain_ones_do() -> None:
    """Over whole arrays, with lists, names that change places, and decisions; most stay fused."""
    judged = list(findings(LOOPS, range(LOOPS_COUNT), "loops"))
    bad = [f"--loops --seed {LOOPS} --index {f.index}\n{f.difference}\n{f.text}"
           for f in judged if f.difference]  # fmt: skip
    assert not bad, "\n\n".join(bad)
    assert sum(f.calls == f.fused > 0 for f in judged) >= 0.9 * LOOPS_FUSED


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_that_once_failed(said: dict[str, str], name: str) -> None:
    """They are mended."""
    assert not said[name]


def test_a_name_is_one_program() -> None:
    """Seed and index give the same text again, and other ones another."""
    assert program(5, 7).text() == program(5, 7).text() != program(5, 8).text()


EXAMPLE = """
W = array(3, "float64", (5,))

def f(x, y):
    x[:2] = 1
    t = np.exp(x).sum() + W
    return t, t, x[::2], y

def calls():
    yield array(1, "float64", (5,)), array(2, "float32", (4,), "strided")
    W[:] = 0
    yield array(1, "float64", (5,)), array(2, "float32", (4,), "strided")
"""


def _further(result: Any, x: Any) -> Any:
    return (result[0] + 1e-9, *result[1:])


def _beside(result: Any, x: Any) -> Any:
    np.lib.stride_tricks.as_strided(x, (6,))[5] = 0
    return result


def _gap(result: Any, x: Any) -> Any:
    np.lib.stride_tricks.as_strided(result[3], (7,), (4,))[1] = 0
    return result


def _raised(result: Any, x: Any) -> Any:
    raise ValueError("no")


#: What a fused function may do wrong, and a word of what the judge says.
WRONGS: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "value": (_further, "result"),
    "identity": (lambda result, x: (result[0], result[1].copy(), *result[2:]), "sharing"),
    "view": (lambda result, x: (*result[:2], result[2].copy(), result[3]), "strides|sharing"),
    "type": (lambda result, x: list(result), "result"),
    "dtype": (lambda result, x: (*result[:3], result[3].astype(float)), "dtype"),
    "argument": (lambda result, x: x.fill(0) or result, "result|arguments"),
    "canary": (_beside, "bytes around"),
    "gap": (_gap, "memory"),
    "exception": (_raised, "error"),
}


@pytest.mark.parametrize("name", WRONGS)
def test_the_judge_notices(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A stand-in for `fuser.fuse` that does one thing wrong, from the second call on."""
    wrong, words = WRONGS[name]

    def fuse(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        calls: list[int] = []

        def run(x: Any, y: Any) -> Any:
            result = function(x, y)
            calls.append(1)
            return wrong(result, x) if len(calls) > 1 else result

        return run

    monkeypatch.setattr(fuser, "fuse", fuse)
    difference = judge(EXAMPLE).difference
    assert difference.startswith("call 2: "), difference
    assert any(word in difference for word in words.split("|")), difference


def test_the_judge_allows_for_rounding_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ulp of an exponential passes, an ulp of a sum of two numbers does not."""

    def fuse(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        return lambda *arguments: np.nextafter(function(*arguments), np.inf)

    monkeypatch.setattr(fuser, "fuse", fuse)
    text = "def f(x):\n    return {} + x\n\n"
    text += "def calls():\n    yield (array(1, 'float64', (9,)),)\n"
    assert not judge(text.format("np.exp(x)")).difference
    assert judge(text.format("2 * x")).difference


def test_a_crash_and_a_hang_are_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that dies is replaced, and the program that it died of is named."""
    monkeypatch.setenv("FUSER_CACHE", "off")
    worker = Worker()
    text = "import os\nos.abort()\n"
    assert worker.judge(text)["difference"].startswith("crash: SIGABRT")
    assert not worker.judge(EXAMPLE)["difference"]
    worker.stop()
