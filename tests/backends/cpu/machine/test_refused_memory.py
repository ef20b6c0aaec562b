"""Where the system refuses executable memory or address space, NumPy runs, with that reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuser.backends.cpu.machine import arena
from fuser.backends.cpu.machine.object_file import PAGE
from tests.refused_memory import run

pytestmark = pytest.mark.skipif(not arena.supported(), reason="the filters are Linux's")

PROGRAM = """
import numpy as np, warnings
HOW, WHEN = {how!r}, {when!r}

def refused():
    if not refuse(HOW):
        print("no such mechanism")
        sys.exit(0)

if WHEN == "before":
    refused()
import fuser
if WHEN == "import":
    refused()
warnings.simplefilter("ignore", fuser.FallbackWarning)
PLAIN = [lambda x: (x + 1) * 2 - np.sqrt(x), lambda x: np.exp(x).sum(),
         lambda x: x.reshape(-1, 100).sum(1), lambda x: np.sort(x) + 1,
         lambda x: (x[1:] - x[:-1]) / x.max(), lambda x: np.sin(x.reshape(100, -1)).mean(0)]
FUSED = [fuser.fuse(each) for each in PLAIN]

def check(count, x):
    for _ in range(4):
        for plain, fused in list(zip(PLAIN, FUSED))[:count]:
            np.testing.assert_allclose(fused(x), plain(x), rtol=1e-9)

x, long = np.linspace(0, 1, 3000), np.linspace(0, 1, 300_000)
known = {{"before": 0, "import": 0, "once": 1, "later": 3}}[WHEN]
if WHEN == "once":
    FUSED[0](x)
if WHEN == "later":
    check(known, long)
if known:
    refused()
launches = fuser.stats().get("launches", 0)
check(known, x)
for each in (x, long):
    check(len(PLAIN), each)
fuser.set_num_threads(2)
check(len(PLAIN), long)
fuser.clear_caches()
check(len(PLAIN), x)
words = fuser.available_backends()["cpu"]
assert "executable memory" in words, words
codes = {{reason.code for each in FUSED for reason in each.fallbacks}}
assert "backend-unavailable" in codes
assert codes <= {{"backend-unavailable", "unsupported-function", "no-gain"}}
assert known or "launches" not in fuser.stats()
print("done")
"""


#: How, when, and with how many threads until the program asks for two: each way at its own moments.
CASES = [
    ("mdwe", "before", 2), ("mprotect", "import", 2), ("mdwe", "once", 2),
    ("mprotect", "later", 2), ("mdwe", "later", 1),
    ("mmap", "later", 1),  # of shared libraries, too: earlier, Python cannot load its own
]  # fmt: skip


@pytest.mark.parametrize(("how", "when", "threads"), CASES)
def test_executable_memory_is_refused(
    how: str, when: str, threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the start, or after some kernels were compiled, which still run: never an abort."""
    monkeypatch.setenv("FUSER_NUM_THREADS", str(threads))
    done = run(PROGRAM.format(how=how, when=when), tmp_path)
    assert done.returncode == 0, done.stderr
    if "no such mechanism" in done.stdout:
        pytest.skip("this kernel cannot refuse executable memory in this way")
    assert done.stdout.endswith("done\n")


LITTLE = """
import numpy as np, warnings
import fuser
warnings.simplefilter("ignore", fuser.FallbackWarning)
pages = int(open("/proc/self/statm").read().split()[0])
room = pages * resource.getpagesize() + ({left} << 20)
resource.setrlimit(resource.RLIMIT_AS, (room, resource.RLIM_INFINITY))
fused = [fuser.fuse(each) for each in (lambda x: np.exp(x) + x, lambda x: x.reshape(-1, 9).sum(1))]
x = np.linspace(0, 1, 900)
for _ in range(4):
    for each in fused:
        np.testing.assert_allclose(each(x), each.__wrapped__(x), rtol=1e-12)
print({{reason.code for each in fused for reason in each.fallbacks}} or "fused")
"""


@pytest.mark.parametrize("left", [24, 100, 300, 1000])
def test_little_address_space(left: int, tmp_path: Path) -> None:
    """Too little for LLVM is a reason; NumPy keeps what there is."""
    done = run(LITTLE.format(left=left), tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout in ("{'backend-unavailable'}\n", "fused\n")
    assert (done.stdout == "fused\n") or left < 1000


def test_memory_for_machine_code_is_what_is_wanted_where_little_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A large piece is reserved only where it is a small part of what is left."""
    mapped = arena._mapped

    def little(size_bytes: int) -> int:
        if size_bytes > 1 << 22:
            raise OSError(12, "Cannot allocate memory")
        return mapped(size_bytes)

    monkeypatch.setattr(arena, "_mapped", little)
    memory = arena.Arena(1 << 20)
    block = memory.take(100)
    assert memory.free_bytes == 0
    assert block.size_bytes == PAGE
