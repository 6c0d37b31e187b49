"""Merge UpdateContainer and StopContainer: the resources of the container, and updates of other containers."""

from __future__ import annotations

from collections.abc import Iterable

from nri.adaptation.merge.ledger import Ledger
from nri.adaptation.merge.side_updates import IgnoredRequest, KnownContainers, SideUpdates
from nri.api import messages as m
from nri.errors import NriError
from nri.rules import Rules


class UpdateMerge:
    """The merge of an UpdateContainer event. `containers` are the existing containers; None disables the check."""

    __slots__ = ("_request", "ledger", "side")

    def __init__(
        self, request: m.UpdateContainerRequest, rules: Rules = Rules.DEFAULT, containers: KnownContainers | None = None
    ) -> None:
        self._request = request
        self.ledger = Ledger(rules)
        requested, resources = request.container.id, request.linux_resources
        self.side = SideUpdates(self.ledger, rules, containers, requested=requested, resources=resources)

    def apply(self, plugin: str, reply: m.UpdateContainerResponse) -> None:
        """Merge a plugin's reply completely.

        Raises ConflictError, UpdateError or PluginError and then merges nothing.
        """
        _take_updates(self.side, plugin, reply.update)
        self.side.evict(reply.evict, plugin)

    @property
    def resources(self) -> m.LinuxResources:
        """The merged resources of the container, as the next plugin sees them. Do not change them."""
        return self.side.live.linux.resources

    @property
    def revision(self) -> int:
        """The number of changes of `resources`."""
        return self.side.revision

    @property
    def request(self) -> m.UpdateContainerRequest:
        """The request for the next plugin, as a new message. The runtime's own message is not changed."""
        request = m.UpdateContainerRequest()
        request.CopyFrom(self._request)
        request.linux_resources.CopyFrom(self.resources)
        return request

    def reply(self) -> m.UpdateContainerResponse:
        """The merged reply.

        Its last update is always the requested container's; it is empty if no plugin changed it.
        """
        reply = m.UpdateContainerResponse(update=[*self.side.updates(), self.side.requested()])
        self.side.fill_evictions(reply.evict)
        return reply

    @property
    def ignored(self) -> list[IgnoredRequest]:
        """The requests in replies that were ignored without failing the event."""
        return self.side.ignored

    def owners(self) -> m.OwningPlugins:
        """The owner of each field that was set."""
        return self.ledger.message()


class StopMerge:
    """The merge of a StopContainer event. `containers` are the existing containers; None disables the check."""

    __slots__ = ("ledger", "request", "side")

    def __init__(
        self, request: m.StopContainerRequest, rules: Rules = Rules.DEFAULT, containers: KnownContainers | None = None
    ) -> None:
        self.request = request
        self.ledger = Ledger(rules)
        self.side = SideUpdates(self.ledger, rules, containers)

    def apply(self, plugin: str, reply: m.StopContainerResponse) -> None:
        """Merge a plugin's reply completely.

        Raises ConflictError, UpdateError or PluginError and then merges nothing.
        """
        _take_updates(self.side, plugin, reply.update)

    def reply(self) -> m.StopContainerResponse:
        """The merged reply."""
        return m.StopContainerResponse(update=self.side.updates())

    @property
    def ignored(self) -> list[IgnoredRequest]:
        """The requests in replies that were ignored without failing the event."""
        return self.side.ignored

    def owners(self) -> m.OwningPlugins:
        """The owner of each field that was set."""
        return self.ledger.message()


def _take_updates(side: SideUpdates, plugin: str, updates: Iterable[m.ContainerUpdate]) -> None:
    before, ignored = side.ledger.mark(), len(side.ignored)
    try:
        planned = side.plan(updates, plugin)
    except NriError:
        side.ledger.rollback(before)
        del side.ignored[ignored:]
        raise
    side.commit(planned)
