"""Check the project in stages, and print a table of results and times.

    python tools/check.py            `make test`: checks of a few minutes, and one real container
    python tools/check.py --ci       what CI runs: the same, measured for coverage, and tests with real parts
    python tools/check.py --all      everything; continues where it was interrupted, if nothing has changed
    python tools/check.py lint unit  only these groups, completely

On two cores two stages run at a time (tools/lanes.py). A failed test with real parts, processes or threads runs once
more, alone (tools/unsteady.py). The end of the output lists every skip with its reason, and the last lines of failed
stages (tools/command.py). The exit code is 0 only if all stages passed. With CI=true or NRI_NO_SKIP=1 a missing tool
fails its tests instead of skipping them (tests/support/needs.py); a missing Python is only listed.
"""

import os
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # no stack of Ctrl-C while modules are loaded

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.kubernetes import build as kubernetes  # noqa: E402
from tools import compiled, covered, pythons, unsteady  # noqa: E402
from tools.lanes import Lanes, Outcome, Stage  # noqa: E402
from tools.nodes import kernel  # noqa: E402
from tools.passed import Passed  # noqa: E402

BIN = Path(sys.executable).parent
#: Each run contains the runs before it. Stages `asked` run only if their group is named.
LEVELS = ("test", "ci", "all", "asked")
RUNS = {"test": "make test", "ci": "CI", "all": "make test-all", "asked": "on demand"}
# Groups that are pytest on some folders. Tests in folders that neither this table nor a stage names are quick, so that
# no new folder is left out by mistake.
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
# Folders with a separate stage.
SEPARATE = ("real", "apiserver", "guest", "nodes", "cluster")
IN_CI = ("engine", "interop", "agent", "packaging", "checkers", "fuzz")
REAL = ("engine", "agent", "torture", "deploy", "kubelet")
#: Folders of tests/unit by part; the parts take about the same time. All other folders are one more part.
UNIT_PARTS = {"proxy": ("proxy", "plugins"), "cli": ("cli",), "adaptation": ("adaptation",)}
#: Tests of the older containerds, for pytest -k.
OLDER = "1.7 or 2.1"
#: The demo of the README, with a container on the engine.
CONTAINER = (
    "tests/real/test_demo.py::test_the_demo_compares_a_container_without_and_with_plugins_and_shows_who_changed_what"
)
# Folders of system tools that may not be on PATH.
SBIN = ("/usr/sbin", "/sbin")
# Folders outside the package whose types are checked.
TYPED = ("tools", "examples", "tests/support", "tests/conftest.py", "bench/studies/engine")
PYTEST = (sys.executable, "-m", "pytest", "-q")
MEASURED = (sys.executable, "tools/covered.py", "add", "-q")

#: Tests of code that is never compiled.
NOT_COMPILED = (
    *("agent", "apiserver", "checkers", "docs", "fuzz", "packaging", "deploy", "engine", "guest", "kubernetes"),
    *("cluster", "nodes", "peers", "proxy"),
    *(f"unit/{name}" for name in ("agent", "cli", "config", "cri", "engine", "kube", "oci", "proxy", "support")),
)  # fmt: skip


def tool(name: str, *arguments: str) -> tuple[str, ...]:
    """A command from the bin folder of this environment."""
    return (str(BIN / name), *arguments)


def paths(*names: str) -> tuple[str, ...]:
    """Arguments of pytest that select folders of tests."""
    return tuple(f"tests/{name}" for name in names)


def without(*names: str) -> tuple[str, ...]:
    """Arguments of pytest that leave folders of tests out."""
    return tuple(f"--ignore=tests/{name}" for name in names)


def unit_parts() -> dict[str, tuple[str, ...]]:
    """Arguments of pytest for the parts of the unit tests, by name; the longest part first."""
    part_folders = [f"unit/{folder}" for row in UNIT_PARTS.values() for folder in row]
    parts = {f"unit {name}": paths(*(f"unit/{folder}" for folder in row)) for name, row in UNIT_PARTS.items()}
    return {"unit": ("tests/unit", *without(*part_folders)), **parts}


def quick() -> tuple[str, ...]:
    """Arguments of pytest for the unit tests and for drawn and recorded cases."""
    return ("tests", *without(*(name for row in FOLDERS.values() for name in row), *SEPARATE))


def cases() -> tuple[str, ...]:
    """Arguments of pytest for drawn and recorded cases."""
    return (*quick(), *without("unit"))


def stages() -> list[Stage]:
    """All stages, in order."""
    return [
        *lint_stages(),
        *quick_stages(),
        *real_stages(),
        *node_stages(),
        *python_stages(),
        *compiled_stages(),
        *long_stages(),
    ]


def lint_stages() -> list[Stage]:
    """Linters, types and generated code."""
    generators = sorted((ROOT / "tools").glob("generate_*.py"))
    typed = tool("mypy", "--no-error-summary", "--explicit-package-bases", *TYPED)
    return [
        Stage("lint", "ruff", tool("ruff", "check", "--quiet", ".")),
        Stage("lint", "mypy", tool("mypy", "--no-error-summary")),
        Stage("lint", "import-linter", tool("lint-imports", "--no-logo")),
        *(Stage("lint", path.stem, (sys.executable, str(path), "--check")) for path in generators),
        Stage("lint", "lock file", ("tools/lock.sh", "--check")),
        Stage("lint", "mypy tools", typed, after=("mypy",)),  # both use the same cache
    ]


def quick_stages() -> list[Stage]:
    """Tests that need little besides Python, one real container, and the coverage of each file."""
    sphinx = (sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "docs", "docs/_build/html")
    # Drawn and recorded cases are not measured: they would take several times as long and cover no further lines.
    rows = [
        *(Stage("unit", name, PYTEST, tests=row, measured=True) for name, row in unit_parts().items()),
        Stage("faults", "faults", PYTEST, tests=(*paths("faults"), "-m", "not slow"), measured=True),
        Stage("quick", "quick", PYTEST, tests=cases()),
        Stage("docs", "docs", PYTEST, tests=paths("docs")),
        Stage("docs", "sphinx", sphinx),
        Stage("container", "container", PYTEST, tests=(CONTAINER,), real=True),
    ]
    measured = tuple(row.name for row in rows if row.measured)
    report = (sys.executable, "tools/covered.py")
    return [*rows, Stage("covered", "covered", report, after=measured, needs=covered.FOLDER, since="ci")]


def folder_stage(group: str) -> Stage:
    """The stage of a group in `FOLDERS`."""
    since = "ci" if group in IN_CI else "all"
    return Stage(group, group, PYTEST, tests=paths(*FOLDERS[group]), since=since, real=group in REAL)


def real_stages() -> list[Stage]:
    """Tests with real runtimes, peers and tools."""
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
        Stage("faults", "faults slow", PYTEST, tests=(*paths("faults"), "-m", "slow"), since="ci"),
        Stage("real", "real older", PYTEST, tests=(*real, OLDER), since="all", real=True),
        *(folder_stage(group) for group in ("upstream", "torture", "deploy")),
    ]  # fmt: skip


def node_stages() -> list[Stage]:
    """Tests in user-mode nodes. CI skips them without a kernel in the cache, because building it takes half an hour."""
    build = Stage("nodes", "nodes kernel", (sys.executable, "-m", "tools.nodes.kernel"), since="all")
    argv = (sys.executable, "-m", "tests.nodes")
    return [
        build,
        Stage("nodes", "nodes", argv, tests=(), since="ci", after=(build.name,), needs=kernel.path(), real=True),
        Stage(
            "cluster", "cluster", (sys.executable, "-m", "tests.cluster", "test"), tests=(), since="all",
            after=(build.name, "kubelet made"), needs=kernel.path(), real=True,
        ),
    ]  # fmt: skip


def compiled_stages() -> list[Stage]:
    """The tests of compiled code, on the compiled wheel."""
    peers, real = ("interop", "upstream", "differential", "faults", "torture"), ("real",)
    parts = {
        "unit": ("tests/unit", *without(*NOT_COMPILED)),
        "cases": ("tests", *without("unit", *peers, *real, *NOT_COMPILED)),
        "peers": paths(*peers),
        "real": paths(*real),
    }
    builder = Stage("compiled", "compile", (sys.executable, "tools/compiled.py"), since="all")
    tests = replace(
        builder, argv=(*PYTEST, "-m", "not pure"), environment={"PYTHONPATH": str(compiled.FOLDER)},
        after=(builder.name,), needs=compiled.FOLDER,
    )  # fmt: skip
    return [
        builder,
        *(replace(tests, name=f"compiled {name}", tests=row, real=name == "real") for name, row in parts.items()),
    ]


def python_stages() -> list[Stage]:
    """Tests on other Pythons: unit and quick tests on the newest; all suites on all versions on demand."""
    suites = {**unit_parts(), "quick": cases(), "faults": paths("faults"), "packaging": paths("packaging")}
    rows = []
    installed = [version for version in pythons.other_versions() if pythons.find(version) is not None]
    for version in pythons.other_versions():
        if version not in installed:
            missing = f"no Python {version} on this machine"
            rows.append(Stage("pythons", version, (), missing=missing, since="all"))
            continue
        python, newest = pythons.place(version), version == installed[-1]
        builder = Stage("pythons", f"{version} made", (sys.executable, "tools/pythons.py", version))
        path = os.pathsep.join([str(python.parent), os.environ.get("PATH", os.defpath), *SBIN])
        rows.append(replace(builder, since="all" if newest else "asked"))
        rows += [
            Stage(
                "pythons", f"{version} {name}", (str(python), *PYTEST[1:]), tests=arguments,
                environment={"PATH": path}, after=(builder.name,), needs=python,
                since="all" if newest and name not in ("faults", "packaging") else "asked",
            )
            for name, arguments in suites.items()
        ]  # fmt: skip
    return rows


def long_stages() -> list[Stage]:
    """Tests in a virtual machine, under a kubelet, or with new inputs."""
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


def selected(rows: Sequence[Stage], level: str, groups: Sequence[str]) -> list[Stage]:
    """The stages of the groups, or of the level without groups; measured if they include `covered`."""
    levels = LEVELS[: LEVELS.index(level) + 1]
    selection = [row for row in rows if (row.group in groups if groups else row.since in levels)]
    if any(row.group == "covered" for row in selection):
        return [replace(row, argv=MEASURED) if row.measured else row for row in selection]
    return selection


def run(selection: Sequence[Stage], *, resume: bool) -> tuple[list[Outcome], bool]:
    """Run the stages, with `resume` only those that have not passed; return outcomes and whether it was interrupted."""
    passed = Passed()
    builders = {name for row in selection if row.needs for name in row.after}  # these check themselves what exists
    counts_by_name = {
        row.name: passed.find(row.command_line)
        for row in selection
        if resume and (row.tests or row.name not in builders)
    }
    before = [
        Outcome(row, passed=counts.passed, skips=counts.skips, note="passed before on this commit; not run again")
        for row in selection
        if (counts := counts_by_name.get(row.name)) is not None
    ]
    remaining = [row for row in selection if counts_by_name.get(row.name) is None]
    if any(row.argv == MEASURED for row in remaining) and not any(outcome.stage.argv == MEASURED for outcome in before):
        covered.forget()
    if before:
        print(f"{len(before)} of {len(selection)} stages have passed on this commit and are not run again")
    lanes = Lanes(remaining, min(2, os.cpu_count() or 1), passed)
    interrupted = False
    try:
        lanes.run()
    except KeyboardInterrupt:
        interrupted = True
    # A failed stage may lack something that a passed one built: both run again.
    suspect = {name for outcome in lanes.outcomes if outcome.code for name in outcome.stage.after}
    for row in selection:
        if row.name in suspect:
            passed.forget(row.command_line)
    order = [row.name for row in selection]
    return sorted([*before, *lanes.outcomes], key=lambda outcome: order.index(outcome.stage.name)), interrupted


def print_table(outcomes: Sequence[Outcome], notes: Sequence[str] = (), duration: str = "") -> None:
    """Print the stages, the skips with reasons, the last lines of failed stages, notes, and the sum in one line."""
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
        for failure in row.unsteady:
            print(f"unsteady in {row.stage.name}: {failure.test} failed, then passed alone; see {unsteady.RECORD}")
    broken = [row for row in outcomes if row.code]
    for row in broken:
        if row.last_lines:
            print(f"{row.stage.name} failed:", *row.last_lines, sep="\n  ")
    # A failed stage without tests counts as one failure, so that the sum is never "0 failed" after a failed run.
    failed = sum(max(row.failed, 1) for row in broken)
    skipped = sum(row.skips.total() for row in outcomes)
    unsteady_count = sum(len(row.unsteady) for row in outcomes)
    print(*notes, sep="\n", end="\n" if notes else "")
    passed, end = sum(row.passed for row in outcomes), f", {unsteady_count} unsteady" if unsteady_count else ""
    print(f"{passed} passed, {failed} failed, {skipped} skipped{end}{duration}")


def longer_runs(rows: Iterable[Stage], level: str) -> list[str]:
    """A line for each longer run, with the groups that it adds."""
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
        groups_text = ", ".join(dict.fromkeys(row.group for row in rows))
        print(f"check: error: unknown group {', '.join(sorted(unknown))}; groups: {groups_text}", file=sys.stderr)
        return 2
    os.environ["PATH"] = os.pathsep.join([str(BIN), os.environ.get("PATH", os.defpath), *SBIN])
    start = time.monotonic()
    selection = selected(rows, level, groups)
    outcomes, interrupted = run(selection, resume=level == "all")
    minutes, seconds = divmod(round(time.monotonic() - start), 60)
    duration = (
        f" in {minutes} min {seconds} s, {sum(row.processor_s for row in outcomes) / 60:.1f} min of processor time"
    )
    names = {outcome.stage.name for outcome in outcomes}
    unfinished = [row.name for row in selection if row.name not in names]
    notes = [f"not run: {', '.join(unfinished)}"] if unfinished else []
    print_table(outcomes, notes if groups else [*notes, *longer_runs(rows, level)], duration)
    return 130 if interrupted else int(any(row.code for row in outcomes))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main(sys.argv[1:]))
