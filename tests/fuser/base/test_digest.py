"""The light hash is the one that everybody knows."""

import hashlib

import pytest

from fuser.base import digest


@pytest.mark.parametrize("content", [b"", b"abc", bytes(range(256)) * 300])
def test_it_is_sha256(content: bytes) -> None:
    """Whole, and in parts."""
    expected = hashlib.sha256(content)
    found = digest.sha256(content[:7])
    found.update(content[7:])
    assert (found.digest(), found.hexdigest()) == (expected.digest(), expected.hexdigest())


def test_without_the_light_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interpreter that has neither uses hashlib."""
    expected = digest.sha256(b"abc").digest()

    def only(name: str) -> object:
        if name != "hashlib":
            raise ImportError(name)
        return hashlib

    digest._sha256.cache_clear()
    monkeypatch.setattr(digest, "import_module", only)
    assert digest.sha256(b"abc").digest() == expected
    digest._sha256.cache_clear()
