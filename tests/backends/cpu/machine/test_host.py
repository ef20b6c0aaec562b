"""What LLVM says is remembered for the machine and the library that it was said of."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from fuser.backends.cpu.machine import host
from fuser.base import config, disk_cache
from tests.tree import ROOT

#: Calls a function with fused kernels of several kinds, some of them often enough for the entry.
CALLS = """
import sys, warnings
import numpy as np
import fuser
from fuser.base import counters
warnings.simplefilter("error")
f = fuser.fuse(lambda x, y: np.tanh(x * y) + 1, fallback="error")
g = fuser.fuse(lambda x: (x - x.mean(axis=1, keepdims=True)) ** 2, fallback="error")
x = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)
for _ in range(4):
    assert np.allclose(f(x, x.T), np.tanh(x * x.T) + 1, rtol=1e-6)
    assert np.allclose(g(x), (x - x.mean(axis=1, keepdims=True)) ** 2, atol=1e-6)
big = np.ones(1 << 20, np.float32)
for _ in range(3):
    assert f(big, big)[-1] == np.float32(np.tanh(np.float32(1)) + 1)
heavy = [name for name in ("llvmlite.binding", "pathlib", "tempfile")
         if name in sys.modules and name not in before]
print(counters.value("linked_by_llvm"), *heavy)
"""


def run(cache: Path, cpuinfo: str = host.PROCESSORS) -> list[str]:
    """Run the calls in a process of their own; what it prints."""
    code = "import sys, numpy; before = set(sys.modules)  # some environments load more\n"
    code += f"import fuser.backends.cpu.machine.host as h; h.PROCESSORS = {cpuinfo!r}\n" + CALLS
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), "PYTHONPATH": str(ROOT)}
    environment["FUSER_CACHE"] = "on"
    environment.pop("FUSER_CHECK", None)
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, check=True, text=True, capture_output=True
    )
    return done.stdout.split()


@pytest.mark.skipif(host._key() is None, reason="this machine's processor has no description")
def test_a_warm_process_loads_no_llvm(tmp_path: Path) -> None:
    """Nor other large modules; on another processor LLVM is asked again, and the code is found."""
    run(tmp_path)
    known = sorted(os.listdir(tmp_path / "fuser-bench" / "objects"))
    assert run(tmp_path) == ["0"]
    assert sorted(os.listdir(tmp_path / "fuser-bench" / "objects")) == known
    other = tmp_path / "cpuinfo"
    other.write_text(Path(host.PROCESSORS).read_text().replace("flags\t\t:", "flags\t\t: new"))
    assert "llvmlite.binding" in run(tmp_path, str(other))
    assert run(tmp_path, str(other)) == ["0"]
    added = set(os.listdir(tmp_path / "fuser-bench" / "objects")) - set(known)
    assert [name.rpartition(".")[2] for name in added] == ["host"]


def test_a_processor_without_a_description_is_asked_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file, or one that says too little: nothing is remembered."""
    for text in (None, "", "processor: 0\nmodel name: some\n"):
        path = tmp_path / "cpuinfo"
        if text is not None:
            path.write_text(text)
        monkeypatch.setattr(host, "PROCESSORS", str(path))
        assert host._key() is None


@pytest.mark.skipif(platform.machine() != "x86_64", reason="this processor has no CPUID")
def test_the_processor_says_itself_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same each time; bits that LLVM names are as it says; an emulator's are another key."""
    words = host.cpuid()
    assert words is not None
    assert words == host.cpuid()
    assert words[:2] == (0, 0)
    vendor = b"".join(words[k].to_bytes(4, "little") for k in (3, 5, 4)).decode("ascii")
    at = words.index(1, 6)
    assert words[at : at + 2] == (1, 0)
    has = host.asked().has
    assert vendor.isprintable()
    assert bool(words[at + 3] >> 19 & 1) == ("sse4.1" in has)
    assert bool(words[at + 3] >> 12 & 1) >= ("fma" in has)
    before = host._key()
    monkeypatch.setattr(host, "cpuid", lambda: (*words[:-1], words[-1] ^ 1))
    assert host._key() != before or before is None
    monkeypatch.setattr(host, "cpuid", lambda: None)
    assert host._key() is None


def test_features_are_those_with_a_plus() -> None:
    """As LLVM writes them."""
    found = host.Host("0", "1", "t", "c", "+avx,-avx512f,+sse4.1").has
    assert found == {"avx", "sse4.1"}
    assert host.Host("0", "1", "t", "c", "").has == frozenset()


def test_what_is_remembered_is_what_llvm_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A damaged or foreign answer is asked for again; one that is sound is taken."""
    if (key := host._key()) is None:
        pytest.skip("this machine's processor has no description")
    monkeypatch.setattr(disk_cache, "folder", lambda: str(tmp_path))
    monkeypatch.setattr(config, "current", lambda: config.Config(disk_cache=True))
    monkeypatch.delitem(sys.modules, "llvmlite.binding", raising=False)
    monkeypatch.setattr(host, "asked", lambda: host.Host("1", "2", "3", "4", "+5"))
    assert host.host.__wrapped__().cpu == "4"
    path = tmp_path / f"{key}.host"
    monkeypatch.setattr(host, "asked", lambda: host.Host("1", "2", "3", "6", "+5"))
    assert host.host.__wrapped__().cpu == "4"
    path.write_bytes(path.read_bytes()[:-1] + b"7")
    with pytest.warns(disk_cache.CacheWarning, match="damaged"):
        assert host.host.__wrapped__().cpu == "6"
    assert host.host.__wrapped__().features == "+5"
