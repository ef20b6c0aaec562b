"""A comparison as text for a terminal, as Markdown for CI, as JUnit XML, and as plain data."""

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
    rest = f"; of NumPy's rows and other fusers': {others}" if others else ""
    return (
        f"{SENTENCES[comparison.outcome()]}: {comparison.counted} rows of ours in both runs, "
        f"{len(comparison.changes)} counts differ; times: {ours or 'not compared'}{rest}"
    )


def _tally(rows: Sequence[TimedRow]) -> str:
    """Count the verdicts, what a person looks for first."""
    found = Counter(row.verdict for row in rows)
    order = sorted(found, key=VERDICTS.index)
    return ", ".join(f"{found[each]} {each}" for each in order)


def _findings(comparison: Comparison) -> list[tuple[str, str, str, str]]:
    """Return what a person should see as (kind, cell, variant, text), gravest first."""
    rows = [("wrong", cell, name, one_line(why)) for cell, name, why in comparison.wrong]
    rows += _missing(comparison)
    order = ("regression", "changed", "improvement")
    for each in sorted(comparison.changes, key=lambda change: order.index(change.kind)):
        text = one_line(f"{each.what}: {each.base} -> {each.head}")
        rows.append((each.kind, each.cell, each.variant, text))
    for row in comparison.timed:
        if row.verdict != NOT_SHOWN:
            text = f"time, {row.basis}: {ratio_text(row.ratio)}"
            rows.append((_word(row), row.cell, row.variant, text))
    return rows


def _missing(comparison: Comparison) -> list[tuple[str, str, str, str]]:
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
    return row.verdict if row.gated else f"{row.verdict}, not gated"


def as_text(comparison: Comparison) -> str:
    """Return lines for a terminal."""
    lines = [f"{comparison.base_id} -> {comparison.head_id}"]
    lines += [f"  note: {each}" for each in comparison.notes]
    lines += [
        f"  {kind:<12} {f'{cell} {variant}'.strip()}: {text}"
        for kind, cell, variant, text in _findings(comparison)
    ]
    return "\n".join([*lines, headline(comparison)])


def as_markdown(comparison: Comparison) -> str:
    """Return a summary for a pull request or a job's page."""
    lines = [
        f"### fuser-bench: {SENTENCES[comparison.outcome()]}", "",
        f"`{comparison.base_id}` → `{comparison.head_id}`. {headline(comparison)}.", "",
        f"Ratios are head / base with a 95% interval; up to {comparison.margin:.0%} is the same.",
        "",
    ]
    findings = _findings(comparison)
    if findings:
        lines += ["| finding | row | variant | what |", "|---|---|---|---|"]
        lines += [
            f"| {kind} | `{cell}` | {variant} | {text.replace('|', chr(92) + '|')} |"
            for kind, cell, variant, text in findings
        ]
        lines.append("")
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
