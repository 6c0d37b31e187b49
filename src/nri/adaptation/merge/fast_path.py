"""The usual reply, read in one pass: it sets each field once, no earlier plugin has set the fields, nothing is removed.

The claims of such a reply go into the ledger together, and its message is merged as a whole. `survey` checks whether a
reply may be a usual reply, without a call or an object per field; the ledger knows whether another plugin came first.
`nri.adaptation.merge.entries` handles all other replies.
"""

from __future__ import annotations

from typing import Any, Final

from nri.adaptation.merge.entries import Entry
from nri.api import messages as m
from nri.api.fields import TREE, Kind, Node, Row

#: The results of `ListFields` for a message and for all inner messages that are not rows themselves.
Fields = list[tuple[Any, Any]]

_SIMPLE: Final = Kind.SIMPLE
_MAP: Final = Kind.MAP
_KEYED: Final = Kind.KEYED
_LIST: Final = Kind.LIST
_ACCUMULATED: Final = Kind.ACCUMULATED
_ARGS: Final = Kind.ARGS


def _by_descriptor(descriptor: Any, tree: Node, steps: dict[Any, Row | None]) -> dict[Any, Row | None]:
    for field in descriptor.fields:
        node = tree.get(field.number)
        if isinstance(node, Row):
            steps[field] = node
        elif node is not None:
            steps[field] = None
            _by_descriptor(field.message_type, node, steps)
    return steps


# The tree as a flat table: the row of each field descriptor, or None for a message that contains rows. Descriptors are
# single objects, so looking up a descriptor is faster than reading its number.
_STEPS: Final = _by_descriptor(m.ContainerAdjustment.DESCRIPTOR, TREE, {})


# Plugins for iSulad send this field empty with any other field of `linux`; the merged reply always has it.
_RESOURCES: Final = m.LinuxContainerAdjustment.DESCRIPTOR.fields_by_name["resources"]


def survey(adjust: m.ContainerAdjustment, container: str) -> tuple[Fields, list[tuple[str, int, str]]] | None:
    """Return all fields that an adjustment sets, and the claims that they need.

    Returns None if the adjustment has a removal mark, or an empty message other than `linux.resources`.
    """
    fields: Fields = adjust.ListFields()  # type: ignore[assignment]  # a list, although its stub disagrees
    claims: list[tuple[str, int, str]] = []
    for field, value in fields:
        row = _STEPS[field]
        if row is None:
            inner = value.ListFields()
            if not inner and field is not _RESOURCES:
                return None
            fields += inner  # the loop continues with the inner fields
            continue
        kind = row.kind
        if kind is _SIMPLE:
            claims.append((container, row.claim, ""))
        elif kind is _KEYED or kind is _MAP:
            number = row.claim
            # A slice is used, because protobuf's lists end an iteration with an exception.
            keys: list[str] = list(value) if kind is _MAP else [getattr(element, row.key) for element in value[:]]
            for key in keys:
                if key.startswith("-"):
                    return None
                claims.append((container, number, key))
        elif (kind is _ACCUMULATED and value.ListFields()) or (kind is _ARGS and value[0]):
            claims.append((container, row.claim, ""))
        elif kind is not _ACCUMULATED and kind is not _LIST:
            return None
    return fields, claims


def entries(fields: Fields) -> list[Entry]:
    """Convert fields to entries, in no special order: no field depends on another field."""
    return [Entry(row, value) for field, value in fields if (row := _STEPS[field]) is not None]


def split(fields: Fields) -> tuple[bool, list[Entry]]:
    """Whether there are resources that can be merged over any others, and the remaining fields as entries.

    Maps, strings, and messages with a single value that is not zero can be merged in this way.
    """
    merging = False
    remaining: list[Entry] = []
    for field, value in fields:
        row = _STEPS[field]
        if row is None:
            continue
        if row.in_resources and (row.kind is _MAP or row.is_text or (row.is_wrapper and value.ListFields())):
            merging = True
        else:
            remaining.append(Entry(row, value))
    return merging, remaining
