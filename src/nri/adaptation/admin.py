"""The admin socket, on which a runtime answers `nri why` and other tools of the operator.

A separate ttRPC service on a separate socket, to which only root and the runtime's user may connect. Requests and
replies are JSON; fields may be added. All methods are read-only.

| method | request | reply |
|---|---|---|
| Why | `{"container": "id or names (`nri.kube.container_search`)"}` | the container's changes (`Explanation.to_json`) |
| Why | the same with `"values": true` | also image and values in force (`Explanation.to_json_with_values`) |
| Plugins | `{}` | `plugins`: health and policy of each plugin; `provenance`: how much is recorded; `runtime` |
| Containers | `{}` | `containers`: ids and names of the containers with a history, the newest first |
| Policies | `{}` | the source of the policies, their content, and the error of the file |
| Events | `{"run": "", "after": 0}` | a stream of readings of new events (`nri.adaptation.audit.recent`) |

The server keeps a position in the ring for each reader of Events, and no events. The next reading of a slow reader has
the number of rows that it missed; a reader that takes nothing for half a minute is disconnected.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, Any

from nri.adaptation.audit.bounded_log import BoundedLog
from nri.api.naming import NRI_VERSION
from nri.config.syntax import parse_json
from nri.errors import RemoteProtocolError, RpcError
from nri.kube.container_search import any_of, find
from nri.text import plain
from nri.ttrpc import Client, Code, Method, Server, Service
from nri.unix import credentials, make_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nri.adaptation.audit.provenance import Provenance
    from nri.adaptation.audit.recent import Recent
    from nri.plugin_policy.policy import Policies
    from nri.rules import Rules

#: The default socket for `nri why`.
DEFAULT_SOCKET = "/var/run/nri/admin.sock"
SERVICE = "nri.admin.v1.Admin"

#: The longest reply, in bytes; ttRPC refuses 4 MiB. If a chain is longer, its oldest steps are left out.
_MAX_REPLY_BYTES = 3 << 20
#: A reply has at most this many containers.
_MAX_CONTAINERS = 2000
#: A reading has at most this many rows of events.
_MAX_EVENTS = 1000
#: At most this many clients read events at the same time.
_MAX_READERS = 8
#: The time between two readings, in seconds.
_READING_INTERVAL_S = 0.1
#: After this many seconds without events, an empty reading is sent as a sign of life.
HEARTBEAT_S = 1.0

#: The fields of a reading and their types. They are checked, because the socket may belong to another program.
_READING_TYPES = {"run": str, "next": int, "missed": int, "rows": list}

_lines = BoundedLog(logging.getLogger("nri.adaptation.admin"))


class Admin:
    """The server of the admin socket, between `start` and `stop`.

    Args:
        path: the socket; a missing folder is created with mode 0700.
        provenance: the recorded history of containers.
        policies: the operator's policies.
        plugins: returns the health of every plugin, as JSON objects; called for every request.
        rules: the rules with which replies are merged again.
        present: returns whether the runtime has a container whose id begins with a text.
        recent: the latest events.
        runtime: the runtime's name and version.
    """

    def __init__(
        self,
        path: str,
        provenance: Provenance,
        policies: Policies,
        plugins: Callable[[], list[dict[str, Any]]],
        rules: Rules,
        present: Callable[[str], bool],
        recent: Recent,
        runtime: tuple[str, str] = ("", ""),
    ) -> None:
        self.path = path
        self._present = present
        self._provenance = provenance
        self._policies = policies
        self._plugins = plugins
        self._rules = rules
        self._recent = recent
        self._runtime = {"name": plain(runtime[0], 128), "version": plain(runtime[1], 128), "protocol": NRI_VERSION}
        answers = {
            "Why": self._container_changes,
            "Plugins": self._health,
            "Policies": self._policy,
            "Containers": self._containers,
        }
        methods = {name: Method(_json(answer)) for name, answer in answers.items()}
        methods["Events"] = Method(self._events, streaming="server")
        self._stopping = threading.Event()
        self._server = Server(
            path,
            [Service(SERVICE, methods)],
            workers=2,
            backlog=16,
            streams=_MAX_READERS,
            max_connections=16 + _MAX_READERS,
            admit=_is_allowed,
        )

    def start(self) -> None:
        """Listen. If the socket cannot be created, the error names the setting, because the path is often a default."""
        try:
            make_folder(self.path, 0o700)
            self._server.start()
        except OSError as error:
            error.strerror = f"admin_socket: {error.strerror}"
            raise

    def stop(self) -> None:
        """Stop listening and remove the socket."""
        self._stopping.set()
        self._server.stop(1.0)

    def _container_changes(self, request: dict[str, Any]) -> dict[str, Any]:
        query = request.get("container")
        if not isinstance(query, str) or not query:
            raise RpcError(Code.INVALID_ARGUMENT, 'specify a container: {"container": "1f2e3d"}, or "pod/name"')
        containers = self._provenance.containers()
        matches = find(query, [one._replace(runs=self._present(one.id)) for one in containers])
        if len(matches) > 1:
            raise RpcError(Code.FAILED_PRECONDITION, any_of(query, matches))
        explanation = self._provenance.explain(matches[0].id, self._rules) if matches else None
        if explanation is None:
            raise RpcError(Code.NOT_FOUND, self._missing_history_text(query))
        document = explanation.to_json_with_values() if request.get("values") is True else explanation.to_json()
        while document["steps"] and len(json.dumps(document)) > _MAX_REPLY_BYTES:
            half = len(document["steps"]) // 2 + 1
            document["forgotten"] += half
            del document["steps"][:half]
        return document

    def _missing_history_text(self, query: str) -> str:
        """The error text for a container without a history: removed, too old, or unknown."""
        since = datetime.fromtimestamp(self._provenance.since, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        if self._provenance.was_removed(query):
            return f'no history of container "{query}": it was removed'
        if self._present(query):
            return (
                f'no history of container "{query}": histories begin with the start of the runtime, {since}, '
                "and only the histories of the most recent containers are kept"
            )
        return (
            f'container "{query}" not found: no container since the start of the runtime, {since}, has this id or name'
        )

    def _health(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"plugins": self._plugins(), "provenance": self._provenance.stats(), "runtime": self._runtime}

    def _containers(self, _: dict[str, Any]) -> dict[str, Any]:
        containers = self._provenance.containers()
        rows = [
            {
                "id": plain(one.id, 128),
                "name": plain(one.name),
                "pod": plain("/".join(part for part in (one.namespace, one.pod) if part)),
                "runs": self._present(one.id),
            }
            for one in containers[:_MAX_CONTAINERS]
        ]
        return {"containers": rows, "left_out": len(containers) - len(rows)}

    def _events(self, payload: bytes) -> Iterator[bytes]:
        request = _request(payload)
        run, after = request.get("run", ""), request.get("after", 0)
        if not isinstance(run, str) or type(after) is not int or after < 0:
            raise RpcError(
                Code.INVALID_ARGUMENT,
                'the request must be {"run": TEXT, "after": NUMBER}, with the values of "run" and "next" '
                'in the previous answer, or "" and 0 at first',
            )
        last_sent = 0.0
        while not self._stopping.is_set():
            reading = self._recent.read(run, after, _MAX_EVENTS)
            run, after = reading["run"], reading["next"]
            if reading["rows"] or reading["missed"] or monotonic() - last_sent >= HEARTBEAT_S:
                last_sent = monotonic()
                yield json.dumps(reading).encode()
            if not reading["more"]:
                self._stopping.wait(_READING_INTERVAL_S)

    def _policy(self, _: dict[str, Any]) -> dict[str, Any]:
        return self._policies.to_json()


def _json(answer: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[bytes], bytes]:
    """Wrap a function of JSON objects as a function of bytes."""
    return lambda payload: json.dumps(answer(_request(payload))).encode()


def _request(payload: bytes) -> dict[str, Any]:
    try:
        request = parse_json(payload or b"{}")
    except ValueError as error:
        raise RpcError(Code.INVALID_ARGUMENT, f"the request must be JSON: {error}") from None
    if not isinstance(request, dict):
        raise RpcError(Code.INVALID_ARGUMENT, "the request must be a JSON object")
    return request


def _is_allowed(sock: socket.socket) -> bool:
    """Whether the client belongs to root or the runtime's user. Checked, because the socket's mode may be changed."""
    uid = credentials(sock).uid
    if uid in (0, os.geteuid()):
        return True
    text = "refused a connection from user %d to the admin socket"
    _lines.line("refused connections to the admin socket", logging.WARNING, text, uid)
    return False


def ask(path: str, method: str, request: dict[str, Any], timeout_s: float = 5.0) -> dict[str, Any]:
    """Ask the admin socket of a runtime.

    Raises RuntimeUnavailable if no runtime listens on the socket, RpcError with the runtime's error text, and the
    errors of `Client.call`.
    """
    with Client.connect(path) as client:
        return _reply(path, client.call(SERVICE, method, json.dumps(request).encode(), timeout_s=timeout_s))


def follow(path: str, request: dict[str, Any], wait_s: float = 10 * HEARTBEAT_S) -> Iterator[dict[str, Any]]:
    """Yield the readings of a runtime's events, with an empty reading once a second. Raises the errors of `ask`.

    Args:
        request: `run` and `next` (as `after`) of the previous reading; {} for the first reading.
        wait_s: how long to wait for a reading, in seconds.
    """
    with Client.connect(path) as client:
        payload = json.dumps(request).encode()
        with client.stream(SERVICE, "Events", payload, streaming="server", wait_s=wait_s) as stream:
            for message in stream:
                reading = _reply(path, message)
                is_reading = all(type(reading.get(name)) is kind for name, kind in _READING_TYPES.items())
                if not is_reading or not all(type(row) is dict for row in reading["rows"]):
                    raise RemoteProtocolError(f"the reply from {path} has no events; is this an admin socket?")
                yield reading


def _reply(path: str, answer: bytes) -> dict[str, Any]:
    try:
        reply = parse_json(answer)
    except ValueError as error:
        raise RemoteProtocolError(f"the reply from {path} is not JSON: {error}") from None
    if not isinstance(reply, dict):
        raise RemoteProtocolError(f"the reply from {path} is not a JSON object")
    return reply
