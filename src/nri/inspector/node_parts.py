"""Data of other programs of the node for the page of `nri inspect`: drift, the node's agent, placement."""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Self

from nri.agent.settings import AgentSettings
from nri.errors import NriError
from nri.host.cgroups import detect
from nri.host.root import Root
from nri.placement.client import ask_placement
from nri.placement.drawing import users_of
from nri.placement.registry import POLICIES
from nri.service.client import ask
from nri.trace.drift import Drift
from nri.trace.drift_sources import Setters, row_of, sources

if TYPE_CHECKING:
    from collections.abc import Callable

    from nri.adaptation.admin_client import AdminClient
    from nri.inspector.sources import View

#: Cgroups are read at most once in this many seconds.
_DRIFT_INTERVAL_S = 2.0
#: At most this many rows of drift are shown.
_MAX_ROWS = 500
_ANSWER_S: Final = 5.0


class NodeParts:
    """The data of other programs of this node. `close` it, or use it as a context manager.

    Args:
        client: a client of the runtime's admin socket.
        socket: the runtime's NRI socket; None for the default socket.
        agent_socket: the agent's socket; None for the default socket.
        state_dir: the folder with the socket of a placement plugin.
        root: the machine's root file system.
        timeout_s: the timeout for each program in seconds; None for 5 s.
    """

    def __init__(
        self,
        client: AdminClient,
        socket: str | None,
        agent_socket: str | None,
        state_dir: str,
        root: str,
        timeout_s: float | None = None,
    ) -> None:
        self._client, self._socket, self._root = client, socket, root
        self._timeout_s = timeout_s or _ANSWER_S
        self._agent_socket, self._state_dir = agent_socket or "", state_dir
        self._agent_path = agent_socket or AgentSettings().socket
        self._lock = threading.Lock()
        self._stack = ExitStack()
        self._look: Callable[[], dict[str, Any]] | None = None
        self._answer: tuple[float, dict[str, Any]] = (float("-inf"), {})

    def views(self) -> dict[str, View]:
        """The functions that return the data, by name."""
        return {"drift": self._drift, "agent": self._agent, "placement": self._placement}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect from the runtime."""
        self._stack.close()

    def _drift(self, _: str) -> dict[str, Any]:
        with self._lock:
            if monotonic() - self._answer[0] > _DRIFT_INTERVAL_S:
                try:
                    self._look = self._look or self._connect()
                    self._answer = monotonic(), self._look()
                except BaseException:
                    self._stack.close()  # the next call connects again
                    self._look = None
                    raise
            return self._answer[1]

    def _connect(self) -> Callable[[], dict[str, Any]]:
        """Connect to the runtime, and return a function that compares values with the cgroups."""
        drift = Drift(detect(Root(self._root)))
        agent = self._agent_socket or (self._agent_path if os.path.exists(self._agent_path) else "")
        values = sources(self._stack, self._socket, agent, self._timeout_s)

        def look() -> dict[str, Any]:
            drift.check(values())
            setters = Setters(self._client)
            return {
                "now": [row_of(change, setters) for change in drift.now()[:_MAX_ROWS]],
                "changes": [row_of(change, setters) for change in drift.changes[: -_MAX_ROWS - 1 : -1]],
                "looked_at": drift.compared_count,
                "unread": drift.unread,
                "left_out": drift.left_out,
                "more": max(0, len(drift.now()) - _MAX_ROWS),
            }

        return look

    def _agent(self, pod: str) -> dict[str, Any] | None:
        if not os.path.exists(self._agent_path):
            return None
        status, answer = ask(self._agent_path, "/explain", self._timeout_s, {"pod": pod} if pod else None)
        if status == 404 and pod:
            return None
        if status != 200 or not isinstance(answer, dict):
            raise NriError(f"{self._agent_path} is not an agent's socket (status {status})")
        return answer

    def _placement(self, _: str) -> dict[str, Any] | None:
        if not any(Path(self._state_dir, f"{name}.sock").exists() for name in POLICIES):
            return None
        document: dict[str, Any] = ask_placement(self._state_dir, "/show", self._timeout_s)
        document["users"] = {str(cpu): list(names) for cpu, names in users_of(document).items()}
        return document
