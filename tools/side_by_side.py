"""All tables of speed, this checkout beside another: `python tools/side_by_side.py DIR FOLDER`.

Arrays of the three sets of `throughput.py`, calls and compile times, both checkouts timed in turns;
the raw records are left in the folder, beside the page that `fuser.reports.side_by_side` makes of
them. It ends with 1 where a table's geometric mean is beyond the limit. What is recorded already is
not measured again: started once more with the same folder, arrays go on where they stopped.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHARES = {"pointwise": 0.42, "rows": 0.3, "others": 0.28}
"""Of the time for arrays: by the number of cells, and how large they are."""


def commands(baseline: Path, folder: Path, budget_s: float) -> Iterator[tuple[Path, list[str]]]:
    """Each record, and what measures it."""
    beside, tools = ["--baseline", str(baseline)], ROOT / "tools"
    for name in ("calls", "compile"):
        record = folder / f"{name}.json"
        if not record.exists():
            yield record, [str(tools / f"{name.removesuffix('s')}_times.py"), str(record), *beside]
    for name, share in SHARES.items():
        record = folder / f"{name}.json"
        seconds = ["--budget-s", f"{share * budget_s:.0f}"]
        command = [str(tools / "throughput.py"), str(record), "--set", name, *seconds]
        yield record, [*command, *beside, "--peers", "baseline"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("baseline", type=Path, help="the other checkout")
    parser.add_argument("folder", type=Path, help="of the records and the page")
    parser.add_argument("--budget-s", type=float, default=1200.0, help="for arrays")
    chosen = parser.parse_args(arguments)
    chosen.folder.mkdir(parents=True, exist_ok=True)
    for record, command in commands(chosen.baseline.resolve(), chosen.folder, chosen.budget_s):
        print(f"\n{record}", flush=True)
        subprocess.run([sys.executable, *command], check=True)
    sys.path.insert(0, str(ROOT))
    from fuser.reports import side_by_side

    records = sorted(map(str, chosen.folder.glob("*.json")))
    return side_by_side.main([*records, str(chosen.folder / "side_by_side.md")])


if __name__ == "__main__":
    sys.exit(main())
