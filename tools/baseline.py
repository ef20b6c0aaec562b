"""What a checkout makes of all programs of suites and tests: recorded once, compared ever after.

    python tools/baseline.py compare                     # this checkout against the record
    python tools/baseline.py record --checkout DIR       # a new record, of another checkout
    python tools/baseline.py gather --checkout DIR       # the tests' programs, before a new record

A folder, `reports/recorded/baseline` by default, holds the programs: every graph that the tests of
the baseline have compiled, as its text, with the layouts of arrays that it was called with. They
are run again by whichever checkout is looked at, whatever has become of its tests. So is every
workload of the suites, at its dtypes, sizes and further axes, fused and unfused. The record has,
for each, the digest of the plan, kernels and bytes planned, the digests of the texts of all
kernels, of the text for a GPU, and of the results' bits.

Texts are those for one stated processor (`--target`), whatever the machine has, so any machine may
compare them. Names of kernels are left out of texts. Results are compared where NumPy and the C
library are the record's. `compare` ends with 1 where something is not as it was recorded; what was
not recorded is counted only.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import platform
import queue
import re
import select
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "reports" / "recorded" / "baseline"
RUNNER = Path(__file__).with_name("baseline_programs.py")
TARGETS = ("avx2", "avx512", "baseline")
LATE_S = 300.0
"""A program that takes longer is ended, and its entry says so."""
ENDED = "its process has ended"
SHOWN = 12
"""Names that are listed of one kind of change."""
RESULTS = ("numpy", "libc", "architecture")
"""What bits of results depend on, beside the fuser and the target."""

Entry = Mapping[str, Any]


class Checkout:
    """Starts processes that import the fuser of one checkout."""

    def __init__(self, folder: Path, kept: str) -> None:
        """Keep caches of machine code, bytecode and tests in a folder that will be gone."""
        self.folder = folder.resolve()
        self.environment = {
            **os.environ, "PYTHONPATH": f"{self.folder}{os.pathsep}{RUNNER.parent}",
            "FUSER_NUM_THREADS": "2", "XDG_CACHE_HOME": kept, "PYTHONDONTWRITEBYTECODE": "1",
            "HYPOTHESIS_STORAGE_DIRECTORY": kept,
        }  # fmt: skip

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """A process that runs programs."""
        return subprocess.Popen(
            [sys.executable, str(RUNNER), *arguments], stdin=subprocess.PIPE, text=True,
            stdout=subprocess.PIPE, cwd=self.folder, env=self.environment,
        )  # fmt: skip

    def commit(self) -> str:
        """The commit that is checked out, with a mark where files differ from it."""
        command = ["git", "-C", str(self.folder), "describe", "--always", "--dirty", "--abbrev=40"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.stdout.strip() or "no checkout of git"

    def gather(self, tests: Sequence[str]) -> list[dict[str, Any]]:
        """Every program that the tests compile, sorted; a program's first test stands with it."""
        found: dict[tuple[Any, ...], dict[str, Any]] = {}
        with tempfile.TemporaryDirectory(prefix="baseline-") as folder:
            environment = {**self.environment, "BASELINE_PROGRAMS": f"{folder}/programs"}
            command = [sys.executable, "-m", "pytest", "-q", "-p", "baseline_programs"]
            command += ["-p", "no:cacheprovider", *tests]
            subprocess.run(command, cwd=self.folder, env=environment, check=False)
            for part in sorted(Path(folder).iterdir()):
                for program in map(json.loads, part.read_text(encoding="utf-8").splitlines()):
                    found.setdefault(identity(program), program)
        return [found[key] for key in sorted(found)]


def identity(program: Entry) -> tuple[Any, ...]:
    """What tells programs apart: text and options."""
    return tuple(program[name] for name in ("graph", "mode", "fastmath", "checked"))


def name_of(program: Entry) -> str:
    """An entry's key in the record: a workload's name, or the digest of a program."""
    if "id" in program:
        return str(program["id"])
    return sha256(json.dumps(identity(program)).encode()).hexdigest()[:12]


class Worker:
    """One process that answers lines; started again where it has ended."""

    def __init__(self, start: Callable[[], subprocess.Popen[str]]) -> None:
        """Start it, and read what it says of itself."""
        self._start, self.process = start, start()
        self.about = self._read()

    def ask(self, request: Entry) -> dict[str, Any]:
        """What comes of a program."""
        if self.process.poll() is not None:
            self.process = self._start()
            self._read()
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return {"error": ENDED}
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], LATE_S)[0]:
            self.stop()
            return {"error": "it took too long"}
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            return {"error": ENDED}
        answer: dict[str, Any] = json.loads(line)
        return answer

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()


def look(
    checkout: Checkout, programs: Sequence[Entry], target: str, jobs: int
) -> dict[str, Any]:
    """The record of a checkout: what it is, and what comes of each program, by name."""
    workers: queue.SimpleQueue[Worker] = queue.SimpleQueue()
    made = [Worker(lambda: checkout.start(target)) for _ in range(jobs)]
    for worker in made:
        workers.put(worker)
    try:
        about = made[0].about
        if Path(about.pop("checkout", "/")) != checkout.folder:
            raise SystemExit(
                f"{checkout.folder} cannot be run ({about}): is it a checkout, and has the class "
                "Inside of baseline_programs.py followed what it asks for?"
            )
        done = 0

        def ask(program: Entry) -> dict[str, Any]:
            nonlocal done
            worker = workers.get()
            try:
                return worker.ask(program)
            finally:
                workers.put(worker)
                done += 1
                if done % 50 == 0:
                    print(f"\r{done}/{len(programs)}", end="", file=sys.stderr, flush=True)

        with ThreadPoolExecutor(jobs) as pool:
            answers = list(pool.map(ask, programs))
    finally:
        for worker in made:
            worker.stop()
    entries = dict(zip(map(name_of, programs), answers, strict=True))
    about |= {
        "commit": checkout.commit(), "numpy": version("numpy"), "libc": platform.libc_ver()[1],
        "architecture": platform.machine(),
    }  # fmt: skip
    return {"about": about, "entries": dict(sorted(entries.items()))}


def changes(old: Entry, new: Entry) -> Iterator[str]:
    """What differs between two entries of one program, in words."""
    if old.get("error") != new.get("error"):
        yield "errors that came" if "error" in new else "errors that went"
        return
    if old.get("plan") != new.get("plan"):
        yield "plans changed"
    for name, title in (("kernels", "kernels"), ("bytes", "planned bytes")):
        before, now = old.get(name), new.get(name)
        if before != now:
            more = before is None or (now is not None and now > before)
            yield f"more {title}" if more else f"fewer {title}"
    if _digests(old) != _digests(new):
        yield "texts changed"
    if old.get("gpu") != new.get("gpu"):
        yield "GPU texts changed"
    if old.get("results") != new.get("results"):
        yield "results changed"


def _digests(entry: Entry) -> set[str]:
    """The digests of an entry's texts, without the names that older records have before them."""
    return {text.rpartition(" ")[2] for text in entry.get("texts", ())}


def comparison(
    old: Mapping[str, Any], new: Mapping[str, Any], names: Mapping[str, str]
) -> tuple[list[str], bool]:
    """The lines that say what differs, counts first; and whether nothing does.

    Args:
        old: the record.
        new: what the other checkout gave.
        names: what a person is told of an entry.

    Raises:
        ValueError: the texts are for other targets.
    """
    before, now = old["about"], new["about"]
    if before["target"] != now["target"] or before["features"] != now["features"]:
        raise ValueError(
            f"the record has texts for {before['target']} ({before['features']}), these are for "
            f"{now['target']} ({now['features']}): texts for different processors always differ"
        )
    both = [name for name in old["entries"] if name in new["entries"]]
    found: dict[str, list[str]] = {}
    for name in both:
        for kind in changes(old["entries"][name], new["entries"][name]):
            found.setdefault(kind, []).append(name)
    others = [key for key in RESULTS if before.get(key) != now.get(key)]
    unknown = found.pop("results changed", []) if others else []
    for kind, there, here in (("only before", old, new), ("only now", new, old)):
        if missing := [name for name in there["entries"] if name not in here["entries"]]:
            found[kind] = missing
    texts = [_texts(record, both) for record in (old, new)]
    lines = [
        f"{before['commit'][:12]} against {now['commit'][:12].strip()}, texts for {now['target']}",
        f"{len(both):7} programs and workloads in both",
        f"{len(texts[0] & texts[1]):7} texts of kernels alike",
        f"{len(texts[0] - texts[1]):7} texts gone",
        f"{len(texts[1] - texts[0]):7} texts new",
        *(f"{len(members):7} {kind}" for kind, members in found.items()),
    ]
    if others:
        told = ", ".join(f"{key} {before.get(key)} and {now.get(key)}" for key in others)
        lines.append(f"results are not compared: {told} ({len(unknown)} differ)")
    for kind, members in found.items():
        lines += ["", f"{kind}:", *(f"  {names.get(name, name)}" for name in members[:SHOWN])]
        if len(members) > SHOWN:
            lines.append(f"  and {len(members) - SHOWN} more: {_by_file(members[SHOWN:], names)}")
    return lines, not found.keys() - {"only now"}


def _texts(record: Mapping[str, Any], names: Sequence[str]) -> set[tuple[str, str]]:
    """The texts of some entries: of each program, different ones."""
    return {(name, text) for name in names for text in _digests(record["entries"][name])}


def _by_file(members: Sequence[str], names: Mapping[str, str]) -> str:
    """How many of them are of which test file."""
    counted = Counter(names.get(name, "").partition("::")[0] or "suites" for name in members)
    return ", ".join(f"{count} {file}" for file, count in counted.most_common(SHOWN))


def read(path: Path) -> str:
    """A compressed text."""
    return lzma.decompress(path.read_bytes()).decode()


def write(path: Path, text: str) -> None:
    """Compress a text; the same text gives the same file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(lzma.compress(text.encode(), preset=9))


def asked(checkout: Checkout, folder: Path, only: str) -> tuple[list[Entry], dict[str, str]]:
    """The programs of a folder and the workloads of a checkout; and what each is called."""
    programs: list[Entry] = []
    if (path := folder / "programs.xz").exists():
        programs = [json.loads(line) for line in read(path).splitlines()]
    listed, _ = checkout.start("--cells").communicate()
    names = {}
    wanted = []
    for program in [*map(json.loads, listed.splitlines()), *programs]:
        name = name_of(program)
        told = f"{program['test']} {name} ({program['mode']})" if "test" in program else name
        if re.search(only, told):
            names[name] = told
            wanted.append(program)
    return wanted, names


def main(arguments: Sequence[str] | None = None) -> int:
    """Gather, record or compare, as the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("do", choices=("compare", "record", "gather"))
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER, help="of the record")
    parser.add_argument("--checkout", type=Path, default=ROOT, help="whose fuser is looked at")
    parser.add_argument("--target", choices=TARGETS, default=TARGETS[0])
    parser.add_argument(
        "--only", default="", help="a pattern of tests or workloads: the rest of a record is kept"
    )
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 1) // 2))
    parser.add_argument(
        "--tests", default="tests/fuser tests/backends", help="arguments of pytest; for gather"
    )
    chosen = parser.parse_args(arguments)
    path = chosen.folder / f"plans-{chosen.target}.xz"
    with tempfile.TemporaryDirectory(prefix="baseline-") as kept:
        checkout = Checkout(chosen.checkout, kept)
        if chosen.do == "gather":
            programs = checkout.gather(chosen.tests.split())
            lines = (json.dumps(program) + "\n" for program in programs)
            write(chosen.folder / "programs.xz", "".join(lines))
            print(f"{len(programs)} programs")
            return 0
        if chosen.do == "compare" and not path.exists():
            parser.error(f"{path} is not there: record it from a checkout of the baseline")
        wanted, names = asked(checkout, chosen.folder, chosen.only)
        new = look(checkout, wanted, chosen.target, chosen.jobs)
    if chosen.do == "record":
        if chosen.only and path.exists():
            kept_before = json.loads(read(path))
            if kept_before["about"] != new["about"]:
                parser.error(f"{path} is of another checkout or target: record all of it anew")
            new["entries"] = {**kept_before["entries"], **new["entries"]}
        write(path, json.dumps(new, sort_keys=True))
        print(f"{len(new['entries'])} programs and workloads recorded")
        return 0
    old = json.loads(read(path))
    if chosen.only:
        old["entries"] = {k: entry for k, entry in old["entries"].items() if k in names}
    told, same = comparison(old, new, names)
    print("\n".join(told))
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
