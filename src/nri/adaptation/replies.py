"""What an event gives back to the runtime: the merged result, who set what, and the way back for side updates.

`updates` are what the runtime applies to other containers. If the runtime then fails to create its container, `abort`
hands the update callback what those containers had before; `commit` forgets that. Calling neither is harmless.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nri.api import messages as m

if TYPE_CHECKING:
    from nri.adaptation.merge import CreateState, Ignored, StopState, UpdateState
    from nri.adaptation.recording import Recorder

__all__ = ["CreateReply", "StopReply", "UpdateReply"]


class CreateReply:
    """The outcome of CreateContainer.

    Attributes:
        adjust: the merged adjustment; always there, perhaps empty.
        updates: updates of other containers, for the runtime to apply.
        evictions: containers that plugins want gone.
        ignored: what plugins asked for and did not get, with reasons.
    """

    __slots__ = ("_recorder", "_side", "_state", "adjust", "evictions", "ignored", "updates")

    def __init__(
        self,
        reply: m.CreateContainerResponse,
        state: CreateState,
        recorder: Recorder,
        pod: m.PodSandbox,
        container: m.Container,
    ) -> None:
        self.adjust: m.ContainerAdjustment = reply.adjust
        self.updates: list[m.ContainerUpdate] = list(reply.update)
        self.evictions: list[m.ContainerEviction] = list(reply.evict)
        self.ignored: list[Ignored] = state.ignored
        self._state = state
        self._recorder = recorder
        recorder.inventory.created(pod, container, reply.adjust)
        self._side = recorder.updated(self.updates) if self.updates else []

    @property
    def owners(self) -> m.OwningPlugins:
        """Which plugin set which field, of this container and of those updated along with it."""
        return self._state.owners()

    @property
    def container(self) -> m.Container:
        """The container with the adjustment in it, as a further plugin would be shown it. Do not change it."""
        return self._state.container

    def commit(self) -> None:
        """The container was created: its side updates stand."""
        self._side = []

    def abort(self) -> list[m.ContainerUpdate]:
        """The container was not created: have the side updates undone.

        The update callback gets what the containers had before; what it could not apply is returned.
        """
        side, self._side = self._side, []
        return self._recorder.undo(side) if side else []


class UpdateReply:
    """The outcome of UpdateContainer.

    Attributes:
        resources: what the container is to have: the request with all changes. The request itself if no plugin changed
        it. changed: whether a plugin changed it.
        updates: updates of other containers, for the runtime to apply.
        evictions: containers that plugins want gone.
        ignored: what plugins asked for and did not get, with reasons.
    """

    __slots__ = ("_state", "changed", "evictions", "ignored", "message", "resources", "updates")

    def __init__(
        self,
        reply: m.UpdateContainerResponse,
        state: UpdateState,
        recorder: Recorder,
        container_id: str,
        requested: m.LinuxResources,
    ) -> None:
        *others, mine = reply.update
        self.changed = bool(mine.container_id)
        self.resources: m.LinuxResources = mine.linux.resources if self.changed else requested
        self.updates: list[m.ContainerUpdate] = others
        self.evictions: list[m.ContainerEviction] = list(reply.evict)
        self.ignored: list[Ignored] = state.book.ignored
        #: The reply as the reference gives it: the requested container's update is the last one.
        self.message = reply
        self._state = state
        recorder.inventory.updated(container_id, self.resources)
        recorder.updated(others)

    @property
    def owners(self) -> m.OwningPlugins:
        """Which plugin set which field."""
        return self._state.owners()


class StopReply:
    """The outcome of StopContainer: `updates` of other containers, for the runtime to apply."""

    __slots__ = ("_state", "ignored", "updates")

    def __init__(self, reply: m.StopContainerResponse, state: StopState, recorder: Recorder) -> None:
        self.updates: list[m.ContainerUpdate] = list(reply.update)
        self.ignored: list[Ignored] = state.book.ignored
        self._state = state
        recorder.updated(self.updates)

    @property
    def owners(self) -> m.OwningPlugins:
        """Which plugin set which field."""
        return self._state.owners()
