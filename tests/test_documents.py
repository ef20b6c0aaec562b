"""What README.md and CONTRIBUTING.md show is true: examples run, switches and commands exist."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from fuser.base import config
from fuser.reports import side_by_side
from fuser.reports.markdown_page import markdown_page
from fuser.reports.record import load
from fuser.suites import runners
from fuser.suites.commands import cli
from tests.children import said
from tests.tree import ROOT

DOCUMENTS = ("README.md", "CONTRIBUTING.md")
PAGES = sorted((ROOT / "reports" / "recorded").glob("*/*.md"))
RECORDED = [path for path in PAGES if path.with_suffix(".json").exists()]


def blocks(document: str, language: str) -> list[str]:
    """Return the fenced code blocks of one language in a document."""
    text = (ROOT / document).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


def executed(code: str, folder: Path) -> None:
    """Run a script that is a file, as a user would: inspect.getsource then finds its lines."""
    script = folder / "example.py"
    script.write_text(code, encoding="utf-8")
    environment = {"PYTHONPATH": str(ROOT), "PATH": "", "HOME": str(folder)}
    done = subprocess.run(
        [sys.executable, script], cwd=folder, env=environment,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_python_example_runs(document: str, tmp_path: Path) -> None:
    """The ```python blocks of a document, one after another, run without an error."""
    code = "\n".join(blocks(document, "python"))
    if code:
        executed(code, tmp_path)


def test_what_explain_prints_in_the_readme_is_what_it_prints(tmp_path: Path) -> None:
    """Every line of the text below the first example is one of its output."""
    shown = blocks("README.md", "text")[0].splitlines()
    code = blocks("README.md", "python")[0].replace("gelu.benchmark(x, x)", "''")
    script = tmp_path / "example.py"
    script.write_text(code, encoding="utf-8")
    printed = " ".join(said(str(script)).split())
    assert not [line for line in shown if " ".join(line.split()) not in printed]


def _commands(document: str) -> list[str]:
    """What stands behind `fuser-bench` in consoles, in files of CI, and in the prose itself."""
    text = (ROOT / document).read_text(encoding="utf-8")
    code = [*blocks(document, "console"), *blocks(document, "yaml")]
    lines = [line for block in code for line in re.findall(r"fuser-bench ([^#\n&]+)", block)]
    return lines + re.findall(r"`fuser-bench ([a-z-][^`]*)`", text)


def test_commands_that_are_shown_exist() -> None:
    """Every `fuser-bench` line of the documents: the command, and its options."""
    documents = [*DOCUMENTS, *(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md"))]
    for document in documents:
        for line in _commands(document):
            name, *given = line.split()
            if name.startswith("-"):
                continue
            known = {each for option in cli.main.commands[name].params for each in option.opts}
            unknown = {each for each in given if each.startswith("--")} - known - {"--help"}
            assert not unknown, f"{document}: {line}"


def test_files_of_other_languages_can_be_read() -> None:
    """TOML names the groups that this package reads; YAML is a workflow with steps."""
    documents = [*DOCUMENTS, *(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md"))]
    found = [tomllib.loads(block) for each in documents for block in blocks(each, "toml")]
    assert found
    for each in found:
        assert set(each["project"]["entry-points"]) <= {runners.ENTRY_POINTS, "fuser.backends"}
    yaml = pytest.importorskip("yaml", reason="PyYAML, of Dask, is not installed")
    (flow,) = [yaml.safe_load(block) for each in documents for block in blocks(each, "yaml")]
    assert all({"uses", "run"} & set(step) for step in flow["jobs"]["gate"]["steps"])


def test_the_table_of_switches_is_complete() -> None:
    """The page of switches tables exactly those that config.py reads."""
    text = (ROOT / "docs" / "reference" / "switches.md").read_text(encoding="utf-8")
    tabled = re.findall(r"^\| `(FUSER_[A-Z_]+)", text, flags=re.MULTILINE)
    assert sorted(tabled) == sorted(config.SWITCHES)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document: str) -> None:
    """Every relative link and picture of a document is a file of the checkout."""
    text = (ROOT / document).read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)#\s]+)", text)
    missing = [t for t in targets if "://" not in t and not (ROOT / t).exists()]
    assert not missing


@pytest.mark.parametrize("document", DOCUMENTS)
def test_files_that_are_named_exist(document: str) -> None:
    """A path in back quotes, such as `fuser/ir/ops.py`, is a file or folder of the checkout."""
    text = (ROOT / document).read_text(encoding="utf-8")
    named = re.findall(r"`((?:fuser|backends|suites|reports|tests|tools|docs)/[\w./]*)`", text)
    assert not [path for path in named if not (ROOT / path).exists()]


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: "-".join(path.parts[-2:]))
def test_recorded_pages_are_made_of_their_records(path: Path) -> None:
    """What is published is what the command makes of the raw seconds beside it."""
    record = load(path.with_suffix(".json"))
    assert path.read_text(encoding="utf-8") == markdown_page(record)


def test_other_recorded_pages_are_known() -> None:
    """A page without a record of its own names all files there, or is made of all records there."""
    others = [path for path in PAGES if path not in RECORDED]
    for path in others:
        if path.name == "side_by_side.md":
            found = [load(each) for each in sorted(path.parent.glob("*.json"))]
            assert path.read_text(encoding="utf-8") == side_by_side.page(found)
        else:
            text = path.read_text(encoding="utf-8")
            assert path.name == "README.md"
            files = [each.name for each in path.parent.iterdir() if each != path]
            assert not [name for name in files if f"`{name}`" not in text]


def test_the_runner_that_is_shown_runs_what_it_says(tmp_path: Path) -> None:
    """With something in numexpr's place it takes the arguments that the workload has."""
    shown = next(each for each in blocks("CONTRIBUTING.md", "python") if "(Runner)" in each)
    (tmp_path / "numexpr.py").write_text(
        "def evaluate(text, names):\n    return eval(text, {}, names)\n", encoding="utf-8",
    )
    executed(f"""
{shown}
import sys
import numpy as np
from fuser.suites.registry import workloads

sys.path.insert(0, {str(tmp_path)!r})
axpy = workloads()["axpy"]
given = axpy.inputs(16, "float32", 0)
assert (TextRunner().prepare(axpy.function, given)(*given) == axpy.function(*given)).all()
try:
    TextRunner().prepare(workloads()["gelu_bias"].function, given)
except NotExpressibleError:
    pass
else:
    raise AssertionError("it has no text for that")
""", tmp_path)
