"""The merged updates and evictions of one event: `SideUpdates`, for the replies of every kind of event.

Each reply is taken in two halves: `plan` claims everything and may fail, `commit` changes the merged updates and
cannot. The container that an UpdateContainer request is about is kept aside: its update comes last, holds the full
set of resources, and is what later plugins see.
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

__all__ = [
    "NOT_IN_UPDATES",
    "NO_CONTAINER",
    "UNKNOWN_CONTAINER",
    "Eviction",
    "Ignored",
    "KnownContainers",
    "SideUpdates",
    "folded",
]

_PIDS = next(row for row in ROWS if row.path == "linux.resources.pids")


_NONE = m.ContainerUpdate()

#: Why an update or eviction is left out.
NO_CONTAINER: Final = "it names no container"
UNKNOWN_CONTAINER: Final = "the runtime knows no such container"
#: Why a field of an update is left out.
NOT_IN_UPDATES: Final = "unsupported in an update"


class Eviction(NamedTuple):
    """One plugin asks that a container be evicted."""

    plugin: str
    container_id: str
    reason: str


class Ignored(NamedTuple):
    """Something that a plugin asked for and that was left out, with the reason."""

    plugin: str
    container_id: str
    field: str
    reason: str


class KnownContainers(Protocol):
    """The containers that the runtime has, and those that it is about to have."""

    def __contains__(self, container_id: object) -> bool: ...

    def is_creating(self, container_id: str) -> bool:
        """Whether a container is being created."""


class _Planned(NamedTuple):
    plugin: str
    update: m.ContainerUpdate
    entries: list[Entry]
    failed: bool
    kept: bool = False


def folded(updates: Iterable[m.ContainerUpdate]) -> list[m.ContainerUpdate]:
    """Updates with one for each container: what a later one of a container sets counts."""
    by_target: dict[str, list[m.ContainerUpdate]] = {}
    for update in updates:
        by_target.setdefault(update.container_id, []).append(update)
    return [same[0] if len(same) == 1 else _fold(same) for same in by_target.values()]


def _fold(same: list[m.ContainerUpdate]) -> m.ContainerUpdate:
    whole = m.ContainerUpdate(container_id=same[0].container_id)
    whole.ignore_failure = all(update.ignore_failure for update in same)
    put_resources(whole, [entry for update in same for entry in read(update.linux.resources, RESOURCES_TREE)])
    return whole


class SideUpdates:
    """The merged updates of one event.

    Attributes:
        ignored: what was left out without failing the event.
        kept: (plugin, update) of the updates for containers that are only being created.
        kept_evictions: likewise.
        live: what the requested container is to have, as later plugins see it; used for UpdateContainer alone.
        revision: counts the changes of `live`.
        evictions: what the replies asked to evict; empty unless Rules.evictions_kept.
    """

    __slots__ = (
        "_created", "_known", "_merged", "_requested", "_rules", "evictions", "ignored", "kept", "kept_evictions",
        "ledger", "live", "revision",
    )  # fmt: skip

    def __init__(
        self,
        ledger: Ledger,
        rules: Rules,
        known: KnownContainers | None = None,
        *,
        created: str | None = None,
        requested: str | None = None,
        resources: m.LinuxResources | None = None,
    ) -> None:
        """`created` or `requested` is the event's own container, `resources` what is requested for it."""
        self.ledger, self._rules, self._known = ledger, rules, known
        self._created, self._requested = created, requested
        self.live = _NONE
        if resources is not None:
            self.live = m.ContainerUpdate()
            self.live.linux.resources.CopyFrom(resources)
            self.live.linux.resources.memory.SetInParent()
            self.live.linux.resources.cpu.SetInParent()
        self.revision = 0
        self._merged: dict[str, m.ContainerUpdate] = {}
        self.ignored: list[Ignored] = []
        self.kept: list[tuple[str, m.ContainerUpdate]] = []
        self.kept_evictions: list[tuple[str, m.ContainerEviction]] = []
        self.evictions: list[Eviction] = []

    def plan(self, updates: Iterable[m.ContainerUpdate], plugin: str) -> list[_Planned]:
        """Claim what the updates ask for. Raises ConflictError, UpdateError or PluginError; the caller rolls back."""
        planned: list[_Planned] = []
        for update in updates:
            absent = self._why_absent(update.container_id)
            if absent:
                self.ignored.append(Ignored(plugin, update.container_id, "", absent))
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
                    planned.append(_Planned(plugin, update, [], True))
                self.ignored.append(Ignored(plugin, update.container_id, "", str(error)))
        return planned

    def _may_ignore(self, update: m.ContainerUpdate) -> bool:
        if update.container_id == self._created and not self._rules.ignore_failure_covers_self_update:
            return False
        return update.ignore_failure

    def _plan(self, update: m.ContainerUpdate, plugin: str) -> _Planned:
        target = update.container_id
        if target == self._created:
            text = f"plugin {quote(plugin)} asked update of {quote(cut(target))} during creation"
            raise UpdateError(plugin, target, "it is being created", text)
        entries = self._entries(update, plugin) if update.linux.HasField("resources") else []
        Claimer(self.ledger, self._rules, target, plugin).claim(entries)
        kept = target != self._requested and self._is_creating(target)
        return _Planned(plugin, update, [entry for entry in entries if entry.value is not None], False, kept)

    def _why_absent(self, target: str) -> str:
        """Say why an update or eviction is left out; "" if its container is there, or about to be."""
        if not self._rules.absent_containers_left_out:
            return ""
        if not target:
            return NO_CONTAINER
        known = self._known
        # In this order: a container that has just been created is known before it is no longer being created.
        if known is None or target in (self._created, self._requested) or known.is_creating(target) or target in known:
            return ""
        return UNKNOWN_CONTAINER

    def _is_creating(self, target: str) -> bool:
        return self._rules.absent_containers_left_out and self._known is not None and self._known.is_creating(target)

    def _entries(self, update: m.ContainerUpdate, plugin: str) -> list[Entry]:
        """The rows that count in an update: no device rules, and process limits as the rules say."""
        entries: list[Entry] = []
        for entry in read(update.linux.resources, RESOURCES_TREE):
            if entry.row.kind is Kind.LIST or (entry.row is _PIDS and not self._rules.pids_in_updates):
                self.ignored.append(Ignored(plugin, update.container_id, entry.row.path, NOT_IN_UPDATES))
            else:
                entries.append(entry)
        mine = update.container_id == self._requested
        if mine and not self._rules.pids_in_updates and self.live.linux.resources.HasField("pids"):
            # The reference claims the runtime's own process limit for the plugin that updates the container.
            entries.append(Entry(_PIDS, None))
        return entries

    def commit(self, planned: list[_Planned]) -> None:
        """Merge what was claimed."""
        kept: list[m.ContainerUpdate] = []
        wanted: dict[str, list[Entry]] = {}  # by container, which many updates may name
        for plan in planned:
            update, entries = plan.update, plan.entries
            if not entries and self._rules.empty_updates_change_nothing:
                continue
            if plan.kept:
                kept.append(update)
                continue
            self._merged_update(update)
            if not plan.failed and update.linux.HasField("resources"):
                wanted.setdefault(update.container_id, []).extend(entries)
        if kept:
            plugin = planned[0].plugin
            self.kept += [(plugin, update) for update in folded(kept)]
        for target, entries in wanted.items():
            mine = target == self._requested
            merged = self._merged[target]
            put_resources(self.live if mine else merged, entries, replaces=self._rules.limits_replace)
            if mine:
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
        """Keep a reply's evictions, if the rules keep them."""
        if not self._rules.evictions_kept:
            return
        for each in evictions:
            absent = self._why_absent(each.container_id)
            if absent:
                self.ignored.append(Ignored(plugin, each.container_id, "evict", absent))
            elif each.container_id not in (self._created, self._requested) and self._is_creating(each.container_id):
                self.kept_evictions.append((plugin, each))
            else:
                self.evictions.append(Eviction(plugin, each.container_id, each.reason))

    def updates(self) -> list[m.ContainerUpdate]:
        """Merged updates of other containers, in the order in which they were first named."""
        return [update for target, update in self._merged.items() if target != self._requested]

    def requested(self) -> m.ContainerUpdate:
        """The update of the requested container; an empty message if no plugin touched it."""
        return self._merged.get(self._requested or "", m.ContainerUpdate())

    def fill_evictions(self, target: Any) -> None:
        """Add the evictions to a reply."""
        for each in self.evictions:
            target.add(container_id=each.container_id, reason=each.reason)
