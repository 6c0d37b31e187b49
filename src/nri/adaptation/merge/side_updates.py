"""The merged updates and evictions of an event of any kind: `SideUpdates`.

Each reply is merged in two steps: `plan` claims everything and may fail, `commit` changes the merged updates and cannot
fail. The container of an UpdateContainer request is separate: its update comes last and has the full set of resources,
and later plugins see it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple, Protocol

from nri.adaptation.merge.claims import Claimer
from nri.adaptation.merge.effects import put_resources
from nri.adaptation.merge.entries import Entry, read
from nri.adaptation.merge.ledger import Ledger
from nri.api import messages as m
from nri.api.fields import RESOURCES_TREE, ROWS, Kind
from nri.errors import ConflictError, PluginError, UpdateError
from nri.rules import Rules
from nri.text import cut, quote

_PIDS = next(row for row in ROWS if row.path == "linux.resources.pids")


_NONE = m.ContainerUpdate()

#: The reason for ignoring an update or eviction without a container id.
NO_CONTAINER: Final = "it does not name a container"
#: The reason for ignoring an update or eviction of an unknown container.
UNKNOWN_CONTAINER: Final = "the runtime does not know the container"
#: The reason for ignoring a field of an update.
NOT_IN_UPDATES: Final = "unsupported in an update"


class Eviction(NamedTuple):
    """A plugin's request to evict a container."""

    plugin: str
    container_id: str
    reason: str


class IgnoredRequest(NamedTuple):
    """A plugin's request that was ignored, with the reason."""

    plugin: str
    container_id: str
    field: str
    reason: str


class KnownContainers(Protocol):
    """The existing containers of the runtime, and the containers that are being created."""

    def __contains__(self, container_id: object) -> bool: ...

    def is_creating(self, container_id: str) -> bool:
        """Whether a container is being created."""


class _PlannedUpdate(NamedTuple):
    plugin: str
    update: m.ContainerUpdate
    entries: list[Entry]
    failed: bool
    is_deferred: bool = False


def folded(updates: Iterable[m.ContainerUpdate]) -> list[m.ContainerUpdate]:
    """Merge the updates of each container into one update; later fields override earlier fields."""
    by_target: dict[str, list[m.ContainerUpdate]] = {}
    for update in updates:
        by_target.setdefault(update.container_id, []).append(update)
    return [group[0] if len(group) == 1 else _merge_updates(group) for group in by_target.values()]


def _merge_updates(updates: list[m.ContainerUpdate]) -> m.ContainerUpdate:
    merged = m.ContainerUpdate(container_id=updates[0].container_id)
    merged.ignore_failure = all(update.ignore_failure for update in updates)
    put_resources(merged, [entry for update in updates for entry in read(update.linux.resources, RESOURCES_TREE)])
    return merged


class SideUpdates:
    """The merged updates of an event.

    Attributes:
        ignored: requests that were ignored without failing the event.
        deferred: (plugin, update) for the updates of containers that are being created.
        deferred_evictions: (plugin, eviction) for the evictions of containers that are being created.
        live: the resources of the requested container as later plugins see them; only for UpdateContainer.
        revision: counts the changes of `live`.
        evictions: the requested evictions; empty unless `Rules.evictions_kept`.
    """

    __slots__ = (
        "_containers",
        "_created",
        "_merged",
        "_requested",
        "_rules",
        "deferred",
        "deferred_evictions",
        "evictions",
        "ignored",
        "ledger",
        "live",
        "revision",
    )  # fmt: skip

    def __init__(
        self,
        ledger: Ledger,
        rules: Rules,
        containers: KnownContainers | None = None,
        *,
        created: str | None = None,
        requested: str | None = None,
        resources: m.LinuxResources | None = None,
    ) -> None:
        """`created` or `requested` is the event's own container, `resources` are the runtime's request for it."""
        self.ledger, self._rules, self._containers = ledger, rules, containers
        self._created, self._requested = created, requested
        self.live = _NONE
        if resources is not None:
            self.live = m.ContainerUpdate()
            self.live.linux.resources.CopyFrom(resources)
            self.live.linux.resources.memory.SetInParent()
            self.live.linux.resources.cpu.SetInParent()
        self.revision = 0
        self._merged: dict[str, m.ContainerUpdate] = {}
        self.ignored: list[IgnoredRequest] = []
        self.deferred: list[tuple[str, m.ContainerUpdate]] = []
        self.deferred_evictions: list[tuple[str, m.ContainerEviction]] = []
        self.evictions: list[Eviction] = []

    def plan(self, updates: Iterable[m.ContainerUpdate], plugin: str) -> list[_PlannedUpdate]:
        """Claim the fields of updates. Raises ConflictError, UpdateError or PluginError; the caller rolls back."""
        planned: list[_PlannedUpdate] = []
        for update in updates:
            absent = self._absence_reason(update.container_id)
            if absent:
                self.ignored.append(IgnoredRequest(plugin, update.container_id, "", absent))
                continue
            before = self.ledger.mark()
            try:
                planned.append(self._plan(update, plugin))
            except (ConflictError, UpdateError, PluginError) as error:
                if not self._may_ignore(update):
                    raise
                if self._rules.ignored_update_rolls_back or isinstance(error, UpdateError):
                    self.ledger.rollback(before)
                else:
                    planned.append(_PlannedUpdate(plugin, update, [], True))
                self.ignored.append(IgnoredRequest(plugin, update.container_id, "", str(error)))
        return planned

    def _may_ignore(self, update: m.ContainerUpdate) -> bool:
        if update.container_id == self._created and not self._rules.ignore_failure_covers_self_update:
            return False
        return update.ignore_failure

    def _plan(self, update: m.ContainerUpdate, plugin: str) -> _PlannedUpdate:
        target = update.container_id
        if target == self._created:
            text = f"plugin {quote(plugin)} asked update of {quote(cut(target))} during creation"
            raise UpdateError(plugin, target, "it is being created", text)
        entries = self._entries(update, plugin) if update.linux.HasField("resources") else []
        Claimer(self.ledger, self._rules, target, plugin).claim(entries)
        is_deferred = target != self._requested and self._is_creating(target)
        return _PlannedUpdate(
            plugin, update, [entry for entry in entries if entry.value is not None], False, is_deferred
        )

    def _absence_reason(self, target: str) -> str:
        """The reason why an update or eviction is ignored; "" if its container exists or is being created."""
        if not self._rules.absent_containers_left_out:
            return ""
        if not target:
            return NO_CONTAINER
        containers = self._containers
        # In this order, because a created container becomes known before it stops being created.
        if (
            containers is None
            or target in (self._created, self._requested)
            or containers.is_creating(target)
            or target in containers
        ):
            return ""
        return UNKNOWN_CONTAINER

    def _is_creating(self, target: str) -> bool:
        return (
            self._rules.absent_containers_left_out
            and self._containers is not None
            and self._containers.is_creating(target)
        )

    def _entries(self, update: m.ContainerUpdate, plugin: str) -> list[Entry]:
        """The entries of an update that are applied: no device rules, and process limits only if the rules say so."""
        entries: list[Entry] = []
        for entry in read(update.linux.resources, RESOURCES_TREE):
            if entry.row.kind is Kind.LIST or (entry.row is _PIDS and not self._rules.pids_in_updates):
                self.ignored.append(IgnoredRequest(plugin, update.container_id, entry.row.path, NOT_IN_UPDATES))
            else:
                entries.append(entry)
        is_requested = update.container_id == self._requested
        if is_requested and not self._rules.pids_in_updates and self.live.linux.resources.HasField("pids"):
            # The Go library claims the runtime's own process limit for the plugin that updates the container.
            entries.append(Entry(_PIDS, None))
        return entries

    def commit(self, planned: list[_PlannedUpdate]) -> None:
        """Merge the claimed updates."""
        deferred: list[m.ContainerUpdate] = []
        entries_by_id: dict[str, list[Entry]] = {}  # several updates may name the same container
        for plan in planned:
            update, entries = plan.update, plan.entries
            if not entries and self._rules.empty_updates_change_nothing:
                continue
            if plan.is_deferred:
                deferred.append(update)
                continue
            self._merged_update(update)
            if not plan.failed and update.linux.HasField("resources"):
                entries_by_id.setdefault(update.container_id, []).extend(entries)
        if deferred:
            plugin = planned[0].plugin
            self.deferred += [(plugin, update) for update in folded(deferred)]
        for target, entries in entries_by_id.items():
            is_requested = target == self._requested
            merged = self._merged[target]
            put_resources(self.live if is_requested else merged, entries, replaces=self._rules.limits_replace)
            if is_requested:
                merged.linux.resources.CopyFrom(self.live.linux.resources)
                self.revision += 1

    def _merged_update(self, update: m.ContainerUpdate) -> m.ContainerUpdate:
        merged = self._merged.get(update.container_id)
        if merged is not None:
            merged.ignore_failure = merged.ignore_failure and update.ignore_failure
            return merged
        merged = m.ContainerUpdate(container_id=update.container_id, ignore_failure=update.ignore_failure)
        merged.linux.resources.memory.SetInParent()
        merged.linux.resources.cpu.SetInParent()
        self._merged[update.container_id] = merged
        return merged

    def evict(self, evictions: Iterable[m.ContainerEviction], plugin: str) -> None:
        """Add a reply's evictions if the rules keep them."""
        if not self._rules.evictions_kept:
            return
        for eviction in evictions:
            absent = self._absence_reason(eviction.container_id)
            if absent:
                self.ignored.append(IgnoredRequest(plugin, eviction.container_id, "evict", absent))
            elif eviction.container_id not in (self._created, self._requested) and self._is_creating(
                eviction.container_id
            ):
                self.deferred_evictions.append((plugin, eviction))
            else:
                self.evictions.append(Eviction(plugin, eviction.container_id, eviction.reason))

    def updates(self) -> list[m.ContainerUpdate]:
        """The merged updates of other containers, in the order in which they were first named."""
        return [update for target, update in self._merged.items() if target != self._requested]

    def requested(self) -> m.ContainerUpdate:
        """The update of the requested container; an empty message if no plugin changed it."""
        return self._merged.get(self._requested or "", m.ContainerUpdate())

    def fill_evictions(self, target: Any) -> None:
        """Add the evictions to a reply."""
        for eviction in self.evictions:
            target.add(container_id=eviction.container_id, reason=eviction.reason)
