"""A spec during changes: only changed parts are copied."""

import pytest

from nri.errors import SpecError
from nri.oci.draft import Draft


def test_only_changed_parts_are_copied() -> None:
    spec = {"linux": {"sysctl": {"a": "1"}, "seccomp": {"syscalls": [1]}}, "hostname": "h"}
    draft = Draft(spec)
    draft.table("linux", "sysctl")["a"] = "2"
    assert spec["linux"]["sysctl"] == {"a": "1"}
    assert draft.spec["linux"]["sysctl"] == {"a": "2"}
    assert draft.spec["linux"]["seccomp"] is spec["linux"]["seccomp"]


def test_missing_objects_and_lists_are_created() -> None:
    draft = Draft({"linux": None})
    draft.rows("linux", "resources", "devices").append(1)
    draft.rows("linux", "resources", "devices").append(2)
    assert draft.spec == {"linux": {"resources": {"devices": [1, 2]}}}


def test_reading_creates_no_object() -> None:
    draft = Draft({"linux": None, "process": {"env": ["A=1"]}})
    assert draft.find("linux", "sysctl", "a") is None
    assert draft.objects("mounts") == []
    assert draft.texts("process", "args") == []
    assert draft.texts("process", "env") == ["A=1"]
    draft.drop("linux", "sysctl", "a")
    draft.drop("hostname")
    assert draft.spec == {"linux": None, "process": {"env": ["A=1"]}}


def test_dropping_a_key_does_not_change_the_old_spec() -> None:
    spec = {"linux": {"sysctl": {"a": "1"}}}
    draft = Draft(spec)
    draft.drop("linux", "sysctl", "a")
    assert (spec, draft.spec) == ({"linux": {"sysctl": {"a": "1"}}}, {"linux": {"sysctl": {}}})


@pytest.mark.parametrize(
    ("ask", "path", "reason"),
    [
        (lambda draft: draft.table("list", "x"), "list", "is not an object: [{}, 5]"),
        (lambda draft: draft.rows("text"), "text", 'is not a list: "x"'),
        (lambda draft: draft.find("text", "x"), "text", 'is not an object: "x"'),
        (lambda draft: draft.objects("text"), "text", 'is not a list: "x"'),
        (lambda draft: draft.objects("list"), "list[1]", "is not an object: 5"),
        (lambda draft: draft.texts("list"), "list", "is not a list of strings: [{}, 5]"),
    ],
)
def test_a_value_of_a_wrong_type_is_named(ask, path: str, reason: str) -> None:
    with pytest.raises(SpecError) as caught:
        ask(Draft({"list": [{}, 5], "text": "x"}))
    assert (caught.value.path, caught.value.reason) == (path, reason)
    assert str(caught.value) == f"the spec's {path} {reason}"


def test_a_spec_must_be_an_object() -> None:
    with pytest.raises(SpecError, match=r"is not an object: \[\]"):
        Draft([])  # type: ignore[arg-type]
