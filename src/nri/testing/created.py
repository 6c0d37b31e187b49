"""`Created`: the answer of `FakeRuntime.create_container`, in the words of plugin authors. Next: `runtime`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nri.api.builders.adjustment import Adjustment
from nri.api.builders.eviction import Eviction
from nri.api.builders.update import Update

if TYPE_CHECKING:
    from nri.adaptation import CreateReply
    from nri.api import messages as m

__all__ = ["Created"]


class Created:
    """The outcome of a container's creation. Readers of `Adjustment` work on it directly: `reply.env`, `reply.mounts`.

    Attributes:
        adjust: the merged adjustment.
        updates: updates of other containers, by id.
        evictions: evictions that plugins asked for.
        container: the container as it came out.
        reply: the adaptation's own reply, with `owners`, `commit()` and `abort()`.
    """

    def __init__(self, reply: CreateReply, container: m.Container) -> None:
        self.reply = reply
        self.container = container
        self.adjust = Adjustment.of(reply.adjust)
        self.updates = {update.container_id: Update.of(update) for update in reply.updates}
        self.evictions = [Eviction.of(eviction) for eviction in reply.evictions]
        self.owners = reply.owners

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.adjust, name)

    def __repr__(self) -> str:
        return f"Created({self.adjust!r}, updates={list(self.updates.values())!r})"

    def commit(self) -> None:
        """The container was created."""
        self.reply.commit()

    def abort(self) -> None:
        """The container was not created after all."""
        self.reply.abort()
