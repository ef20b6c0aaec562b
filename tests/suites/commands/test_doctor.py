"""What the doctor says: every runner, every optional package, each with what to do."""

import pytest

from fuser.suites.commands import doctor
from fuser.suites.commands.doctor import findings


def test_every_runner_is_named() -> None:
    """Present or absent."""
    subjects = {subject for subject, _, _ in findings()}
    assert {"noise", "counters", "OpenMP", "accelerator"} <= subjects
    assert {"processor", "clock", "runner eager", "runner fused", "pytest_benchmark"} <= subjects


def test_nothing_is_said_without_words() -> None:
    """What is there is said too, with its version where it has one."""
    rows = list(findings())
    assert all(text.strip() for _, _, text in rows)
    assert all(state in ("ok", "absent", "doubtful") for _, state, _ in rows)
    (pandas,) = [text for subject, _, text in rows if subject == "pandas"]
    assert pandas[0].isdigit()


def test_what_is_absent_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the name of the package."""
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    rich = next(row for row in findings() if row[0] == "rich")
    assert rich[1] == "absent"
    assert "pip install rich" in rich[2]
