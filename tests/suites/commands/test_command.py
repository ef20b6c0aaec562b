"""Where the command starts: how it ends when it is interrupted, and when it is misused."""

import subprocess
import sys

import click
import pytest

from fuser.suites.commands import cli, command
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
