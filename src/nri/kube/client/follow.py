"""Follow the objects of one kind: list them, watch them, resume after a cut, list them again if that is not possible.

Rules: what is known stays known while the apiserver is away, and `problem` says so; every wait has an end, and the
pause between two tries grows to half a minute, drawn by chance, so that nodes that lost the apiserver together do not
come back together. A list need not be newer than what was known (so that the apiserver answers from memory), but never
is older, unless the apiserver itself has lost what was known. Next: `nri.agent.rules.apiserver`, which follows rules.
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

__all__ = ["Follower"]

_log = logging.getLogger(__name__)
#: A watch lasts so long, in seconds; drawn by chance, so that nodes do not ask all at once.
_WATCH_DURATIONS_S = range(240, 480)
#: A watch that the apiserver ends sooner is not asked for again at once.
_MIN_WATCH_S = 1.0
#: No pause that the apiserver asks for is kept for longer, in seconds.
_MAX_RETRY_AFTER_S = 60.0
_NOT_FOUND = 404
#: A stop waits for a request that is under way, in seconds.
_STOP_TIMEOUT_S = 20.0

Changed = Callable[[Mapping[Key, Object]], None]


class Follower:
    """The objects of one kind, kept up to date by a thread.

    Args:
        api: where they are.
        kind: of what.
        changed: called by the thread with all objects, by namespace and name, once they are known and after changes;
            neither the mapping nor what is in it may be changed, or kept to see later changes.
        fields: a field selector.
        on_problem: called by the thread with a new `problem`, and with "" when it is over; without it the log has them.
        clock: monotonic seconds.
        pause: waits so many seconds, less if this is stopped.
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
        #: The version to watch from, "" if all must be listed first.
        self._version = ""
        #: The newest version that was ever known; no list may be older.
        self._newest = "0"
        #: Whether all objects have been known, and handed over, at least once.
        self.synced = False
        #: Why what is known may be old, "" if it is not.
        self.problem = ""
        #: Whether the apiserver answers that it has no such kind.
        self.absent = False

    def start(self) -> None:
        """Begin, in a thread of its own."""
        if self._thread is None:
            self._stopping.clear()
            self._thread = threading.Thread(target=self._run, name=f"follow {self._kind}", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End, and wait for that; what is known stays known."""
        self.cut()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_STOP_TIMEOUT_S)
            self._thread = None

    def cut(self) -> None:
        """Have it end, without waiting for that."""
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
        """List if that is needed, then watch until that ends; return for how many seconds to wait before the next."""
        self.backoff.started()
        begun = self._clock()
        try:
            if not self._version:
                self._list()
            self._watch()
        except ApiserverError as error:
            return self._failed(error)
        except Exception as error:  # noqa: BLE001  whatever a library makes of an odd answer, the thread goes on
            _log.exception("%s cannot be followed", self._kind)
            return self._failed(ApiserverError(f"follow {self._kind}", 0, f"{type(error).__name__}: {error}"))
        if self._clock() - begun < _MIN_WATCH_S and not self._stopping.is_set():
            return self.backoff.ended()
        self.backoff.reset()
        return 0.0

    def _failed(self, error: ApiserverError) -> float:
        if self._stopping.is_set():
            return 0.0
        delay_s = max(self.backoff.ended(), min(error.retry_after_s, _MAX_RETRY_AFTER_S))
        if error.expired:
            if not self._version:  # not even a list could be had that is as new as what was known
                self._newest = ""
            self._version = ""
            _log.info("%s; all are listed again", error)
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
        self.synced = True  # not before the listener has them: who waits for this looks there next

    def _watch(self) -> None:
        with self._api.watch(self._kind, self._version, self._fields, random.choice(_WATCH_DURATIONS_S)) as watch:
            with self._lock:
                self._open = watch
            try:
                if self._stopping.is_set():
                    return
                self.absent = False
                if self.problem:
                    _log.info("the apiserver is back: %s are followed", self._kind)
                    self._set_problem("")
                for events in watch.events():
                    if self._take(events):
                        self._hand_over()
                    if self._objects.has_room_again:
                        self._version = ""
                        return
            finally:
                with self._lock:
                    self._open = None

    def _take(self, events: list[Event]) -> bool:
        """Take events in; return whether any object has changed."""
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
        """Which objects are too large to be followed, in one line; "" if none are."""
        return self._left_out

    def _hand_over(self) -> None:
        left_out = self._objects.problem
        if left_out != self._left_out:
            self._left_out = left_out
            _log.log(
                logging.WARNING if left_out else logging.INFO, "%s: %s", self._kind, left_out or "all are followed"
            )
        try:
            self._changed(self._objects.objects)
        except Exception:  # noqa: BLE001  a listener's error is not ours, and the next change may be a good one
            _log.exception("changed %s could not be taken in", self._kind)
