"""Words for readers: documents, docstrings, reasons, reports and help use those of the field.

Somebody who knows Halide, TVM, XLA, Triton or LLVM should find their words, and need no others.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator

import pytest

from fuser.base.errors import REASONS
from tests.test_docstrings import CLASSES, CONTRACTS, public
from tests.tree import ROOT

FENCE = re.compile(r"^```.*?^```[ ]*$", flags=re.DOTALL | re.MULTILINE)
#: What to write; words in its place that only this project used; phrases in which they are English.
WORDS: tuple[tuple[str, str, str], ...] = (
    ("loop nest, or iteration domain",
     r"(?<!loop )\bnests?\b|\b(?:iteration )?spaces?\b|\bsections? of (?:a|the) (?:kernel|nest)",
     r"nests? of loops|(?:disk|address|white) space"),
    ("kernel, or cluster", r"\bgroups?\b|\bunits?\b(?! tests)",
     "in units|units? of|group `|is the unit|linear units?|the groups do not divide the channels"),
    ("graph break, or opaque call", r"\bseams?\b|\bexterns?\b", ""),
    ("subgraph, or stage of a program",
     r"\bprograms? (?:parts?|pieces?)\b|\bpieces? of programs?", ""),
    ("reduction epilogue, or prologue",
     r"\btotals\b|\bwhat (?:stands|comes|is) (?:before|after|around)\b", ""),
    ("guard, or trace cache", r"\bkeys? that holds?\b|\bcall signatures?\b", ""),
    ("tile, or tiled producer-consumer fusion",
     r"\bturns? of rows\b|\bhand(?:ed|s)? (?:rows )?over\b|\bchains\b|\bhand in hand\b",
     "chains of"),
    ("symbolic length, or iota",
     r"\bcounted (?:arrays?|lengths?|axes)\b|\barrays? of positions\b", ""),
    ("unrolled rows",
     r"\bheld rows\b|\brows (?:are |that are )?held\b|\bwritten[- ]out (?:rows|loops?)", ""),
    ("stride-0, or loop-invariant", r"\bsteady\b|(?<!loop-)\binvariant\b|\balike\b", ""),
    ("deinterleaved load", r"\blaced\b|\blacing\b", ""),
    ("strided, or gathered",
     r"\bpicked\b|\b(?:elements?|rows?|lie|lies|lying|numbers?) (?:that are )?apart\b", ""),
    ("lane transpose, or transposed row batch",
     r"\bturned\b|\bgrouped\b", "turned (?:on|off|into)"),
    ("alias analysis, or overlap", r"\b(?:memory|arrays?) (?:lies?|lying|that lies?) beside\b", ""),
    ("software-pipelined", r"\bearly (?:rows?|loads?|stages?|kernels?)\b", ""),
    ("online (single-pass) reduction", r"\bmerged\b", ""),
    ("split reduction", r"\bjoined parts\b|\bsplit (?:sums?|rows?)\b", ""),
    ("packed", r"\brooms?\b", ""),
    ("flattened rows", r"\bwide rows?\b|\brows? along\b", ""),
    ("launch configuration", r"\bextents?\b|\blaunch words\b", ""),
    ("index, slot, offset, or position", r"\bplaces?\b",
     (r"in (?:[\w']+ ){0,2}place|takes? (?:\w+ )?place|took place|last place|changes? places"
      "|at one place")),
    ("baseline, variant, or sample", r"\beager rows?\b", ""),
)  # fmt: skip


def mistakes(text: str) -> list[str]:
    """The words of a text that the field has others for."""
    found = []
    for write, banned, allowed in WORDS:
        rest = re.sub(allowed, "…", text, flags=re.IGNORECASE) if allowed else text
        found += [
            f"{rest[max(0, hit.start() - 40) : hit.end() + 30]!r}: {hit[0]!r} is {write}"
            for hit in re.finditer(banned, rest, flags=re.IGNORECASE)
        ]
    return found


def _prose(text: str) -> str:
    """A page without its code."""
    return re.sub(r"\s+", " ", re.sub(r"`[^`]*`", "`", FENCE.sub("", text)))


def _literals(path: str, calls: frozenset[str] = frozenset()) -> Iterator[tuple[int, str]]:
    """Texts of several words in a file's code but docstrings; of the named calls where some are."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    roots: list[ast.AST] = [tree]
    if calls:
        roots = [each for each in ast.walk(tree) if isinstance(each, ast.Call)
                 and getattr(each.func, "id", getattr(each.func, "attr", "")) in calls]  # fmt: skip
    alone = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
    for root in roots:
        for node in ast.walk(root):
            if isinstance(node, ast.Constant) and id(node) not in alone:
                if isinstance(node.value, str) and " " in node.value:
                    yield node.lineno, node.value


def _files(*folders: str) -> list[str]:
    return sorted(
        str(path.relative_to(ROOT)) for folder in folders for path in (ROOT / folder).rglob("*.py")
    )


PAGES = sorted(
    [*(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")), "README.md"]
)


@pytest.mark.parametrize("page", PAGES)
def test_documents(page: str) -> None:
    """The prose of every page, without its code."""
    assert not mistakes(_prose((ROOT / page).read_text(encoding="utf-8")))


@pytest.mark.parametrize("code", REASONS)
def test_reasons(code: str) -> None:
    """What a reason means, and what to do."""
    assert not mistakes(" ".join(REASONS[code]))


def test_what_was_found_and_refused() -> None:
    """The third part of a reason: what was found; and errors that users meet."""
    names = frozenset({
        "Unsupported", "Reason", "CannotRun", "FuserError", "FusionError", "ArgumentError",
        "ShapeError", "DtypeError", "GraphError", "BackendError", "ConfigurationError",
        "CompileError",
    })  # fmt: skip
    found = [
        f"{path}:{line}: {each}"
        for path in _files("fuser", "backends")
        for line, text in _literals(path, names) for each in mistakes(text)
    ]  # fmt: skip
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", ["page.html.j2", "history.html.j2"])
def test_templates(name: str) -> None:
    """What is written in the templates of pages, between their tags."""
    text = (ROOT / "reports" / name).read_text(encoding="utf-8")
    assert not mistakes(re.sub(r"\{%.*?%\}|\{\{.*?\}\}|<[^>]*>", " ", text, flags=re.DOTALL))


def test_reports_and_help() -> None:
    """Titles, hints, sentences and help of reports and commands."""
    found = [
        f"{path}:{line}: {each}"
        for path in _files("reports", "suites/commands")
        for line, text in _literals(path) for each in mistakes(text)
    ]  # fmt: skip
    assert not found, "\n".join(found)


def test_help_of_commands() -> None:
    """Their docstrings are what `--help` prints."""
    from fuser.suites.commands import cli

    for name, command in cli.main.commands.items():
        assert not mistakes(command.help or ""), name


@pytest.mark.parametrize("subject", [*public(), *CLASSES, *CONTRACTS])
def test_docstrings_of_public_names(subject: object) -> None:
    """Of functions, methods and classes that users call."""
    text = re.sub(r"`[^`]*`|^ *\w+:", "`", inspect.getdoc(subject) or "", flags=re.MULTILINE)
    assert not mistakes(" ".join(text.split()))
