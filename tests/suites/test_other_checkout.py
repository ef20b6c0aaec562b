"""A worker whose fuser is that of another checkout."""

import subprocess
import sys
from pathlib import Path

from fuser.suites.children import child_environment
from tests.tree import ROOT

CODE = """
import sys
sys.path.insert(0, {folder!r})
import other_checkout
del sys.path[0]
other_checkout.use({checkout!r})
import fuser, fuser.suites.plan, fuser.reports.record
print(fuser.__file__, fuser.suites.plan.__file__, fuser.reports.record.__file__)
print(fuser.mark, hasattr(fuser.backends, "other"))
"""


def test_the_fuser_is_the_others_and_the_suites_are_ours(tmp_path: Path) -> None:
    """Whatever the other one has of suites and reports is not looked at."""
    for name in ("fuser", "backends", "suites"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("other = 1\n")
    (tmp_path / "fuser" / "__init__.py").write_text(
        "import os\nmark = 'old'\n__path__.append(os.path.dirname(os.path.dirname(__file__)))\n"
    )
    none = CODE.format(folder=str(ROOT / "suites"), checkout=str(tmp_path / "suites"))
    absent = subprocess.run([sys.executable, "-c", none], env=child_environment(),
                            capture_output=True, text=True, check=False)  # fmt: skip
    assert "no fuser in" in absent.stderr
    code = CODE.format(folder=str(ROOT / "suites"), checkout=str(tmp_path))
    found = subprocess.run(
        [sys.executable, "-c", code], env=child_environment(), capture_output=True, text=True,
        check=True,
    ).stdout  # fmt: skip
    assert f"{tmp_path}/fuser/__init__.py" in found
    assert f"{ROOT}/suites/plan.py" in found
    assert f"{ROOT}/reports/record.py" in found
    assert "old True" in found
