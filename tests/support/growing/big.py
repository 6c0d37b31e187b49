"""Adjustments, updates and containers of any number of entries.

Every repeated field and map of an adjustment is filled from the merge table and the descriptors, so a new field is
covered without a line here. Next: `tests.support.growing.creations`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nri.api import messages as m
from nri.api.fields import ROWS, Kind, Row

__all__ = ["POD", "REPEATED", "Case", "adjustment", "container", "fill", "names", "rows", "update", "updates"]

#: A case makes its input of a size, and returns what is measured.
Case = Callable[[int], Callable[[], object]]

POD = m.PodSandbox(id="pod", name="pod", namespace="web")

#: The rows of the merge table that hold any number of entries.
REPEATED: tuple[Row, ...] = tuple(row for row in ROWS if row.kind not in (Kind.SIMPLE, Kind.RESET))


def names(prefix: str, count: int) -> list[str]:
    """So many keys."""
    return [f"{prefix}{n}" for n in range(count)]


def rows(below: str = "") -> dict[str, Row]:
    """The rows with any number of entries, by path."""
    return {row.path: row for row in REPEATED if row.path.startswith(below)}


def fill(holder: Any, row: Row, keys: list[str]) -> None:
    """Put one entry per key into a row's field of an adjustment, an update or a container."""
    parent = row.parent(holder)
    target = getattr(parent, row.name)
    if row.kind is Kind.ACCUMULATED:
        for key in keys:
            target.prestart.add(path="/bin/" + key, args=[key])
    elif row.kind is Kind.ARGS or (row.path == "env" and isinstance(holder, m.Container)):
        target.extend([f"{key}=of the image" for key in keys])
    elif row.kind is Kind.KEYED:
        for key in keys:
            target.add(**{row.key: key})
    elif row.kind is Kind.LIST:
        for key in keys:
            target.add(allow=True, access=key)
    elif hasattr(target, "get_or_create"):
        for key in keys:
            target.get_or_create(key)
    else:
        for key in keys:
            target[key] = "value"


def adjustment(row: Row, keys: list[str]) -> m.CreateContainerResponse:
    """A reply to CreateContainer that sets one field, an entry per key."""
    reply = m.CreateContainerResponse()
    reply.adjust.SetInParent()
    fill(reply.adjust, row, keys)
    return reply


def container(row: Row | None = None, keys: list[str] | None = None, container_id: str = "made") -> m.Container:
    """A container that has these entries from the start, where containers show the field."""
    container = m.Container(id=container_id, name="made", pod_sandbox_id="pod")
    if row is not None and row.always_shown:
        fill(container, row, keys or [])
    return container


def update(container_id: str, value: int = 5) -> m.ContainerUpdate:
    """An update of one value."""
    update = m.ContainerUpdate(container_id=container_id)
    update.linux.resources.cpu.shares.value = value
    return update


def updates(count: int, prefix: str = "c") -> list[m.ContainerUpdate]:
    """An update of one value for each of so many containers."""
    return [update(f"{prefix}{n}") for n in range(count)]
