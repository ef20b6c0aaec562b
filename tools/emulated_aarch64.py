"""Run tests on an emulated aarch64: Debian's Python in qemu-user, with the wheels for that machine.

    tox -e aarch64 [-- TEST …]

As root, on Debian or Ubuntu, after `apt install debootstrap qemu-user-static`. The first run makes
the system of files, which takes a minute; tests take about thirty times as long as on the machine
itself. Interpreters that tests start are emulated, too: what they take for Python is a script.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from shlex import quote

CHECKOUT = Path(__file__).resolve().parent.parent
PYTHON = "3.11"
PACKAGES = ("numpy>=2.3", "llvmlite>=0.45", "pytest>=8.2", "pytest-timeout>=2.3",
            "hypothesis>=6.100", "mpmath>=1.3")  # fmt: skip
#: Code for the processor, all dtypes, the loader of machine code, and calls.
TESTS = (
    "tests/fuser/test_functional.py",
    "tests/backends/cpu/test_conversion.py",
    "tests/backends/cpu/test_division.py",
    "tests/backends/cpu/machine",
    "tests/fuser/calls/test_fused_function.py",
)
#: These need what qemu-user has not: pages that are freed lazily, limits of memory, filters of
#: calls of the system, speed.
LEFT_OUT = (
    "backends/cpu/machine/test_loader.py::test_memory_that_is_free_in_single_pages_far_apart",
    "backends/cpu/machine/test_pool.py::test_blocks_that_wait_are_lent_to_the_kernel",
    "backends/cpu/machine/test_pool.py::test_refused_memory_empties_the_pool_first",
    "backends/cpu/machine/test_pool.py::test_a_limit_of_address_space_is_the_pools",
    "backends/cpu/machine/test_pool.py::test_numpys_own_arrays_empty_the_pool_where_memory_is_refused",
    "backends/cpu/machine/test_refused_memory.py",
    "backends/cpu/machine/test_workers.py::test_more_threads_than_there_can_be",
    "backends/cpu/machine/test_workers.py::test_sleeping_workers_are_not_woken_for_brief_work",
    "fuser/calls/test_fused_function.py::test_lengths_beyond_every_limit_are_a_reason",
)
#: What interpreters are started by, and what tells those of it that are emulated.
SCRIPT = """#!/bin/sh
PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}"{site}
export PYTHONPATH
exec qemu-aarch64-static -L {root} {python} "$@"
"""
CUSTOMISED = "import sys\nsys.executable = {script!r}\n"


def main(folder: Path, tests: Sequence[str]) -> int:
    """Make what is missing, and run the tests.

    Args:
        folder: holds Debian's files and the packages.
        tests: arguments of pytest.

    Returns:
        The exit status of pytest.
    """
    for name in ("debootstrap", "dpkg", "qemu-aarch64-static"):
        if shutil.which(name) is None:
            print(f"no {name} on the PATH: apt install debootstrap qemu-user-static")
            return 2
    root, site = folder / "root", folder / "site"
    python = root / "usr" / "bin" / f"python{PYTHON}"
    if not python.exists():
        subprocess.run(["debootstrap", "--foreign", "--arch=arm64", "--variant=minbase",
                        f"--include=python{PYTHON}", "bookworm", root], check=True)  # fmt: skip
        for package in sorted((root / "var" / "cache" / "apt" / "archives").glob("*.deb")):
            subprocess.run(["dpkg", "-x", package, root], check=True)
    if not site.exists():
        platforms = [f"--platform=manylinux_2_{minor}_aarch64" for minor in (28, 27, 17)]
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--only-binary=:all:",
                        f"--python-version={PYTHON}", "--implementation=cp", *platforms,
                        f"--target={site}", *PACKAGES], check=True)  # fmt: skip
    script = folder / "python"
    paths = {"site": site, "root": root, "python": python}
    script.write_text(SCRIPT.format(**{name: quote(str(path)) for name, path in paths.items()}))
    script.chmod(0o755)
    (site / "sitecustomize.py").write_text(CUSTOMISED.format(script=str(script)))
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [script, "-m", "pytest", "-p", "no:cacheprovider", *tests]
    return subprocess.run(command, cwd=CHECKOUT, env=environment, check=False).returncode


if __name__ == "__main__":
    left_out = [f"--deselect=tests/{name}" for name in LEFT_OUT]
    sys.exit(main(Path(sys.argv[1]).resolve(), sys.argv[2:] or (*TESTS, *left_out)))
