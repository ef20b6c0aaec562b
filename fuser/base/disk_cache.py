"""Machine code of all backends kept between processes, in the user's cache folder.

An entry is a file named by the hash of everything that its content depends on: the text, the
processor and its features, how it is compiled, and the versions of LLVM and llvmlite (of this
package the text is all that matters, and the entry's own form). It is written to
a temporary file and renamed, starts with a checksum, and is read only when the file and its
folder belong to this user and nobody else may write them. Whatever is wrong is a miss with a
warning; machine code is never loaded from a file that fails a check. What LLVM says of the
processor (`host`) is kept beside the code in the same way.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import warnings

from fuser.base import config
from fuser.base.caches import digest

#: All entries together, and how many, at most; the least recently used go first, until there is
#: room for some more. Looking through the folder takes 5 us an entry.
LIMIT_BYTES, LIMIT_ENTRIES = 256 << 20, 4096
ROOM = 0.875
#: Writes after which the folder is looked through.
WRITES = 32
#: Temporary files of this age are nobody's.
ABANDONED_S = 3600.0
_MAGIC = b"fuser-object-1\n"
_DIGEST = 32


class CacheWarning(UserWarning):
    """An entry, or the folder, of the disk cache cannot be used."""


def folder() -> str:
    """Where entries are kept: $XDG_CACHE_HOME or ~/.cache, or the platform's own place.

    Nowhere, an empty text, where this user has no home; a relative $XDG_CACHE_HOME is none.
    """
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or _home("AppData", "Local")
    elif sys.platform == "darwin":
        base = _home("Library", "Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME", "")
        base = base if os.path.isabs(base) else _home(".cache")
    return os.path.join(base, "fuser-bench", "objects") if os.path.isabs(base) else ""


def _home(*parts: str) -> str:
    """A folder in the user's own."""
    return os.path.join(os.path.expanduser("~"), *parts)


def key_of(text: str, environment: bytes, quick: bool = False) -> str:
    """The name of the entry of a text that is compiled quickly or well.

    Args:
        text: what is compiled.
        environment: what the machine code depends on besides its text.
        quick: whether it is compiled quickly.
    """
    return digest(_MAGIC, environment, b"\1" if quick else b"\0", text.encode()).hex()


def read(key: str, suffix: str = ".o") -> bytes | None:
    """An entry's content, object code unless its suffix says otherwise, or None."""
    if not config.current().disk_cache:
        return None
    if not (where := folder()):
        return None
    path = os.path.join(where, key + suffix)
    try:
        with open(path, "rb", opener=_at_once) as file:
            status = os.fstat(file.fileno())
            if not _is_ours(status) or not _is_ours(os.stat(where)):
                _warned(path, "somebody else may write it")
                return None
            if not stat.S_ISREG(status.st_mode) or status.st_size > LIMIT_BYTES:
                _warned(path, "it is damaged")
                return None
            content = file.read()
    except (FileNotFoundError, NotADirectoryError):
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


def _at_once(path: str, flags: int) -> int:
    """Open a file, or a pipe of that name, without waiting for who would write it."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _checksum(key: str, code: bytes) -> bytes:
    """The checksum of an entry; it covers the name, so that a renamed file is refused."""
    return digest(key.encode(), code)


def _is_ours(status: os.stat_result) -> bool:
    """Whether a file or folder belongs to this user and no other may write it."""
    if not hasattr(os, "getuid"):
        return True
    return status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _warned(path: str, problem: str) -> None:
    """Say why an entry is not used."""
    warnings.warn(
        f"{path} is not used: {problem}. Remove it with `fuser-bench cache clear`.",
        CacheWarning,
        stacklevel=2,
    )


def _unwritable(where: str, error: OSError) -> None:
    """Say once why nothing can be kept in the folder."""
    problem = error.strerror or str(error)
    if (where, problem) in _said:
        return
    _said.add((where, problem))
    warnings.warn(
        f"{where} takes no machine code: {problem}. Every process compiles again; make it "
        "writable, set XDG_CACHE_HOME to another folder, or FUSER_CACHE=off.",
        CacheWarning,
        stacklevel=3,
    )


_said: set[tuple[str, str]] = set()


def _make_folder(where: str) -> None:
    """Make a folder and those around it, each its owner's alone, whatever the umask is."""
    parent = os.path.dirname(where)
    if parent and not os.path.isdir(parent):
        _make_folder(parent)
    with contextlib.suppress(FileExistsError):
        os.mkdir(where, 0o700)
        os.chmod(where, 0o700)  # the umask may take rights from the owner


def write(key: str, content: bytes, suffix: str = ".o") -> None:
    """Keep object code, or something else; failing to is no error."""
    if not config.current().disk_cache:
        return
    if not (where := folder()):
        return
    target = os.path.join(where, key + suffix)
    try:
        _make_folder(where)
        if not _is_ours(os.stat(where)):
            _warned(where, "somebody else may write it")
            return
        temporary = os.path.join(where, f"{os.urandom(8).hex()}.tmp")
        # Never through a link, never over a file that is there.
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_MAGIC + _checksum(key, content) + content)
            os.replace(temporary, target)
        except OSError:
            os.unlink(temporary)
            raise
        _evict()
    except OSError as error:
        _unwritable(where, error)


_BINARY = getattr(os, "O_BINARY", 0)  # Windows writes lines' ends otherwise


def entries() -> list[tuple[str, int, float]]:
    """Every entry: path, bytes, time of last use."""
    return sorted(_files(".o"), key=lambda entry: entry[2])


def _files(*suffixes: str) -> list[tuple[str, int, float]]:
    """Files with such a suffix: path, bytes, time of last use."""
    found = []
    try:
        with os.scandir(folder()) as listed:
            for entry in listed:
                if entry.name.endswith(suffixes):
                    status = entry.stat()
                    found.append((entry.path, status.st_size, status.st_mtime))
    except OSError:
        pass  # there is none, or another process clears the folder meanwhile
    return found


def _remove(path: str) -> None:
    """Remove a file, if it is still there."""
    with contextlib.suppress(OSError):
        os.unlink(path)


#: Of this process; it begins anywhere, since many processes write less often than `WRITES`.
_writes = os.urandom(1)[0]


def _evict() -> None:
    """Drop the least recently used entries beyond the limits; looks at the folder now and then."""
    global _writes
    _writes += 1
    if _writes % WRITES != 1:
        return
    found = sorted(_files(".o", ".tmp"), key=lambda entry: entry[2])
    known = [entry for entry in found if entry[0].endswith(".o")]
    newest = known[-1][2] if known else 0.0
    for path, _, used in found:
        if path.endswith(".tmp") and newest - used > ABANDONED_S:  # its process was ended
            _remove(path)
    total, count = sum(size for _, size, _ in known), len(known)
    if total <= LIMIT_BYTES and count <= LIMIT_ENTRIES:
        return
    for path, size, _ in known:
        if total <= ROOM * LIMIT_BYTES and count <= ROOM * LIMIT_ENTRIES:
            return
        _remove(path)
        total, count = total - size, count - 1


def clear() -> int:
    """Remove every entry; returns how many there were."""
    known = entries()
    for path, *_ in _files(".o", ".host", ".tmp"):
        _remove(path)
    return len(known)
