"""What holds in every test: graphs are verified after every pass, nothing hangs, CI is repeatable.

`pytest-benchmark compare` loads this file too, in an environment that may have no hypothesis.
"""

import gc
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest

# Before anything imports fuser, which reads its switches once.
os.environ.setdefault("FUSER_CHECK", "1")

# Here and not in pyproject.toml: `pytest suites` measures for as long as it was told to.
os.environ.setdefault("PYTEST_TIMEOUT", "300")

if find_spec("hypothesis"):
    from hypothesis import settings

    # A compile on a busy machine takes as long as it takes, hence no deadline.
    settings.register_profile("fuser", deadline=None, derandomize="CI" in os.environ)
    settings.load_profile("fuser")


#: Files of few tests that take long. While the last file of a run is tested, other processors idle.
LONG = frozenset(
    f"tests/{name}.py"
    for name in (
        "test_types", "test_site", "test_wheel", "test_documents", "judges/test_programs",
        "judges/test_by_hand", "judges/test_faults", "backends/gpu/test_compile",
        "backends/cpu/machine/test_refused_memory", "backends/cpu/reducing/test_kinds",
        "backends/cpu/scheduling/test_schedules", "backends/cpu/test_spelling",
        "backends/gpu/test_device_run", "suites/test_engine", "suites/test_cold_processes",
        "reports/plots/test_figures", "reports/test_page", "fuser/base/test_budget",
        "fuser/base/test_watchdog", "fuser/dask/test_distributed", "fuser/ir/test_memory_order",
        "test_bounded_caches",
    )
)  # fmt: skip


#: Files that share what takes 13 s to make, a page with all figures: one process gets them.
TOGETHER = frozenset(
    f"tests/reports/{name}.py" for name in ("test_page", "test_sections", "plots/test_figures")
)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `--dist loadfile`, files that are tested together count as one."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    scheduling = LoadFileScheduling(config, log)
    file_of = scheduling._split_scope
    scheduling._split_scope = lambda test: (
        "together" if file_of(test) in TOGETHER else file_of(test)
    )
    return scheduling


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In several processes long files come first, then those of many tests."""
    if hasattr(config, "workerinput"):
        count = Counter(item.location[0] for item in items)
        items.sort(key=lambda item: (
            item.location[0] not in LONG, -count[item.location[0]], item.location[0]
        ))  # fmt: skip


def pytest_collection_finish() -> None:
    """The tests themselves stay until the end: collections of garbage need not walk over them.

    Nor come after every 700 new objects, with what Hypothesis does at each: 3% of all tests take.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000)


#: How many threads libraries may use, and which of these were set when the tests began.
THREADS = frozenset({"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"})
_SET = THREADS & os.environ.keys()


@pytest.fixture(scope="module", autouse=True)
def _forgotten() -> Iterator[None]:
    """What a file's tests have compiled is let go; collections of garbage pass over what stays.

    Else a test that collects garbage takes 2 s behind all others, and in a process of its own none.
    Starting Dask's workers leaves OMP_NUM_THREADS=1 behind, with which kernels run on one thread.
    """
    yield
    for name in THREADS - _SET:
        os.environ.pop(name, None)
    if "fuser" in sys.modules:
        sys.modules["fuser"].clear_caches()
    gc.collect()
    gc.freeze()


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt, also where a shell started the tests in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def never_brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small calls stay fused, though NumPy's operations take less: tests of how they are served."""
    from fuser.calls import attributes, fused_function, trace_cache

    for module in (attributes, fused_function, trace_cache):
        monkeypatch.setattr(module, "is_brief", lambda *_: False)
