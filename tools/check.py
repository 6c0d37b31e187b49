"""Run the stages of `make test`, cheapest first, and print one table of what passed, what failed and what it took.

    python tools/check.py            everything but what is only run on demand
    python tools/check.py lint unit  only these groups (their names are in `stages`), with all that they have

Where everything is run, the compiled wheel and other Pythons are tried in a second lane beside the rest, if there is a
second core.

Rules: a failed stage does not stop the later ones, so that one run shows everything; a stage that finds no test
has failed; every skip is listed again at the end with its reason, and so is what failed stages have said last
(tools/last_words.py); what a stage puts into the temporary folder goes with it. Exit code 0 only if all stages passed.
With CI=true or NRI_NO_SKIP=1 a missing tool fails its tests instead of skipping them (tests/support/needs.py). The
other Pythons are no such tools: one that is not there is named in the table, and that is all.
"""

import io
import os
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.kubernetes import build as kubernetes  # noqa: E402
from tools import compiled, covered, last_words, pythons  # noqa: E402

BIN = Path(sys.executable).parent
# Folders of tests by stage. What is not named here is quick: a new folder is never left out by mistake.
LATER = {
    "docs": ("docs",),
    "checkers": ("checkers",),
    "packaging": ("packaging",),
    "interop": ("peers", "interop", "upstream", "differential"),
    "faults": ("faults",),
    "torture": ("torture",),
    "fuzz": ("fuzz",),
    "deploy": ("deploy",),
    "agent": ("agent", "proxy"),
    "engine": ("engine",),
    "real": ("real",),
    "kubelet": ("kubernetes",),
    "apiserver": ("apiserver",),
    "v2": ("guest",),
}
# Groups whose tests are run measured, in a guest, or beside others, and not just with pytest.
OTHERWISE = ("faults", "apiserver", "v2")
# Groups that are run only if asked for by name: building kubelet alone takes longer than all of CI may.
ON_DEMAND = ("kubelet",)
# Where system tools may be that are not on PATH.
SBIN = ("/usr/sbin", "/sbin")
# How tools/compiled.py says that it cannot.
CANNOT = 77
# Typed like the package, though not part of it.
TYPED = ("tools", "examples", "tests/support", "tests/conftest.py")


#: Tests of types, pages, parsers of files, packages, the command, the engine and others' programs: none is compiled.
NOT_COMPILED = (
    *("agent", "apiserver", "checkers", "docs", "fuzz", "packaging", "deploy", "engine", "guest", "kubernetes"),
    *("peers", "proxy"),
    *(f"unit/{name}" for name in ("agent", "cli", "config", "cri", "engine", "kube", "oci", "proxy", "support")),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Stage:
    """One command.

    Attributes:
        tests: it is pytest, whose report is read for the table.
        environment: added to ours.
        needs: what an earlier stage has to make; without it this one is left out.
        missing: why it cannot be run on this machine, which is no failure.
        on_demand: run only if its group is asked for by name.
        beside: run in a second lane, beside those before it, where everything is run and there is a core for it.
    """

    group: str
    name: str
    argv: tuple[str, ...]
    tests: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    needs: Path | None = None
    missing: str = ""
    on_demand: bool = False
    beside: bool = False


@dataclass(slots=True)
class Outcome:
    """What a stage came to; `said` is what to print again if it failed."""

    stage: Stage
    code: int = 0
    seconds: float = 0.0
    passed: int = 0
    failed: int = 0
    skips: Counter[str] = field(default_factory=Counter)
    note: str = ""
    said: list[str] = field(default_factory=list)


def tool(name: str, *arguments: str) -> tuple[str, ...]:
    """A command of this environment's bin folder."""
    return (str(BIN / name), *arguments)


def pytest_stage(group: str, *arguments: str) -> Stage:
    """A stage that runs pytest."""
    argv = (sys.executable, "-m", "pytest", "-q", *arguments)
    return Stage(group, group, argv, tests=True, on_demand=group in ON_DEMAND)


def measured(group: str, how: str, *arguments: str) -> Stage:
    """A stage that runs pytest and notes what that runs of the package, for the stage `covered` (tools/covered.py)."""
    return Stage(group, group, (sys.executable, "tools/covered.py", how, "-q", *arguments), tests=True)


def quick() -> tuple[str, ...]:
    """The unit tests and the rest of the quick suite as pytest's arguments."""
    return ("tests", *(f"--ignore=tests/{name}" for row in LATER.values() for name in row))


def stages() -> list[Stage]:
    """All stages, in order."""
    generators = sorted((ROOT / "tools").glob("generate_*.py"))
    rows = [
        Stage("lint", "ruff", tool("ruff", "check", "--quiet", ".")),
        Stage("lint", "import-linter", tool("lint-imports", "--no-logo")),
        Stage("lint", "mypy", tool("mypy", "--no-error-summary")),
        Stage("lint", "mypy tools", tool("mypy", "--no-error-summary", "--explicit-package-bases", *TYPED)),
        *(Stage("lint", path.stem, (sys.executable, str(path), "--check")) for path in generators),
        Stage("lint", "lock file", ("tools/lock.sh", "--check")),
        # Drawn and recorded cases by the thousand take several times as long if they are measured, and run what is run.
        measured("unit", "run", "tests/unit"),
        pytest_stage("quick", *quick(), "--ignore=tests/unit"),
    ]
    sphinx = (sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "docs", "docs/_build/html")
    rows.append(Stage("docs", "sphinx", sphinx))
    rows.append(Stage("kubelet", "kubelet build", (sys.executable, "-m", "tests.kubernetes.build"), on_demand=True))
    rows += [
        pytest_stage(group, *(f"tests/{name}" for name in row))
        for group, row in LATER.items()
        if group not in OTHERWISE
    ]
    guest = (sys.executable, "-m", "tests.guest")
    rows.append(Stage("v2", "v2", guest, tests=True))
    rows.append(Stage("v2", "v2 long", (*guest, "--rest"), tests=True, on_demand=True))
    rows.append(measured("faults", "add", "tests/faults"))
    rows.append(Stage("covered", "covered", (sys.executable, "tools/covered.py"), needs=covered.FOLDER))
    return [*rows, *compiled_stages(), *python_stages(), *apiserver_stages()]


def compiled_stages() -> list[Stage]:
    """The same tests against the compiled wheel, but for those of what is not compiled, or not this package's."""
    left_out = (f"--ignore=tests/{name}" for name in NOT_COMPILED)
    tests = (sys.executable, "-m", "pytest", "-q", "-m", "not pure", "tests", *left_out)
    folder = compiled.FOLDER
    return [
        Stage("compiled", "compile", (sys.executable, "tools/compiled.py"), beside=True),
        Stage(
            "compiled", "compiled", tests,
            tests=True, environment={"PYTHONPATH": str(folder)}, needs=folder, beside=True,
        ),
    ]  # fmt: skip


def apiserver_stages() -> list[Stage]:
    """A released kube-apiserver is built, and gets the manifests and charts: last in the lane, for it takes minutes."""
    argv = (sys.executable, "-m", "pytest", "-q", "tests/apiserver")
    programs = ("kube-apiserver", "kubectl")
    made = kubernetes.installed(programs[-1])
    return [
        Stage("apiserver", "apiserver made", (sys.executable, "-m", "tests.kubernetes.build", *programs), beside=True),
        Stage("apiserver", "apiserver", argv, tests=True, needs=made, beside=True),
    ]


def python_stages() -> list[Stage]:
    """The suites that show whether another Python does: the quick one on the newest, all on all if asked for."""
    suites = {"quick": quick(), "faults": ("tests/faults",), "packaging": ("tests/packaging",)}
    rows = []
    there = [version for version in pythons.others() if pythons.find(version) is not None]
    for version in pythons.others():
        if version not in there:
            rows.append(Stage("pythons", version, (), missing=f"no Python {version} on this machine"))
            continue
        python = pythons.place(version)
        newest = version == there[-1]
        made = (sys.executable, "tools/pythons.py", version)
        rows.append(Stage("pythons", f"{version} made", made, on_demand=not newest, beside=True))
        for name, arguments in suites.items():
            argv = (str(python), "-m", "pytest", "-q", *arguments)
            path = os.pathsep.join([str(python.parent), os.environ.get("PATH", os.defpath), *SBIN])
            rows.append(
                Stage(
                    "pythons", f"{version} {name}", argv,
                    tests=True, environment={"PATH": path}, needs=python, on_demand=not newest or name != "quick",
                    beside=True,
                )
            )  # fmt: skip
    return rows


def run(stage: Stage, output: TextIO | None = None) -> Outcome:
    """Run one stage with its output on ours, or on `output`."""
    if stage.missing:
        return Outcome(stage, skips=Counter([stage.missing]))
    out = output or sys.stdout
    print(f"\n=== {stage.name}: {' '.join(stage.argv).replace(str(BIN), '.venv/bin')}", file=out, flush=True)
    outcome = Outcome(stage)
    start = time.monotonic()
    # A short name: sockets lie below it, and their paths must fit into 107 bytes.
    with tempfile.TemporaryDirectory(prefix="nri-c-") as folder:
        report = Path(folder, "report.xml")
        extra = (f"--junit-xml={report}", f"--basetemp={folder}/t") if stage.tests else ()
        environment = {**os.environ, "TMPDIR": folder, **stage.environment}
        outcome.code, outcome.said = last_words.run(stage.argv + extra, cwd=ROOT, environment=environment, output=out)
        if outcome.code == CANNOT and not any(os.environ.get(name) for name in ("CI", "NRI_NO_SKIP")):
            outcome.code, outcome.skips = 0, Counter(["this machine cannot build it, see above"])
        if report.exists():
            read_report(report, outcome)
    outcome.seconds = time.monotonic() - start
    if stage.tests and not outcome.code and not outcome.passed and not outcome.skips:
        outcome.code, outcome.note = 5, "no test was run"
    return outcome


def is_due(stage: Stage) -> bool:
    """Whether what the stage needs is there; if not, the stage that makes it has said why."""
    return stage.needs is None or stage.needs.exists()


def run_all(rows: Iterable[Stage], outcomes: list[Outcome]) -> None:
    """Run stages one after the other, and note what each came to."""
    outcomes.extend(run(row) for row in rows if is_due(row))


class Lane(threading.Thread):
    """Runs stages beside the others; the output of each is printed in one piece, at its end."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        super().__init__(daemon=True)
        self._stages = stages
        self.outcomes: list[Outcome] = []

    def run(self) -> None:
        """Run them in order."""
        for stage in self._stages:
            if is_due(stage):
                output = io.StringIO()
                try:
                    self.outcomes.append(run(stage, output))
                except Exception as error:  # noqa: BLE001 - what ends a thread fails nothing by itself
                    self.outcomes.append(Outcome(stage, code=1, note=repr(error)))
                print(output.getvalue(), end="", flush=True)


def read_report(report: Path, outcome: Outcome) -> None:
    """Count the cases of pytest's XML report, and keep the reason of every skip."""
    for case in ET.parse(report).iter("testcase"):
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            outcome.failed += 1
        elif skipped is None:
            outcome.passed += 1
        else:
            outcome.skips[skipped.get("message") or "no reason given"] += 1


def print_table(outcomes: list[Outcome]) -> None:
    """The end of the run: stages, skips with reasons, why stages failed, and the sum in one line."""
    print(f"\n{'stage':<16}{'result':<8}{'seconds':>8}{'passed':>8}{'failed':>8}{'skipped':>8}")
    for row in outcomes:
        counts = (row.passed, row.failed, row.skips.total()) if row.stage.tests or row.skips else ("", "", "")
        result = "FAILED" if row.code else "skipped" if row.stage.missing else "ok"
        line = f"{row.stage.name:<16}{result:<8}{row.seconds:>8.1f}{counts[0]:>8}{counts[1]:>8}{counts[2]:>8}"
        print(f"{line}  {row.note}".rstrip())
    for row in outcomes:
        for reason, count in row.skips.most_common():
            print(f"skipped in {row.stage.name}: {count} x {reason}")
    broken = [row for row in outcomes if row.code]
    for row in broken:
        if row.said:
            print(f"{row.stage.name} failed:", *row.said, sep="\n  ")
    # A stage without tests counts as one failure, so that the sum is never "0 failed" after a failed run.
    failed = sum(max(row.failed, 1) for row in broken)
    skipped = sum(row.skips.total() for row in outcomes)
    print(f"{sum(row.passed for row in outcomes)} passed, {failed} failed, {skipped} skipped")


def main(arguments: list[str]) -> int:
    """Run the stages of the given groups, or all."""
    rows = stages()
    unknown = set(arguments) - {row.group for row in rows}
    if unknown:
        groups = ", ".join(dict.fromkeys(row.group for row in rows))
        print(f"check: error: no stage {', '.join(sorted(unknown))}; there are {groups}", file=sys.stderr)
        return 2
    os.environ["PATH"] = os.pathsep.join([str(BIN), os.environ.get("PATH", os.defpath), *SBIN])
    wanted = [row for row in rows if (row.group in arguments if arguments else not row.on_demand)]
    beside = [] if arguments or (os.cpu_count() or 1) == 1 else [row for row in wanted if row.beside]
    lane = Lane(beside)
    interrupted = False
    outcomes: list[Outcome] = []
    try:
        lane.start()
        run_all((row for row in wanted if row not in beside), outcomes)
        lane.join()
    except KeyboardInterrupt:
        interrupted = True
    print_table([*outcomes, *lane.outcomes])
    outcomes += lane.outcomes
    return 130 if interrupted else int(any(row.code for row in outcomes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
