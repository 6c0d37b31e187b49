"""Check the project in stages, and print one table of what passed, what failed and what it took.

    python tools/check.py            `make test`: what needs minutes, and one real container
    python tools/check.py --ci       that, measured for coverage, and the real parts that guard most: what CI runs
    python tools/check.py --all      everything; goes on where it was interrupted, if nothing has changed
    python tools/check.py lint unit  only these groups (their names are in `stages`), with all that they have

Rules: on two cores two stages run at a time (tools/lanes.py). A failed test with real parts, processes or threads runs
once more, alone (tools/unsteady.py). Every skip is listed again at the end with its reason, and so is what failed
stages have said last (tools/last_words.py). Exit code 0 only if all stages passed. With CI=true or NRI_NO_SKIP=1 a
missing tool fails its tests instead of skipping them (tests/support/needs.py). The other Pythons are no such tools: one
that is not there is named in the table, and that is all.
"""

import os
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C says nothing while all else is loaded

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.kubernetes import build as kubernetes  # noqa: E402
from tools import compiled, covered, pythons, unsteady  # noqa: E402
from tools.lanes import Lanes, Outcome, Stage  # noqa: E402
from tools.passed import Passed  # noqa: E402

BIN = Path(sys.executable).parent
#: Each run has all that those before it have. What is only asked for is in none, but if its group is named.
LEVELS = ("test", "ci", "all", "asked")
RUNS = {"test": "make test", "ci": "CI", "all": "make test-all", "asked": "on demand"}
# Groups of tests that are just pytest on folders, beside the quick ones. Tests of what is not named here, nor in the
# stages below, are quick: a new folder is never left out by mistake.
FOLDERS = {
    "docs": ("docs",),
    "faults": ("faults",),
    "packaging": ("packaging",),
    "checkers": ("checkers",),
    "interop": ("peers", "interop", "differential"),
    "upstream": ("upstream",),
    "engine": ("engine",),
    "agent": ("agent", "proxy"),
    "fuzz": ("fuzz",),
    "torture": ("torture",),
    "deploy": ("deploy",),
    "kubelet": ("kubernetes",),
}
# Folders that a stage of its own runs, with words of its own.
BESIDES = ("real", "apiserver", "guest")
IN_CI = ("engine", "interop", "agent", "packaging", "checkers", "fuzz")
REAL = ("engine", "agent", "torture", "deploy", "kubelet")
#: The unit tests in parts that take about as long as each other; what is in none is one more.
UNIT_PARTS = {"proxy": ("proxy", "plugins"), "cli": ("cli",), "adaptation": ("adaptation",)}
#: Tests of the older containerds, for pytest -k.
OLDER = "1.7 or 2.1"
#: `nri`'s first command of the README, with a container on the engine.
CONTAINER = "tests/real/test_demo.py::test_it_shows_the_container_without_and_with_the_plugins_and_who_changed_what"
# Where system tools may be that are not on PATH.
SBIN = ("/usr/sbin", "/sbin")
# Typed like the package, though not part of it.
TYPED = ("tools", "examples", "tests/support", "tests/conftest.py", "bench/engine")
PYTEST = (sys.executable, "-m", "pytest", "-q")
MEASURED = (sys.executable, "tools/covered.py", "add", "-q")

#: Tests of types, pages, parsers of files, packages, the command, the engine and others' programs: none is compiled.
NOT_COMPILED = (
    *("agent", "apiserver", "checkers", "docs", "fuzz", "packaging", "deploy", "engine", "guest", "kubernetes"),
    *("peers", "proxy"),
    *(f"unit/{name}" for name in ("agent", "cli", "config", "cri", "engine", "kube", "oci", "proxy", "support")),
)  # fmt: skip


def tool(name: str, *arguments: str) -> tuple[str, ...]:
    """A command of this environment's bin folder."""
    return (str(BIN / name), *arguments)


def paths(*names: str) -> tuple[str, ...]:
    """Folders of tests as pytest's arguments."""
    return tuple(f"tests/{name}" for name in names)


def without(*names: str) -> tuple[str, ...]:
    """The same, to be left out."""
    return tuple(f"--ignore=tests/{name}" for name in names)


def unit_parts() -> dict[str, tuple[str, ...]]:
    """The unit tests as pytest's arguments, by the name of the part; the longest first."""
    named = [f"unit/{folder}" for row in UNIT_PARTS.values() for folder in row]
    parts = {f"unit {name}": paths(*(f"unit/{folder}" for folder in row)) for name, row in UNIT_PARTS.items()}
    return {"unit": ("tests/unit", *without(*named)), **parts}


def quick() -> tuple[str, ...]:
    """The unit tests, and drawn and recorded cases, as pytest's arguments."""
    return ("tests", *without(*(name for row in FOLDERS.values() for name in row), *BESIDES))


def cases() -> tuple[str, ...]:
    """The same without the unit tests."""
    return (*quick(), *without("unit"))


def stages() -> list[Stage]:
    """All stages, in order."""
    return [*lint_stages(), *quick_stages(), *real_stages(), *python_stages(), *compiled_stages(), *long_stages()]


def lint_stages() -> list[Stage]:
    """What needs no test to run."""
    generators = sorted((ROOT / "tools").glob("generate_*.py"))
    typed = tool("mypy", "--no-error-summary", "--explicit-package-bases", *TYPED)
    return [
        Stage("lint", "ruff", tool("ruff", "check", "--quiet", ".")),
        Stage("lint", "mypy", tool("mypy", "--no-error-summary")),
        Stage("lint", "import-linter", tool("lint-imports", "--no-logo")),
        *(Stage("lint", path.stem, (sys.executable, str(path), "--check")) for path in generators),
        Stage("lint", "lock file", ("tools/lock.sh", "--check")),
        Stage("lint", "mypy tools", typed, after=("mypy",)),  # both keep what they find in the same place
    ]


def quick_stages() -> list[Stage]:
    """Tests that need little but Python, one real container, and whether they run enough of each file."""
    sphinx = (sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "docs", "docs/_build/html")
    # Drawn and recorded cases by the thousand take several times as long if they are measured, and run what is run.
    rows = [
        *(Stage("unit", name, PYTEST, tests=row, measured=True) for name, row in unit_parts().items()),
        Stage("faults", "faults", PYTEST, tests=paths("faults"), measured=True),
        Stage("quick", "quick", PYTEST, tests=cases()),
        Stage("docs", "docs", PYTEST, tests=paths("docs")),
        Stage("docs", "sphinx", sphinx),
        Stage("container", "container", PYTEST, tests=(CONTAINER,), real=True),
    ]
    measured = tuple(row.name for row in rows if row.measured)
    report = (sys.executable, "tools/covered.py")
    return [*rows, Stage("covered", "covered", report, after=measured, needs=covered.FOLDER, since="ci")]


def folder_stage(group: str) -> Stage:
    """The tests of a group that is nothing but folders."""
    since = "ci" if group in IN_CI else "all"
    return Stage(group, group, PYTEST, tests=paths(*FOLDERS[group]), since=since, real=group in REAL)


def real_stages() -> list[Stage]:
    """Tests with real runtimes, peers and tools; those of other programs than containers beside them."""
    programs = ("kube-apiserver", "kubectl")
    build = (sys.executable, "-m", "tests.kubernetes.build")
    real = ("tests/real", "-k")
    return [
        folder_stage("engine"),
        folder_stage("interop"),
        Stage("real", "real", PYTEST, tests=(*real, f"not ({OLDER})"), since="ci", real=True),
        Stage("apiserver", "apiserver made", (*build, *programs), since="ci"),
        folder_stage("agent"),
        Stage(
            "apiserver", "apiserver", PYTEST, tests=paths("apiserver"), since="ci",
            after=("apiserver made",), needs=kubernetes.installed(programs[-1]),
        ),
        Stage("demo", "demo", ("make", "demo"), since="ci", real=True),
        *(folder_stage(group) for group in ("packaging", "fuzz", "checkers")),
        Stage("real", "real older", PYTEST, tests=(*real, OLDER), since="all", real=True),
        *(folder_stage(group) for group in ("upstream", "torture", "deploy")),
    ]  # fmt: skip


def compiled_stages() -> list[Stage]:
    """The same tests against the compiled wheel, but for those of what is not compiled, or not this package's."""
    peers, real = ("interop", "upstream", "differential", "faults", "torture"), ("real",)
    parts = {
        "unit": ("tests/unit", *without(*NOT_COMPILED)),
        "cases": ("tests", *without("unit", *peers, *real, *NOT_COMPILED)),
        "peers": paths(*peers),
        "real": paths(*real),
    }
    made = Stage("compiled", "compile", (sys.executable, "tools/compiled.py"), since="all")
    tests = replace(
        made, argv=(*PYTEST, "-m", "not pure"), environment={"PYTHONPATH": str(compiled.FOLDER)},
        after=(made.name,), needs=compiled.FOLDER,
    )  # fmt: skip
    return [
        made,
        *(replace(tests, name=f"compiled {name}", tests=row, real=name == "real") for name, row in parts.items()),
    ]


def python_stages() -> list[Stage]:
    """The suites that show whether another Python does: the quick one on the newest, all on all if asked for."""
    suites = {**unit_parts(), "quick": cases(), "faults": paths("faults"), "packaging": paths("packaging")}
    rows = []
    there = [version for version in pythons.others() if pythons.find(version) is not None]
    for version in pythons.others():
        if version not in there:
            missing = f"no Python {version} on this machine"
            rows.append(Stage("pythons", version, (), missing=missing, since="all"))
            continue
        python, newest = pythons.place(version), version == there[-1]
        made = Stage("pythons", f"{version} made", (sys.executable, "tools/pythons.py", version))
        path = os.pathsep.join([str(python.parent), os.environ.get("PATH", os.defpath), *SBIN])
        rows.append(replace(made, since="all" if newest else "asked"))
        rows += [
            Stage(
                "pythons", f"{version} {name}", (str(python), *PYTEST[1:]), tests=arguments,
                environment={"PATH": path}, after=(made.name,), needs=python,
                since="all" if newest and name not in ("faults", "packaging") else "asked",
            )
            for name, arguments in suites.items()
        ]  # fmt: skip
    return rows


def long_stages() -> list[Stage]:
    """What takes a machine of its own, a kubelet, or new inputs for as long as one likes."""
    guest = (sys.executable, "-m", "tests.guest")
    histories = {"NRI_HISTORIES": "100000"}
    order = paths("property/test_answer_order.py")
    return [
        Stage("v2", "v2", guest, tests=(), since="all", real=True),
        Stage("v2", "v2 long", guest, tests=("--rest",), since="asked", real=True),
        Stage("quick", "histories", PYTEST, tests=order, environment=histories, since="all"),
        Stage("fuzz", "fuzz with new inputs", (sys.executable, "-m", "tests.fuzz", "--minutes", "0.2"), since="all"),
        Stage("kubelet", "kubelet made", (sys.executable, "-m", "tests.kubernetes.build"), since="all"),
        replace(folder_stage("kubelet"), after=("kubelet made",), needs=kubernetes.installed("kubelet")),
    ]


def chosen(rows: Sequence[Stage], level: str, groups: Sequence[str]) -> list[Stage]:
    """The stages to run: those of the groups, or of the level; measured if that is asked for as well."""
    upto = LEVELS[: LEVELS.index(level) + 1]
    wanted = [row for row in rows if (row.group in groups if groups else row.since in upto)]
    if any(row.group == "covered" for row in wanted):
        return [replace(row, argv=MEASURED) if row.measured else row for row in wanted]
    return wanted


def run(wanted: Sequence[Stage], *, resume: bool) -> tuple[list[Outcome], bool]:
    """Run the stages but for those that have passed before; returns what each came to, and whether it was cut short."""
    passed = Passed()
    makers = {name for row in wanted if row.needs for name in row.after}  # these look themselves whether all is there
    kept = {row.name: passed.find(row.command) for row in wanted if resume and (row.tests or row.name not in makers)}
    before = [
        Outcome(row, passed=counts.passed, skips=counts.skips, note="passed before on this commit, not run again")
        for row in wanted
        if (counts := kept.get(row.name)) is not None
    ]
    due = [row for row in wanted if kept.get(row.name) is None]
    if any(row.argv == MEASURED for row in due) and not any(each.stage.argv == MEASURED for each in before):
        covered.forget()
    if before:
        print(f"{len(before)} of {len(wanted)} stages have passed on this very commit, and are not run again")
    lanes = Lanes(due, min(2, os.cpu_count() or 1), passed)
    interrupted = False
    try:
        lanes.run()
    except KeyboardInterrupt:
        interrupted = True
    # What failed may lack something that was made by what passed: that one runs again, too.
    lacking = {name for outcome in lanes.outcomes if outcome.code for name in outcome.stage.after}
    for row in wanted:
        if row.name in lacking:
            passed.forget(row.command)
    order = [row.name for row in wanted]
    return sorted([*before, *lanes.outcomes], key=lambda outcome: order.index(outcome.stage.name)), interrupted


def print_table(outcomes: Sequence[Outcome], more: Sequence[str] = (), took: str = "") -> None:
    """The end of the run: stages, skips with reasons, why stages failed, and the sum in one line."""
    print(f"\n{'stage':<18}{'result':<8}{'seconds':>8}{'of cpu':>8}{'passed':>8}{'failed':>8}{'skipped':>8}")
    for row in outcomes:
        counts = (row.passed, row.failed, row.skips.total()) if row.stage.tests is not None or row.skips else [""] * 3
        result = "FAILED" if row.code else "skipped" if row.stage.missing else "ok"
        line = f"{row.stage.name:<18}{result:<8}{row.seconds:>8.1f}{row.processor_s:>8.1f}"
        print(f"{line}{''.join(f'{count:>8}' for count in counts)}  {row.note}".rstrip())
    for row in outcomes:
        for reason, count in row.skips.most_common():
            print(f"skipped in {row.stage.name}: {count} x {reason}")
    for row in outcomes:
        for each in row.unsteady:
            print(f"unsteady in {row.stage.name}: {each.test} failed, and then passed alone; see {unsteady.RECORD}")
    broken = [row for row in outcomes if row.code]
    for row in broken:
        if row.said:
            print(f"{row.stage.name} failed:", *row.said, sep="\n  ")
    # A stage without tests counts as one failure, so that the sum is never "0 failed" after a failed run.
    failed = sum(max(row.failed, 1) for row in broken)
    skipped = sum(row.skips.total() for row in outcomes)
    shaky = sum(len(row.unsteady) for row in outcomes)
    print(*more, sep="\n", end="\n" if more else "")
    passed, end = sum(row.passed for row in outcomes), f", {shaky} unsteady" if shaky else ""
    print(f"{passed} passed, {failed} failed, {skipped} skipped{end}{took}")


def added(rows: Iterable[Stage], level: str) -> list[str]:
    """What longer runs have besides, a line for each."""
    lines = []
    for longer in LEVELS[LEVELS.index(level) + 1 : -1]:
        groups = dict.fromkeys(row.group for row in rows if row.since == longer)
        lines.append(f"{RUNS[longer]} adds {', '.join(groups)}")
    return lines


def main(arguments: list[str]) -> int:
    """Run the stages of the given groups, or of a level."""
    levels = {"--ci": "ci", "--all": "all"}
    level = next((levels[word] for word in arguments if word in levels), "test")
    groups = [word for word in arguments if word not in levels]
    rows = stages()
    unknown = set(groups) - {row.group for row in rows}
    if unknown:
        there = ", ".join(dict.fromkeys(row.group for row in rows))
        print(f"check: error: no stage {', '.join(sorted(unknown))}; there are {there}", file=sys.stderr)
        return 2
    os.environ["PATH"] = os.pathsep.join([str(BIN), os.environ.get("PATH", os.defpath), *SBIN])
    start = time.monotonic()
    wanted = chosen(rows, level, groups)
    outcomes, interrupted = run(wanted, resume=level == "all")
    minutes, seconds = divmod(round(time.monotonic() - start), 60)
    took = f" in {minutes} min {seconds} s, {sum(row.processor_s for row in outcomes) / 60:.1f} min of processor time"
    done = {outcome.stage.name for outcome in outcomes}
    left = [row.name for row in wanted if row.name not in done]
    more = [f"not run: {', '.join(left)}"] if left else []
    print_table(outcomes, more if groups else [*more, *added(rows, level)], took)
    return 130 if interrupted else int(any(row.code for row in outcomes))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main(sys.argv[1:]))
