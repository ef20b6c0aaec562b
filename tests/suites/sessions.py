"""Sessions of pytest one after another in one other process: what they import is imported once."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.tree import ROOT

SCRIPT = """
import json, sys
from dataclasses import replace
import pytest
from fuser.suites import local
from fuser.suites.commands.cli import main

sys.stderr = sys.stdout
local.LIMITS = replace(local.LIMITS, time_s=0.2, most_blocks=5)
for command, arguments in json.loads(sys.argv[1]):
    try:
        code = main([command, *arguments]) if command else pytest.main(arguments)
    except SystemExit as end:
        code = end.code
    print(f"\\nended with {int(code)}", flush=True)
"""
OURS = "pytest"
"""The command that ends with our exit codes; an empty text: pytest itself."""


class Ended(NamedTuple):
    """One session: its code, and what it said."""

    code: int
    said: str

    def has(self, *patterns: str) -> bool:
        """Whether all patterns are found in what was said."""
        return all(re.search(each, self.said) for each in patterns)


def run(folder: Path, *sessions: tuple[str, Sequence[str]]) -> list[Ended]:
    """Run sessions in a folder, each a command of ours, or an empty text, and its arguments.

    Functions of a person's own are timed for a moment alone.
    """
    inside = ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_CURRENT_TEST")
    environment = {k: v for k, v in os.environ.items() if k not in inside}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(sessions)], cwd=folder, check=True, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        env={**environment, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    parts = re.split(r"\nended with (\d+)\n", done.stdout)
    return [Ended(int(code), said) for said, code in zip(parts[::2], parts[1::2], strict=False)]
