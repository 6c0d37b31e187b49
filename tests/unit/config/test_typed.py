"""A tree against an annotated class: partial first, built later. That sources are merged: see test_reader."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Literal

import pytest

from nri.config.complaint import Problem
from nri.config.typed import Partial, build, check, fields_of, is_plain


class Inner:
    x: int = 1


class Outer:
    inner: Inner
    maybe: Inner | None = None
    names: list[str] = []  # noqa: RUF012  (defaults are copied)
    _private: int = 0
    KIND: ClassVar[str] = "k"


@dataclasses.dataclass
class Needed:
    a: int
    b: int = 2


def checked(cls: type, tree: object) -> tuple[Partial, list[Problem]]:
    problems: list[Problem] = []
    return check(cls, tree, (), problems), problems


def test_private_names_and_class_variables_are_no_configuration() -> None:
    assert list(fields_of(Outer)) == ["inner", "maybe", "names"]


def test_an_annotation_that_cannot_be_resolved_names_its_class() -> None:
    class Broken:
        x: Nowhere  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(TypeError, match=r"Broken: an annotation cannot be resolved: name 'Nowhere'"):
        fields_of(Broken)


@pytest.mark.parametrize(("kind", "plain"), [(Inner, True), (Needed, True), (int, False), (dict, False), (list, False)])
def test_a_class_with_annotations_is_filled_by_us_others_are_not(kind: Any, plain: bool) -> None:
    assert is_plain(kind) is plain


def test_a_partial_holds_only_what_was_said_and_a_later_one_wins_key_by_key() -> None:
    first, problems = checked(Outer, {"inner": {"x": 2}, "names": ["a"]})
    later, _ = checked(Outer, {"names": ["b"], "maybe": {}})
    assert (sorted(first.values), problems) == (["inner", "names"], [])
    first.update(later)
    made = build(first, (), [])
    assert (made.inner.x, made.names, made.maybe.x) == (2, ["b"], 1)


def test_every_problem_is_told_with_its_path() -> None:
    _, problems = checked(Outer, {"inner": {"x": "a"}, "names": ["a", 1], "nmes": 1})
    assert [problem.path for problem in problems] == [("inner", "x"), ("names", 1), ("nmes",)]


def test_a_missing_key_without_default_is_found_when_building() -> None:
    partial, problems = checked(Needed, {"b": 3})
    assert problems == []
    assert build(partial, ("at",), problems) is None
    assert problems == [Problem(("at", "a"), "missing, and it has no default", "add it")]


def test_defaults_are_copied_for_each_instance() -> None:
    first, second = build(Partial(Outer, {}), (), []), build(Partial(Outer, {}), (), [])
    first.names.append("a")
    assert (second.names, Outer.names) == ([], [])


def test_of_many_choices_only_the_one_that_was_meant_is_named() -> None:
    class Settings:
        letter: Literal["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota"] = "alpha"

    problems: list[Problem] = []
    check(Settings, {"letter": "epsilom"}, (), problems)
    assert [(each.reason, each.suggestion) for each in problems] == [
        ('expected one of 9 words, not "epsilom"', 'did you mean "epsilon"?')
    ]
    problems.clear()
    check(Settings, {"letter": "x"}, (), problems)
    assert "alpha, beta, gamma" in problems[0].reason
