"""What options and arguments take: numbers, and names and paths, of which what is near is said."""

import math
import os
from pathlib import Path
from typing import Any

import click

from fuser.base.near import near_it
from fuser.suites.commands.saved_runs import beside


class Named(click.Choice[str]):
    """One of some names."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        """Say that nothing is called so, and what is near it."""
        return f"nothing is called {value!r}; {near_it(value, self.choices)}"


class Finite(click.FloatRange):
    """A number of a range; infinities, and NaN, which is in no range and beyond none, are none."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number."""
        found: float = super().convert(value, param, ctx)
        if not math.isfinite(found):
            self.fail(f"{found} is no number", param, ctx)
        return found


class Existing(click.Path):
    """A path that has to be there."""

    def __init__(self, **options: Any) -> None:
        """Options are those of `click.Path`."""
        super().__init__(exists=True, **options)

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:  # fmt: skip
        """Return the path; a refusal names what lies beside it and is spelled like it."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            near = near_it(Path(value).name, beside(Path(value)), "nothing there is near it")
            raise click.BadParameter(f"{error.message} {near}", ctx, param) from None
