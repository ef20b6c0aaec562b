"""What the run is measured on: processor, caches, memory, packages, commit."""

import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

from fuser.reports.record import Machine

NOTABLE_FEATURES = frozenset(
    "sse4_2 avx avx2 fma f16c avx512f avx512vl avx512_fp16 avx512_bf16 amx_tile asimd sve".split()
)
PACKAGES = ("numpy", "llvmlite", "numexpr", "numba", "jax", "torch", "cupy", "pytest-benchmark")
_CPU = Path("/sys/devices/system/cpu")


def describe_machine() -> Machine:
    """Return what can be read without privileges; unknown values stay empty."""
    info = _cpu_info()
    return Machine(
        cpu=info.get("model name") or platform.processor() or platform.machine(),
        cores_logical=os.cpu_count() or 0,
        cores_physical=psutil.cpu_count(logical=False),
        memory_bytes=psutil.virtual_memory().total,
        caches=cache_sizes(),
        os=f"{platform.system()} {platform.release()}",
        governor=_text(_CPU / "cpu0/cpufreq/scaling_governor"),
        load_average=[round(each, 2) for each in psutil.getloadavg()],
        accelerator=_accelerator(),
        features=sorted(NOTABLE_FEATURES & set(_features(info).split())),
    )


def cache_sizes() -> Mapping[str, int]:
    """Return bytes by level, as the first processor sees them: L1d, L2, L3."""
    sizes: dict[str, int] = {}
    for folder in sorted(_CPU.glob("cpu0/cache/index*")):
        level, kind, size = (_text(folder / name) for name in ("level", "type", "size"))
        found = re.fullmatch(r"(\d+)([KMG]?)", size or "")
        if level is None or kind == "Instruction" or found is None:
            continue
        factor = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}[found[2]]
        sizes["L1d" if level == "1" else f"L{level}"] = int(found[1]) * factor
    return sizes


def available_memory_bytes() -> int:
    """Return how much memory can be taken without swapping."""
    return int(psutil.virtual_memory().available)


def usable_cores() -> int:
    """Return how many processors this process may run on."""
    try:
        return len(os.sched_getaffinity(0))
    except (AttributeError, OSError):  # not on every platform, and a sandbox may refuse to tell
        return os.cpu_count() or 1


def package_versions() -> dict[str, str]:
    """Return the versions of Python, the fuser and whatever of the peers is installed."""
    found = {"python": platform.python_version(), "fuser": version_of("fuser-bench") or "checkout"}
    for name in PACKAGES:
        if (number := version_of(name)) is not None:
            found[name] = number
    return found


def checkout_state(root: Path | None = None) -> tuple[str | None, bool | None]:
    """Return the commit of a checkout, and whether files differ; None where unknown.

    Args:
        root: the checkout; by default that of the fuser that is imported.
    """
    if root is None:
        origin = getattr(import_module("fuser"), "__file__", None)
        root = Path(origin).resolve().parent.parent if origin else Path("/")
    if not (root / ".git").exists() or not (root / "pyproject.toml").is_file():
        return None, None
    commit, status = _git(root, "rev-parse", "HEAD"), _git(root, "status", "--porcelain")
    return commit, None if status is None else bool(status)


def _git(root: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments],
            capture_output=True, text=True, timeout=20, check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def version_of(name: str) -> str | None:
    """Return the version of an installed package; None where it is not one of pip's."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return None


def _cpu_info() -> dict[str, str]:
    """Return the first processor's fields of /proc/cpuinfo."""
    first = (_text(Path("/proc/cpuinfo")) or "").partition("\n\n")[0]
    pairs = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _features(info: Mapping[str, str]) -> str:
    return info.get("flags") or info.get("Features") or ""


def _accelerator() -> str | None:
    """Return the name of the first NVIDIA device, as its driver shows it."""
    for path in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information")):
        if found := re.search(r"^Model:\s*(.+)$", _text(path) or "", re.MULTILINE):
            return found[1]
    return None


def command_line() -> list[str]:
    """Return the command of this run, the program by its name alone."""
    return [Path(sys.argv[0]).name, *sys.argv[1:]] if sys.argv else []
