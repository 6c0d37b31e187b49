"""The containers that there are as the merge asks for them: `Known`, a view of `nri.adaptation.audit.inventory`.

Next: `nri.adaptation.merge.update_book`, which asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

__all__ = ["Known"]


class Known:
    """The containers that there are, for `in`, those being created, and their namespaces.

    Read without a lock: ask `is_creating` before `in`. A container that has just been created is known before it is no
    longer being created, so the other way round it would be missed.
    """

    __slots__ = ("_creations", "records")

    def __init__(self, records: Mapping[str, Any], creations: Mapping[str, Any]) -> None:
        """Look into these, which change meanwhile: the containers that are there, and those being created.

        Their values have a `namespace`: what they are is the inventory's, which stands above this module.
        """
        self.records = records
        self._creations = creations

    def __contains__(self, container_id: object) -> bool:
        return container_id in self.records

    def __len__(self) -> int:
        return len(self.records)

    def begins(self, prefix: str) -> bool:
        """Whether a container is there whose id begins so. It looks at all of them: for people, not for events."""
        return any(one.startswith(prefix) for one in list(self.records))

    def is_creating(self, container_id: str) -> bool:
        """Whether a container is being created, so that an update for it can only be kept."""
        return container_id in self._creations

    def namespace_of(self, container_id: str) -> str | None:
        """The namespace of a container's pod; None for a container that is not there."""
        record = self.records.get(container_id) or self._creations.get(container_id)
        return None if record is None else record.namespace
