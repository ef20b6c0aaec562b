"""The checkout's layout, as the tests of packaging see it."""

import ast
import importlib.util
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

# The folder at the top of the checkout, and the package it is installed as.
FOLDERS = {
    "fuser": "fuser",
    "backends": "fuser.backends",
    "suites": "fuser.suites",
    "reports": "fuser.reports",
}


def pyproject() -> dict[str, Any]:
    """Return the checkout's pyproject.toml."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        return tomllib.load(file)


def source_files() -> dict[str, Path]:
    """Return every Python file of the four folders: {dotted module name: path}."""
    modules = {}
    for folder, package in FOLDERS.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            name = ".".join((package, *parts)).removesuffix(".__init__")
            modules[name] = path
    return modules


def files_with(word: str) -> Iterator[tuple[str, Path, ast.Module]]:
    """Modules, paths and syntax trees of the files that have a word, a regular expression.

    To parse all files takes 3 s: the word is one without which there is nothing to be found.
    """
    for module, path in source_files().items():
        text = path.read_text(encoding="utf-8")
        if re.search(rf"\b({word})\b", text):
            yield module, path, ast.parse(text)


def data_files() -> list[str]:
    """Return every other file of the four folders, as its path in the wheel.

    Recorded measurements stay in the checkout.
    """
    found = []
    for folder, package in FOLDERS.items():
        for path in sorted((ROOT / folder).rglob("*")):
            left_out = {"__pycache__", "recorded"} & set(path.parts)
            if path.is_file() and path.suffix != ".py" and not left_out:
                inner = path.relative_to(ROOT / folder).as_posix()
                found.append(f"{package.replace('.', '/')}/{inner}")
    return found


def wheel_path(module: str, path: Path) -> str:
    """Return where in the wheel the file `path` of `module` stands."""
    base = module.replace(".", "/")
    return f"{base}/__init__.py" if path.name == "__init__.py" else f"{base}.py"


def tool(name: str) -> ModuleType:
    """Import a tool from its file: tools are not installed."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
