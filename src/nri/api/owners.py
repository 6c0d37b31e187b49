"""Read the table of owners that validators get: which plugin set which field.

Plugins are named `<index>-<name>`. A leading `-` means that this plugin removed the entry. Hooks may have several
owners. Fields are named as in the enum `Field` (`CPUShares`, `Env`, ...), or numbered.
"""

from __future__ import annotations

from nri.api.messages import Field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nri.api.messages import OwningPlugins


def owner(owners: OwningPlugins, container_id: str, field: str | int, key: str | None = None) -> str | None:
    """The plugin that set a field of a container, or an entry of the field. Returns None if no plugin set it.

    Args:
        owners: the table.
        container_id: the container that is being created, or a container that was updated in the same event.
        field: name or number of the field.
        key: the entry, for fields with several owners, for example the name of a variable.

    Raises:
        ValueError: the field is unknown.
    """
    if key is not None:
        return entry_owners(owners, container_id, field).get(key)
    if container_id not in owners.owners:
        return None
    return owners.owners[container_id].simple.get(_number(field))


def entry_owners(owners: OwningPlugins, container_id: str, field: str | int) -> dict[str, str]:
    """The plugins of a field's entries by key, for example by type of namespace.

    Raises:
        ValueError: the field is unknown.
    """
    number = _number(field)
    if container_id not in owners.owners or number not in owners.owners[container_id].compound:
        return {}
    return dict(owners.owners[container_id].compound[number].owners)


def owners_of(owners: OwningPlugins, container_id: str) -> dict[str, str]:
    """All owners in a container by field, in field order; with the key in brackets if the field has keys."""
    if container_id not in owners.owners:
        return {}
    fields = owners.owners[container_id]
    rows = [(number, "", plugin) for number, plugin in fields.simple.items()]
    rows += [
        (number, f"[{key}]", plugin)
        for number, entries in fields.compound.items()
        for key, plugin in entries.owners.items()
    ]
    return {field_name(number) + key: plugin for number, key, plugin in sorted(rows)}


def field_name(number: int) -> str:
    """The name of a field in the enum `Field`, or `Field(<number>)` for an unknown field."""
    value = Field.DESCRIPTOR.values_by_number.get(number)
    return value.name if value is not None else f"Field({number})"


def _number(field: str | int) -> int:
    if isinstance(field, int):
        return field
    value = Field.DESCRIPTOR.values_by_name.get(field)
    if value is None:
        raise ValueError(f"unknown field {field!r}: expected a name of the enum Field, for example CPUShares")
    return value.number
