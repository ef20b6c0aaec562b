"""The first call by stages: with nothing kept, and with machine code from an earlier process.

Both are measured in one process, with a folder of machine code of their own: the first call finds
it empty and fills it, and the second, after every cache in memory has been cleared, finds it there.
"""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from fuser.suites.measuring import with_rest
from fuser.suites.registry import workloads
from fuser.suites.runners import Runner
from fuser.suites.sampling import now_s

NAMES = ("axpy", "gelu_bias", "black_scholes")
"""A short, a middling and a long formula."""
ELEMENTS = 1024


@contextmanager
def own_cache() -> Iterator[None]:
    """Keep machine code in a new folder as long as this lasts."""
    from fuser.base import config

    before = config.current().disk_cache
    kept = os.environ.get("XDG_CACHE_HOME")
    with tempfile.TemporaryDirectory(prefix="fuser-bench-cache-") as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        config.change(disk_cache=True)
        try:
            yield
        finally:
            config.change(disk_cache=before)
            if kept is None:
                del os.environ["XDG_CACHE_HOME"]
            else:
                os.environ["XDG_CACHE_HOME"] = kept


def measure(runner: Runner, names: Sequence[str] = NAMES) -> Iterator[dict[str, Any]]:
    """Yield one finding a workload and state, as fields of the record with one number each."""
    for name in names:
        workload = workloads()[name]
        arguments = workload.inputs(ELEMENTS, workload.dtypes[0], 0)
        with own_cache():
            for state in ("cold", "disk cache"):
                with runner.observed() as stages_s:
                    start_s = now_s()
                    runner.prepare(workload.function, arguments)(*arguments)
                    seconds = now_s() - start_s
                yield {
                    "workload": name, "state": state, "seconds": seconds,
                    "stages_s": with_rest(stages_s, seconds),
                }
