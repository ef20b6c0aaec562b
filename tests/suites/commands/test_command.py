"""Where the command starts: how it ends when it is interrupted, and when it is misused."""

import subprocess
import sys
from pathlib import Path

import click
import pytest

from fuser.reports.record import save
from fuser.suites.commands import cli, command
from tests.reports.synthetic import record
from tests.tree import ROOT

INTERRUPTED_IMPORT = """
import sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "fuser.suites.commands.cli":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupting())
from fuser.suites.commands.command import main
main()
"""


def test_ctrl_c_while_importing_is_a_line_and_130() -> None:
    """No traceback: nothing was begun that a person would want to know of."""
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_IMPORT], cwd=ROOT, capture_output=True, text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "fuser-bench: interrupted\n")


WITHOUT = """
import sys
sys.modules[sys.argv.pop(1)] = None
from fuser.suites.commands.command import main
main()
"""


@pytest.mark.parametrize(
    ("absent", "arguments", "code"),
    [
        ("click", ["run", "--list"], 2),
        ("scipy", ["compare", "{}", "{}"], 2), ("pytest", ["pytest"], 2),
        ("pandas", ["report", "{}"], 1), ("jinja2", ["report", "{}"], 1),
        ("matplotlib", ["report", "{}"], 1), ("rich", ["--help"], 0), ("pandas", ["doctor"], 0),
    ],
)  # fmt: skip
def test_what_is_not_installed_is_said(
    absent: str, arguments: list[str], code: int, tmp_path: Path
) -> None:
    """With what to install and without a traceback; what does not need it runs."""
    save(record(), tmp_path / "record.json")
    given = [each.format(tmp_path / "record.json") for each in arguments]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, absent, *given], cwd=ROOT, capture_output=True, text=True,
        check=False,
    )
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert code == 0 or ("fuser-bench[bench]" in done.stderr and absent in done.stderr)


@pytest.mark.parametrize("error", [KeyboardInterrupt, click.Abort])
def test_ctrl_c_in_any_command_is_130(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not click's 1, which would be a regression."""

    def interrupted(**_: object) -> None:
        raise error

    monkeypatch.setattr(cli.main, "main", interrupted)
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "fuser-bench: interrupted\n"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["run", "--list"], 0, "axpy"),
        (["--help"], 0, "Usage:"),
        (["run", "--preset", "none"], 2, "Error:"),
        (["nothing"], 2, "Error:"),
    ],
)
def test_other_ends_are_those_of_the_command(
    arguments: list[str], code: int, said: str, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its codes and its words."""
    monkeypatch.setattr(sys, "argv", ["fuser-bench", *arguments])
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert int(ended.value.code or 0) == code
    written = capsys.readouterr()
    assert said in written.out + written.err
