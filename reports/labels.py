"""Why a row gets no speed-up: the words the tables, the figures and the page use for it."""

from dataclasses import dataclass

from fuser.reports.record import Cell, Run, Variant

FUSING_KINDS = ("fused", "unfused")
"""Kinds of variant that run our compiled kernels, and for which a fallback is a failure."""

STATUS_LABELS = {
    "ok": "",
    "fell_back": "fell back",
    "compiled_inside": "compiled while timed",
    "wrong": "wrong result",
    "failed": "failed",
    "absent": "absent",
    "not_run": "not run",
}
OWN_FUNCTION = "ran NumPy itself"
"""A row called a fuser's that calls the workload's function: its time is shown, and no gain."""


@dataclass(frozen=True, slots=True)
class Label:
    """What to print beside a row, and whether it may enter a summary."""

    text: str = ""  # "" where there is nothing to say
    reason: str = ""
    counts: bool = True  # enters the first geometric mean
    timed: bool = True  # its time is meaningful: enters the second geometric mean
    fuses: bool = True  # may show what fusion gains

    @property
    def is_left_out(self) -> bool:
        """Whether the row belongs in the table of what was left out."""
        return not self.counts


def label_of(cell: Cell, run: Run, variant: Variant) -> Label:
    """Judge one run by its status, its workload and its kind; the times are judged elsewhere."""
    reason = run.reason or "; ".join(run.fallback_reasons)
    if run.status in ("absent", "not_run", "failed", "wrong"):
        reason = reason or (variant.absent_reason or "")
        return Label(STATUS_LABELS[run.status], reason, False, False, False)
    if run.status == "compiled_inside":
        return Label(STATUS_LABELS[run.status], reason, False, True, False)
    if run.status == "fell_back":
        return _fallback_label(cell, run, variant, reason)
    if run.reason and variant.kind in FUSING_KINDS:
        return Label(OWN_FUNCTION, reason, counts=False, timed=True, fuses=False)
    if cell.must_refuse and variant.kind in FUSING_KINDS:
        text = "fused, though it must be refused"
        return Label(text, reason or "expected a fallback, found compiled kernels", False)
    return Label()


def _fallback_label(cell: Cell, run: Run, variant: Variant, reason: str) -> Label:
    """Tell an expected fallback (mode fallback, must-refuse workloads) from a failure to fuse."""
    if variant.kind not in FUSING_KINDS:
        return Label("", reason, fuses=False)
    if run.expected_fallback or cell.must_refuse:
        return Label("refused as expected", reason, counts=False, timed=True, fuses=False)
    return Label("fell back", reason or "no reason recorded", False, True, False)


def is_expected(label: Label) -> bool:
    """Whether a row left out of the speed-ups did what its workload is there to show."""
    return label.text == "refused as expected"
