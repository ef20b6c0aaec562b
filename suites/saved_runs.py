"""Where runs are saved, and how a person names one."""

from pathlib import Path

RESULTS = "bench-results"
RECORD = "record.json"


def find_run(text: str) -> Path | None:
    """Return the folder of a run from its path, its record's path, or its name; None if absent."""
    path = Path(text)
    for folder in (path, path.parent, Path(RESULTS) / text):
        named = path.name == RECORD or folder != path.parent
        if named and (folder / RECORD).is_file():
            return folder
    return None
