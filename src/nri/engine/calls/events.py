"""GetContainerEvents, for kubelets that listen instead of polling. A stream ends with its client or the engine."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from nri.cri.pb import api_pb2 as pb
from nri.engine.calls.call import Call
from nri.engine.lifecycle.bus import EventBus
from nri.engine.support.errors import TooMany

#: Each listener has one of the server's threads as long as it listens.
LISTENERS = 32


class EventCalls:
    """The call that gives events."""

    def __init__(self, events: EventBus) -> None:
        self._events = events
        self._places = threading.BoundedSemaphore(LISTENERS)

    def get_container_events(self, request: pb.GetEventsRequest, call: Call) -> Iterator[pb.ContainerEventResponse]:
        """All events from now on."""
        if not self._places.acquire(blocking=False):
            raise TooMany("listeners", LISTENERS)
        try:
            with self._events.subscribe() as subscription:
                call.on_end(subscription.close)
                while (event := subscription.get()) is not None:
                    yield event
        finally:
            self._places.release()
