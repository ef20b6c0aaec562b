"""Where the command `fuser-bench` starts: Ctrl-C ends it in a line, and not in a traceback.

The command itself takes a moment to import, and may be interrupted there as well.
"""

import sys


def main() -> None:
    """Run the command; interrupted, end with 130 as shells do, which no finding ends with."""
    try:
        code = _run()
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
