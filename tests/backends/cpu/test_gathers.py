"""Elements at computed places: by one instruction where that is fast, else lane by lane."""

import pytest

from fuser.backends.cpu.body import Body, Features, Module, Value
from fuser.backends.cpu.gathers import gather
from fuser.backends.cpu.machine import target

AT_ONCE, BY_LANES = (Features(64, True, True, True, gathers) for gathers in (True, False))


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int16", "bool"])
@pytest.mark.parametrize("features", [AT_ONCE, BY_LANES])
def test_text(features: Features, dtype: str) -> None:
    """Narrow elements are read lane by lane on any processor."""
    b = Body(Module(features))
    names = ("index", "length", "step", "first")
    gather(b, dtype, *(Value(f"%{name}", "i64", 8) for name in names))
    wide = dtype in ("float64", "float32", "int64")
    assert ("masked.gather" in "\n".join(b.lines)) is (features.gathers and wide)
    assert b.flagged


def test_what_the_system_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it tells nothing, lane by lane."""

    def missing(*_: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr("builtins.open", missing)
    assert not target._gathers_at_once()
