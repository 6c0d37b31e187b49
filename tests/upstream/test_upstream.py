"""The reference's black-box tests pass on our adaptation, except for the rows of `leaves.yaml` with a reason.

A leaf whose outcome differs from its row runs again alone, at most twice: these tests give a plugin 100 ms for an
answer, and a busy machine sometimes takes longer. A real error fails all three times.
"""

import dataclasses
from collections.abc import Callable

import pytest

from nri.adaptation import Rules
from tests.upstream import suite, table
from tests.upstream.suite import Outcome, Program

ROWS = table.rows()
DEVIATIONS = [row for row in ROWS if row.kind == "deviation"]
REFERENCE = ("--compat", "reference")
DEFAULT = ("--compat", "default")
AGAIN = 2

Run = Callable[..., dict[str, Outcome]]


def _id(row: table.Row) -> str:
    return row.leaf


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    return suite.released_tests()


@pytest.fixture(scope="module")
def program(files: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Program:
    names = table.files()
    black_box = {name: text for name, text in files.items() if names.get(name) != "go-only"}
    return suite.build(black_box, tmp_path_factory.mktemp("upstream") / "upstream.test")


@pytest.fixture(scope="module")
def run(program: Program) -> Run:
    """All leaves over a mode, once."""
    remaining: dict[tuple[str, ...], dict[str, Outcome]] = {}

    def outcomes(*arguments: str) -> dict[str, Outcome]:
        if arguments not in remaining:
            remaining[arguments] = program.run(*arguments)
        return remaining[arguments]

    return outcomes


def holds(program: Program, run: Run, arguments: tuple[str, ...], leaf: str, passes: bool) -> None:
    """The leaf passes, or fails, as expected."""
    outcome = run(*arguments).get(leaf)
    for _ in range(AGAIN):
        if outcome is not None and outcome.passed == passes:
            return
        outcome = program.run(*arguments, leaf=leaf).get(leaf, outcome)
    assert outcome is not None, f"{' '.join(arguments)}: {leaf} was not run"
    assert outcome.passed == passes, f"{' '.join(arguments)}: {'fails' if passes else 'passes'}\n{outcome.output}"


@pytest.mark.parametrize("row", ROWS, ids=_id)
def test_in_reference_mode_all_tests_pass_except_those_about_go(program: Program, run: Run, row: table.Row) -> None:
    holds(program, run, REFERENCE, row.leaf, row.kind != "go-only")


@pytest.mark.parametrize("row", ROWS, ids=_id)
def test_in_default_mode_only_documented_deviations_differ(program: Program, run: Run, row: table.Row) -> None:
    holds(program, run, DEFAULT, row.leaf, row.kind == "passes")


@pytest.mark.parametrize("row", DEVIATIONS, ids=_id)
def test_a_test_differs_only_by_the_rules_of_its_row(program: Program, run: Run, row: table.Row) -> None:
    assert set(row.rules) <= {rule.name for rule in dataclasses.fields(Rules)}
    without = ("--without", *row.rules)
    outcome = Outcome(False, "")
    for _ in range(1 + AGAIN):
        outcome = program.run(*without, leaf=row.leaf).get(row.leaf, Outcome(False, "it was not run"))
        if outcome.passed:
            return
    pytest.fail(f"{' '.join(without)}: fails\n{outcome.output}", pytrace=False)


def test_every_test_has_a_row_and_every_row_a_test(run: Run) -> None:
    assert sorted(run(*REFERENCE)) == sorted(row.leaf for row in ROWS)


def test_every_test_file_of_the_package_has_a_row(files: dict[str, str]) -> None:
    assert sorted(files) == sorted(table.files())
    for name, text in files.items():
        assert ("\npackage adaptation_test\n" in text) == (table.files()[name] == "black-box"), name
