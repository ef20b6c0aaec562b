"""The wheel: it holds exactly the four folders, adds one name, and works away from the checkout."""

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tests.tree import FOLDERS, ROOT, data_files, pyproject, source_files, wheel_path

SMOKE = """
import numpy as np
import fuser
assert {checkout!r} not in fuser.__file__, fuser.__file__
function = fuser.fuse(lambda x, y: x * y + 1, fallback="error")
x = np.arange(5, dtype=np.float32)
result = function(x, x)
assert result.dtype == np.float32 and result.tolist() == [1, 2, 5, 10, 17], result
print(fuser.n_compiled_kernels())
"""


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """Run a command and return its output; fail with it where the command fails."""
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | environment
    texts = [str(part) for part in command]
    done = subprocess.run(texts, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{texts}:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build sdist and wheel from a copy of the checkout, which thus stays clean."""
    pytest.importorskip("build")
    copy = tmp_path_factory.mktemp("source") / "checkout"
    ignore = shutil.ignore_patterns("__pycache__")
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, copy / folder, ignore=ignore)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy / name)
    run(sys.executable, "-m", "build", "--no-isolation", ".", cwd=copy)
    (built,) = (copy / "dist").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel into an empty environment that borrows only this one's dependencies."""
    folder = tmp_path_factory.mktemp("installed")
    builder = venv.EnvBuilder(with_pip=False, symlinks=os.name != "nt")
    builder.create(folder / "env")
    python = folder / "env" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps",
        "--no-index", wheel, cwd=folder)  # fmt: skip
    return python


def test_the_wheel_holds_the_tree_and_adds_one_name(wheel: Path) -> None:
    """Each file of the four folders is in the wheel once, and nothing else beside `fuser`."""
    expected = {wheel_path(module, path) for module, path in source_files().items()}
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
    content = [name for name in names if ".dist-info/" not in name]
    assert sorted(content) == sorted(expected | set(data_files()))
    assert {name.split("/")[0] for name in content} == {"fuser"}
    assert "fuser/py.typed" in content
    packages = {name.rpartition("/")[0].replace("/", ".") for name in content if "__init__" in name}
    assert packages == set(pyproject()["tool"]["setuptools"]["packages"])


def test_the_wheel_runs_away_from_the_checkout(installed: Path, tmp_path: Path) -> None:
    """In a fresh environment, from another folder, a function fuses and answers right."""
    paths = os.pathsep.join(path for path in sys.path if path.endswith("site-packages"))
    site = run(installed, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))",
               cwd=tmp_path).strip()  # fmt: skip
    code = SMOKE.format(checkout=str(ROOT))
    output = run(installed, "-c", code, cwd=tmp_path, PYTHONPATH=os.pathsep.join((site, paths)))
    assert output.split() == ["1"]
