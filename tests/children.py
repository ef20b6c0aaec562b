"""Python in a process of its own."""

import os
import subprocess
import sys
from collections.abc import Mapping

from tests.tree import ROOT


def said(*arguments: str, environment: Mapping[str, str] | None = None) -> str:
    """What Python prints, started in the checkout with these arguments.

    Args:
        arguments: of the interpreter, such as "-c" and a program.
        environment: variables beside those of this process.

    Raises:
        AssertionError: it ended with an error; its last words are in the message.
        TimeoutExpired: it has not ended after five minutes.
    """
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=variables, capture_output=True, text=True,
        check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout
