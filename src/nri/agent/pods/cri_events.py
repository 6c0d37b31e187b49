"""The CRI's stream of container events, which triggers a new list of pods.

If the stream is not available or ends, it is requested again after a while.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from nri.backoff import Backoff
from nri.cri.client import CriClient
from nri.cri.pb import api_pb2 as pb
from nri.errors import NriError, RpcError

_log = logging.getLogger(__name__)
#: The gRPC status code of a runtime without this call.
_UNIMPLEMENTED = 12
#: The pause in seconds before the stream is requested again from a runtime without events.
LATER_S = 60.0
#: The time in seconds that `stop` waits for the end of the thread.
_STOP_S = 10.0


class CriEvents:
    """A listener for container events, in a separate thread. `start` and `stop` may be called twice.

    Args:
        socket: the runtime's CRI socket.
        happened: called in the thread for each event.
    """

    def __init__(self, socket: str, happened: Callable[[], None]) -> None:
        self._socket = socket
        self._on_event = happened
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._client: CriClient | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start to listen."""
        if self._thread is None:
            self._stopping.clear()
            self._thread = threading.Thread(target=self._run, name="events from the runtime", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Stop listening."""
        self._stopping.set()
        with self._lock:
            if self._client is not None:
                self._client.close()  # this ends the stream
        if self._thread is not None:
            self._thread.join(_STOP_S)
            self._thread = None

    def _run(self) -> None:
        backoff = Backoff()
        while not self._stopping.is_set():
            backoff.started()
            later_s = 0.0
            try:
                self._listen()
            except RpcError as error:
                later_s = LATER_S if error.code == _UNIMPLEMENTED else 0.0
                _log.debug("no events from the runtime: %s", error)
            except NriError as error:
                _log.debug("no events from the runtime: %s", error)
            except Exception:  # noqa: BLE001  the thread continues with the next connection
                _log.exception("events of the runtime could not be read")
            self._stopping.wait(max(later_s, backoff.ended()))

    def _listen(self) -> None:
        client = CriClient(self._socket, option="--set pods.cri=PATH")
        with self._lock:
            self._client = client
        try:
            if not self._stopping.is_set():
                for _ in client.stream("GetContainerEvents", pb.GetEventsRequest()):
                    self._on_event()
        except ValueError:
            pass  # closed before the stream started
        finally:
            with self._lock:
                self._client = None
            client.close()
