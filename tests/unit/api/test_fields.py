"""The table of adjustable fields covers the whole API."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from nri.api import messages as m
from nri.api.fields import (
    COMPOUND_FIELDS,
    RESOURCES_TREE,
    ROWS,
    TREE,
    DeclaredField,
    Kind,
    Row,
    Visibility,
    grow,
    named,
    touched,
)

#: Fields of an update that say which container and how, not what.
NOT_ADJUSTED = {"container_id", "ignore_failure"}
#: Removal cannot be asked for where a name may not start with a dash or the reference knows none.
REMOVABLE = {"annotations", "mounts", "env", "linux.devices", "linux.namespaces", "linux.sysctl", "linux.net_devices"}


def fields_without_row(descriptor: Any, tree: Any, path: str = "") -> Iterator[str]:
    for field in descriptor.fields:
        node = tree.get(field.number)
        if node is None:
            yield path + field.name
        elif not isinstance(node, Row):
            yield from fields_without_row(field.message_type, node, f"{path}{field.name}.")


def test_every_field_of_an_adjustment_has_a_row() -> None:
    missing = list(fields_without_row(m.ContainerAdjustment.DESCRIPTOR, TREE))
    assert not missing, f"add rows to nri.api.fields for {missing}"


def test_every_field_of_an_update_has_a_row() -> None:
    update = m.ContainerUpdate.DESCRIPTOR
    assert {field.name for field in update.fields} == {*NOT_ADJUSTED, "linux"}
    assert [field.name for field in m.LinuxContainerUpdate.DESCRIPTOR.fields] == ["resources"]
    missing = list(fields_without_row(m.LinuxResources.DESCRIPTOR, RESOURCES_TREE))
    assert not missing, f"add rows to nri.api.fields for {missing}"


def test_every_claim_of_the_api_belongs_to_exactly_one_row() -> None:
    claims = [row.claim for row in ROWS if row.claim]
    assert sorted(claims) == [value for value in sorted(m.Field.values()) if value]


def test_a_row_finds_its_field() -> None:
    for row in ROWS:
        parent = row.parent(m.ContainerAdjustment())
        field = parent.DESCRIPTOR.fields_by_name[row.name]
        if row.kind is Kind.KEYED:
            assert field.message_type.fields_by_name[row.key].number == 1, row.path
        assert (row.kind in (Kind.KEYED, Kind.LIST, Kind.ARGS, Kind.MAP)) == field.is_repeated, row.path
        assert bool(row.key) == (row.kind is Kind.KEYED), row.path
        assert (row.claim in COMPOUND_FIELDS) == (row.kind in (Kind.KEYED, Kind.MAP)), row.path


def test_fields_visible_to_later_plugins_exist_in_the_container() -> None:
    shown = [row for row in ROWS if row.shown is not Visibility.NEVER]
    assert [row.path for row in shown if row.name not in row.parent(m.Container()).DESCRIPTOR.fields_by_name] == []


def test_the_removable_rows_are_those_of_the_protocol() -> None:
    assert {row.path for row in ROWS if row.removable} == REMOVABLE


def test_a_field_without_an_owner_is_a_list() -> None:
    assert {row.path for row in ROWS if not row.claim} == {"linux.resources.devices", "linux.rdt.remove"}


def test_a_field_without_a_row_is_missing_in_the_tree() -> None:
    row = Row("linux.cgroups_path", Kind.SIMPLE, "CgroupsPath")
    tree = grow(m.ContainerAdjustment.DESCRIPTOR, "", {row.path: row})
    missing = list(fields_without_row(m.ContainerAdjustment.DESCRIPTOR, tree))
    assert {"annotations", "linux.resources"} <= set(missing) and row.path not in missing


def test_a_row_is_shown_with_its_path_and_kind() -> None:
    assert repr(ROWS[0]).startswith(f"Row({ROWS[0].path}, ")


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("env.*", [("env", "A"), ("env", "")], [("args", ""), ("annotations", "A")]),
        ("env", [("env", "A")], [("mounts", "A")]),
        ("Env.LEVEL", [("env", "LEVEL")], [("env", "LEVEL2")]),
        ("env.NRI_*", [("env", "NRI_A")], [("env", "NRI"), ("env", "A")]),
        ("annotations.example.com/a.b", [("annotations", "example.com/a.b")], [("annotations", "example.com/a")]),
        ("linux.devices./dev/a", [("linux.devices", "/dev/a")], [("linux.resources.devices", "")]),
        ("linux.resources.unified.memory.*", [("linux.resources.unified", "memory.high")], [("env", "memory.a")]),
        ("linux.resources.cpu", [("linux.resources.cpu.shares", "")], [("linux.resources.memory.limit", "")]),
        ("linux.resources.cpu.*", [("linux.resources.cpu.mems", "")], [("linux.resources.pids", "")]),
        ("MemLimit", [("linux.resources.memory.limit", "")], [("linux.resources.memory.swap", "")]),
        ("evict", [("evict", "")], [("env", "evict")]),
    ],
)
def test_a_declaration_covers_fields_and_keys(
    text: str, inside: list[tuple[str, str]], outside: list[tuple[str, str]]
) -> None:
    declared = DeclaredField(text)
    assert [entry for entry in inside if not declared.covers(*entry)] == []
    assert [entry for entry in outside if declared.covers(*entry)] == []


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("envs.*", 'did you mean "env"?'),
        ("linux.resource.cpu", 'did you mean "linux.resources.cpu"?'),
        ("MemoryLimit", 'did you mean "MemLimit"?'),
        ("args.first", "write for example Env"),
        ("env.", 'did you mean "env"?'),
        ("", "write for example Env"),
    ],
)
def test_an_unknown_field_is_an_error_with_the_nearest_name(text: str, hint: str) -> None:
    with pytest.raises(ValueError, match=re.escape(hint)):
        DeclaredField(text)
    assert named("env") == {"env"}


@pytest.mark.parametrize(
    ("one", "other", "key"),
    [
        ("env.*", "env.A", "A"),
        ("env.A*", "env.AB*", "AB*"),
        ("env.A*", "env.B*", None),
        ("env.A", "env.A", "A"),
        ("env.A", "env.B", None),
        ("env", "env.*", "*"),
    ],
)
def test_common_returns_the_keys_of_two_declarations(one: str, other: str, key: str | None) -> None:
    assert DeclaredField(one).common(DeclaredField(other)) == DeclaredField(other).common(DeclaredField(one)) == key


def test_touched_returns_keys_without_removal_marks() -> None:
    adjustment = m.ContainerAdjustment(
        annotations={"-a": "", "b": "1"}, env=[m.KeyValue(key="-C")], rlimits=[m.POSIXRlimit(type="-odd")], args=["x"]
    )
    adjustment.linux.resources.cpu.shares.value = 5
    assert {(row.path, key) for row, key in touched(adjustment)} == {
        ("annotations", "a"),
        ("annotations", "b"),
        ("env", "C"),
        ("rlimits", "-odd"),
        ("args", ""),
        ("linux.resources.cpu.shares", ""),
    }
