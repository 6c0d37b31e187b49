"""Patterns match like in Go, in linear time."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from nri.config.hooks.pattern import MAX_STEPS, Budget, Pattern, TooCostly, load
from nri.errors import ConfigError
from nri.plugins.hook_injector.plugin import HookInjector

FACTS = Path(__file__).parents[3] / "data" / "plugins" / "go-regexp.jsonl"
#: Go refuses these. RE2 has the text itself for the first two, and names in any script.
TAKEN_BY_RE2_ALONE = {"a{9999999999}", "a{1,99999999999}", "(?<é>a)"}


def test_patterns_match_and_fail_like_in_go() -> None:
    cases = [json.loads(line) for line in FACTS.read_text().splitlines()]
    for case in cases:
        text = case["pattern"]
        if text in TAKEN_BY_RE2_ALONE:
            assert Pattern(text)
            continue
        if case.get("refused"):
            with pytest.raises(ValueError, match=r"."):
                Pattern(text)
            continue
        compiled = Pattern(text)
        for rows in case["found"]:
            assert compiled.matches(rows, Budget()), (text, rows)
        for other in case["not_found"]:
            assert not compiled.matches(other, Budget()), (text, other)
    assert len(cases) > 400
    assert sum(case.get("refused", False) for case in cases) > 40


@pytest.mark.parametrize("text", [r"(a+)+$", r"(a|aa)+$", r"(a*)*b", r"^(a?){50}a{50}$", r"(.*)*x", r"((a|a)+)+b"])
def test_a_pattern_with_exponential_cost_in_python_is_searched_quickly(text: str) -> None:
    assert not Pattern(text).matches("a" * 40_000 + "!", Budget())


@pytest.mark.parametrize(
    ("text", "reason"),
    [("(", r"missing \)"), ("[b-a]", "range"), ("a" * 10_001, "10000 characters"), ("(a{999}){999}", "repetition size"),
     (r"\pL{500}", "too large"), (r"\Q\C\E\\C\C", r"invalid escape sequence: \\C")],
)  # fmt: skip
def test_invalid_and_oversized_patterns_are_errors_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Pattern(text)


def test_a_quoted_backslash_c_is_literal() -> None:
    assert Pattern(r"\Q\C\E").matches(r"\C", Budget())
    assert Pattern(r"\\C").matches(r"\C", Budget())


def test_searches_share_a_budget_of_text_times_pattern() -> None:
    budget, compiled = Budget(), Pattern("(?:a?b?c?d?){1000}x")
    with pytest.raises(TooCostly, match=f"more than {MAX_STEPS} steps"):
        compiled.matches("abcd" * 20_000, budget)
    with pytest.raises(TooCostly):
        compiled.matches("x", budget)
    assert compiled.matches("x", Budget())


def test_the_text_of_a_pattern_is_shown() -> None:
    assert repr(Pattern("a+")) == "Pattern('a+')"


def test_without_the_library_the_error_has_the_install_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    for ask in (load, lambda: Pattern("a"), HookInjector().configure):
        with pytest.raises(ConfigError, match=r"google-re2 is required .*pip install '\.\[hook-injector\]'"):
            ask()
