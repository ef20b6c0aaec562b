"""What a test needs of the machine: absent, it skips with the reason, or fails where required."""

import ctypes.util
import importlib.util
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from fuser.calls import native_call

#: Marks tests of what only native entries do: short calls, giving way to NumPy, element loops.
needs_native_entry = pytest.mark.skipif(
    not native_call.supported(), reason="this interpreter has no native entry: it has no GIL, say"
)

_CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_CXX_NAMES = ("c++", "g++", "clang++")


def _first_program(names: tuple[str, ...]) -> str | None:
    """Return the full path of the first of `names` that is on the PATH."""
    found = (shutil.which(name) for name in names)
    return next((path for path in found if path), None)


def _chromium() -> str | None:
    return _first_program(_CHROMIUM_NAMES)


def _cxx() -> str | None:
    return _first_program((os.environ.get("CXX", ""), *_CXX_NAMES))


def _graphviz() -> str | None:
    return shutil.which("dot")


def _nvcc() -> str | None:
    return shutil.which("nvcc")


def _nvrtc() -> str | None:
    package = importlib.util.find_spec("nvidia")  # of the package nvidia-cuda-nvrtc, say
    folders = list(package.submodule_search_locations or ()) if package is not None else []
    found = [path for folder in folders for path in Path(folder).glob("*/lib/libnvrtc.so.*")]
    return str(max(found)) if found else ctypes.util.find_library("nvrtc")


def _cuda() -> str | None:
    return ctypes.util.find_library("cuda")


# name: (how it is found, what a person does about its absence)
_REQUIREMENTS: dict[str, tuple[Callable[[], str | None], str]] = {
    "chromium": (_chromium, "no Chromium on the PATH: apt install chromium"),
    "cuda": (_cuda, "no CUDA driver (libcuda): needs a machine with an NVIDIA GPU"),
    "cxx": (_cxx, "no C++ compiler on the PATH: apt install g++"),
    "graphviz": (_graphviz, "no Graphviz on the PATH: apt install graphviz"),
    "nvcc": (_nvcc, "no nvcc on the PATH: install the CUDA toolkit's compiler"),
    "nvrtc": (_nvrtc, "no NVRTC library: pip install nvidia-cuda-nvrtc"),
}


def required_names() -> frozenset[str]:
    """Return the names in FUSER_REQUIRE, refusing those that are not requirements."""
    names = frozenset(filter(None, os.environ.get("FUSER_REQUIRE", "").split(",")))
    if unknown := names - _REQUIREMENTS.keys():
        known = ", ".join(sorted(_REQUIREMENTS))
        raise ValueError(f"FUSER_REQUIRE: unknown {', '.join(sorted(unknown))}; known: {known}")
    return names


def find(name: str) -> str | None:
    """Return where `name` is, or None; for what does not skip by itself."""
    return _REQUIREMENTS[name][0]()


def require(name: str) -> str:
    """Return where `name` was found; else skip the test, or fail it where FUSER_REQUIRE names it.

    Args:
        name: "chromium", "cuda", "cxx", "graphviz", "nvcc" or "nvrtc".

    Returns:
        The path of the program, library or package.

    Raises:
        ValueError: the name is not a requirement.
    """
    if name not in _REQUIREMENTS:
        raise ValueError(f"{name!r} is not one of {', '.join(sorted(_REQUIREMENTS))}")
    find, reason = _REQUIREMENTS[name]
    if found := find():
        return found
    if name in required_names():
        pytest.fail(f"FUSER_REQUIRE names {name}, but there is {reason}")
    pytest.skip(reason)
