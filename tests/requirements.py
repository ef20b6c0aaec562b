"""What a test needs of the machine: absent, it skips with the reason, or fails where required."""

import ctypes.util
import importlib.util
import os
import shutil
from collections.abc import Callable

import pytest

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


def _nvrtc() -> str | None:
    if nvcc := shutil.which("nvcc"):
        return nvcc
    if library := ctypes.util.find_library("nvrtc"):
        return library
    package = importlib.util.find_spec("cupy")
    return package.origin if package is not None else None


def _cuda() -> str | None:
    return ctypes.util.find_library("cuda")


# name: (how it is found, what a person does about its absence)
_REQUIREMENTS: dict[str, tuple[Callable[[], str | None], str]] = {
    "chromium": (_chromium, "no Chromium on the PATH: apt install chromium"),
    "cuda": (_cuda, "no CUDA driver (libcuda): needs a machine with an NVIDIA GPU"),
    "cxx": (_cxx, "no C++ compiler on the PATH: apt install g++"),
    "nvrtc": (_nvrtc, "no nvcc, NVRTC library or cupy: pip install cupy-cuda13x"),
}


def required_names() -> frozenset[str]:
    """Return the names in FUSER_REQUIRE, refusing those that are not requirements."""
    names = frozenset(filter(None, os.environ.get("FUSER_REQUIRE", "").split(",")))
    if unknown := names - _REQUIREMENTS.keys():
        known = ", ".join(sorted(_REQUIREMENTS))
        raise ValueError(f"FUSER_REQUIRE: unknown {', '.join(sorted(unknown))}; known: {known}")
    return names


def require(name: str) -> str:
    """Return where `name` was found; else skip the test, or fail it where FUSER_REQUIRE names it.

    Args:
        name: "chromium", "cuda", "cxx" or "nvrtc".

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
