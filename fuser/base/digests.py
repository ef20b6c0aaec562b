"""Digests of texts: kernels are named and kept by them."""

from __future__ import annotations

try:  # `hashlib` gives the same function, and loads OpenSSL: 3 ms of the first `fuse`
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b


def digest(*parts: bytes) -> bytes:
    """The 32 bytes of the digest of what the parts are together."""
    return blake2b(b"".join(parts), digest_size=32).digest()
