"""GetContainerEvents, for kubelets that subscribe instead of polling."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from nri.cri.pb import api_pb2 as pb
from nri.engine.calls.call import Call
from nri.engine.lifecycle.bus import EventBus
from nri.engine.support.errors import TooMany

#: The maximum number of subscribers. Each subscriber occupies one of the server's threads.
MAX_LISTENERS = 32


class EventCalls:
    """Answers GetContainerEvents."""

    def __init__(self, events: EventBus) -> None:
        self._events = events
        self._listener_slots = threading.BoundedSemaphore(MAX_LISTENERS)

    def get_container_events(self, request: pb.GetEventsRequest, call: Call) -> Iterator[pb.ContainerEventResponse]:
        """Stream all events from now on, until the client or the engine ends the call."""
        if not self._listener_slots.acquire(blocking=False):
            raise TooMany("listeners", MAX_LISTENERS)
        try:
            with self._events.subscribe() as subscription:
                call.on_end(subscription.close)
                while (event := subscription.get()) is not None:
                    yield event
        finally:
            self._listener_slots.release()
