"""A threaded gRPC server for the CRI's two services."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc

from nri.cri.pb import api_pb2 as pb
from nri.cri.server import SocketServer, bind
from nri.engine.calls.events import EventCalls
from nri.engine.calls.execution import ExecutionCalls, Streaming
from nri.engine.calls.images import ImageCalls
from nri.engine.calls.metrics import MetricCalls
from nri.engine.calls.runtime_info import Facts, RuntimeInfoCalls
from nri.engine.calls.stats import Readings, StatsCalls
from nri.engine.calls.statuses import StatusCalls
from nri.engine.engine import Engine
from nri.engine.reload import Reloader
from nri.engine.server.call_spans import CallSpans
from nri.engine.server.methods import Methods
from nri.engine.support.errors import EngineError
from nri.thread_pool import ThreadPool

if TYPE_CHECKING:
    from nri.trace.live_spans import SpanExporter

#: The maximum number of concurrent calls. It is enough for a node of 110 pods with a stop, a pull or a probe in each
#: pod. Threads are created on demand.
MAX_CALLS = 256
#: The maximum number of concurrent calls on one connection. `bind` allows 240 concurrent calls that change state on all
#: connections together: this number plus half of the other 32 threads. So calls that only read always get a thread,
#: even if clients never end their other calls.
MAX_CALLS_PER_CONNECTION = 224
_SERVICES = ("RuntimeService", "ImageService")

log = logging.getLogger("nri.engine.server")


class Server:
    """The CRI at a unix socket. The socket's folder is created with mode 0700.

    Each call is answered by the first object of `groups` that has a method for the call. `on_stop` is called when the
    server stops accepting calls; it must end the calls that would run forever.
    """

    def __init__(
        self,
        path: Path,
        groups: Iterable[object],
        on_stop: Callable[[], None] | None = None,
        interceptors: Sequence[grpc.ServerInterceptor] = (),
    ) -> None:
        self.path = path
        self._groups, self._interceptors = [*groups], interceptors
        self._on_stop = on_stop
        self._pool = ThreadPool(MAX_CALLS, thread_name_prefix="cri")
        self._server: SocketServer | None = None

    def start(self) -> None:
        """Listen and answer calls. Raises EngineError if the socket cannot be created."""
        path = str(self.path)
        try:
            self._server = bind(
                path, self._pool, _handlers(self._groups), max_calls_per_connection=MAX_CALLS_PER_CONNECTION,
                interceptors=self._interceptors,
            )  # fmt: skip
        except (OSError, RuntimeError) as error:
            raise EngineError(f"cannot listen at {path}: {error}") from error
        self._server.start()
        log.info("CRI served at %s", path)

    def stop(self, grace_s: float = 2.0) -> None:
        """Accept no more calls, wait `grace_s` seconds for running calls, and remove the socket."""
        if self._server is None:
            return
        stopped = self._server.stop(grace_s)
        if self._on_stop is not None:
            self._on_stop()
        stopped.wait()
        self._pool.shutdown(wait=False)
        self._server = None


def _handlers(groups: Sequence[object]) -> list[grpc.GenericRpcHandler]:
    """Return the gRPC handlers of RuntimeService and ImageService."""
    handlers = []
    for name in _SERVICES:
        methods = Methods(pb.DESCRIPTOR.services_by_name[name], groups)
        handlers.append(grpc.method_handlers_generic_handler(methods.service, methods.handlers))
        if methods.missing:
            log.debug("%s answers Unimplemented to %s", methods.service, ", ".join(methods.missing))
    return handlers


def cri_server(
    engine: Engine, streaming: Streaming, reloader: Reloader | None = None, spans: SpanExporter | None = None
) -> Server:
    """Create the CRI server of an engine.

    `streaming` returns URLs for exec, attach and port forwarding. Clients may reload the settings if there is a
    `reloader`. `spans` gets a span of each call.
    """
    readings = Readings(engine.inventory, engine.running_containers, engine.images)
    groups = [
        RuntimeInfoCalls(_runtime_facts(engine, reloader)),
        engine.pod_creation,
        engine.pod_removal,
        engine.container_creation,
        engine.container_start,
        engine.container_removal,
        engine.resource_updates,
        StatusCalls(engine.inventory),
        ExecutionCalls(engine.inventory, engine.running_containers, streaming, dry=engine.config.dry),
        StatsCalls(readings),
        EventCalls(engine.events),
        MetricCalls(readings),
        ImageCalls(engine.images, lambda: engine.config.images.pinned_images),
    ]
    interceptors = [] if spans is None else [CallSpans(spans)]
    return Server(engine.config.socket, groups, engine.events.close, interceptors)


def _runtime_facts(engine: Engine, reloader: Reloader | None) -> Facts:
    def conditions() -> list[pb.RuntimeCondition]:
        return [
            pb.RuntimeCondition(type=row.kind, status=row.holds, reason=row.reason, message=row.message)
            for row in engine.conditions
        ]

    def handlers() -> Mapping[str, pb.RuntimeHandlerFeatures]:
        features, config = {}, engine.config  # a reload may replace it meanwhile
        for name in config.runtimes:
            machine_features = engine.machinery.machine_of(name)
            features[name] = pb.RuntimeHandlerFeatures(
                recursive_read_only_mounts=machine_features.recursive_read_only,
                user_namespaces=machine_features.idmapped_mounts,
            )
        return {"": features[config.default_runtime], **features}

    def details() -> Mapping[str, Any]:
        outcome = {} if reloader is None else {"reload": reloader.last}
        return {"config": dataclasses.asdict(engine.config), **outcome}

    reload = None if reloader is None else reloader.reload
    return Facts(conditions, handlers, engine.config.cgroups.driver, details, engine.use_pod_cidr, reload)
