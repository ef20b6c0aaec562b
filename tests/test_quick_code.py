"""Tests that ask for quick code get it, and nothing else does."""

import pytest

from fuser.backends.cpu.machine import loader
from tests.quick_code import quick_code

TEXT = "define i64 @f(i64 %x) {\n  %y = mul i64 %x, 3\n  ret i64 %y\n}\n"


@pytest.mark.parametrize("wanted", ["", "1"])
def test_kernels_are_made_quickly_where_that_is_wanted(
    wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under another name in the disk cache; what stays loaded says itself how it is made."""
    keys: list[bool] = []

    def key_of(text: str, environment: bytes, quick: bool) -> str:
        keys.append(quick)
        return ""

    monkeypatch.setenv("QUICK_CODE", wanted)
    monkeypatch.setattr(loader.disk_cache, "key_of", key_of)
    monkeypatch.setattr(loader.disk_cache, "read", lambda *_: b"code")
    full = loader.to_object
    with quick_code():
        assert loader.to_object(TEXT) == b"code"
        loader.to_object(loader.OPTIMISED + TEXT)
        loader.to_object(TEXT, False)
        loader.to_object(TEXT, True)
    loader.to_object(TEXT)
    assert keys == [bool(wanted), False, False, True, False]
    assert loader.to_object is full
