"""tools/side_by_side.py: which tools are run for all tables."""

from pathlib import Path

import pytest

from tests.tree import ROOT, tool


@pytest.mark.parametrize("done", [(), ("calls",), ("calls", "compile", "rows")])
def test_every_table_is_measured_once(done: tuple[str, ...], tmp_path: Path) -> None:
    """Calls and compile times are not measured again; arrays go on, as their tool knows how."""
    for name in done:
        (tmp_path / f"{name}.json").touch()
    found = dict(tool("side_by_side").commands(ROOT, tmp_path, 1000))
    wanted = {"calls", "compile", "pointwise", "rows", "others"} - ({*done} - {"rows"})
    assert {path.stem for path in found} == wanted
    for record, command in found.items():
        assert Path(command[0]).is_file()
        assert command[1] == str(record)
        assert command[command.index("--baseline") + 1] == str(ROOT)
    budgets = [float(c[c.index("--budget-s") + 1]) for c in found.values() if "--set" in c]
    assert sum(budgets) == pytest.approx(1000, abs=2)
