"""Conditions of hooks. tests/conformance compares them with the Go plugin."""

from __future__ import annotations

import pytest

from nri.config.hooks.conditions import ConditionError, Facts, When
from nri.config.hooks.pattern import Budget, Pattern

NOTHING = Facts([], {}, False, Budget())


def test_all_conditions_must_match_or_in_the_old_schema_any() -> None:
    facts = Facts(["sh"], {"a": "1"}, False, Budget())
    pair = (Pattern("^a$"), Pattern("^1$"))
    assert not When(has_bind_mounts=True, annotations=(pair,)).match(facts)
    assert When(has_bind_mounts=True, annotations=(pair,), any_of=True).match(facts)
    assert not When().match(facts)
    assert not When(any_of=True).match(facts)


def test_one_annotation_must_match_both_patterns() -> None:
    facts = Facts([], {"a": "1", "b": "2"}, False, Budget())
    assert When(annotations=((Pattern("^a$"), Pattern("^1$")),)).match(facts)
    assert not When(annotations=((Pattern("^a$"), Pattern("^2$")),)).match(facts)


def test_commands_decide_last_and_require_a_command() -> None:
    commands = (Pattern("^sh$"), Pattern("^bash$"))
    assert When(commands=commands).match(Facts(["bash", "-c"], {}, False, Budget()))
    assert not When(always=True, commands=commands).match(Facts(["zsh"], {}, False, Budget()))
    assert not When(always=False, commands=commands).match(NOTHING)
    with pytest.raises(ConditionError, match=r"process.args must have at least one entry"):
        When(commands=commands).match(NOTHING)


def test_an_aborted_search_is_an_error_with_pattern_and_text() -> None:
    costly, text = Pattern(r"(?:a?b?c?d?){1000}[^a]*x$"), "abcd" * 20_000
    search = r"annotation value: the search for .* in 80000 characters is too costly"
    expected = search + r": it and earlier searches take more than \d+ steps"
    with pytest.raises(ConditionError, match=expected):
        When(annotations=((Pattern(""), costly),)).match(Facts([], {"a": text}, False, Budget()))
