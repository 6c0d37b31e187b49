"""The replies of `FakeRuntime`, with a typed reader for everything that a plugin can set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nri.api import owners
from nri.api.builders.adjustment import Adjustment
from nri.api.builders.eviction import Eviction
from nri.api.builders.update import Update
from nri.api.builders.view import AdjustmentView, ResourceView

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nri import adaptation
    from nri.api import messages as m


def _by_id(updates: Iterable[m.ContainerUpdate]) -> dict[str, Update]:
    return {update.container_id: Update.of(update) for update in updates}


def _evictions(evictions: Iterable[m.ContainerEviction]) -> list[Eviction]:
    return [Eviction.of(eviction) for eviction in evictions]


class StopReply:
    """The outcome of stopping a container.

    Attributes:
        updates: updates of other containers, by id.
        owners: the plugin that set each field.
        reply: the adaptation's reply, with `ignored`.
    """

    reply: adaptation.CreateReply | adaptation.UpdateReply | adaptation.StopReply

    def __init__(
        self, reply: adaptation.CreateReply | adaptation.UpdateReply | adaptation.StopReply, container_id: str
    ) -> None:
        self.reply = reply
        self._container_id = container_id
        self.updates = _by_id(reply.updates)
        self.owners: m.OwningPlugins = reply.owners

    def __repr__(self) -> str:
        return f"{type(self).__name__}(updates={list(self.updates.values())!r})"

    def owner(self, field: str | int, key: str | None = None, container_id: str = "") -> str | None:
        """The plugin (``NN-name``) that set a field, or an entry of it; see `nri.ValidationRequest.owner`.

        `container_id` defaults to the event's container.
        """
        return owners.owner(self.owners, container_id or self._container_id, field, key)

    def commit(self) -> None:
        """Confirm that the runtime's request succeeded."""
        self.reply.commit()

    def abort(self) -> dict[str, Update]:
        """Undo the updates, because the runtime's request failed.

        Returns the updates that could not be undone, by id.
        """
        return _by_id(self.reply.abort())


class UpdateReply(StopReply, ResourceView):
    """The outcome of updating a container. The readers of `Update` return the resulting resources.

    Attributes:
        changed: whether a plugin changed the requested resources.
        updates: updates of other containers, by id.
        evictions: evictions that plugins requested.
        owners: the plugin that set each field.
        reply: the adaptation's reply, with `ignored` and `message`.
    """

    reply: adaptation.UpdateReply

    def __init__(self, reply: adaptation.UpdateReply, container_id: str) -> None:
        super().__init__(reply, container_id)
        self.changed = reply.changed
        self.evictions = _evictions(reply.evictions)

    @property
    def resources(self) -> m.LinuxResources:
        """The resulting resources, as a message."""
        return self.reply.resources


class CreateReply(StopReply, AdjustmentView):
    """The outcome of creating a container. It has the readers of `Adjustment`: `reply.env`.

    Attributes:
        adjust: the merged adjustment.
        updates: updates of other containers, by id.
        evictions: evictions that plugins requested.
        container: the adjusted container.
        owners: the plugin that set each field.
        reply: the adaptation's reply, with `ignored`.
    """

    reply: adaptation.CreateReply

    def __init__(self, reply: adaptation.CreateReply, container: m.Container) -> None:
        super().__init__(reply, container.id)
        self.container = container
        self.message = reply.adjust
        self.adjust = Adjustment.of(reply.adjust)
        self.evictions = _evictions(reply.evictions)

    def __repr__(self) -> str:
        return f"CreateReply({self.adjust!r}, updates={list(self.updates.values())!r})"
