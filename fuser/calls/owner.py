"""What files below the fused function need of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from fuser.base.errors import Reason


class Owner(Protocol):
    """A fused function, as those see it that its calls lead to."""

    __wrapped__: Callable[..., Any]
    backend: str | None
    mode: str
    fallback: str
    fastmath: bool
    errstate: bool
    fallbacks: list[Reason]
    _frames: Any
    _hidden: Any
    _by_value: Any
    _lazily: Any
    _takes_out: bool
    _signatures: Any

    @property
    def _name(self) -> str:
        """The function's name."""
        ...

    @property
    def stage_kind(self) -> Callable[..., Any]:
        """What makes a fused function of a stage's kernels."""
        ...

    @property
    def options(self) -> dict[str, Any]:
        """What `fuse` was given beside the function."""
        ...

    @property
    def by_value(self) -> Callable[..., Any]:
        """A copy of the plain function whose name leads here, see `pickling`."""
        ...

    def note_reason(self, reason: Reason) -> None:
        """Keep a reason for `fallbacks`, once, and not without end."""
        ...

    def has_short_way(self, call: Any, program: Any) -> bool:
        """Whether later calls like one would take a short way."""
        ...

    def known_for(self, structure: Any, leaves: list[Any]) -> Sequence[Any]:
        """The specialisations of calls with such arguments."""
        ...

    def seen_as(self, args: tuple[Any, ...], kwargs: Any) -> tuple[Owner, Any, Any]:
        """The function and arguments that a call is run by."""
        ...

    def _find_path(self, structure: Any, leaves: list[Any]) -> Any:
        """The call by the specialisation that holds for it, its decisions included."""
        ...

    def _find_call(
        self, structure: Any, leaves: list[Any], missed: Sequence[Any] = (), paused: Any = None
    ) -> Any:
        """A specialisation that holds for the call; traced and compiled when there is none."""
        ...
