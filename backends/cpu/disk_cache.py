"""Machine code kept between processes, in the user's cache folder.

An entry is a file named by the hash of everything that its content depends on: the text, the
processor and its features, how it is compiled, and the versions of LLVM and llvmlite (of this
package the text is all that matters, and the entry's own form). It is written to
a temporary file and renamed, starts with a checksum, and is read only when the file and its
folder belong to this user and nobody else may write them. Whatever is wrong is a miss with a
warning; machine code is never loaded from a file that fails a check.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import sys
import tempfile
import warnings
from functools import cache
from pathlib import Path

from fuser import config
from fuser.backends.cpu import target

#: All entries together; the least recently used go first.
LIMIT_BYTES = 256 << 20
#: Temporary files of this age are nobody's.
ABANDONED_S = 3600.0
_MAGIC = b"fuser-object-1\n"
_DIGEST = 32


class CacheWarning(UserWarning):
    """An entry, or the folder, of the disk cache cannot be used."""


def folder() -> Path:
    """Where entries are kept: $XDG_CACHE_HOME or ~/.cache, or the platform's own place."""
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "fuser-bench" / "objects"


@cache
def _environment() -> bytes:
    """What machine code depends on besides its text."""
    import llvmlite
    import llvmlite.binding as llvm

    parts = (
        llvmlite.__version__,
        str(llvm.llvm_version_info),
        llvm.get_process_triple(),
        llvm.get_host_cpu_name(),
        llvm.get_host_cpu_features().flatten(),
        target.CODE_MODEL,
        target.RELOCATION,
    )
    return "\n".join(parts).encode()


def key_of(text: str, quick: bool = False) -> str:
    """The name of the entry of a text that is compiled quickly or well."""
    digest = hashlib.sha256(_MAGIC + _environment())
    digest.update(b"\1" if quick else b"\0")
    digest.update(text.encode())
    return digest.hexdigest()


def read(key: str) -> bytes | None:
    """An entry's object code, or None."""
    if not config.current().disk_cache:
        return None
    path = folder() / f"{key}.o"
    try:
        with open(path, "rb") as file:
            if not _is_ours(os.fstat(file.fileno())) or not _is_ours(os.stat(path.parent)):
                _warned(path, "somebody else may write it")
                return None
            content = file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        _warned(path, str(error))
        return None
    head = len(_MAGIC) + _DIGEST
    code = content[head:]
    sound = content.startswith(_MAGIC) and content[len(_MAGIC) : head] == _checksum(key, code)
    if not sound:
        _warned(path, "it is damaged")
        return None
    with contextlib.suppress(OSError):  # else only the order of eviction suffers
        os.utime(path)
    return code


def _checksum(key: str, code: bytes) -> bytes:
    """The checksum of an entry; it covers the name, so that a renamed file is refused."""
    return hashlib.sha256(key.encode() + code).digest()


def _is_ours(status: os.stat_result) -> bool:
    """Whether a file or folder belongs to this user and no other may write it."""
    if not hasattr(os, "getuid"):
        return True
    return status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _warned(path: Path, problem: str) -> None:
    """Say why an entry is not used."""
    warnings.warn(
        f"{path} is not used: {problem}. Remove it with `fuser-bench cache clear`.",
        CacheWarning,
        stacklevel=2,
    )


def write(key: str, code: bytes) -> None:
    """Keep object code; failing to is no error."""
    if not config.current().disk_cache:
        return
    target = folder() / f"{key}.o"
    try:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not _is_ours(os.stat(target.parent)):
            _warned(target.parent, "somebody else may write it")
            return
        handle, temporary = tempfile.mkstemp(dir=target.parent, suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_MAGIC + _checksum(key, code) + code)
            os.replace(temporary, target)
        except OSError:
            os.unlink(temporary)
            raise
        _evict(target.parent)
    except OSError as error:
        _warned(target, str(error))


def entries() -> list[tuple[Path, int, float]]:
    """Every entry: path, bytes, time of last use."""
    found = []
    try:
        for path in folder().glob("*.o"):
            status = path.stat()
            found.append((path, status.st_size, status.st_mtime))
    except OSError:
        pass  # another process clears the folder meanwhile
    return sorted(found, key=lambda entry: entry[2])


_writes = 0


def _evict(where: Path) -> None:
    """Drop the least recently used entries beyond the limit; looks at the folder now and then."""
    global _writes
    _writes += 1
    if _writes % 32 != 1:
        return
    known = entries()
    newest = known[-1][2] if known else 0.0
    for path in where.glob("*.tmp"):  # of a process that was ended while it wrote
        with contextlib.suppress(OSError):  # it has been renamed meanwhile
            if newest - path.stat().st_mtime > ABANDONED_S:
                path.unlink()
    total = sum(size for _, size, _ in known)
    for path, size, _ in known:
        if total <= LIMIT_BYTES:
            return
        path.unlink(missing_ok=True)
        total -= size


def clear() -> int:
    """Remove every entry; returns how many there were."""
    known = entries()
    for path, _, _ in known:
        path.unlink(missing_ok=True)
    for path in folder().glob("*.tmp") if folder().exists() else ():
        path.unlink(missing_ok=True)
    return len(known)
