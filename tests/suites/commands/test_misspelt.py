"""Wherever the command takes a name, a misspelt one is refused with what is near it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from fuser.reports.record import RecordError, load, save
from fuser.suites.commands import cli
from tests.reports import synthetic

MINE = """
import numpy as np
from fuser.suites.workload import Workload, normals

DAMPED = Workload("damped", "mine", "a damped wave", np.exp, normals(1))
"""


@pytest.mark.parametrize(
    ("arguments", "near"),
    [
        ("rnu", "run"),
        ("run --procesess 3", "--processes"),
        ("run --preset qiuck", "near it: quick"),
        ("run gelu_bais", "near it: gelu_bias"),
        ("run axpy-flaot32", "near it: float32"),
        ("run softmax --axis hiden=64", "near it: hidden"),
        ("run softmax-float32-S-hiden64", "near it: hidden"),
        ("run axpy --variants eager,fusde", "near it: fused"),
        ("run mine:DAMPD", "near it: DAMPED"),
        ("run mien:DAMPED", "near it: mine"),
        ("run axpy --against bench-results/run-on", "near it: run-one"),
        ("run axpy --resume run-on", "near it: run-one"),
        ("run axpy --baseline elsewhre", "near it: elsewhere"),
        ("report run-on", "near it: run-one"),
        ("report recorded/epcy.json", "near it: epyc.json"),
        ("compare run-one run-on", "near it: run-one"),
        ("history bench-results/run-on", "near it: run-one"),
        ("history bench-results recorded --since cafd", "near it: cafe"),
        ("side-by-side elsewhre folder", "near it: elsewhere"),
        ("side-by-side elsewhere folder --preset cals", "near it: calls"),
        ("tune gelu_bais", "near it: gelu_bias"),
        ("tune --preset qiuck", "near it: quick"),
        ("tune gelu_bias --constant CHUNK_BYTES --value 8", "near it: SCAN_BYTES, CHUNK_NS"),
        ("cache claer", "clear"),
    ],
)
def test_what_is_near_is_said(
    arguments: str, near: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands, options, presets, workloads, dtypes, axes, runners, runs, paths, constants."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    made = synthetic.record(workloads=synthetic.WORKLOADS[:1], blocks=3)
    save(made, tmp_path / "bench-results" / "run-one" / "record.json")
    save(replace(made, run_id="epyc", commit="cafe"), tmp_path / "recorded" / "epyc.json")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "mine.py").write_text(MINE, encoding="utf-8")
    done = CliRunner().invoke(cli.main, arguments.split())
    assert done.exit_code == 2, done.output
    said = " ".join(done.output.split())
    assert near in said


def test_misspelt_fields_of_a_record_are_told(tmp_path: Path) -> None:
    """A field that is lacking beside one of a like name; a word that is none of those it may be."""
    made = synthetic.record(workloads=synthetic.WORKLOADS[:1], blocks=3)
    text = save(made, tmp_path / "record.json").read_text(encoding="utf-8")
    for wrong, near in (
        (text.replace('"machine":', '"machnie":', 1), "near it: machnie"),
        (text.replace('"status": "ok"', '"status": "okk"', 1), "near it: ok"),
    ):
        json.loads(wrong)
        (tmp_path / "record.json").write_text(wrong, encoding="utf-8")
        with pytest.raises(RecordError, match=near):
            load(tmp_path / "record.json")
