"""Follow the objects of a kind: list and watch the objects, resume the watch, and list again if necessary.

While the API server does not answer, the last known objects stay in force. Pauses between attempts are random, up to
half a minute, so that nodes do not all reconnect at once. A list may be as old as the known state, so that the API
server can answer from memory. It must not be older, unless the API server has lost the known state.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from nri.backoff import Backoff
from nri.kube.client.objects import ApiserverError, Event, Object, key_of
from nri.kube.object_cache import Key, ObjectCache

if TYPE_CHECKING:
    from nri.kube.client.connection import Apiserver, WatchStream
    from nri.kube.client.objects import Kind

_log = logging.getLogger(__name__)
#: The range of a watch's random duration in seconds, so that nodes do not all renew their watches at once.
_WATCH_DURATIONS_S = range(240, 480)
#: A pause follows a watch that the API server ends sooner.
_MIN_WATCH_S = 1.0
#: Longer pauses that the API server requests are reduced to this duration.
_MAX_RETRY_AFTER_S = 60.0
_NOT_FOUND = 404
#: A stop waits at most this long for a running request.
_STOP_TIMEOUT_S = 20.0

Changed = Callable[[Mapping[Key, Object]], None]


class Follower:
    """The objects of a kind, kept up to date by a thread.

    Args:
        api: the API server.
        kind: the kind of the objects.
        changed: called by the thread with all objects by namespace and name, first and after each change. It must not
            change the objects, nor keep the mapping.
        fields: a field selector.
        on_problem: called by the thread with a new `problem`, and with "" when it is solved. By default it is logged.
        clock: returns monotonic seconds.
        pause: waits a number of seconds, less after a stop.
    """

    def __init__(
        self,
        api: Apiserver,
        kind: Kind,
        changed: Changed,
        *,
        fields: str = "",
        on_problem: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], object] | None = None,
    ) -> None:
        self._api = api
        self._kind = kind
        self._changed = changed
        self._fields = fields
        self._on_problem = on_problem
        self._clock = clock
        self._stopping = threading.Event()
        self._pause = pause or self._stopping.wait
        self.backoff = Backoff(clock=clock)
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._open: WatchStream | None = None
        self._objects = ObjectCache()
        self._left_out = ""
        #: The version from which to watch, or "" to list all objects first.
        self._version = ""
        #: The newest known version. Lists must not be older.
        self._newest = "0"
        #: Whether all objects were passed to `changed` at least once.
        self.synced = False
        #: The reason why the objects may be outdated, or "".
        self.problem = ""
        #: Whether the API server does not know the kind.
        self.absent = False

    def start(self) -> None:
        """Start the thread."""
        if self._thread is None:
            self._stopping.clear()
            self._thread = threading.Thread(target=self._run, name=f"follow {self._kind}", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Stop the thread and wait for its end."""
        self.cut()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_STOP_TIMEOUT_S)
            self._thread = None

    def cut(self) -> None:
        """Stop the thread without waiting."""
        self._stopping.set()
        with self._lock:
            if self._open is not None:
                self._open.cut()

    def _run(self) -> None:
        while not self._stopping.is_set():
            delay_s = self.run_once()
            if delay_s > 0:
                self._pause(delay_s)

    def run_once(self) -> float:
        """List if necessary, then watch until the watch ends. Returns the seconds to wait before the next call."""
        self.backoff.started()
        begun = self._clock()
        try:
            if not self._version:
                self._list()
            self._watch()
        except ApiserverError as error:
            return self._delay_after_error(error)
        except Exception as error:  # noqa: BLE001  the thread must survive errors of the library
            _log.exception("%s cannot be followed", self._kind)
            return self._delay_after_error(
                ApiserverError(f"follow {self._kind}", 0, f"{type(error).__name__}: {error}")
            )
        if self._clock() - begun < _MIN_WATCH_S and not self._stopping.is_set():
            return self.backoff.ended()
        self.backoff.reset()
        return 0.0

    def _delay_after_error(self, error: ApiserverError) -> float:
        if self._stopping.is_set():
            return 0.0
        delay_s = max(self.backoff.ended(), min(error.retry_after_s, _MAX_RETRY_AFTER_S))
        if error.expired:
            if not self._version:  # the API server has lost the known state
                self._newest = ""
            self._version = ""
            _log.info("%s; all objects are listed again", error)
            return delay_s
        self.absent = error.status == _NOT_FOUND
        if self.problem != str(error):
            if self._on_problem is None:
                _log.warning("%s; the last known state stays in force", error)
            self._set_problem(str(error))
        return delay_s

    def _list(self) -> None:
        self._objects, version = self._api.list(self._kind, self._fields, self._newest)
        self._version = self._newest = version
        self._hand_over()
        self.synced = True  # set last: code that waits for it then reads the listener's objects

    def _watch(self) -> None:
        with self._api.watch(self._kind, self._version, self._fields, random.choice(_WATCH_DURATIONS_S)) as watch:
            with self._lock:
                self._open = watch
            try:
                if self._stopping.is_set():
                    return
                self.absent = False
                if self.problem:
                    _log.info("the API server is available again: following %s", self._kind)
                    self._set_problem("")
                for events in watch.events():
                    if self._apply_events(events):
                        self._hand_over()
                    if self._objects.has_room_again:
                        self._version = ""
                        return
            finally:
                with self._lock:
                    self._open = None

    def _apply_events(self, events: list[Event]) -> bool:
        """Apply events. Returns whether any object has changed."""
        changed = removed = False
        for event in events:
            if event.type == "BOOKMARK":
                pass
            elif event.type == "DELETED":
                removed |= self._objects.remove(key_of(event.object))
            elif event.problem:
                self._objects.leave_out(key_of(event.object), event.problem)
                changed = True
            else:
                self._objects.put(key_of(event.object), event.object, event.size)
                changed = True
            if version := event.object["metadata"].get("resourceVersion"):
                self._version = self._newest = version
        return changed or removed

    def _set_problem(self, problem: str) -> None:
        self.problem = problem
        if self._on_problem is not None:
            self._on_problem(problem)

    @property
    def left_out(self) -> str:
        """A line about objects that are too large to be followed, or ""."""
        return self._left_out

    def _hand_over(self) -> None:
        left_out = self._objects.problem
        if left_out != self._left_out:
            self._left_out = left_out
            _log.log(
                logging.WARNING if left_out else logging.INFO, "%s: %s", self._kind, left_out or "following all objects"
            )
        try:
            self._changed(self._objects.objects)
        except Exception:  # noqa: BLE001  an error of the listener must not end the thread
            _log.exception("changes of %s could not be applied", self._kind)
