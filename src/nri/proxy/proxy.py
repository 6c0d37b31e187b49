"""The proxy between a kubelet and its runtime: create, start and stop all its components."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Self

from nri.adaptation import Adaptation
from nri.cri.client import find_socket
from nri.cri.pb import api_pb2 as pb
from nri.errors import NriError
from nri.proxy.events import Adoption, CallContext, ContainerCalls, Domain, Exits, PodCalls, Reconciler, RuntimeQueries
from nri.proxy.hook_servers import RegisteredServers
from nri.proxy.passing import Backend, Front
from nri.proxy.passing.backend import RUNTIME_SERVICE
from nri.proxy.settings import ProxySettings
from nri.proxy.state import Checkpoint, Store

if TYPE_CHECKING:
    from nri.adaptation import BuiltinPlugin
    from nri.interfaces import Reporter
    from nri.metrics import Observer
    from nri.proxy.hooks import HookServers
    from nri.proxy.passing.front import Answer


_ASK_S = 2.0
#: The start spends at most this many seconds on adoption; the remaining pods and containers are adopted later.
_ADOPTION_S = 20.0
_log = logging.getLogger("nri.proxy")


class Proxy:
    """A CRI proxy with NRI. Raises NriError or OSError if it cannot be created or started.

    Args:
        builtin: the plugins inside this process.
        hook_servers: hook servers, called before plugins; None for the hook servers of the settings.
        observer, reporters: metrics and recorders, as for `nri.adaptation.Adaptation`.
        admit: called with the adaptation when plugins may join, before the kubelet can connect, so that a plugin of
            this process does not miss a container.

    Attributes:
        runtime: the path of the runtime's socket.
        adaptation: the plugins.
        store: the records of pods and containers.
        domain, adoption, exits, reconciler: see `nri.proxy.events`.
    """

    def __init__(
        self,
        settings: ProxySettings,
        *,
        builtin: Sequence[BuiltinPlugin] = (),
        hook_servers: HookServers | None = None,
        observer: Observer | None = None,
        reporters: Sequence[Reporter] = (),
        admit: Callable[[Adaptation], object] = lambda _: None,
    ) -> None:
        self.settings, self._admit = settings, admit
        self.runtime = (settings.runtime_endpoint or find_socket("--runtime-endpoint")).removeprefix("unix://")
        self._stopped = threading.Event()
        hook_servers = self._hook_servers = hook_servers or RegisteredServers.of(settings)
        self._checkpoint = Checkpoint(settings.state)
        self.store = Store(self._checkpoint)
        self.backend = Backend(self.runtime)
        self._runtime_name: str | None = None
        self.backend.on_connect(self._forget_runtime_name)
        self.domain = Domain(settings, self.store, self.backend, builtin, observer, reporters)
        self.adaptation = self.domain.adaptation
        queries = RuntimeQueries(self.backend)
        self.adoption = Adoption(settings, self.store, queries, self.domain)
        context = CallContext(settings, self.store, self.backend, queries, self.domain, self.adoption, hook_servers)
        containers = ContainerCalls(context)
        self.exits = Exits(context, containers)
        answers = _answers_by_method(PodCalls(context), containers, self.exits)
        self._front = Front(settings.listen.removeprefix("unix://"), self.backend, answers)
        self.reconciler = Reconciler(self.adoption)

    # --- life ---

    def start(self) -> None:
        """Load the records of an earlier proxy, let plugins join, and listen. Raises OSError, NriError.

        The runtime need not be running. If the start raises an error, everything is stopped again.
        """
        try:
            self._checkpoint.open()
            self.store.load()
            self.backend.on_connect(
                self.reconciler.wake
            )  # set before plugins join, because the runtime may connect in the meantime
            self.backend.start()
            try:
                self.adoption.everything(late=False, deadline=monotonic() + _ADOPTION_S)
            except NriError as error:
                _log.warning("the runtime does not answer yet; retrying: %s", error)
                self.reconciler.wake()
            self.adaptation.start()
            if self._hook_servers is not None:
                self._hook_servers.start()
            self._admit(self.adaptation)
            self.reconciler.start()
            self.exits.start()
            self._front.start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Accept no more calls, and stop all components. Containers keep running. Calling it again has no effect."""
        if self._stopped.is_set():
            return
        self._stopped.set()
        self._front.stop()
        self.reconciler.give_up()
        self.backend.stop()  # ends all calls that wait for the runtime
        self.exits.stop()
        self.reconciler.stop()
        if self._hook_servers is not None:
            self._hook_servers.stop()
        self.domain.close()
        self._checkpoint.close()

    def describe(self) -> str:
        """A line with the proxy's sockets and its runtime."""
        nri = self.settings.nri
        plugins = f"plugins in {nri.plugin_path} only" if nri.disable_connections else f"NRI at {nri.socket_path}"
        why = f", nri why at {nri.admin_socket}" if nri.admin_socket else ""
        return f"CRI at {self.settings.listen}, {plugins}{why}, runtime at {self.runtime}"

    def requested_resources(self, container_id: str) -> pb.LinuxContainerResources | None:
        """The resources that the kubelet requests for a container, by its id for plugins. Returns None if not known."""
        record = self.store.named(container_id)
        return record.requested_resources if record is not None and record.requested_resources.ByteSize() else None

    @property
    def runtime_name(self) -> str:
        """The runtime's name, for example ``containerd``, or "". Queried once for each connection."""
        if self._runtime_name is None:
            try:
                answer = self.backend.call("Version", pb.VersionRequest(), timeout_s=_ASK_S)
            except NriError:
                return ""
            self._runtime_name = str(answer.runtime_name)
        return self._runtime_name

    def _forget_runtime_name(self) -> None:
        self._runtime_name = None  # it may be another runtime

    @property
    def listening(self) -> bool:
        """Whether the kubelet can connect."""
        return self._front.listening

    @property
    def connected(self) -> bool:
        """Whether there is a connection to the runtime."""
        return self.backend.connected

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _answers_by_method(pods: PodCalls, containers: ContainerCalls, exits: Exits) -> dict[str, Answer]:
    """The functions that answer the methods which are not passed on unchanged, by full name."""
    rows: dict[str, Answer] = {
        "RunPodSandbox": pods.run_pod_sandbox,
        "StopPodSandbox": pods.stop_pod_sandbox,
        "RemovePodSandbox": pods.remove_pod_sandbox,
        "UpdatePodSandboxResources": pods.update_pod_sandbox_resources,
        "CreateContainer": containers.create_container,
        "StartContainer": containers.start_container,
        "UpdateContainerResources": containers.update_container_resources,
        "StopContainer": containers.stop_container,
        "RemoveContainer": containers.remove_container,
        "ListContainers": exits.list_containers,
    }
    return {f"/{RUNTIME_SERVICE}/{name}": answer for name, answer in rows.items()}
