"""A comparison as text for a terminal, as Markdown for CI, as JUnit XML, and as plain data."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

from fuser.reports.comparison import Comparison, Outcome, TimedRow
from fuser.reports.statistics import Estimate

SENTENCES = {
    Outcome.OK: "no regression",
    Outcome.REGRESSION: "regression",
    Outcome.NOTHING: "a required row is missing, or nothing was measured",
    Outcome.WRONG: "wrong result",
    Outcome.INCONCLUSIVE: "inconclusive: measure with more processes",
}
NOT_SHOWN = "same"
MOST_MISSING = 3
"""Rows that are missing for one reason and named; of more only the number is said."""
VERDICTS = ("slower", "faster", "same", "inconclusive", "not measured")
UNGATED = ", not gated"
"""Of a row of NumPy or of another fuser: no part of the answer."""
GRAVEST_FIRST = (
    "wrong", "missing", "slower", "regression", "changed", f"slower{UNGATED}", "faster",
    "improvement", f"faster{UNGATED}", "not measured", f"not measured{UNGATED}",
)
"""Kinds of finding as a person should meet them; what is left is inconclusive, and comes last."""
SHOWN = 6
"""Findings that are spelled out where not all are asked for."""


def one_line(text: str) -> str:
    """Return a text without line breaks and control characters, which XML and tables forbid.

    Reasons are whatever a fuser's error said.
    """
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())


def ratio_text(ratio: Estimate | None) -> str:
    """Spell a ratio with its interval: `1.052 [1.01, 1.09]`."""
    return "-" if ratio is None else ratio.as_text(4)


def headline(comparison: Comparison) -> str:
    """Return one sentence: the answer, and how many rows it is from."""
    ours = _tally([row for row in comparison.timed if row.gated])
    others = _tally([row for row in comparison.timed if not row.gated])
    rest = f"; times of NumPy's rows and other fusers': {others}" if others else ""
    changes = len(comparison.changes)
    return (
        f"{SENTENCES[comparison.outcome()]}: {comparison.counted} rows of ours are in both runs; "
        f"{changes or 'no'} count{'s' * (changes > 1)} of kernels, bytes or calls "
        f"differ{'s' * (changes < 2)}; times: {ours or 'not compared'}{rest}"
    )


def _tally(rows: Sequence[TimedRow]) -> str:
    """Count the verdicts, what a person looks for first."""
    found = Counter(row.verdict for row in rows)
    order = sorted(found, key=VERDICTS.index)
    return ", ".join(f"{found[each]} {each}" for each in order)


Finding = tuple[str, str, str, str]
"""Kind, cell, variant, text."""


def _findings(comparison: Comparison) -> list[Finding]:
    """Return what a person should see, gravest first.

    Of one kind the largest difference in time is first.
    """
    rows = [("wrong", cell, name, one_line(why)) for cell, name, why in comparison.wrong]
    rows += _missing(comparison)
    for each in comparison.changes:
        text = one_line(f"{each.what}: {each.base} -> {each.head}")
        rows.append((each.kind, each.cell, each.variant, text))
    for row in sorted(comparison.timed, key=_difference, reverse=True):
        if row.verdict != NOT_SHOWN:
            text = f"time, {row.basis}: {ratio_text(row.ratio)}"
            rows.append((_word(row), row.cell, row.variant, text))
    order = {kind: place for place, kind in enumerate(GRAVEST_FIRST)}
    return sorted(rows, key=lambda row: order.get(row[0], len(order)))


def _difference(row: TimedRow) -> float:
    """How far a row's time is from what it was, up or down."""
    return abs(math.log(row.ratio.value)) if row.ratio is not None and row.ratio.value > 0 else 0.0


def _folded(found: Sequence[Finding]) -> tuple[list[Finding], str]:
    """Return the findings that are spelled out, of those in order, and what is said of others."""
    told = [row for row in found if not row[0].startswith(("inconclusive", "not measured"))]
    rest = Counter(row[0].removesuffix(UNGATED) for row in [*told[SHOWN:], *found[len(told) :]])
    return told[:SHOWN], ", ".join(f"{count} {kind}" for kind, count in rest.items())


def _missing(comparison: Comparison) -> list[Finding]:
    """Return missing rows as findings, many with one reason as one: how many, and the first.

    A whole run beside one cell lacks hundreds.
    """
    by_reason: dict[str, list[tuple[str, str]]] = {}
    for cell, name, why in comparison.missing:
        by_reason.setdefault(one_line(why), []).append((cell, name))
    found = []
    for why, rows in by_reason.items():
        if len(rows) <= MOST_MISSING:
            found += [("missing", cell, name, why) for cell, name in rows]
            continue
        first = ", ".join(" ".join(row) for row in rows[:MOST_MISSING])
        text = f"{why}: {first} and {len(rows) - MOST_MISSING} more"
        found.append(("missing", f"{len(rows)} rows", "", text))
    return found


def _word(row: TimedRow) -> str:
    return row.verdict if row.gated else row.verdict + UNGATED


def as_text(comparison: Comparison, whole: bool = False) -> str:
    """Return lines for a terminal: ten at most, what is slower first, unless all are wanted.

    Args:
        comparison: of two runs.
        whole: also what is inconclusive, row by row, and every note.
    """
    findings = _findings(comparison)
    found, rest = (findings, "") if whole else _folded(findings)
    lines = [headline(comparison), f"{comparison.base_id} -> {comparison.head_id}"]
    lines += [
        f"  {kind:<12} {f'{cell} {variant}'.strip()}: {text}" for kind, cell, variant, text in found
    ]
    if rest:
        lines.append(f"  further: {rest} (--all shows them)")
    notes = comparison.notes if whole else comparison.notes[:1]
    lines += [f"  note: {each}" for each in notes]
    if more := len(comparison.notes) - len(notes):
        lines[-1] += f" ({more} more note{'s' * (more > 1)}: --all)"
    return "\n".join(lines)


def _table(findings: Sequence[Finding]) -> list[str]:
    """The lines of a Markdown table of findings."""
    return [
        "| finding | row | variant | what |", "|---|---|---|---|",
        *(
            f"| {kind} | `{cell}` | {variant} | {text.replace('|', chr(92) + '|')} |"
            for kind, cell, variant, text in findings
        ),
        "",
    ]


def as_markdown(comparison: Comparison) -> str:
    """Return a summary for a pull request or a job's page; what is inconclusive is folded."""
    lines = [
        f"### fuser-bench: {SENTENCES[comparison.outcome()]}", "",
        f"`{comparison.base_id}` → `{comparison.head_id}`. {headline(comparison)}.", "",
        f"Ratios are head / base with a 95% interval; up to {comparison.margin:.0%} is the same.",
        "",
    ]
    findings = _findings(comparison)
    told, rest = _folded(findings)
    if told:
        lines += _table(told)
    if rest:
        summary = f"<details><summary>further: {rest}</summary>"
        lines += [summary, "", *_table(findings[len(told) :]), "</details>", ""]
    lines += [f"- {each}" for each in comparison.notes]
    return "\n".join(lines).rstrip() + "\n"


def as_junit(comparison: Comparison) -> str:
    """Return JUnit XML: a test case a gated row and kind of check, failed, in error or skipped."""
    suite = ElementTree.Element("testsuite", name="fuser-bench compare")
    tally = {"failures": 0, "errors": 0, "skipped": 0}

    def case(name: str, cell: str, tag: str, message: str) -> None:
        element = ElementTree.SubElement(suite, "testcase", classname=cell, name=name)
        if tag:
            ElementTree.SubElement(element, tag, message=one_line(message))
            tally[{"failure": "failures", "error": "errors", "skipped": "skipped"}[tag]] += 1

    for cell, variant, reason in comparison.wrong:
        case(f"{variant} result", cell, "error", reason)
    for cell, variant, reason in comparison.missing:
        case(f"{variant} present", cell, "error", reason)
    for change in comparison.changes:
        text = f"{change.what}: {change.base} -> {change.head}"
        tag = "failure" if change.kind == "regression" else ""
        case(f"{change.variant} {change.what}", change.cell, tag, text)
    for row in comparison.timed:
        tags = {"slower": "failure", "inconclusive": "skipped", "not measured": "skipped"}
        tag = tags.get(row.verdict, "") if row.gated else ""
        case(f"{row.variant} time", row.cell, tag, f"{row.verdict}: {ratio_text(row.ratio)}")
    suite.set("tests", str(len(suite)))
    for name, count in tally.items():
        suite.set(name, str(count))
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def as_data(comparison: Comparison) -> dict[str, Any]:
    """Return what `--json` prints."""
    from dataclasses import asdict

    data = asdict(comparison)
    data["outcome"] = comparison.outcome().name.lower().replace("_", " ")
    data["exit_code"] = int(comparison.outcome())
    return data
