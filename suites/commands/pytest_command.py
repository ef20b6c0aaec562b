"""The command `fuser-bench pytest`: pytest with our plugin, ending with our exit codes."""

import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

import click

from fuser.suites.commands.exit_codes import PYTEST_FAILED

PLUGIN = "fuser.suites.plugin"
SUITE = ("--pyargs", "fuser.suites")


@click.command("pytest", context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def pytest_command(arguments: Sequence[str]) -> None:
    """Measure through pytest-benchmark.

    Runs pytest with ARGUMENTS, on the suite where they name no tests.

    Everything is pytest's: -k, --benchmark-autosave, --benchmark-compare, --fuser-fail. The exit
    codes are ours: 0 measured, 1 a test failed or a threshold was crossed, 2 usage or an error
    while collecting, 3 nothing measured or a row that could not be, 4 a wrong result,
    5 inconclusive: a threshold inside the interval of what it judges. pytest itself keeps its own.
    """
    try:
        import pytest
    except ImportError:
        text = "pytest is not installed: pip install 'fuser-bench[bench]'"
        raise click.UsageError(text) from None
    from fuser.suites.door import Watch

    watch = Watch()
    given = [*arguments, *(() if _names_tests(arguments) else SUITE)]
    try:
        raw = int(pytest.main(["-p", PLUGIN, *given], plugins=[watch]))
    except Exception:  # noqa: BLE001  (pytest-benchmark's gate raises; a plugin may anything)
        traceback.print_exc()
        raw = PYTEST_FAILED
    code = watch.exit_code(raw)
    click.echo(f"fuser-bench: {code.name.lower()} ({int(code)}), pytest's own code {raw}")
    sys.exit(code)


def _names_tests(arguments: Sequence[str]) -> bool:
    """Whether one of the arguments is a file, a folder, a test or a package."""
    pairs = zip(("", *arguments), arguments, strict=False)
    values = [each for option, each in pairs if not option.startswith("-")]
    return "--pyargs" in arguments or any(
        "::" in each or Path(each).exists() for each in values if not each.startswith("-")
    )
