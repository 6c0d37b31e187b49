"""A tree is checked against an annotated class. See test_read for the merge of sources."""

from __future__ import annotations

import dataclasses
import datetime as dt
import pathlib
from typing import Annotated, Any, ClassVar, Literal

import pytest

from nri.config.complaint import Problem
from nri.config.typed import Between, Partial, build, check, fields_of, is_plain


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


def test_private_names_and_class_variables_are_ignored() -> None:
    assert list(fields_of(Outer)) == ["inner", "maybe", "names"]


def test_an_annotation_that_cannot_be_resolved_names_its_class() -> None:
    class Broken:
        x: Nowhere  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(TypeError, match=r"Broken: an annotation cannot be resolved: name 'Nowhere'"):
        fields_of(Broken)


@pytest.mark.parametrize(("kind", "plain"), [(Inner, True), (Needed, True), (int, False), (dict, False), (list, False)])
def test_classes_with_annotations_are_configuration_classes(kind: Any, plain: bool) -> None:
    assert is_plain(kind) is plain


def test_a_partial_has_only_given_keys_and_later_ones_override() -> None:
    first, problems = checked(Outer, {"inner": {"x": 2}, "names": ["a"]})
    later, _ = checked(Outer, {"names": ["b"], "maybe": {}})
    assert (sorted(first.values), problems) == (["inner", "names"], [])
    first.update(later)
    partial = build(first, (), [])
    assert (partial.inner.x, partial.names, partial.maybe.x) == (2, ["b"], 1)


def test_every_problem_has_its_path() -> None:
    _, problems = checked(Outer, {"inner": {"x": "a"}, "names": ["a", 1], "nmes": 1})
    assert [problem.path for problem in problems] == [("inner", "x"), ("names", 1), ("nmes",)]


def test_a_missing_required_key_is_an_error_at_build() -> None:
    partial, problems = checked(Needed, {"b": 3})
    assert problems == []
    assert build(partial, ("at",), problems) is None
    assert problems == [Problem(("at", "a"), "missing, and the key has no default", "add the key")]


def test_defaults_are_copied_for_each_instance() -> None:
    first, second = build(Partial(Outer, {}), (), []), build(Partial(Outer, {}), (), [])
    first.names.append("a")
    assert (second.names, Outer.names) == ([], [])


def test_of_many_choices_only_the_nearest_is_suggested() -> None:
    class Settings:
        letter: Literal["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota"] = "alpha"

    problems: list[Problem] = []
    check(Settings, {"letter": "epsilom"}, (), problems)
    assert [(number.reason, number.suggestion) for number in problems] == [
        ('expected one of 9 words, not "epsilom"', 'did you mean "epsilon"?')
    ]
    problems.clear()
    check(Settings, {"letter": "x"}, (), problems)
    assert "alpha, beta, gamma" in problems[0].reason


class Scalars:
    at: dt.datetime | None = None
    day: dt.date | None = None
    clock: dt.time | None = None
    raw: bytes = b""
    pair: tuple[int, str] = (0, "")
    bare: list = []  # type: ignore[type-arg]  # noqa: RUF012
    table: dict = {}  # type: ignore[type-arg]  # noqa: RUF012
    least: Annotated[float, Between(low=0)] = 0
    most: Annotated[int, Between(high=9)] = 0
    nothing: None = None
    path: pathlib.Path = pathlib.Path("/")


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("at", "2026-01-02T03:04:05", dt.datetime(2026, 1, 2, 3, 4, 5)),  # noqa: DTZ001
        ("at", dt.datetime(2026, 1, 2), dt.datetime(2026, 1, 2)),  # noqa: DTZ001 - as TOML has it
        ("day", "2026-01-02", dt.date(2026, 1, 2)),
        ("clock", "03:04:05", dt.time(3, 4, 5)),
        ("raw", "YWI=", b"ab"),
        ("pair", [1, "a"], (1, "a")),
        ("bare", [1, "a"], [1, "a"]),
        ("table", {"a": 1}, {"a": 1}),
        ("least", 3, 3.0),
        ("most", 9, 9),
        ("nothing", None, None),
        ("path", "/a", pathlib.Path("/a")),
    ],
)
def test_values_of_all_types_are_read(key: str, value: object, expected: object) -> None:
    partial, problems = checked(Scalars, {key: value})
    assert (partial.values, problems) == ({key: expected}, [])
    assert type(partial.values[key]) is type(expected)


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("at", "soon", 'expected a date and time, not "soon"'),
        ("day", 3, "expected a date, not 3"),
        ("day", "2026-13-01", 'expected a date, not "2026-13-01"'),
        ("raw", "?", 'expected base64 text, not "?"'),
        ("raw", 3, "expected base64 text, not 3"),
        ("pair", [1], "expected a list of 2 values, not [1]"),
        ("pair", [1, 2], "expected a string, not 2"),
        ("bare", "a", 'expected a list, not "a"'),
        ("table", [], "expected a mapping of keys to values, not []"),
        ("least", -1, "expected a number at least 0, not -1"),
        ("least", "1", 'expected a number, not "1"'),
        ("least", 10**400, "contains a number that is too large"),
        ("most", 10, "expected a whole number at most 9, not 10"),
        ("nothing", 0, "expected nothing, not 0"),
        ("path", 1, "expected a string, not 1"),
    ],
)
def test_a_value_of_a_wrong_type_is_an_error_with_the_expected_type(key: str, value: object, reason: str) -> None:
    _, (problem,) = checked(Scalars, {key: value})
    assert problem.reason.startswith(reason)


def test_an_unsupported_annotation_is_an_error_of_the_class() -> None:
    class Odd:
        number: complex = 0j

    with pytest.raises(TypeError, match=r"configuration has no values of <class 'complex'>"):
        checked(Odd, {"number": 3})


@dataclasses.dataclass
class Checked:
    word: Literal["", "one", "other"] = ""
    size: int = 0

    def __post_init__(self) -> None:
        self.word.upper()
        self.size.bit_length()


@dataclasses.dataclass
class Listed:
    rules: list[Checked]


def test_a_class_in_a_list_never_gets_an_invalid_value() -> None:
    problems: list[Problem] = []
    check(Listed, {"rules": [{"word": "third", "size": "x"}, {"word": "one"}]}, (), problems)
    assert [(value.path, value.reason) for value in problems] == [
        (("rules", 0, "word"), 'expected one of "", one, other, not "third"'),
        (("rules", 0, "size"), 'expected a whole number, not "x"'),
    ]


@dataclasses.dataclass
class Holder:
    inner: Checked = dataclasses.field(default_factory=Checked)
    other: int = 0


@pytest.mark.parametrize(
    "tree", [{"inner": {"size": "x"}}, {"inner": {"word": 3}}, {"inner": 5}, {"inner": {"size": 1, "typo": 2}}]
)
def test_a_nested_class_is_not_built_from_refused_values(tree: object) -> None:
    problems: list[Problem] = []
    partial = check(Holder, tree, (), problems)
    assert len(problems) == 1
    assert build(partial, (), problems) is None
    assert len(problems) == 1, "the refused value is the only complaint"
