"""The last section of the page: how the numbers were made, on what, and from which sources."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fuser.reports.analysis import CEILING_SLACK, CLOCK_STEPS, clock_step_s
from fuser.reports.collection import Collection
from fuser.reports.record import Record
from fuser.reports.spelling import bytes_text, percent_text, seconds_text
from fuser.reports.verdicts import SAME_MARGIN


@dataclass(frozen=True, slots=True)
class Source:
    """The source text of a workload."""

    name: str
    about: str
    text: str


def evidence_blocks(collection: Collection) -> list[dict[str, Any]]:
    """Give the blocks after the evidence tables, as keyword arguments of `page.Block`."""
    record = collection.analysis.record
    blocks: list[dict[str, Any]] = [
        {"title": "How the numbers are made", "items": method(collection)},
        {"title": "Machine", "pairs": machine_pairs(record)},
        {"title": "Run", "pairs": run_pairs(record)},
        {"title": "Workloads", "sources": sources(record)},
        {"title": "Variants", "pairs": variant_pairs(record)},
        {"title": "Notes", "items": list(record.notes)},
    ]
    return [each for each in blocks if any(each.get(key) for key in ("items", "pairs", "sources"))]


def method(collection: Collection) -> list[str]:
    """Say how times, ratios, intervals and verdicts come about."""
    analysis = collection.analysis
    floor = analysis.floor
    noise = "The run has no A/A pair: its noise floor is not measured."
    if floor is not None:
        noise = (
            f"Eager is timed against itself in {floor.pairs} cells; with {analysis.processes} "
            f"processes such a ratio lies within {percent_text(floor.ratio - 1)} of 1 in 95% of "
            "cases. A ratio nearer to 1 than this is never called faster or slower."
        )
    step = seconds_text(clock_step_s(analysis.record))
    texts = [
        """A sample is the time of many calls divided by their number. Variants are interleaved
        in random order within blocks, and blocks are repeated in several worker processes.""",
        """The time of a call is the median over the blocks of a process, averaged (geometric mean)
        over processes.""",
        """A ratio pairs two variants within each block. Each process gives one number, the median
        over its blocks of the log ratio; the 95% interval is Student's t over processes, but no
        narrower than the noise of the run, and none is given from fewer than three processes.""",
        f"""Same within margin: the 90% interval lies within {100 * SAME_MARGIN:g}% of 1 (two
        one-sided tests). Faster or slower: the 95% interval excludes 1 and the ratio is beyond the
        noise floor. Else inconclusive; with fewer than three processes, not measured.""",
        noise,
        """Against eager: eager time / variant time. What fusing itself gains: unfused time / fused
        time, where unfused is the same compiler with one kernel for each operation.""",
        """A row that fell back, compiled while it was timed, or gave a wrong result has no fusion
        speed-up and enters no summary. The second geometric mean counts the timed ones among them
        at their measured time. Workloads that must be refused enter neither.""",
        """Traffic is counted from the graph and its schedule: unfused (each operation reads and
        writes memory), planned (the loads and stores of the fused kernels), least (inputs and
        outputs once). Bandwidth is least bytes / time; its ceiling is the copy of the same cache
        level measured in the same run. Bytes on the memory bus are not measured.""",
        f"""Impossible numbers are labelled and left out: samples shorter than {CLOCK_STEPS} steps
        of the clock ({step} each), calls quicker than one that does nothing, and bandwidths
        whose slow end is more than {100 * (CEILING_SLACK - 1):.0f}% above the fastest ceiling of
        their cache level.""",
        """Repaid after: the calls after which the first call, compilation included, and the later
        ones take less time than as many eager calls.""",
        """Colours are those of Okabe and Ito, the heat map ColorBrewer's RdBu; both are safe for
        the common kinds of colour blindness.""",
    ]
    return [" ".join(text.split()) for text in texts]


def machine_pairs(record: Record) -> list[tuple[str, str]]:
    """Describe the machine."""
    machine = record.machine
    caches = ", ".join(f"{name} {bytes_text(size)}" for name, size in machine.caches.items())
    load = ", ".join(f"{value:.2f}" for value in machine.load_average)
    pairs = [
        ("Processor", machine.cpu),
        ("Cores", f"{machine.cores_logical} logical, {machine.cores_physical or '?'} physical"),
        ("Memory", bytes_text(machine.memory_bytes) if machine.memory_bytes else ""),
        ("Data caches", caches),
        ("System", machine.os),
        ("Frequency governor", machine.governor or "not known"),
        ("Load before the run", load),
        ("Accelerator", machine.accelerator or "none: GPU rows not run"),
        ("Processor features", ", ".join(machine.features)),
    ]
    return [(name, value) for name, value in pairs if value]


def run_pairs(record: Record) -> list[tuple[str, str]]:
    """Describe the run: command, seed, settings, packages, overhead floors."""
    pairs = [
        ("Run", record.run_id),
        ("Command", " ".join(record.command) or "not recorded"),
        ("Finished", "yes" if record.finished else "no: interrupted"),
        ("Seed", str(record.seed)),
        ("Packages", ", ".join(f"{name} {each}" for name, each in record.packages.items())),
        ("Commit", f"{record.commit}{' with changes' if record.dirty else ''}"),
    ]
    pairs += [_setting_pair(name, value) for name, value in record.settings.items()]
    for name, value in (record.call_overhead or {}).items():
        nested = value if isinstance(value, Mapping) else {"": value}
        for inner, each in nested.items():
            whole = f"{name}_{inner}" if inner else name
            pairs.append((_words(whole.removesuffix("_s")), _overhead(whole, each)))
    return pairs


def _words(name: str) -> str:
    """Spell a field's name as words: `least_sample` is "Least sample"."""
    return name.replace("_", " ").capitalize()


def _setting_pair(name: str, value: Any) -> tuple[str, str]:
    """Spell a setting in the unit that its name ends with."""
    for ending, spell in (("_bytes", bytes_text), ("_s", seconds_text)):
        if name.endswith(ending) and isinstance(value, int | float):
            return _words(name.removesuffix(ending)), spell(value)
    return _words(name), _setting(value)


def _setting(value: Any) -> str:
    """Spell a setting; nested ones as they are in JSON."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {each}" for key, each in value.items())
    return str(value)


def _overhead(name: str, value: Any) -> str:
    """Spell a measured floor: the median of its repetitions, and their range."""
    numbers = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    known = sorted(each for each in numbers if isinstance(each, int | float))
    if not name.endswith("_s") or not known or not all(map(math.isfinite, known)):
        return _setting(value)
    middle = seconds_text(known[len(known) // 2])
    if len(known) == 1:
        return middle
    return f"{middle} ({seconds_text(known[0])} to {seconds_text(known[-1])})"


def sources(record: Record) -> list[Source]:
    """Give the formula of each workload once."""
    found: dict[str, Source] = {}
    for cell in record.cells:
        marks = [cell.title, f"[{cell.family}]" if cell.family else ""]
        marks.append("must be refused" if cell.must_refuse else "")
        marks.append(cell.note)
        about = " ".join(mark for mark in marks if mark)
        found.setdefault(cell.workload, Source(cell.workload, about, cell.formula.strip()))
    return [each for each in found.values() if each.text]


def variant_pairs(record: Record) -> list[tuple[str, str]]:
    """Describe each variant, or say why it is absent."""
    pairs = []
    for each in record.variants:
        absent = f" Absent: {each.absent_reason}" if each.absent_reason else ""
        pairs.append((each.name, f"{each.description}.{absent}" if each.description else absent))
    return pairs
