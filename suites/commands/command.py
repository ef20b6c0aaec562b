"""Where the command `fuser-bench` starts: Ctrl-C ends it in a line, and not in a traceback.

The command itself takes a moment to import, and may be interrupted there as well; and what it needs
may not be installed.
"""

import sys

from fuser.suites.commands.exit_codes import ExitCode


def main() -> None:
    """Run the command; interrupted, end with 130 as shells do, which no finding ends with.

    What is not installed is said, with how to install it; then it ends as after wrong usage.
    """
    try:
        code = _run()
    except ImportError as error:
        if (error.name or "fuser").partition(".")[0] == "fuser":
            raise
        text = f"{error.name} cannot be imported ({error}): pip install 'fuser-bench[bench]'"
        print(f"fuser-bench: {text}", file=sys.stderr)
        code = ExitCode.USAGE
    except KeyboardInterrupt:
        print("fuser-bench: interrupted", file=sys.stderr)
        code = 130
    sys.exit(code)


def _run() -> int:
    """Run the command and return its code, as click does by itself but for Ctrl-C."""
    import click

    from fuser.suites.commands.cli import main as command

    try:
        return int(command.main(standalone_mode=False) or 0)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        raise KeyboardInterrupt from None


if __name__ == "__main__":
    main()
