"""The tool that times large arrays: one small cell, every runner in a process of its own."""

import json
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from fuser.reports import side_by_side, throughput
from fuser.suites.checks.verify import flatten
from fuser.suites.families import elementwise
from fuser.suites.registry import resolve
from tests.tree import ROOT

PROCESSOR = Path("/proc/cpuinfo")
AVX512 = PROCESSOR.exists() and "avx512dq" in PROCESSOR.read_text(encoding="utf-8")
TOOL = ROOT / "tools" / "throughput.py"


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc for the ceilings")
def test_one_cell_is_measured_once(tmp_path: Path) -> None:
    """Times of every form, verified, with the C loop beside them; a second run adds nothing."""
    record = tmp_path / "record.json"
    command = [
        sys.executable, str(TOOL), str(record), "--workloads", "gelu_bias", "--sizes", "16384",
        "--peers", "eager", "--budget-s", "60",
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    found = json.loads(record.read_text(encoding="utf-8"))
    assert set(found["cells"]) == {"gelu_bias-float32-16384", "gelu_bias-float64-16384"}
    for cell in found["cells"].values():
        memory = cell["rows"]["memory"]
        assert set(memory["seconds"]) == set(memory["bytes"]) == {"copy", "triad", "read"}
        counts = {len(cell["rows"][name]["seconds"]["fresh"]) for name in ("fused", "c")}
        assert counts == {len(memory["seconds"]["copy"])}
        for name, forms in (("fused", {"fresh", "into"}), ("c", {"fresh"})):
            assert set(cell["rows"][name]["seconds"]) == forms, cell["rows"][name]
        assert "seconds" in cell["rows"]["eager"]
    assert "2 of 2 cells have a ratio." in throughput.page(found)
    before = found["cells"]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    assert json.loads(record.read_text(encoding="utf-8"))["cells"] == before


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc for the ceilings")
def test_a_cell_of_rows_has_further_sizes(tmp_path: Path) -> None:
    """The set of reductions names a row's length in its cells, and the page's title is its own."""
    record = tmp_path / "record.json"
    command = [
        sys.executable, str(TOOL), str(record), "--set", "rows", "--workloads", "row_mean",
        "--sizes", "262144", "--peers", "eager", "--budget-s", "240",
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    found = json.loads(record.read_text(encoding="utf-8"))
    assert set(found["cells"]) == {
        f"row_mean-{dtype}-262144-hidden64" for dtype in ("float32", "float64")
    }
    assert all("seconds" in cell["rows"]["c"] for cell in found["cells"].values())
    page = throughput.page(found)
    assert page.startswith("# Reductions and normalisations")
    assert "| 262,144, hidden 64 |" in page


def test_a_baseline_is_timed_beside_ours(tmp_path: Path) -> None:
    """Another checkout's fuser, in the same rounds, without peers or ceilings; their own page."""
    record = tmp_path / "record.json"
    command = [
        sys.executable, str(TOOL), str(record), "--workloads", "axpy", "--sizes", "16384",
        "--baseline", str(ROOT), "--peers", "baseline", "--budget-s", "60",
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    found = json.loads(record.read_text(encoding="utf-8"))
    for cell in found["cells"].values():
        assert cell["rows"].keys() == {"fused", "baseline"}
        ours, theirs = (cell["rows"][name]["seconds"] for name in ("fused", "baseline"))
        for form in ("fresh", "into"):
            assert len(ours[form]) == len(theirs[form]) > 1
    cells = side_by_side.table(found).cells
    assert {cell.name for cell in cells} == {
        f"axpy-{dtype}-16384 {form}" for dtype in ("float32", "float64")
        for form in ("fresh", "into")
    }  # fmt: skip
    assert "no peer was measured" in throughput.page(found)


@pytest.mark.parametrize("arguments", [["--peers", "baseline"], ["--baseline", "nowhere"]])
def test_a_baseline_is_a_checkout(arguments: list[str], tmp_path: Path) -> None:
    """What is missing is said before anything is measured."""
    command = [sys.executable, str(TOOL), str(tmp_path / "record.json"), *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 2
    assert "--baseline" in done.stderr


def test_a_process_that_spins_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next runner begins when no thread of the last one runs any more, or after a while."""
    monkeypatch.syspath_prepend(str(TOOL.parent))
    tool = import_module("throughput")
    now_s, spins_s = 0.0, 0.0

    def sleep(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds

    monkeypatch.setattr(tool, "time", SimpleNamespace(sleep=sleep, monotonic=lambda: now_s))
    monkeypatch.setattr(tool, "_runs", lambda pid: now_s < spins_s)
    client = object.__new__(tool.Client)
    client.process = SimpleNamespace(pid=0)
    for spins_s, waits_s in ((0.0, 0.003), (0.0081, 0.009), (9.0, 0.2)):  # noqa: B007 - read above
        now_s = 0.0
        client.settle()
        assert now_s == pytest.approx(waits_s, abs=0.0011), waits_s


def test_states_of_threads_say_whether_a_process_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One running thread is enough, whatever its name; a process that has ended runs no more."""
    monkeypatch.syspath_prepend(str(TOOL.parent))
    tool = import_module("throughput")
    assert not tool._runs(7, tmp_path)
    for thread, stat in ((7, "7 (python) S 1 7"), (8, "8 (a) R (b) S 1 7")):
        place = tmp_path / "7" / "task" / str(thread) / "stat"
        place.parent.mkdir(parents=True)
        place.write_text(stat, encoding="utf-8")
    assert not tool._runs(7, tmp_path)
    place.write_text("8 (a) S (b) R 1 7", encoding="utf-8")
    assert tool._runs(7, tmp_path)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_rows_in_c_give_the_workloads_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every formula that is written by hand, on rows that leave vectors a remainder."""
    monkeypatch.syspath_prepend(str(TOOL.parent))
    runner, written = import_module("throughput_c").CRunner(), import_module("throughput_c_rows")
    for name in sorted(written.WRITTEN - (set() if AVX512 else set(written.vectors.BODIES))):
        work = resolve(name)
        for length in (67, 1021):
            axes = tuple((axis, length) for axis in work.axes)
            given = work.inputs(19 * length, "float64", 0, axes)
            call = runner.prepare(work.function, given)
            found, expected = call(*call.bind(given)), work.function(*given)
            for ours, right in zip(flatten(found), flatten(expected), strict=True):
                np.testing.assert_allclose(ours, right, rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.skipif(shutil.which("gcc") is None or not AVX512, reason="needs gcc and AVX-512")
def test_extremes_in_c_follow_numpys_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """NaN wherever it stands, infinities, zeros of both signs, the first of equal elements."""
    monkeypatch.syspath_prepend(str(TOOL.parent))
    runner = import_module("throughput_c").CRunner()
    generator = np.random.default_rng(3)
    for name in ("row_range", "row_argmax", "value_range"):
        function = resolve(name).function
        for dtype in ("float32", "float64"):
            call = runner.prepare(function, (np.ones((1, 1), dtype),))
            for length in (1, 5, 64, 67, 300, 1021):
                rows = generator.integers(-3, 4, (37, length)).astype(dtype)
                rows[1::3, generator.integers(length)] = np.nan
                rows[2::3, generator.integers(length)] = np.inf
                rows[5::7, -1] = -np.inf
                for matrix in (rows, rows[::3].copy()):
                    given = (matrix.ravel() if name == "value_range" else matrix,)
                    found, expected = call(*call.bind(given)), function(*given)
                    for ours, right in zip(flatten(found), flatten(expected), strict=True):
                        np.testing.assert_array_equal(ours, right, f"{name} {dtype} {length}")


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_views_in_c_give_the_workloads_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """Transposed and strided operands: every tile, at once or packed, sides of any remainder."""
    monkeypatch.syspath_prepend(str(TOOL.parent))
    c, views = import_module("throughput_c"), import_module("throughput_c_views")
    for name, dtype in (("transposed", "float32"), ("transposed", "float64"), ("strided", "int64")):
        function, call = resolve(name).function, None
        for side in (64, 83, 150):
            shape = (2 * side * side,) if name == "strided" else (side, side)
            given = [np.arange(side * side * 2, dtype=dtype)[: np.prod(shape)] for _ in range(2)]
            given = [each[::2] if name == "strided" else each.reshape(shape) for each in given]
            call = call or c.CRunner().prepare(function, given)
            bound = call.bind(given)
            for form in views.forms_of(given[0].ndim):
                call.keep[1][...] = 77
                call(*bound[:2], *map(c.ctypes.c_int64, form), *bound[6:])
                np.testing.assert_array_equal(call.keep[1], function(*given), str((name, form)))
    with pytest.raises(c.NotExpressibleError, match="strides of another kind"):
        call.bind([each[::3] for each in given])


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_the_ceiling_goes_over_as_much_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copy, triad and read each touch the bytes that a call touches, whatever their arrays."""
    monkeypatch.syspath_prepend(str(TOOL.parent))
    passes = import_module("throughput_c").Memory().passes(1 << 20)
    assert set(passes) == {"copy", "triad", "read"}
    for call, moved in passes.values():
        call()
        assert (1 << 20) - 192 <= moved <= 1 << 20


def test_loops_for_numba_give_the_workloads_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """As plain Python, on few elements, with what is left over of eight; sets name workloads."""
    monkeypatch.syspath_prepend(str(TOOL.parent))
    loops, sets = import_module("throughput_loops"), import_module("throughput_sets")
    for name, shapes in sets.SETS["rows"].shapes.items():
        work = resolve(name)
        axes = tuple((axis, 19) for axis, _ in shapes[0][1])
        given = work.inputs(19 * 8, "float64", 0, axes)
        found, expected = loops.LOOPS[name](*given), work.function(*given)
        for ours, right in zip(flatten(found), flatten(expected), strict=True):
            np.testing.assert_allclose(ours, right, rtol=1e-9, atol=1e-12, err_msg=name)
    cells = sets.SETS["pointwise"].cells(["axpy"], [64])
    assert [cell.key for cell in cells] == ["axpy-float32-64", "axpy-float64-64"]
    lengths = {dict(cell.axes).get("hidden", 64) for cell in sets.SETS["rows"].cells()}
    assert {64, 257, 1023, 4096, 16385, 65536} <= lengths


def test_further_workloads_are_of_no_other_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is known, and measured at two sizes; the page holds them against no ceiling."""
    monkeypatch.syspath_prepend(str(TOOL.parent))
    sets = import_module("throughput_sets").SETS
    further = sets["others"].shapes
    assert not further.keys() & (sets["pointwise"].shapes.keys() | sets["rows"].shapes.keys())
    assert len(sets["others"].cells()) == 4 * len(further)
    cells = pd.DataFrame({"ratio": [2.0], "into_ratio": [2.0], "output_bytes": [8], "high": [2.1]})
    assert not [line for line in throughput.summary(cells, None) if "ceiling" in line]


def test_a_server_that_does_not_answer_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that takes too long has a reason for an answer; the next one a new process."""
    monkeypatch.syspath_prepend(str(TOOL.parent))
    tool = import_module(TOOL.stem)
    server = tmp_path / "server.py"
    server.write_text(
        "import sys, time\n"
        "print('{}', flush=True)\n"
        "for line in sys.stdin:\n"
        "    time.sleep(60 * ('prepare' in line))\n"
        "    print('{\"answer\": 1}', flush=True)\n",
        encoding="utf-8",
    )
    monkeypatch.setattr(tool, "SERVER", server)
    client = tool.Client("slow", sys.executable, 0.5)
    first = client.process
    assert client.ask("prepare") == {"reason": tool.LATE}
    assert first.poll() is not None
    monkeypatch.setattr(client, "_timeout_s", 20.0)
    assert client.ask("time") == {"answer": 1}
    client.stop()


def test_arrays_with_gaps_are_converted_within_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only those: what lies together is converted once, beforehand."""
    monkeypatch.syspath_prepend(str(TOOL.parent))
    server = import_module("throughput_server")

    class Copying:
        """Takes copies, as a runner with arrays of its own does."""

        copies = 0

        def accept(self, arguments: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
            self.copies += len(arguments)
            return tuple(each.copy() for each in arguments)

    runner, arguments = Copying(), (np.arange(8.0)[::2], np.ones(4))
    accepted = runner.accept(arguments)
    call, given = server._converting(runner, np.add, arguments, accepted)
    assert call(*given).tolist() == [1, 3, 5, 7]
    assert call(*given).tolist() == [1, 3, 5, 7]
    assert runner.copies == 4
    assert given[0] is arguments[0]
    assert given[1] is accepted[1]
    whole = (np.ones(3), np.ones(3))
    assert server._converting(runner, np.add, whole, whole) == (np.add, whole)


def test_reasons_name_no_folder_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths begin in the checkout; a record is read on others."""
    monkeypatch.syspath_prepend(str(TOOL.parent))
    server = import_module("throughput_server")
    found = server.without_folder(f"sizes do not match on {ROOT / 'suites' / 'worker.py'} (3)")
    assert found == f"sizes do not match on {Path('suites', 'worker.py')} (3)"


def test_workloads_of_no_set_are_measured_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """By name, at the sizes that are asked for or at those of the pointwise set."""
    monkeypatch.syspath_prepend(str(TOOL.parent))
    sets = import_module("throughput_sets")
    name = "fuser.suites.families.elementwise:axpy_of_mine"
    monkeypatch.setattr(sets, "resolve", lambda wanted: elementwise.WORKLOADS[0])
    found = sets.SETS["pointwise"].cells([name], [64, 128])
    assert {cell.elements for cell in found} == {64, 128}
    assert {cell.workload for cell in found} == {name}
    assert len(sets.SETS["rows"].cells([name])) == 2 * len(sets.SIZES)


def test_rounds_have_their_arrays_in_other_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same values, gaps and directions; views of one array are views of one copy of it."""
    monkeypatch.syspath_prepend(str(TOOL.parent))
    elsewhere = import_module("throughput_server").elsewhere
    rows = np.arange(24.0).reshape(4, 6)
    columns = np.asfortranarray(rows)
    arrays = (
        rows[1:, ::2], rows[::-1], rows, columns, columns[1:3], np.broadcast_to(rows[0], (3, 6)),
        np.array(5.0), np.zeros((0, 3)), np.frombuffer(b"12345678", np.int32)[1:],
    )  # fmt: skip
    found = elsewhere((*arrays, 3.0))
    assert found[-1] == 3.0
    for moved, array in zip(found, arrays, strict=False):
        np.testing.assert_array_equal(moved, array)
        assert moved.strides == array.strides
        assert not np.shares_memory(moved, array)
    assert np.shares_memory(found[0], found[1])


def test_a_server_times_arrays_that_lie_elsewhere(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each form of a call has them: in new arrays and into arrays that are there."""
    monkeypatch.syspath_prepend(str(TOOL.parent))
    server = import_module("throughput_server").Server("eager")
    prepared = server.prepare("axpy", "float32", 4096, str(tmp_path))
    before = server.arguments
    times = server.time(prepared["calls"], anew=True)
    assert set(times) == {"fresh", "into"}
    arrays = [each for each in server.arguments if isinstance(each, np.ndarray)]
    assert arrays
    assert not any(np.shares_memory(each, other) for each in arrays for other in before)
    for call, given in server.forms.values():
        assert all(new is old for new, old in zip(given, server.arguments, strict=True)), call
    server.drop()
    assert not server.arguments


def test_a_slow_first_call_does_not_make_short_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """How many calls make a sample, the fastest trial says: the first ones may have compiled."""
    monkeypatch.syspath_prepend(str(TOOL.parent))
    module = import_module("throughput_server")
    server = module.Server("eager")
    server.forms["fresh"] = (abs, (1,))
    trials: list[int] = []

    def took(each_s: list[float]) -> None:
        remaining = iter(each_s)
        trials.clear()

        def timed(_: object, __: object, calls: int) -> tuple[float, None]:
            trials.append(calls)
            return calls * next(remaining), None

        monkeypatch.setattr(module, "timed_calls", timed)

    took([2.0, 1e-5])
    assert server._calls("fresh", 3.0) == 1
    assert trials == [1], "a call that stays long is tried once more, not again and again"
    took([1e-5] * module.MOST_TRIALS)
    assert server._calls("fresh", 3.0) == 400
    took([0.1, *[1e-4] * module.MOST_TRIALS])
    assert server._calls("fresh", 3.0) == 40
