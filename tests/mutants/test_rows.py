"""Each mutant still fits the source: its text is in one line, and the result compiles."""

from __future__ import annotations

import pytest

from tests.mutants.__main__ import ROOT
from tests.mutants.table import MUTANTS, Mutant, mutated


def name(mutant: Mutant) -> str:
    return f"{mutant.file}: {mutant.text}"


def test_every_row_fits_one_line_and_has_its_tests() -> None:
    wrong = []
    for mutant in MUTANTS:
        source = (ROOT / "src/nri" / mutant.file).read_text(encoding="utf-8")
        try:
            changed = mutated(mutant, source)
            compile(changed, mutant.file, "exec")
        except (ValueError, SyntaxError) as error:
            wrong.append(f"{name(mutant)}: {error}")
            continue
        if changed == source:
            wrong.append(f"{name(mutant)}: the mutant changes nothing")
        if not (ROOT / "tests" / mutant.tests.partition("::")[0]).exists():
            wrong.append(f"{name(mutant)}: no such test: tests/{mutant.tests}")
    assert not wrong, "\n".join(wrong)


def test_mutants_are_unique() -> None:
    assert len({name(mutant) for mutant in MUTANTS}) == len(MUTANTS) >= 40


@pytest.mark.parametrize("source", ["x = 1\n", "a = 2\na = 2\n", "b = a = 2 or a = 2\n"])
def test_a_text_that_is_not_in_exactly_one_line_is_an_error(source: str) -> None:
    with pytest.raises(ValueError, match="'a = 2' is in"):
        mutated(Mutant("f.py", "a = 2", "a = 3", "unit"), source)
