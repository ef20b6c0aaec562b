"""The disk cache: a hit gives the same bytes, whatever is wrong is a miss with a warning."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import llvmlite
import pytest
from llvmlite import binding as llvm

from fuser.backends.cpu.machine import host, loader, target
from fuser.base import config, disk_cache
from tests.settings import settings

folder = disk_cache.folder
TEXT = "define i32 @seven() {\n  ret i32 7\n}\n"


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test has an empty cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(disk_cache, "folder", lambda: tmp_path / "fuser-bench" / "objects")
    monkeypatch.setattr(disk_cache, "_writes", 0)
    with settings(disk_cache=True):
        yield tmp_path


def key_of(text: str, quick: bool = False) -> str:
    """The name of the entry of a text on this processor."""
    return disk_cache.key_of(text, target.environment(), quick)


def _entry() -> Path:
    """Compile the text, and return its entry's path."""
    loader.to_object(TEXT)
    return Path(disk_cache.folder(), f"{key_of(TEXT)}.o")


def test_a_second_process_would_read_the_same_bytes() -> None:
    """What is read is what was compiled."""
    code = loader.to_object(TEXT)
    assert disk_cache.read(key_of(TEXT)) == code == loader.compile_object(TEXT)


def test_the_key_depends_on_the_text() -> None:
    """Another text is another entry."""
    assert key_of(TEXT) != key_of(TEXT.replace("7\n", "8\n"))


@pytest.mark.parametrize(
    "damage",
    [
        lambda b: b[: len(b) // 2],
        lambda b: b"",
        lambda b: b[:-1] + bytes([b[-1] ^ 1]),
        lambda b: b"x" + b,
    ],
)
def test_a_damaged_entry_is_a_miss_with_a_warning(damage: object) -> None:
    """Truncated, empty, flipped, shifted: never loaded, and compiled again."""
    path = _entry()
    path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
    with pytest.warns(disk_cache.CacheWarning, match="damaged"):
        assert disk_cache.read(path.stem) is None


def test_an_entry_under_another_name_is_refused() -> None:
    """The checksum covers the name."""
    path = _entry()
    other = path.with_name("0" * 64 + ".o")
    other.write_bytes(path.read_bytes())
    with pytest.warns(disk_cache.CacheWarning, match="damaged"):
        assert disk_cache.read("0" * 64) is None


def forget() -> None:
    """Ask LLVM again."""
    host.host.cache_clear()
    target.environment.cache_clear()


def test_the_key_depends_on_what_compiles_and_for_what(monkeypatch: pytest.MonkeyPatch) -> None:
    """The processor, its features, LLVM's and llvmlite's versions, and how well it is compiled."""
    found = {key_of(TEXT), key_of(TEXT, quick=True)}
    for module, name, other in (
        (llvm, "get_host_cpu_name", lambda: "another"),
        (llvm, "get_host_cpu_features", lambda: llvm.FeatureMap({"another": True})),
        (llvm, "llvm_version_info", (1, 2, 3)),
        (llvmlite, "__version__", "0.0"),
    ):
        with monkeypatch.context() as change:
            change.setattr(module, name, other)
            forget()
            found.add(key_of(TEXT))
    forget()
    assert len(found) == 6


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="this platform has no owners and modes")
def test_another_users_entry_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """What belongs to somebody else is a miss with a warning, and nothing is written beside it."""
    path = _entry()
    code = path.read_bytes()
    mine = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: mine + 1)
    with pytest.warns(disk_cache.CacheWarning, match="somebody else"):
        assert disk_cache.read(path.stem) is None
    with pytest.warns(disk_cache.CacheWarning, match="somebody else"):
        disk_cache.write("1" * 64, b"code")
    assert os.listdir(path.parent) == [path.name]
    assert path.read_bytes() == code


def test_files_of_ended_processes_are_removed() -> None:
    """A temporary file that is an hour older than the newest entry belongs to nobody."""
    path = _entry()
    old, young = path.with_name("old.tmp"), path.with_name("young.tmp")
    for each in (old, young):
        each.write_bytes(b"half")
    os.utime(old, (0, path.stat().st_mtime - 2 * disk_cache.ABANDONED_S))
    disk_cache._evict()
    disk_cache._writes = 0
    disk_cache._evict()
    assert not old.exists()
    assert young.exists()


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="this platform has no owners and modes")
def test_what_others_may_write_is_not_read() -> None:
    """A world-writable file or folder is a miss with a warning."""
    path = _entry()
    path.chmod(0o666)
    with pytest.warns(disk_cache.CacheWarning, match="somebody else"):
        assert disk_cache.read(path.stem) is None
    path.chmod(0o600)
    path.parent.chmod(0o777)
    with pytest.warns(disk_cache.CacheWarning, match="somebody else"):
        assert disk_cache.read(path.stem) is None
    path.parent.chmod(0o700)
    assert disk_cache.read(path.stem) is not None


def test_the_least_recently_used_entries_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit the oldest is dropped, a read makes an entry young."""
    monkeypatch.setattr(disk_cache, "LIMIT_BYTES", 3000)
    keys = [f"{k:064d}" for k in range(3)]
    for age, key in enumerate(keys):
        disk_cache.write(key, b"c" * 800)
        os.utime(Path(disk_cache.folder(), f"{key}.o"), (age, age))
    assert disk_cache.read(keys[0]) is not None
    monkeypatch.setattr(disk_cache, "_writes", 0)
    disk_cache.write("9" * 64, b"c" * 800)
    assert disk_cache.read(keys[1]) is None
    assert disk_cache.read(keys[0]) is not None


def test_entries_are_few_enough_to_look_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit as many go as leave room for more; between looks none does."""
    monkeypatch.setattr(disk_cache, "LIMIT_ENTRIES", 16)
    monkeypatch.setattr(disk_cache, "_writes", 1)
    for k in range(2 * disk_cache.WRITES):
        before = len(disk_cache.entries())
        disk_cache.write(f"{k:064d}", b"code")
        os.utime(Path(disk_cache.folder(), f"{k:064d}.o"), (k, k))
        looked = (k + 2) % disk_cache.WRITES == 1
        assert len(disk_cache.entries()) == (14 if looked else before + 1)
    assert disk_cache.read(f"{2 * disk_cache.WRITES - 1:064d}") is not None


def test_switched_off_it_neither_reads_nor_writes() -> None:
    """FUSER_CACHE=off."""
    config.change(disk_cache=False)
    loader.to_object(TEXT)
    assert not disk_cache.entries()


def test_clear_removes_everything() -> None:
    """And says how many entries there were."""
    _entry()
    assert disk_cache.clear() == 1
    assert not disk_cache.entries()


def test_many_processes_may_write_at_once(own_folder: Path) -> None:
    """Four processes compile the same kernel into one folder; all get right answers."""
    code = (
        "import numpy as np, fuser\n"
        "f = fuser.fuse(lambda x: x * 2 + 1)\n"
        "assert f(np.arange(5.0)).tolist() == [1, 3, 5, 7, 9]\n"
    )
    root = Path(__file__).resolve().parents[4]
    environment = {**os.environ, "XDG_CACHE_HOME": str(own_folder), "PYTHONPATH": str(root)}
    running = [
        subprocess.Popen([sys.executable, "-W", "error", "-c", code], env=environment)
        for _ in range(4)
    ]
    assert [process.wait(60) for process in running] == [0] * 4
    assert disk_cache.entries()
    assert not list(Path(disk_cache.folder()).glob("*.tmp"))


def _large(path: Path) -> None:
    """A file larger than the whole cache may be, of which nothing is stored."""
    path.touch(0o600)
    os.truncate(path, disk_cache.LIMIT_BYTES + 1)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this platform has no named pipes")
@pytest.mark.parametrize("make", [lambda path: os.mkfifo(path, 0o600), _large, Path.mkdir])
def test_what_is_no_entry_is_not_read(make: Any) -> None:
    """Nobody waits for a pipe's other end, nor reads what cannot be an entry."""
    path = _entry()
    path.unlink()
    make(path)
    with pytest.warns(disk_cache.CacheWarning, match="not used"):
        assert disk_cache.read(path.stem) is None


def test_a_folder_that_takes_nothing_is_said_once(own_folder: Path) -> None:
    """What is there, and what to do; the code is compiled all the same."""
    (own_folder / "fuser-bench").write_text("a file")
    texts = [TEXT.replace("7\n", f"{number}\n") for number in range(3)]
    with pytest.warns(disk_cache.CacheWarning, match="FUSER_CACHE=off") as said:
        assert all(map(loader.to_object, texts))
    assert len(said) == 1


def test_without_a_home_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without a home, or a relative folder: nothing is written where the process stands."""
    monkeypatch.setattr(disk_cache, "folder", folder)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    monkeypatch.setattr(os.path, "expanduser", lambda path: "/home/me")
    assert disk_cache.folder() == "/home/me/.cache/fuser-bench/objects"
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert not disk_cache.folder()
    disk_cache.write("1" * 64, b"code")
    assert disk_cache.read("1" * 64) is None
    assert not disk_cache.entries()
    assert not disk_cache.clear()


@pytest.mark.parametrize("mask", [0, 0o077, 0o777])
def test_folders_are_their_owners_alone_whatever_the_umask(tmp_path: Path, mask: int) -> None:
    """Each of those that are made, one by one."""
    where = tmp_path / "a" / "b" / "c"
    before = os.umask(mask)
    try:
        disk_cache._make_folder(str(where))
        disk_cache._make_folder(str(where))
    finally:
        os.umask(before)
    for each in (where, where.parent, where.parent.parent):
        assert each.stat().st_mode & 0o777 == 0o700
