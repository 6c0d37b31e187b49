"""Values of annotations: lookup, YAML and errors."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from nri import Adjustment, Reject
from nri.config import Source
from nri.config.yaml_text import compose_yaml
from nri.plugins.annotations import (
    MAX_CHARACTERS,
    MAX_UNKNOWN_KEYS,
    MAX_VALUES,
    Annotation,
    InvalidValue,
    Mode,
    find,
    items,
    pod_scope_warning,
    table,
    texts,
)
from nri.testing import make_pod


class Thing(NamedTuple):
    """A table with a field of every kind."""

    path: str
    major: int = 0
    mode: Mode = Mode(0)
    options: tuple[str, ...] = ()
    hostIf: str = ""  # noqa: N815 - as the reference's keys are
    class_: str = ""


def node(text: str) -> Any:
    return compose_yaml(Source("s", text))


def read(text: str, unknown: list[str] | None = None) -> Thing:
    return table(node(text), "", Thing, [] if unknown is None else unknown)


def test_keys_of_a_mapping_can_have_any_case() -> None:
    built = read("Path: /dev/x\nMAJOR: 0x10\nmode: 0660\nOptions: [ro, 1.50, yes]\nhost_if: 007\nclass: best")
    assert built == Thing("/dev/x", 16, Mode(0o660), ("ro", "1.50", "yes"), "007", "best")


@pytest.mark.parametrize(("text", "mode"), [("0660", 0o660), ('"0660"', 0o660), ("0o660", 0o660), ("432", 0o660)])
def test_a_mode_is_octal_with_a_leading_zero(text: str, mode: int) -> None:
    assert read(f"{{path: p, mode: {text}}}").mode == mode


@pytest.mark.parametrize(
    ("text", "number"),
    [("1.0", 1), ("1.", 1), ("1e2", 100), ("1E+2", 100), (".5e1", 5), ("100e-2", 1), ("-2.0", -2), ("+0x1f", 31),
     ("0X1F", 31), ("0b11", 3), ("-0B11", -3), ("0O17", 15), ("1e19", 10**19),
     ("4.611686018427387904e18", 4611686018427388000)],
)  # fmt: skip
def test_integers_can_have_all_forms_that_the_go_plugins_accept(text: str, number: int) -> None:
    assert read(f"{{path: a, major: {text}}}").major == number


def test_a_key_without_a_value_counts_as_missing() -> None:
    assert read("path: x\nmajor:\noptions: ~") == Thing("x")
    with pytest.raises(InvalidValue, match="path is missing"):
        read("path:")


def test_unknown_keys_are_reported_with_suggestions_in_a_few_lines() -> None:
    unknown: list[str] = []
    assert read("path: x\nmajr: 3\n" + "".join(f"k{number}: 1\n" for number in range(1000)), unknown) == Thing("x")
    assert unknown[0] == 'majr: unknown key, ignored (did you mean "major"?)'
    assert len(unknown) == MAX_UNKNOWN_KEYS


def test_null_is_an_empty_list() -> None:
    assert items(None, "") == items(node("~"), "") == []
    assert texts(node("~"), "") == ()


WITHOUT_ZERO = "write it without the leading 0; octal is 0o17"


@pytest.mark.parametrize(
    ("text", "place", "reason", "step"),
    [
        ("[]", "", "expected a mapping of keys to values, not a list", "write 'key: value'"),
        ("word", "", 'expected a mapping of keys to values, not "word"', "write 'key: value'"),
        ("{path: [a]}", "path", "expected a string, not a list", ""),
        ("{path: {a: b}}", "path", "expected a string, not a mapping of keys to values", ""),
        ("{major: 1}", "", "path is missing", "add 'path: ...'"),
        ("{path: a, major: x}", "major", '"x" is not a number', "write a whole number"),
        ("{path: a, major: '3'}", "major", '"3" is not a number', "write it without quotes"),
        ("{path: a, major: 010}", "major", '"010" is not a number', WITHOUT_ZERO),
        ("{path: a, major: 1.5}", "major", '"1.5" is not a number', "write a whole number"),
        ("{path: a, major: .inf}", "major", '".inf" is not a number', "write a whole number"),
        ("{path: a, major: 1e21}", "major", '"1e21" is not a number', "write a whole number"),
        ("{path: a, major: '1e2'}", "major", '"1e2" is not a number', "write a whole number"),
        ("{path: a, major: 0b2}", "major", '"0b2" is not a number', "write a whole number"),
        ("{path: a, major: 1_000}", "major", '"1_000" is not a number', "write a whole number"),
        ("{path: a, major: true}", "major", '"true" is not a number', "write a whole number"),
        ("{path: a, major: [1]}", "major", "a list is not a number", "write a whole number"),
        ("{path: a, major: " + "9" * 40 + "}", "major", f'the number "{"9" * 40}" is too large', ""),
        ("{path: a, mode: 0680}", "mode", '"0680" is not a number', WITHOUT_ZERO),
        ("{path: a, mode: [7]}", "mode", "a list is not a number", "write a whole number"),
        ("{path: a, options: ro}", "options", 'expected a list, not "ro"', "begin each of its items with '- '"),
        ("{path: a, options: [ro, ~]}", "options[1]", "the value is missing", "write a value, or remove the key"),
        ("{path: a, Path: b}", "Path", "duplicate key", "remove one of the two"),
        ("{[a]: b}", "", "a key is a list", "write keys as strings"),
        ("{<<: {path: a}}", "", 'a key is "<<"', "write keys as strings"),
    ],
)
def test_a_wrong_value_is_an_error_with_position_and_next_step(text: str, place: str, reason: str, step: str) -> None:
    with pytest.raises(InvalidValue) as raised:
        read(text)
    assert (raised.value.field, raised.value.reason, raised.value.step) == (place, reason, step)


KEYS = ("new.example", "old.example")


def annotation(text: str) -> Annotation:
    return Annotation("k/container.c", text)


def refusal(call: Any, *args: Any) -> str:
    with pytest.raises(Reject) as raised:
        call(*args)
    return str(raised.value)


# -- which annotation counts ------------------------------------------------------------------------------------------

ORDER = [f"{key}{scope}" for scope in ("/container.c", "/pod", "") for key in KEYS]


@pytest.mark.parametrize("first", range(len(ORDER)))
def test_the_nearest_scope_counts_and_the_new_domain_has_precedence(first: int) -> None:
    rows = find(make_pod(annotations={key: f"at {key}" for key in ORDER[first:]}), "c", *KEYS)
    assert rows is not None
    assert (rows.key, rows.text) == (ORDER[first], f"at {ORDER[first]}")


def test_annotations_of_other_containers_and_keys_are_ignored() -> None:
    pod = make_pod(annotations={"new.example/container.d": "x", "new.example/container.": "x", "other": "x"})
    assert find(pod, "c", *KEYS) is None
    assert find(make_pod(), "c", *KEYS) is None


def test_without_a_pod_scope_the_pods_annotation_is_reported() -> None:
    pod = make_pod(annotations={"new.example/pod": "x"})
    assert find(pod, "c", *KEYS, pod_scope=False) is None
    warning = pod_scope_warning(pod, *KEYS)
    assert warning == "annotation new.example/pod has no effect; write new.example/container.NAME"
    assert pod_scope_warning(make_pod(annotations={"new.example/container.c": "x"}), *KEYS) == ""


def test_without_a_container_the_pods_annotations_count() -> None:
    rows = find(make_pod(annotations={"new.example": "1", "old.example/pod": "2"}), "", *KEYS)
    assert rows is not None
    assert rows.key == "old.example/pod"


# -- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "  \n", "# nothing yet", "~", "null"])
def test_an_empty_value_requests_nothing(text: str) -> None:
    rows = annotation(text)
    assert (rows.row(Thing), rows.rows(Thing), rows.texts(), rows.pairs()) == (None, [], [], {})


def test_json_with_blanks_or_tabs_is_accepted() -> None:
    assert annotation('[\n\t{"path": "/a",\n\t"major": 1}]').rows(Thing) == [Thing("/a", 1)]


def test_an_unknown_key_is_ignored_and_reported_with_a_suggestion() -> None:
    rows = annotation("path: x\nmajr: 3")
    assert rows.row(Thing) == Thing("x")
    assert rows.warnings == ['annotation k/container.c: majr: unknown key, ignored (did you mean "major"?)']


def test_the_report_of_an_unknown_key_is_one_short_line() -> None:
    rows = annotation('path: x\n"\\e[2J' + "k" * 1000 + '": 1')
    assert rows.row(Thing) == Thing("x")
    (line,) = rows.warnings
    assert line.isprintable()
    assert len(line) <= 1024


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{path: x}", "expected a list, not a mapping of keys to values; begin each of its items with '- '"),
        ("x", "expected a list, not \"x\"; begin each of its items with '- '"),
        ("[x]", "[0]: expected a mapping of keys to values, not \"x\"; write 'key: value'"),
        ("[{path: a}, ~]", "[1]: expected a mapping of keys to values, not nothing; write 'key: value'"),
        ("[{major: 1}]", "[0]: path is missing; add 'path: ...'"),
        ("[{path: a, major: x}]", '[0].major: "x" is not a number; write a whole number'),
        ("[{path: a, options: [ro, ~]}]", "[0].options[1]: the value is missing; write a value, or remove the key"),
        ("[{path: a, Path: b}]", "[0].Path: duplicate key; remove one of the two"),
        ("[{path: a, path: b}]", "line 1, [0].path: duplicate key; remove one of the two"),
        ("[{path: a}, {path: b}, {path: a}]", '[2].path: "a" is already at [0].path; remove one of the two'),
        ("- path: a\n  major 3", "line 3: not valid YAML: could not find expected ':'"),
        ("- &a [*a]", "line 1: the value contains itself"),
        ("[" * 150, "line 1: nested deeper than 100 levels"),
        ("a: b\n---\nc: d", "line 2: not valid YAML: there is a second document"),
        ("[{path: !!python/name:os.system x}]", None),
    ],
)
def test_a_wrong_value_is_refused_with_annotation_position_and_next_step(text: str, message: str | None) -> None:
    reason = refusal(annotation(text).rows, Thing, "path")
    assert reason.startswith("annotation k/container.c: ")
    if message is not None:
        assert reason == f"annotation k/container.c: {message}"


def test_strings_keep_their_spelling_and_duplicates_are_removed() -> None:
    assert annotation("[a, 1.0, 0x1, ~x]").texts() == ["a", "1.0", "0x1", "~x"]
    assert refusal(annotation("- a\n- b\n- a").texts).endswith('[2]: "a" is already at [0]; remove one of the two')
    assert refusal(annotation("- a\n-").texts).endswith("[1]: the value is missing; write a value, or remove the key")


def test_pairs_are_strings_under_any_key() -> None:
    assert annotation("net.core.somaxconn: 1024\nkernel.x: '0 7'").pairs() == {
        "net.core.somaxconn": "1024",
        "kernel.x": "0 7",
    }
    assert refusal(annotation("a.b:").pairs).endswith("a.b: the value is missing; write a value, or remove the key")
    expected = "expected a mapping of keys to values, not a list; write 'key: value'"
    assert refusal(annotation("[a]").pairs).endswith(expected)


def test_a_value_that_is_too_long_is_not_parsed() -> None:
    reason = refusal(annotation("[" + "a," * MAX_CHARACTERS + "]").texts)
    assert (
        reason == f"annotation k/container.c: the value has {2 * MAX_CHARACTERS + 2} characters; "
        f"write at most {MAX_CHARACTERS}"
    )


def test_aliases_that_multiply_are_refused() -> None:
    lines = ["- &h0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"- &h{n} [{', '.join([f'*h{n - 1}'] * 9)}]" for n in range(1, 30)]
    assert f"expands to more than {MAX_VALUES} values" in refusal(annotation("\n".join(lines)).texts)


def test_a_refusal_is_one_short_line_for_any_annotation() -> None:
    reason = refusal(Annotation("k\n\x1b[2J", '[{path: a, major: "' + "x" * 5000 + '\\n\\e[2J"}]').rows, Thing)
    assert reason.isprintable()
    assert len(reason) < 1000


# -- errors of builders -----------------------------------------------------------------------------------------------


def test_the_error_of_a_builder_names_the_key_of_the_annotation() -> None:
    rows = annotation("")

    def build() -> None:
        with rows.at("[3]", device="path"):
            Adjustment().add_device("dev/null")

    assert refusal(build) == "annotation k/container.c: [3].path: must be an absolute path, not 'dev/null'"


def test_the_error_of_a_builder_about_one_of_several_keeps_its_position() -> None:
    rows = annotation("")

    def build() -> None:
        with rows.at("", options="Options"):
            Adjustment().add_mount("/a", options=["ro", "\0"])

    assert refusal(build).startswith("annotation k/container.c: Options[1]: must not contain NUL")
