"""The reference's adaptation and ours behind one face: a request in, the reply or the error out.

`GoSide` is the reference in its process, `OurSide` our adaptation in this one; plugins in Go connect to either at
`socket`. Both may be sent requests from many threads. `tests/differential/plugins.py` and
`tests/interop/test_go_allocator.py` hold them side by side.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, Self

from google.protobuf.json_format import MessageToDict, ParseDict

from nri.adaptation import Adaptation, OrderedUpdates
from nri.api import messages as m
from nri.errors import NriError
from tests.peers.drivers import FieldPlugin, GoRuntime, PeerError
from tests.support.waiting import PATIENCE_S

Mode = Literal["default", "reference"]
MODES: tuple[Mode, ...] = ("reference", "default")

#: The replies that say something.
REPLIES: dict[str, Any] = {
    "CreateContainer": m.CreateContainerResponse,
    "UpdateContainer": m.UpdateContainerResponse,
    "StopContainer": m.StopContainerResponse,
}


class Request(NamedTuple):
    """One event of a runtime; `event` is the name as in Go."""

    event: str
    pod: m.PodSandbox
    container: m.Container | None = None
    resources: m.LinuxResources | None = None
    overhead: m.LinuxResources | None = None


class Outcome(NamedTuple):
    """What became of a request: an error's text, or the reply; None for events that have none."""

    error: str | None
    reply: Any = None


class Side(Protocol):
    """An adaptation that runs."""

    socket: Path

    def send(self, request: Request) -> Outcome:
        """Put one request through the plugins."""

    def joined(self, labels: Sequence[str]) -> None:
        """Wait until these plugins take part."""


class GoSide:
    """The reference."""

    def __init__(self, folder: Path, *, request_timeout_s: float = PATIENCE_S) -> None:
        self.socket = folder / "go.sock"
        self.runtime = GoRuntime()
        options = {"plugin_path": str(folder / "none"), "config_path": str(folder / "none")}
        self.runtime.start(self.socket, request_timeout_ms=int(request_timeout_s * 1000), **options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.runtime.close()

    def joined(self, labels: Sequence[str]) -> None:
        """Wait until these plugins, and no others, take part."""
        assert sorted(self.runtime.wait_plugins(len(labels), exactly=True)) == sorted(labels)

    def send(self, request: Request) -> Outcome:
        """Put one request through the plugins."""
        more = {name: _json(getattr(request, name)) for name in ("resources", "overhead")}
        try:
            reply = self.runtime.event(request.event, _json(request.pod), _json(request.container), **more)
        except PeerError as error:
            return Outcome(str(error))
        kind = REPLIES.get(request.event)
        return Outcome(None, None if kind is None else ParseDict(reply, kind()))


class OurSide:
    """Ours, in a runtime that takes every reply and commits it.

    Args:
        take: gets each request, its reply as a message, and the reply, before it is committed.
        update: the runtime's callback.
    """

    def __init__(
        self,
        folder: Path,
        compat: Mode = "default",
        *,
        request_timeout_s: float = PATIENCE_S,
        take: Callable[[Request, Any, Any], object] = lambda _request, _message, _reply: None,
        update: Callable[[OrderedUpdates], Any] = lambda _updates: None,
    ) -> None:
        self.socket = folder / f"{compat}.sock"
        self._take = take
        self.adaptation = Adaptation(
            "sides",
            "v1",
            synchronize=lambda: ([], []),
            update=update,
            plugin_path=str(folder / "none"),
            plugin_config_path=str(folder / "none"),
            socket_path=str(self.socket),
            policy_path=None,
            compat=compat,
            request_timeout_s=request_timeout_s,
        )
        self.adaptation.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.adaptation.stop()

    def joined(self, labels: Sequence[str]) -> None:
        """Wait until these plugins take part."""
        assert self.adaptation.ready(labels, PATIENCE_S), self.adaptation.plugins

    def send(self, request: Request) -> Outcome:
        """Put one request through the plugins."""
        send = getattr(self.adaptation, _snake(request.event))
        try:
            match request.event:
                case "CreateContainer":
                    reply = send(request.pod, request.container)
                    message: Any = m.CreateContainerResponse(
                        adjust=reply.adjust, update=reply.updates, evict=reply.evictions
                    )
                case "UpdateContainer":
                    reply = send(request.pod, request.container, request.resources or m.LinuxResources())
                    message = reply.message
                case "StopContainer":
                    reply = send(request.pod, request.container)
                    message = m.StopContainerResponse(update=reply.updates)
                case "UpdatePodSandbox":
                    send(request.pod, request.overhead, request.resources)
                    return Outcome(None)
                case _:
                    send(*(entry for entry in (request.pod, request.container) if entry is not None))
                    return Outcome(None)
        except NriError as error:
            return Outcome(error.whole_text)
        self._take(request, message, reply)
        reply.commit()
        return Outcome(None, message)


@contextmanager
def crew(side: Side, plugins: Iterable[tuple[str, str]], **options: Any) -> Iterator[dict[str, FieldPlugin]]:
    """Plugins, given as index and kind, that take part at a side; by their kinds.

    Args:
        options: by kind, what that plugin gets beside; see `FieldPlugin`.
    """
    with ExitStack() as stack:
        running = {
            kind: stack.enter_context(FieldPlugin(side.socket, kind, idx, **options.get(kind, {})))
            for idx, kind in plugins
        }
        for plugin in running.values():
            plugin.wait_event("started")
        side.joined([plugin.label for plugin in running.values()])
        yield running


def _json(message: Any) -> Any:
    return None if message is None else MessageToDict(message, preserving_proto_field_name=True)


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()
