"""The raw record of one benchmark run: its shape, and reading, checking and writing it.

The engine fills these dataclasses and calls `save`; the reports call `load`. A record holds what
was measured and where, never a ratio or a verdict: those are recomputed from it at will.
Times are in seconds, sizes in bytes, and an absent value is None.
"""

import json
import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from fuser.base.near import near_it
from fuser.reports.plain import from_plain, to_plain

SCHEMA_VERSION = 1
"""The version `save` writes and `load` reads; see `record.schema.json`."""

NULLABLE_ERRORS = frozenset({"max_error_ulp", "max_relative_error", "tolerance"})
"""Fields of a `Run` that are written as null where they are not finite."""

Status = Literal["ok", "fell_back", "compiled_inside", "wrong", "failed", "absent", "not_run"]
VariantKind = Literal[
    "eager", "fallback", "unfused", "fused", "peer", "aa", "into", "ceiling", "baseline"
]
SizeName = Literal["S", "M", "L", "sweep"]
Preset = Literal[
    "quick", "full", "peers", "rows", "others", "programs", "dask", "calls", "compile",
    "device", "custom"
]
CeilingName = Literal["copy", "triad", "read"]
CallPath = Literal["native", "python", "fallback", "gpu"]
Method = Literal["ablation", "stamps"]
CacheState = Literal["cold", "disk cache"]
CrossingKind = Literal["stored", "read-again", "graph-break"]


class RecordError(ValueError):
    """A record that cannot be read or written; the message names the field and what to do."""


@dataclass(frozen=True, slots=True)
class Boundary:
    """An array that crosses the kernels of a fused plan, and why it must."""

    array: str  # as the plan calls it: "t0"
    value: str  # in the user's terms: "exp#3 (model.py:12)"
    kind: CrossingKind
    moved_bytes: int  # written and read beyond the least possible because it crosses
    reason: str  # a code of the fuser
    meaning: str = ""  # its sentence
    written_by: int | str | None = None  # a kernel's number, a function's name; None: an argument
    read_by: Sequence[int | str] = ()


@dataclass(frozen=True, slots=True)
class MachineLoad:
    """What else the machine did while one process measured one cell.

    Attributes:
        process: its number.
        wall_s: how long the cell's blocks took together, seconds.
        others_s: what other processes had of all processors meanwhile, seconds.
        steal_s: what the hypervisor gave to other machines; None where the system does not tell.
        load: the load average of one minute, before the first block and after the last.
        frequency_hz: the processors' mean clock rate then; empty where the system does not tell.
        throttles: how often a processor was slowed for its heat in between; None: not told.
    """

    process: int
    wall_s: float
    others_s: float
    steal_s: float | None = None
    load: Sequence[float] = ()
    frequency_hz: Sequence[float] = ()
    throttles: int | None = None

    @property
    def other_cores(self) -> float:
        """How many processors others kept busy, in the mean; 0 where nothing was timed."""
        return self.others_s / self.wall_s if self.wall_s else 0.0

    @property
    def steal_cores(self) -> float:
        """How many processors the hypervisor took, in the mean."""
        return (self.steal_s or 0.0) / self.wall_s if self.wall_s else 0.0


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Speed of arithmetic without memory: `operations` of a dtype in each of `seconds`."""

    dtype: str
    operations: int
    threads: int
    process: int
    seconds: Sequence[float]
    by: str = "fuser"


@dataclass(frozen=True, slots=True)
class Anatomy:
    """Where one call's time goes.

    By `ablation` the parts are measured apart (an entry that does nothing, checks, allocation,
    kernel); by `stamps` they are read off a clock inside the call. The whole is measured by
    itself, so that what the parts leave unexplained is known. One number a process.

    Attributes:
        unexplained_s: the parts' sum less the whole: where its interval over the rounds of a
            process begins, the number, where it ends. One such three a process.
    """

    subject: str  # what is called, on what
    path: CallPath
    method: Method
    parts_s: Mapping[str, Sequence[float]]  # in the order of the call
    whole_s: Sequence[float]
    unexplained_s: Sequence[Sequence[float]] = ()


@dataclass(frozen=True, slots=True)
class FirstCall:
    """The first call of a function by stages, with nothing kept or with machine code on disk."""

    workload: str
    state: CacheState
    seconds: Sequence[float]  # one a repetition
    stages_s: Mapping[str, Sequence[float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Machine:
    """What the run was measured on."""

    cpu: str
    cores_logical: int
    cores_physical: int | None = None
    memory_bytes: int = 0
    caches: Mapping[str, int] = field(default_factory=dict)  # "L1d" -> bytes
    os: str = ""
    governor: str | None = None
    load_average: Sequence[float] = ()
    accelerator: str | None = None
    features: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Ceiling:
    """Memory speed of simple code: `bytes_moved` in each of `seconds`, in one process."""

    name: CeilingName
    bytes_moved: int
    working_set_bytes: int
    threads: int
    process: int
    seconds: Sequence[float]
    by: str = "numpy"  # whose code moved the memory: "numpy" or "fuser"


@dataclass(frozen=True, slots=True)
class Variant:
    """One way of running a workload; the variant of kind "aa" repeats eager (noise floor)."""

    name: str
    kind: VariantKind
    description: str = ""
    absent_reason: str | None = None


@dataclass(frozen=True, slots=True)
class Samples:
    """Parallel sequences, one entry a sample; `seconds[i]` is for `calls[i]` calls together.

    `checked[i]` is 1 where the last of those calls was verified; empty in older records.
    """

    process: Sequence[int] = ()
    block: Sequence[int] = ()
    order: Sequence[int] = ()
    calls: Sequence[int] = ()
    seconds: Sequence[float] = ()
    checked: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Run:
    """One variant on one cell: its samples, or why there are none."""

    variant: str
    status: Status
    reason: str = ""
    expected_fallback: bool = False
    samples: Samples = field(default_factory=Samples)
    first_call_s: Sequence[float] = ()  # one a process
    compile_stages_s: Mapping[str, Sequence[float]] = field(default_factory=dict)
    max_error_ulp: float | None = None
    max_relative_error: float | None = None
    tolerance: float | None = None
    checked_calls: int = 0
    fallback_reasons: Sequence[str] = ()
    kernels: int | None = None
    launches: int | None = None  # kernels that one call launches, counted while it runs
    compilations: int | None = None  # kernels compiled by the first call
    planned_bytes: int | None = None  # loads and stores of one call's kernels
    allocations: int | None = None  # arrays made by one call
    text_hashes: Mapping[str, str] = field(default_factory=dict)  # target -> sha256 of its text
    peak_bytes: int | None = None  # most memory held during a call above that before, results too
    tasks: int | None = None  # of one call's graph, where a scheduler (Dask's) runs it
    handed_bytes: int | None = None  # what tasks give, once for each task that needs it
    texts: Mapping[str, str] = field(default_factory=dict)  # "plan", "source", … -> key of `texts`


@dataclass(frozen=True, slots=True)
class Ledger:
    """Memory traffic of one call as counted from the graph, in bytes; None where not counted."""

    unfused_bytes: int | None = None
    planned_bytes: int | None = None
    least_bytes: int | None = None
    kernels_fused: int | None = None
    kernels_unfused: int | None = None
    operations: int | None = None  # arithmetic on elements: + - * / min max and the like
    elementary: int | None = None  # exp, log, sin, power and the like, on elements
    boundaries: Sequence[Boundary] = ()  # what the fused kernels leave for one another


@dataclass(frozen=True, slots=True)
class Cell:
    """One workload at one dtype and size, with one `Run` a variant."""

    id: str  # workload-dtype-elements: stable from run to run
    workload: str
    family: str
    dtype: str
    size: SizeName
    elements: int  # of the largest input
    axes: Mapping[str, int] = field(default_factory=dict)  # not at their default: hidden -> 1000
    formula: str = ""
    title: str = ""
    must_refuse: bool = False
    synthetic: bool = True
    note: str = ""
    input_bytes: int = 0
    output_bytes: int = 0
    ledger: Ledger = field(default_factory=Ledger)
    load: Sequence[MachineLoad] = ()  # one a process
    runs: Sequence[Run] = ()


@dataclass(frozen=True, slots=True)
class Record:
    """Everything one run of the harness measured."""

    run_id: str
    created_utc: str
    finished: bool
    preset: Preset
    machine: Machine
    command: Sequence[str] = ()
    seed: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    packages: Mapping[str, str] = field(default_factory=dict)
    commit: str | None = None
    dirty: bool | None = None
    ceilings: Sequence[Ceiling] = ()
    variants: Sequence[Variant] = ()
    cells: Sequence[Cell] = ()
    call_overhead: Mapping[str, Any] | None = None
    arithmetic: Sequence[Arithmetic] = ()
    anatomy: Sequence[Anatomy] = ()
    first_calls: Sequence[FirstCall] = ()
    texts: Mapping[str, str] = field(default_factory=dict)  # key -> text, shared by many runs
    notes: Sequence[str] = ()
    schema: int = SCHEMA_VERSION


def load(path: str | os.PathLike[str]) -> Record:
    """Read and check a `record.json`.

    Raises:
        RecordError: the file cannot be read, is not JSON, has another schema version, or a field
            is wrong.
    """
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise RecordError(f"{path}: {error.strerror or error}. Name a file to be read.") from error
    except UnicodeDecodeError as error:
        raise RecordError(
            f"{path}: not text at byte {error.start}: this is not a record of fuser-bench. "
            "Give the record.json of a folder in bench-results."
        ) from error
    except RecursionError as error:
        raise RecordError(
            f"{path}: nested too deeply to be a record of fuser-bench. "
            "Give the record.json of a folder in bench-results."
        ) from error
    except json.JSONDecodeError as error:
        raise RecordError(
            f"{path}: not JSON at line {error.lineno}, column {error.colno}: {error.msg}. "
            "The file was cut off or edited; run the benchmark again."
        ) from error
    validate(document, source=str(path))
    _rename_seams(document)
    return from_plain(Record, document)


def _rename_seams(document: Any) -> None:
    """Call a graph break so in a checked record of before it was: it was a seam."""
    for cell in document["cells"]:
        for each in cell["ledger"].get("boundaries", ()):
            if each["kind"] == "seam":
                each["kind"] = "graph-break"


def save(record: Record, path: str | os.PathLike[str]) -> Path:
    """Check a record and write it as JSON, whole or not at all.

    The text goes to a temporary file beside `path`, which then replaces it, so that an interrupted
    run leaves the previous record in place. An error or tolerance that is not finite is written
    as null.

    Raises:
        RecordError: a field is wrong; nothing is written.
        OSError: the folder cannot be written.
    """
    target = Path(path)
    document = to_document(record)
    validate(document, source=str(target))
    text = json.dumps(document, ensure_ascii=False, allow_nan=False)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=target.name, suffix=".tmp", dir=target.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text + "\n")
        Path(temporary).chmod(0o644)
        Path(temporary).replace(target)
    except BaseException:  # also Ctrl-C: the temporary file must not stay behind
        Path(temporary).unlink(missing_ok=True)
        raise
    return target


def to_document(record: Record) -> dict[str, Any]:
    """Turn a record into what `json.dumps` writes: dicts, lists, numbers, text and None."""
    try:
        document = to_plain(record, NULLABLE_ERRORS)
    except TypeError as error:
        raise RecordError(f"cannot write the record: {error}") from error
    if not isinstance(document, dict):
        raise RecordError(f"expected a Record, found {type(record).__name__}")
    return document


def validate(document: Any, source: str = "record") -> None:
    """Check a decoded JSON document against `record.schema.json`.

    Fields that the schema does not name are allowed and ignored, so that an older reader opens a
    record that a newer writer of the same version has extended.

    Raises:
        RecordError: names the first wrong field, what was found there and what to do.
    """
    if not isinstance(document, Mapping) or "schema" not in document:
        raise RecordError(
            f'{source}: no field "schema": this is not a record of fuser-bench. '
            "Give the record.json of a folder in bench-results."
        )
    version = document["schema"]
    if version != SCHEMA_VERSION:
        raise RecordError(
            f"{source}: schema: found {version!r}, this version reads {SCHEMA_VERSION}. "
            "Open it with the version of fuser-bench named under packages, or measure again."
        )
    errors = sorted(_validator().iter_errors(document), key=lambda each: list(map(str, each.path)))
    if errors:
        error = errors[0]
        more = f" ({len(errors) - 1} more fields are wrong)" if len(errors) > 1 else ""
        raise RecordError(
            f"{source}: {_field_name(error.absolute_path)}: {_shorten(error.message)}{more}"
            f"{_near(error)}. "
            "Correct the writer of this field, or remove the record and measure again."
        )
    _check_samples(document, source)


def _near(error: Any) -> str:
    """What a misspelt field or word of a record may have been meant to be."""
    if error.validator == "enum":
        return f"; {near_it(error.instance, map(str, error.validator_value))}"
    if error.validator == "required" and isinstance(error.instance, Mapping):
        missing = next(name for name in error.validator_value if name not in error.instance)
        foreign = set(error.instance) - set(error.schema.get("properties", ()))
        return f"; {near_it(missing, sorted(foreign))}" if foreign else ""
    return ""


@cache
def _validator() -> Any:
    """Build the validator on first use: importing jsonschema takes about 0.1 s."""
    from jsonschema import Draft202012Validator

    text = files("fuser.reports").joinpath("record.schema.json").read_text(encoding="utf-8")
    return Draft202012Validator(json.loads(text))


def _check_samples(document: Mapping[str, Any], source: str) -> None:
    """Check the long lists here: jsonschema takes microseconds for each of their entries."""
    for cell in document["cells"]:
        for run in cell["runs"]:
            samples = run["samples"]
            where = f"{source}: cells[{cell['id']}].runs[{run['variant']}].samples"
            lengths = {
                name: len(values) for name, values in samples.items() if values or name != "checked"
            }
            if len(set(lengths.values())) > 1:
                raise RecordError(
                    f"{where}: the lists are parallel but their lengths differ: {lengths}. "
                    "Append to all of them for each sample."
                )
            for name, least in (("seconds", 0.0), ("calls", 1), ("process", 0), ("block", 0)):
                for index, value in enumerate(samples[name]):
                    if not isinstance(value, int | float) or not least <= value < math.inf:
                        raise RecordError(
                            f"{where}.{name}[{index}]: found {value!r}, expected a finite number "
                            f"of at least {least}. Leave the sample out where it was not timed."
                        )


def _field_name(path: Sequence[str | int]) -> str:
    """Spell a path as `cells[3].runs[0].status`; the top level is `record`."""
    parts = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in path]
    return "".join(parts).lstrip(".") or "record"


def _shorten(message: str, limit: int = 200) -> str:
    """Keep the end of a long message: jsonschema quotes the value first and the rule last."""
    return message if len(message) <= limit else f"{message[:60]} … {message[-(limit - 60) :]}"
