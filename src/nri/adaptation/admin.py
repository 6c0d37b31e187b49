"""The admin socket: a runtime built on this package explains itself to `nri why` and other tools of the operator.

A ttRPC service of its own, on a socket of its own, that only root and the runtime's user may connect to. Requests and
replies are JSON: they are for people and scripts, and free to grow. Nothing here changes anything. Next:
`nri.cli.verbs.why` asks.

| method | request | reply |
|---|---|---|
| Why | `{"container": "id or names (`nri.kube.container_search`)"}` | the container's changes (`Explanation.to_json`) |
| Plugins | `{}` | `plugins`: health and policy of each; `provenance`: how much is remembered |
| Containers | `{}` | `containers`: ids and names of those with a history, the newest first |
| Policies | `{}` | where policies come from, what they say, what is wrong with the file |
| Events | `{"run": "", "after": 0}` | a stream of readings: what has ended since (`nri.adaptation.audit.recent`) |

A reader of Events holds a place in the ring and no memory of its own: one that is too slow gets with its next
reading the number of rows that it has missed, and one that takes none for half a minute is dropped.
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
    from nri.adaptation.plugin_policy.policy import Policies
    from nri.rules import Rules

__all__ = ["DEFAULT_SOCKET", "SERVICE", "Admin", "ask", "follow"]

#: The socket of `nri why`, unless another one is given.
DEFAULT_SOCKET = "/var/run/nri/admin.sock"
SERVICE = "nri.admin.v1.Admin"

#: Longest reply, in bytes; ttRPC refuses 4 MiB. A longer chain loses its oldest steps.
_MAX_REPLY_BYTES = 3 << 20
#: Containers, and rows of events, that one reply has at most.
_MOST_CONTAINERS, _MOST_EVENTS = 2000, 1000
#: Readers of events at one time; seconds between two readings, and after which an empty one says that all is well.
_MOST_READERS, _PACE_S, BEAT_S = 8, 0.1, 1.0

#: The parts of a reading, which another program's socket may not have.
_READING = {"run": str, "next": int, "missed": int, "rows": list}

_lines = BoundedLog(logging.getLogger("nri.adaptation.admin"))


class Admin:
    """Serves the admin socket between `start` and `stop`.

    Args:
        path: the socket; its folder is made, with mode 0700, if it is missing.
        provenance: what is remembered of containers.
        policies: the operator's policies.
        plugins: health of every plugin, as tables of JSON; called for every request.
        rules: by which replies are merged again.
        present: whether the runtime has a container whose id begins so.
        recent: the events that ended last.
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
    ) -> None:
        self.path = path
        self._present = present
        self._provenance = provenance
        self._policies = policies
        self._plugins = plugins
        self._rules = rules
        self._recent = recent
        answers = {
            "Why": self._why,
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
            streams=_MOST_READERS,
            max_connections=16 + _MOST_READERS,
            admit=_admit,
        )

    def start(self) -> None:
        """Listen. OSError if the socket cannot be made; it names the setting, for few people have chosen the path."""
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

    def _why(self, request: dict[str, Any]) -> dict[str, Any]:
        wanted = request.get("container")
        if not isinstance(wanted, str) or not wanted:
            raise RpcError(Code.INVALID_ARGUMENT, 'name a container: {"container": "1f2e3d"}, or "pod/name"')
        known = self._provenance.containers()
        found = find(wanted, [one._replace(runs=self._present(one.id)) for one in known])
        if len(found) > 1:
            raise RpcError(Code.FAILED_PRECONDITION, any_of(wanted, found))
        explanation = self._provenance.explain(found[0].id, self._rules) if found else None
        if explanation is None:
            raise RpcError(Code.NOT_FOUND, self._why_nothing(wanted))
        while explanation.steps and len(json.dumps(explanation.to_json())) > _MAX_REPLY_BYTES:
            half = len(explanation.steps) // 2 + 1
            explanation.forgotten += half
            del explanation.steps[:half]
        return explanation.to_json()

    def _why_nothing(self, wanted: str) -> str:
        """Say why there is no history of a container: it was removed, is older than all histories, or never was."""
        since = datetime.fromtimestamp(self._provenance.since, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        if self._provenance.was_here(wanted):
            return f'the history of container "{wanted}" is forgotten: it was removed'
        if self._present(wanted):
            return (
                f'the history of container "{wanted}" is forgotten: history is kept only since the runtime\'s start, '
                f"{since}, and of the containers that were busy last"
            )
        return (
            f'no container "{wanted}": there is no such id, and of the containers since the runtime\'s start, {since}, '
            "none has such a name"
        )

    def _health(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"plugins": self._plugins(), "provenance": self._provenance.stats()}

    def _containers(self, _: dict[str, Any]) -> dict[str, Any]:
        known = self._provenance.containers()
        rows = [
            {
                "id": plain(one.id, 128),
                "name": plain(one.name),
                "pod": plain("/".join(part for part in (one.namespace, one.pod) if part)),
                "runs": self._present(one.id),
            }
            for one in known[:_MOST_CONTAINERS]
        ]
        return {"containers": rows, "left_out": len(known) - len(rows)}

    def _events(self, payload: bytes) -> Iterator[bytes]:
        request = _request(payload)
        run, after = request.get("run", ""), request.get("after", 0)
        if not isinstance(run, str) or type(after) is not int or after < 0:
            raise RpcError(Code.INVALID_ARGUMENT, 'not {"run": TEXT, "after": NUMBER}, of the reading before')
        told = 0.0
        while not self._stopping.is_set():
            reading = self._recent.read(run, after, _MOST_EVENTS)
            run, after = reading["run"], reading["next"]
            if reading["rows"] or reading["missed"] or monotonic() - told >= BEAT_S:
                told = monotonic()
                yield json.dumps(reading).encode()
            if not reading["more"]:
                self._stopping.wait(_PACE_S)

    def _policy(self, _: dict[str, Any]) -> dict[str, Any]:
        return self._policies.to_json()


def _json(answer: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[bytes], bytes]:
    """A function of JSON tables as one of bytes."""
    return lambda payload: json.dumps(answer(_request(payload))).encode()


def _request(payload: bytes) -> dict[str, Any]:
    try:
        request = parse_json(payload or b"{}")
    except ValueError as error:
        raise RpcError(Code.INVALID_ARGUMENT, f"the request is not JSON: {error}") from None
    if not isinstance(request, dict):
        raise RpcError(Code.INVALID_ARGUMENT, "the request is not a JSON object")
    return request


def _admit(sock: socket.socket) -> bool:
    """Whether the other end belongs to root or to our own user. The mode says so too, but modes can be changed."""
    uid = credentials(sock).uid
    if uid in (0, os.geteuid()):
        return True
    text = "refused a connection of user %d to the admin socket"
    _lines.line("refused connections to the admin socket", logging.WARNING, text, uid)
    return False


def ask(path: str, method: str, request: dict[str, Any], timeout_s: float = 5.0) -> dict[str, Any]:
    """Ask the admin socket of a runtime.

    Raises RuntimeUnavailable if no runtime listens there, RpcError with the runtime's words, and what `Client.call`
    raises.
    """
    with Client.connect(path) as client:
        return _reply(path, client.call(SERVICE, method, json.dumps(request).encode(), timeout_s=timeout_s))


def follow(path: str, request: dict[str, Any], wait_s: float = 10 * BEAT_S) -> Iterator[dict[str, Any]]:
    """The readings of a runtime's events as they come, an empty one each second at least; raises as `ask`.

    Args:
        request: `run` and `next` (as `after`) of the last reading that is known; {} for the first.
        wait_s: how long a reading is waited for.
    """
    with Client.connect(path) as client:
        payload = json.dumps(request).encode()
        with client.stream(SERVICE, "Events", payload, streaming="server", wait_s=wait_s) as stream:
            for message in stream:
                reading = _reply(path, message)
                typed = all(type(reading.get(name)) is kind for name, kind in _READING.items())
                if not typed or not all(type(row) is dict for row in reading["rows"]):
                    raise RemoteProtocolError(f"{path} does not answer as an admin socket that serves events")
                yield reading


def _reply(path: str, answer: bytes) -> dict[str, Any]:
    try:
        reply = parse_json(answer)
    except ValueError as error:
        raise RemoteProtocolError(f"the answer of {path} is no JSON: {error}") from None
    if not isinstance(reply, dict):
        raise RemoteProtocolError(f"the answer of {path} is no JSON object")
    return reply
