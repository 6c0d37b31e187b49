"""Shadow plugins: they are called like all others, and their answers are compared and reported, but never applied.

An operator runs a new plugin, or a new version of a plugin, as a shadow to see how it would change the node's
containers, and which conflicts it would cause. Changes are relative to the container after the earlier plugins.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from nri.adaptation.audit.diff import Change, of_adjustment, of_update
from nri.adaptation.merge import Ledger
from nri.api import messages as m
from nri.api.fields import FIELD_NAMES
from nri.text import LINE_LENGTH, plain

_NUMBERS = {name: number for number, name in FIELD_NAMES.items()}


class ShadowReport(NamedTuple):
    """The changes that a shadow plugin would have made.

    Attributes:
        plugin: ``NN-name``.
        event: the RPC name.
        pod: ``namespace/name`` of the event's pod.
        container: the name of the event's container, or "".
        changes: the changes of fields.
        conflicts: fields that other plugins own: (field, key, owner).
        evictions: containers that the plugin would have evicted: (id, reason).
        failed: the plugin's error, or why it did not answer; "" if it answered.
    """

    plugin: str
    event: str
    pod: str
    container: str
    changes: list[Change]
    conflicts: list[tuple[str, str, str]]
    evictions: list[tuple[str, str]]
    failed: str = ""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to report."""
        return not (self.changes or self.evictions or self.failed)

    def to_json(self) -> dict[str, Any]:
        """The report as a JSON object."""
        return {
            **self._asdict(),
            "changes": [change.to_json() for change in self.changes],
            "conflicts": [{"field": field, "key": key, "holder": holder} for field, key, holder in self.conflicts],
            "evictions": [{"container": target, "reason": reason} for target, reason in self.evictions],
        }

    def __str__(self) -> str:
        """The report as one line for the log."""
        where = "/".join(filter(None, (self.pod, self.container)))
        holders = {(field, key): holder for field, key, holder in self.conflicts}
        parts = []
        for change in self.changes:
            holder = holders.get((change.field, change.key))
            parts.append(f"{change} (in conflict with {holder})" if holder else str(change))
        parts += [f"evict {target}: {reason}" for target, reason in self.evictions]
        if self.failed:
            parts.append(f"failed: {self.failed}")
        what = "; ".join(parts) or "done nothing"
        return plain(f"shadow plugin {self.plugin} at {self.event} of {where} would have: {what}", 4 * LINE_LENGTH)


def report(
    plugin: str,
    event: str,
    pod: m.PodSandbox,
    container: m.Container | None,
    reply: Any = None,
    *,
    failed: str = "",
    ledger: Ledger | None = None,
    resources_of: Callable[[str], m.LinuxResources | None] | None = None,
) -> ShadowReport:
    """Describe a shadow plugin's answer.

    Args:
        plugin: ``NN-name``.
        event: the RPC name.
        pod: the event's pod.
        container: the event's container, as the plugin saw it; None for pod events.
        reply: the plugin's answer, the response message of the event; None without an answer.
        failed: the error, if the plugin did not answer.
        ledger: the owners of fields, for conflicts.
        resources_of: returns the resources of another container by its id, None if unknown.
    """
    changes: list[Change] = []
    if container is not None and hasattr(reply, "adjust"):
        changes += of_adjustment(reply.adjust, container)
    for request in getattr(reply, "update", ()):
        changes += of_update(request, None if resources_of is None else resources_of(request.container_id))
    return ShadowReport(
        plugin,
        event,
        f"{pod.namespace}/{pod.name}" if pod.namespace else pod.name or pod.id,
        "" if container is None else container.name or container.id,
        changes,
        _conflicts(changes, plugin, ledger),
        [(request.container_id, request.reason) for request in getattr(reply, "evict", ())],
        failed,
    )


def _conflicts(changes: list[Change], plugin: str, ledger: Ledger | None) -> list[tuple[str, str, str]]:
    """The fields that other plugins own. Removed fields and hooks are never in conflict."""
    conflicts = []
    for change in changes:
        number = _NUMBERS.get(change.field, 0)
        if ledger is None or not number or change.after is None or number == m.Field.OciHooks:
            continue
        holder = ledger.owner(change.container, number, change.key)
        if holder and not holder.startswith("-") and holder != plugin:
            conflicts.append((change.field, change.key, holder))
    return conflicts


def of_reply(
    plugin: str,
    event: str,
    pod: m.PodSandbox,
    container: m.Container | None,
    reply: bytes,
    kind: Any,
    ledger: Ledger,
    resources_of: Callable[[str], m.LinuxResources | None],
) -> ShadowReport:
    """Describe a shadow plugin's encoded answer, a message of class `kind`. The other arguments are as in `report`."""
    try:
        message = kind.FromString(reply)
    except Exception as error:  # noqa: BLE001 - the decoder's errors have no common base
        return failure(plugin, event, pod, f"its reply is invalid: {error}")
    return report(plugin, event, pod, container, message, ledger=ledger, resources_of=resources_of)


def failure(plugin: str, event: str, pod: m.PodSandbox, what: str) -> ShadowReport:
    """Describe the failure of a shadow plugin."""
    return report(plugin, event, pod, None, failed=what)
