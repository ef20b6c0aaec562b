"""The four folders: what may import what, what is a package, and what `import fuser` costs."""

import ast
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import fuser
from tests.tree import FOLDERS, ROOT, pyproject, source_files

SOURCES = source_files()

# From a layer to those it may import. `suites` writes the record that `reports` defines.
MAY_IMPORT = {
    "fuser": {"fuser"},
    "fuser.backends": {"fuser", "fuser.backends"},
    "fuser.suites": {"fuser", "fuser.backends", "fuser.suites", "fuser.reports"},
    "fuser.reports": {"fuser", "fuser.reports"},
}

# Standard modules that cost milliseconds, and that no call of a fused function needs.
HEAVY = {"asyncio", "concurrent", "email", "http", "importlib.metadata", "multiprocessing"}


def layer(module: str) -> str:
    """Return which of the four packages `module` belongs to."""
    parts = ".".join(module.split(".")[:2])
    return parts if parts in MAY_IMPORT else "fuser"


@cache
def imports(path: Path) -> tuple[tuple[int, str], ...]:
    """(line, dotted name) of everything that a file imports; relative ones begin with a dot."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = "." * node.level + (node.module or "")
            found += [(node.lineno, f"{start}.{alias.name}") for alias in node.names]
    return tuple(found)


def test_imports_run_one_way() -> None:
    """The core imports no backend, a backend no suite, reports neither; all by absolute name.

    Nor does a device's backend import another's, the coefficients of elementary functions aside.
    """
    wrong = []
    for module, path in SOURCES.items():
        own = re.match(r"fuser\.backends\.(cpu|gpu)\b", module)
        for line, name in imports(path):
            first, here = name.split(".")[0], f"{path}:{line}: {name}"
            device = re.match(r"fuser\.backends\.(cpu|gpu)\b(?!\.elementary\.)", name)
            if first == "":
                wrong.append(f"{here}: a relative import")
            elif first in ("backends", "suites", "reports", "tests"):
                wrong.append(f"{here}: import fuser.…")
            elif first == "fuser" and layer(name) not in MAY_IMPORT[layer(module)]:
                wrong.append(f"{here}: not from {layer(module)}; name a plug-in by a string")
            elif own and device and own[1] != device[1]:
                wrong.append(f"{here}: another device's")
    assert not wrong, "\n".join(wrong)


def test_the_list_of_packages_is_the_tree() -> None:
    """Every folder with Python files is a package, and pyproject.toml names exactly those."""
    inits = {name for name, path in SOURCES.items() if path.name == "__init__.py"}
    folders = {
        name if path.name == "__init__.py" else name.rpartition(".")[0]
        for name, path in SOURCES.items()
    }
    assert folders == inits, "a folder without __init__.py"
    setuptools = pyproject()["tool"]["setuptools"]
    assert sorted(setuptools["packages"]) == sorted(inits)
    assert setuptools["package-dir"] == {package: folder for folder, package in FOLDERS.items()}
    assert (ROOT / "fuser" / "py.typed").is_file()


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_package_does_nothing_on_import(folder: str) -> None:
    """The four __init__.py declare and import; beyond its `__path__`, none of them acts."""
    text = (ROOT / folder / "__init__.py").read_text(encoding="utf-8")
    calls = [
        ast.unparse(node)
        for node in ast.parse(text).body
        if isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant)
    ]
    assert not [call for call in calls if "__path__" not in call]


def test_no_module_bears_the_name_of_a_public_function() -> None:
    """`fuser.trace` is a function whatever was imported before, so no module is called trace."""
    modules = {name.split(".")[1] for name in SOURCES if name.count(".") == 1}
    public = {name for name in modules & set(dir(fuser)) if not name.startswith("_")}
    clashes = {name for name in public if not isinstance(getattr(fuser, name), ModuleType)}
    exported = {name for name in getattr(fuser, "__all__", ()) if name in modules}
    hidden = {name for name in exported if not isinstance(getattr(fuser, name), ModuleType)}
    assert not clashes | hidden


def run_python(code: str, folder: Path) -> str:
    """Run `code` in a fresh interpreter at the checkout's root, byte code kept in `folder`."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(folder)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_fuser_loads_numpy_and_nothing_heavier(tmp_path: Path) -> None:
    """Beyond NumPy's own, `import fuser` loads fuser's modules and light standard ones."""
    code = (
        "import sys, numpy; before = set(sys.modules)\n"
        "import fuser; print(*sorted(set(sys.modules) - before))"
    )
    added = run_python(code, tmp_path).split()
    known = sys.stdlib_module_names | {"fuser", "numpy"}
    roots = {name.split(".")[0] for name in added if not name.startswith("_sysconfigdata")}
    assert not roots - known, "import fuser loads packages other than NumPy"
    assert not [name for name in added if name in HEAVY or name.split(".")[0] in HEAVY]
    outside = ("fuser.backends", "fuser.suites", "fuser.reports")
    assert not [name for name in added if name.startswith(outside)]


# What pip calls a package whose import has another name.
DISTRIBUTIONS = {
    "PIL": "pillow", "mpl_toolkits": "matplotlib", "sklearn": "scikit-learn",
    "array_api_compat": "array-api-compat", "xdist": "pytest-xdist",
}  # fmt: skip


def distribution_names(requirements: list[str]) -> set[str]:
    """Return the bare names of requirements such as `numpy>=2.0; python_version > "3"`."""
    return {re.split(r"[\s\[;<>=!~]", requirement, maxsplit=1)[0] for requirement in requirements}


def foreign_imports(package: str) -> set[str]:
    """Return the distributions that the files of one of the four packages import, anywhere."""
    known = sys.stdlib_module_names | {"fuser", "__future__"}
    names = set()
    for module, path in SOURCES.items():
        if layer(module) == package:
            names |= {name.split(".")[0] for _, name in imports(path)} - known
    return {DISTRIBUTIONS.get(name, name) for name in names}


def test_what_is_imported_is_declared() -> None:
    """Base and extras cover every import; the extra `bench` has nothing that is not used."""
    project = pyproject()["project"]
    base = distribution_names(project["dependencies"])
    extras = {k: distribution_names(v) for k, v in project["optional-dependencies"].items()}
    lazy = {"pandas"}  # imported where a DataFrame is asked for, by who has the extra `bench`
    cupy = {"cupy", "cupyx"}  # of the distribution cupy-cuda13x
    assert foreign_imports("fuser") - cupy <= base | lazy | extras["dask"]
    assert foreign_imports("fuser.backends") - cupy <= base | extras["gpu"]
    harness = foreign_imports("fuser.suites") | foreign_imports("fuser.reports")
    dace = {"dace"}  # asks for NumPy 1, so that no extra can name it
    assert harness - cupy - dace <= (
        base | extras["bench"] | extras["peers"] | extras["pythran"]
    )
    assert extras["bench"] - harness <= {"pytest-benchmark"}
    tests = set()
    for path in (ROOT / "tests").rglob("*.py"):
        tests |= {name.split(".")[0] for _, name in imports(path)} - sys.stdlib_module_names
    tests = {DISTRIBUTIONS.get(name, name) for name in tests} - {"fuser", "tests"} - cupy
    assert tests <= base | extras["bench"] | extras["dev"] | extras["peers"]
