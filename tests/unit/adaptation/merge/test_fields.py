"""The table of adjustable fields covers the whole API."""

from collections.abc import Iterator
from typing import Any

from nri.adaptation.merge.fields import COMPOUND_FIELDS, RESOURCES_TREE, ROWS, TREE, Kind, Row, Visibility, grow
from nri.api import messages as m

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
    assert not missing, f"add rows to nri.adaptation.merge.fields for {missing}"


def test_every_field_of_an_update_has_a_row() -> None:
    update = m.ContainerUpdate.DESCRIPTOR
    assert {field.name for field in update.fields} == {*NOT_ADJUSTED, "linux"}
    assert [field.name for field in m.LinuxContainerUpdate.DESCRIPTOR.fields] == ["resources"]
    missing = list(fields_without_row(m.LinuxResources.DESCRIPTOR, RESOURCES_TREE))
    assert not missing, f"add rows to nri.adaptation.merge.fields for {missing}"


def test_every_claim_of_the_api_guards_exactly_one_row() -> None:
    claims = [row.claim for row in ROWS if row.claim]
    assert sorted(claims) == [value for value in sorted(m.Field.values()) if value]


def test_a_row_leads_to_its_field() -> None:
    for row in ROWS:
        parent = row.parent(m.ContainerAdjustment())
        field = parent.DESCRIPTOR.fields_by_name[row.name]
        if row.kind is Kind.KEYED:
            assert field.message_type.fields_by_name[row.key].number == 1, row.path
        assert (row.kind in (Kind.KEYED, Kind.LIST, Kind.ARGS, Kind.MAP)) == field.is_repeated, row.path
        assert bool(row.key) == (row.kind is Kind.KEYED), row.path
        assert (row.claim in COMPOUND_FIELDS) == (row.kind in (Kind.KEYED, Kind.MAP)), row.path


def test_what_later_plugins_see_is_a_field_of_the_container() -> None:
    shown = [row for row in ROWS if row.shown is not Visibility.NEVER]
    assert [row.path for row in shown if row.name not in row.parent(m.Container()).DESCRIPTOR.fields_by_name] == []


def test_the_rows_that_know_removal_are_those_of_the_protocol() -> None:
    assert {row.path for row in ROWS if row.removable} == REMOVABLE


def test_a_field_that_nobody_owns_is_a_list() -> None:
    assert {row.path for row in ROWS if not row.claim} == {"linux.resources.devices", "linux.rdt.remove"}


def test_a_field_that_leads_to_no_row_is_left_out_of_the_tree_for_a_test_to_notice() -> None:
    row = Row("linux.cgroups_path", Kind.SIMPLE, "CgroupsPath")
    tree = grow(m.ContainerAdjustment.DESCRIPTOR, "", {row.path: row})
    missing = list(fields_without_row(m.ContainerAdjustment.DESCRIPTOR, tree))
    assert {"annotations", "linux.resources"} <= set(missing) and row.path not in missing


def test_a_row_is_shown_with_its_path_and_kind() -> None:
    assert repr(ROWS[0]).startswith(f"Row({ROWS[0].path}, ")
