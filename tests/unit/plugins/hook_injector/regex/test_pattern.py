"""Patterns are found where Go finds them, in time that grows with the text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nri.plugins.hook_injector.regex import pattern
from nri.plugins.hook_injector.regex.pattern import Budget, Pattern, TooCostly

FACTS = Path(__file__).parents[4] / "data" / "plugins" / "go-regexp.jsonl"


def test_what_go_finds_is_found_and_what_it_refuses_is_refused() -> None:
    cases = [json.loads(line) for line in FACTS.read_text().splitlines()]
    for case in cases:
        text = case["pattern"]
        if case.get("refused"):
            with pytest.raises(ValueError, match=r"."):
                Pattern(text)
            continue
        compiled = Pattern(text)
        for found in case["found"]:
            assert compiled.found_in(found, Budget()), (text, found)
        for other in case["not_found"]:
            assert not compiled.found_in(other, Budget()), (text, other)
    assert len(cases) > 400
    assert sum(case.get("refused", False) for case in cases) > 40


@pytest.mark.parametrize("text", [r"(a+)+$", r"(a|aa)+$", r"(a*)*b", r"^(a?){50}a{50}$", r"(.*)*x", r"((a|a)+)+b"])
def test_a_pattern_that_takes_python_s_own_engine_hours_takes_few_steps(text: str) -> None:
    budget = Budget()
    assert not Pattern(text).found_in("a" * 40_000 + "!", budget)
    assert pattern.MOST_STEPS - budget.left < 100_000


def test_a_search_is_given_up_when_it_is_too_costly_and_the_next_one_works() -> None:
    compiled = Pattern(r"(?:a?b?c?d?){1000}[^a]*x$")
    alphabet = "abcd" * 5_000
    with pytest.raises(TooCostly, match="more than 1000000 steps"):
        compiled.found_in("".join(chr(0x4E00 + place) + letter for place, letter in enumerate(alphabet)), Budget())
    assert compiled.found_in("x", Budget())


def test_searches_share_a_budget_and_what_is_kept_costs_none() -> None:
    budget, compiled = Budget(), Pattern("(a|b)*c")
    assert not compiled.found_in("ab" * 100, budget)
    first = pattern.MOST_STEPS - budget.left
    assert first > 0
    assert not compiled.found_in("ab" * 100_000, budget)
    assert pattern.MOST_STEPS - budget.left < 2 * first


def test_what_is_kept_is_bounded_and_forgetting_changes_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pattern, "MOST_KEPT", 10)
    compiled = Pattern(r"(a|b)c{2,3}d")
    for _ in range(3):
        assert compiled.found_in("xaccbccacccd", Budget())
        assert not compiled.found_in("xaccbccaccccd", Budget())
        assert compiled._kept < 30


def test_it_shows_its_text() -> None:
    assert repr(Pattern("a+")) == "Pattern('a+')"


def test_a_set_of_many_parts_costs_as_many_steps() -> None:
    """One of thousands of parts, and a text of as many different characters, took 13 s within the budget."""
    many = Pattern("[" + "".join(chr(0x3000 + 2 * number) for number in range(4000)) + "]{3}")
    with pytest.raises(TooCostly):
        many.found_in("".join(chr(0x3001 + 2 * number) for number in range(4000)), Budget())
