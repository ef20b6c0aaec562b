"""Switches: read from `FUSER_…` once, changed by functions, listed by `show_config()`.

A number counts the changes, so that what was prepared under other settings is found out.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import methodcaller
from typing import Any

from fuser.base.errors import ConfigurationError
from fuser.base.records import changed, field, record

#: name -> (default, meaning). docs/reference/switches.md tables these.
SWITCHES: dict[str, tuple[str, str]] = {
    "FUSER_DUMP": ("", "print stages to stderr: graph, rules, groups, llvm, asm, cuda (a list)"),
    "FUSER_CHECK": ("0", "1: verify every graph after every pass"),
    "FUSER_CACHE": ("on", "off: keep no machine code between processes"),
    "FUSER_BACKEND": ("", "use this backend whatever the arguments are"),
    "FUSER_NUM_THREADS": ("", "worker threads of CPU kernels"),
    "FUSER_POOL": ("on", "off: allocate large outputs with the C library, not from the pool"),
    "FUSER_REQUIRE": ("", "tests: comma list of tools whose absence is a failure, not a skip"),
}
#: How the command is started: by its name, or as a module.
_COMMAND = ("fuser-bench", "fuser.suites.commands.command")
_YES, _NO = ("1", "on", "true", "yes"), ("0", "off", "false", "no", "")
DUMPS = ("graph", "rules", "groups", "llvm", "asm", "cuda")


#: Changes whenever a setting does: native entries compare it and go back to Python.
MODE_WORD = ctypes.c_int64(1)


def bump_mode() -> None:
    """Send every native entry back to Python once, to look at the settings again."""
    MODE_WORD.value += 1


#: Asks a guard, without a function of ours around it.
_HOLDS = methodcaller("holds")


class Standing:
    """What stands as long as settings, and names that a function reads, are as they are now."""

    def __init__(self, names: Sequence[Any]) -> None:
        """Hold on to the guards of names."""
        self._mode = MODE_WORD.value
        found = [(guard, guard.look_up()) for guard in names]
        self._identities = [(*way, guard.expected) for guard, way in found if way is not None]
        self._names = [guard for guard, way in found if way is None]

    def holds(self) -> bool:
        """Whether settings and names are as they were."""
        if self._mode != MODE_WORD.value:
            return False
        for look, given, expected in self._identities:
            if look(*given) is not expected:
                return False
        return all(map(_HOLDS, self._names))

    def condition(self, known: dict[str, Any]) -> str:
        """`holds` as an expression.

        Args:
            known: takes what the expression has names for.
        """
        known |= {"mode": MODE_WORD, "names": self._names, "asks": _HOLDS}
        parts = [f"mode.value == {self._mode}"]
        for k, (look, given, expected) in enumerate(self._identities):
            known |= {f"look{k}": look, f"expected{k}": expected}
            known |= {f"given{k}_{j}": value for j, value in enumerate(given)}
            shown = ", ".join(f"given{k}_{j}" for j in range(len(given)))
            parts.append(f"look{k}({shown}) is expected{k}")
        return " and ".join([*parts, *(["all(map(asks, names))"] if self._names else [])])


@record
class Config:
    """All settings, frozen; `current()` is the one in force."""

    dump: frozenset[str] = frozenset()
    check: bool = False
    disk_cache: bool = True
    backend: str = ""
    num_threads: int | None = None
    pool: bool = True
    can_fuse: dict[str, bool] = field(default_factory=dict)


def read_environment(environ: dict[str, str] | None = None) -> Config:
    """Read the switches.

    Args:
        environ: variables; the process's own by default.

    Raises:
        ConfigurationError: a `FUSER_` name that does not exist, or a bad value.
    """
    variables = dict(os.environ) if environ is None else environ
    for name in variables:
        if name.startswith("FUSER_") and name not in SWITCHES:
            raise ConfigurationError(f"{name} is not a switch of fuser; {_near(name, SWITCHES)}")

    def text(name: str) -> str:
        return variables.get(name, SWITCHES[name][0]).strip()

    dump = frozenset(part for part in text("FUSER_DUMP").split(",") if part)
    if unknown := sorted(dump - set(DUMPS)):
        raise ConfigurationError(
            f"FUSER_DUMP={unknown[0]} does not exist; {_near(unknown[0], DUMPS)}"
        )
    return Config(
        dump=dump,
        check=_flag("FUSER_CHECK", text("FUSER_CHECK")),
        disk_cache=_flag("FUSER_CACHE", text("FUSER_CACHE")),
        backend=text("FUSER_BACKEND"),
        num_threads=_threads(text("FUSER_NUM_THREADS")),
        pool=_flag("FUSER_POOL", text("FUSER_POOL")),
    )


def _near(given: str, known: Iterable[str]) -> str:
    """Names like a misspelt one, for a message."""
    from fuser.base.near import near_it  # only for the message

    return near_it(given, known)


def _flag(name: str, text: str) -> bool:
    """Read a yes-or-no switch."""
    if text.lower() in _YES:
        return True
    if text.lower() in _NO:
        return False
    raise ConfigurationError(
        f"{name}={text!r} is neither on nor off; {_near(text, (*_YES, *_NO[:-1]))}"
    )


def _threads(text: str) -> int | None:
    """Read a thread count, or None for 'as many as useful'."""
    if not text:
        return None
    if not text.isdigit() or int(text) < 1:
        raise ConfigurationError(f"FUSER_NUM_THREADS={text!r} is not a number of threads (1 …).")
    return int(text)


def _at_import() -> Config:
    """The switches as they are when `fuser` is imported.

    Raises:
        ConfigurationError: as `read_environment` does.
        SystemExit: the same in the command, whose users have no use for a traceback.
    """
    try:
        return read_environment()
    except ConfigurationError as error:
        if not any(part.endswith(_COMMAND) for part in sys.orig_argv):
            raise
        print(f"fuser-bench: {error}", file=sys.stderr)
        raise SystemExit(2) from None


class _Here(threading.local):
    """What holds for one thread."""

    alone = False


_here = _Here()


@contextmanager
def single_threaded() -> Iterator[None]:
    """Have kernels that this thread runs inside use no other threads.

    Threads of Dask's run a chunk each; kernels with a team of their own would be too many for the
    processors.
    """
    before = _here.alone
    _here.alone = True
    try:
        yield
    finally:
        _here.alone = before


def is_single_threaded() -> bool:
    """Whether this thread is inside of `single_threaded`."""
    return _here.alone


_current = _at_import()


def current() -> Config:
    """Return the settings in force."""
    return _current


def change(**settings: object) -> Config:
    """Put changed settings in force and return the ones before."""
    global _current
    before = _current
    bump_mode()
    _current = changed(_current, **settings)
    return before


def restore(config: Config) -> None:
    """Put `config` in force again."""
    global _current
    bump_mode()
    _current = config
