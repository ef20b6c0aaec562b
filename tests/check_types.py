"""Run `mypy --strict` on the installed package, and see that it read every file of the checkout.

In an editable install mypy follows no finder, reads one file and says success. So this runs from
another folder, against an installed wheel, and compares the number of files checked with the tree.
`tox -e types` calls it.
"""

import importlib.util
import re
from pathlib import Path

from mypy import api

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("fuser", "backends", "suites", "reports")


def main() -> int:
    """Check types; return 0 if mypy is content and has read every file, else 1."""
    expected = sum(len(list((ROOT / folder).rglob("*.py"))) for folder in FOLDERS)
    found = importlib.util.find_spec("fuser")
    if found is None or found.origin is None or Path(found.origin).is_relative_to(ROOT / "fuser"):
        print(f"types: an installed wheel is needed, not {found and found.origin}")
        return 1
    arguments = ["--config-file", str(ROOT / "pyproject.toml"), "-p", "fuser"]
    output, errors, status = api.run(arguments)
    print(output, errors, sep="", end="")
    if status:
        return 1
    checked = re.search(r"in (\d+) source files?", output)
    if checked is None or int(checked[1]) != expected:
        print(f"types: mypy was to read {expected} files, as many as the checkout has")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
