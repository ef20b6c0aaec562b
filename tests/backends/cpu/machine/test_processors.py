"""How many processors may be used: limits of control groups of both versions, nested or not."""

from pathlib import Path

import pytest

from fuser.backends.cpu.machine import processors


def _write(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text, encoding="ascii")


def _quota(tmp_path: Path, groups: str) -> float | None:
    listed = tmp_path / "groups"
    listed.write_text(groups, encoding="ascii")
    return processors.quota(listed, tmp_path / "mount")


def test_no_groups_no_limit(tmp_path: Path) -> None:
    """Neither without any files nor where every group says max."""
    assert processors.quota(tmp_path / "none", tmp_path / "mount") is None
    _write(tmp_path / "mount", cpu__max="max 100000")
    assert _quota(tmp_path, "0::/a/b\n") is None
    _write(tmp_path / "mount" / "a", cpu__max="nonsense")
    assert _quota(tmp_path, "0::/a/b\nmore nonsense\n") is None


def test_the_least_limit_on_the_way_up_counts(tmp_path: Path) -> None:
    """Version 2: a group within a smaller one gets no more than that."""
    mount = tmp_path / "mount"
    _write(mount / "a" / "b" / "c", cpu__max="800000 100000")
    _write(mount / "a" / "b", cpu__max="max 100000")
    _write(mount / "a", cpu__max="350000 100000")
    assert _quota(tmp_path, "0::/a/b/c\n") == pytest.approx(3.5)
    assert _quota(tmp_path, "0::/elsewhere\n") is None
    _write(mount, cpu__max="150000 100000")  # a container's own root
    assert _quota(tmp_path, "0::/\n") == pytest.approx(1.5)
    assert _quota(tmp_path, "0::/host/path/not/mounted\n") == pytest.approx(1.5)


@pytest.mark.parametrize("controller", ["cpu", "cpu,cpuacct"])
def test_limits_of_version_1(tmp_path: Path, controller: str) -> None:
    """Quota and period are files of their own; -1 is no limit."""
    home = tmp_path / "mount" / controller
    _write(home / "x" / "y", cpu__cfs_quota_us="400000\n", cpu__cfs_period_us="100000\n")
    _write(home / "x", cpu__cfs_quota_us="250000\n", cpu__cfs_period_us="100000\n")
    _write(home, cpu__cfs_quota_us="-1\n", cpu__cfs_period_us="100000\n")
    groups = f"9:memory:/x/y\n4:{controller}:/x/y\n1:name=systemd:/x/y\n"
    assert _quota(tmp_path, groups) == pytest.approx(2.5)
    assert _quota(tmp_path, f"4:{controller}:/\n") is None


def test_at_least_one_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a processor is one thread; many do not exceed the affinity."""
    everything = processors.machine_threads()
    for share, wanted in [(0.5, 1), (1.9, 1), (1e6, None)]:
        monkeypatch.setattr(processors, "quota", lambda share=share: share)
        found = processors.machine_threads.__wrapped__()
        assert found == wanted if wanted else found >= everything


def test_memory_that_control_groups_allow(tmp_path: Path) -> None:
    """The least limit on the way up, of either version; none where all say max."""
    groups = tmp_path / "groups"
    groups.write_text("0::/a/b\n9:memory:/x\n", encoding="ascii")
    mount = tmp_path / "mount"
    _write(mount / "a", memory__max="max\n")
    assert processors.memory_limit(groups, mount) is None
    _write(mount / "a" / "b", memory__max="4096000\n")
    assert processors.memory_limit(groups, mount) == 4_096_000
    _write(mount / "memory" / "x", memory__limit_in_bytes="1048576\n")
    assert processors.memory_limit(groups, mount) == 1 << 20
    assert processors.memory_limit(tmp_path / "none", tmp_path / "nowhere") is None


def test_an_affinity_that_nobody_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sandbox may refuse the question: then all processors count."""

    def refuse(_: int) -> None:
        raise PermissionError(1, "not permitted")

    monkeypatch.setattr(processors.os, "sched_getaffinity", refuse, raising=False)
    assert processors.machine_threads.__wrapped__() >= 1
