"""Makes the gallery: times its programs, draws their results, writes its page.

python docs/gallery/make.py measure    # times here, into reports/recorded/gallery
python docs/gallery/make.py draw       # the pictures
python docs/gallery/make.py page       # docs/gallery/index.md, from the recorded times
"""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

import programs  # noqa: E402

import fuser  # noqa: E402

RECORDED = HERE.parents[1] / "reports" / "recorded" / "gallery" / "gallery.json"
INTRODUCTION = """\
# Gallery

Fifteen programs, each in plain NumPy and with `@fuser.fuse`. *Speed-up* is the time of plain NumPy
over that of the fused function, both called in turns on the same arguments; in brackets stands the
95% interval of that ratio. *First call* is what compiling costs once. All times are from one run on
{machine}; `python docs/gallery/make.py measure` takes them on yours.

{table}
"""


def name_of(program: programs.Program) -> str:
    """The name of its function."""
    return str(program.function.__name__)


def measure() -> dict[str, Any]:
    """Times of all programs, plain and fused, and the plans of the fused ones."""
    import time

    from fuser.suites.probes.machine import describe_machine

    facts = describe_machine()
    found: dict[str, Any] = {}
    for program in programs.PROGRAMS:
        arguments = program.arguments(program.length)
        fused = fuser.fuse(program.function, fallback="allow")
        copies = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        start = time.perf_counter()
        fused(*copies)
        first_s = time.perf_counter() - start
        compared = fused.benchmark(*arguments, seconds=3.0)
        found[name_of(program)] = {
            "plain_s": compared.plain_s, "fused_s": compared.fused_s, "first_call_s": first_s,
            "speedup": compared.speedup, "low": compared.low, "high": compared.high,
            "plan": str(fused.explain(*arguments)),
        }  # fmt: skip
        print(name_of(program), round(compared.speedup, 2), flush=True)
    machine = f"{facts.cpu}, {facts.cores_logical} processors, NumPy {np.__version__}"
    return {"machine": machine, "programs": found}


def draw() -> None:
    """One PNG a program."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    (HERE / "pictures").mkdir(exist_ok=True)
    for program in programs.PROGRAMS:
        arguments = program.arguments(program.drawn)
        result = fuser.fuse(program.function, fallback="allow")(*arguments)
        shown = program.picture(result, arguments)
        figure, axes = plt.subplots(figsize=(3.2, 2.4), dpi=100, layout="constrained")
        if "image" in shown:
            axes.imshow(shown["image"], cmap=shown.get("colours", "viridis"))
            axes.set_axis_off()
        else:
            axes.plot(shown["x"], shown["y"], linewidth=1)
            axes.set(xlabel=shown["xlabel"], ylabel=shown["ylabel"])
        figure.savefig(
            HERE / "pictures" / f"{name_of(program)}.png",
            pil_kwargs={"optimize": True}, metadata={"Software": None},
        )  # fmt: skip
        plt.close(figure)


def _seconds(value: float) -> str:
    """A time with three digits, in the unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= size or unit == "µs":
            return f"{value / size:.3g} {unit}"
    raise AssertionError


def page(recorded: dict[str, Any]) -> str:
    """The page, from the recorded times and the programs' text."""
    rows = ["| program | speed-up | NumPy | fused | first call | area |"]
    rows.append("|---|--:|--:|--:|--:|---|")
    parts = []
    for program in programs.PROGRAMS:
        name = name_of(program)
        one = recorded["programs"][name]
        ratio = f"{one['speedup']:.1f} ({one['low']:.1f} to {one['high']:.1f})"
        anchor = program.title.lower().replace(" ", "-")
        rows.append(
            f"| [{program.title}](#{anchor}) | {ratio} | {_seconds(one['plain_s'])} | "
            f"{_seconds(one['fused_s'])} | {_seconds(one['first_call_s'])} | {program.area} |"
        )
        source = inspect.getsource(program.function).rstrip()
        plan = ("```text", *one["plan"].splitlines(), "```")
        parts.append(
            f"## {program.title}\n\n![{program.title}](pictures/{name}.png)\n\n{program.says}\n\n"
            f"```py\n@fuser.fuse\n{source}\n```\n\n"
            f"NumPy {_seconds(one['plain_s'])}, fused {_seconds(one['fused_s'])}: {ratio} times as "
            f"fast.\n\n??? note \"Its plan, as `explain` prints it\"\n\n"
            + "".join(f"    {line}".rstrip() + "\n" for line in plan)
        )
    head = INTRODUCTION.format(machine=recorded["machine"], table="\n".join(rows))
    return head + "\n" + "\n".join(parts)


def main(do: str) -> None:
    """Run one of the three."""
    if do == "measure":
        RECORDED.parent.mkdir(parents=True, exist_ok=True)
        RECORDED.write_text(json.dumps(measure(), indent=1) + "\n", encoding="utf-8")
    elif do == "draw":
        draw()
    elif do == "page":
        text = page(json.loads(RECORDED.read_text(encoding="utf-8")))
        (HERE / "index.md").write_text(text, encoding="utf-8")
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
