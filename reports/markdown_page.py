"""A run's own table as a page in Markdown: what the HTML page shows of it, for a repository."""

from fuser.reports import side_by_side
from fuser.reports.analysis import analyse
from fuser.reports.collection import PRESET_TABLES, TABLES
from fuser.reports.display import Entry, Table, display
from fuser.reports.headline import machine_line
from fuser.reports.record import Record


def markdown_page(record: Record) -> str:
    """The page of two checkouts, of the preset's table, else of the best peers."""
    if side_by_side.has_baseline(record):
        return side_by_side.page([record])
    analysis = analyse(record)
    made = {name: TABLES[name].make(analysis) for name in PRESET_TABLES}
    shown = next((name for name in PRESET_TABLES if len(made[name])), "best_peers")
    load = ", ".join(f"{each:.1f}" for each in record.machine.load_average[:1]) or "not known"
    title = TABLES[shown].title
    lines = [
        f"# {title}", "", f"Preset {record.preset}. {machine_line(record)}.", "",
        f"The load of the machine when the run began, in processes: {load}.", "",
        *(f"- {each}" for each in PRESET_TABLES[shown].sentences(record, made[shown])), "",
        *([PRESET_TABLES[shown].LEGEND, ""] if PRESET_TABLES[shown].LEGEND else []),
        *markdown(display(shown, title, made[shown])),
    ]
    return "\n".join(lines) + "\n"


def markdown(table: Table) -> list[str]:
    """The lines of a table."""
    numbers = [all(line.entries[k].is_number for line in table.lines)
               for k in range(len(table.columns))]  # fmt: skip
    return [
        f"| {' | '.join(each.title for each in table.columns)} |",
        "|" + "|".join("--:" if number else "---" for number in numbers) + "|",
        *(f"| {' | '.join(map(_spelled, line.entries))} |" for line in table.lines),
    ]


def _spelled(entry: Entry) -> str:
    if not entry.text:
        return "—" if entry.is_number else ""
    text = entry.text.replace("|", "\\|")
    return f"{text} [{entry.interval}]" if entry.interval else text
