"""The proxy put together: all that is between a kubelet and its runtime, started and stopped as one thing.

One job: wiring. Rules: the kubelet is let in last, and out first; containers run on whatever happens here. A runtime
that is not there is no error: it is waited for beside everything else. Next: `nri.proxy.passing`, the way of a call.
"""

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

__all__ = ["Proxy"]

_ASK_S = 2.0
#: How long a start waits for the runtime's words on what it has, in seconds; the rest comes when the kubelet is let in.
_TAKE_IN_S = 20.0
_log = logging.getLogger("nri.proxy")


class Proxy:
    """A CRI proxy with NRI. Raises NriError, OSError if it cannot be made or started.

    Args:
        settings: all settings.
        builtin: plugins inside this process.
        hook_servers: hook servers, asked before plugins; None for those of the settings.
        observer, reporters: metrics and recorders, as `nri.adaptation.Adaptation` takes them.
        admit: called with the adaptation when plugins may join, before the kubelet is let in: for a plugin of this
            process that no container is to pass by.

    Attributes:
        runtime: the path of the runtime's socket.
        adaptation: the plugins.
        store: what is known of pods and containers.
        domain, adoption, exits, reconciler: the parts that have a say in calls; see `nri.proxy.events`.
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
        self.backend.on_connect(self._connected)
        self.domain = Domain(settings, self.store, self.backend, builtin, observer, reporters)
        self.adaptation = self.domain.adaptation
        queries = RuntimeQueries(self.backend)
        self.adoption = Adoption(settings, self.store, queries, self.domain)
        context = CallContext(settings, self.store, self.backend, queries, self.domain, self.adoption, hook_servers)
        containers = ContainerCalls(context)
        self.exits = Exits(context, containers)
        taken = _taken(PodCalls(context), containers, self.exits)
        self._front = Front(settings.listen.removeprefix("unix://"), self.backend, taken)
        self.reconciler = Reconciler(self.adoption)

    # --- life ---

    def start(self) -> None:
        """Take up what an earlier proxy has left, let plugins in, and listen. Raises OSError, NriError.

        The runtime may be there or not. Nothing is left if it raises.
        """
        try:
            self._checkpoint.open()
            self.store.load()
            self.backend.on_connect(self.reconciler.wake)  # from now on: it may come while plugins are let in
            self.backend.start()
            try:
                self.adoption.everything(late=False, deadline=monotonic() + _TAKE_IN_S)
            except NriError as error:
                _log.warning("the runtime does not answer yet: %s", error)
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
        """Take no more calls, and let go of everything; containers run on. A second call does nothing."""
        if self._stopped.is_set():
            return
        self._stopped.set()
        self._front.stop()
        self.reconciler.give_up()
        self.backend.stop()  # whatever waits for the runtime ends
        self.exits.stop()
        self.reconciler.stop()
        if self._hook_servers is not None:
            self._hook_servers.stop()
        self.domain.close()
        self._checkpoint.close()

    def describe(self) -> str:
        """Say in one line where it listens and which runtime it serves."""
        nri = self.settings.nri
        plugins = f"plugins in {nri.plugin_path} only" if nri.disable_connections else f"NRI at {nri.socket_path}"
        why = f", nri why at {nri.admin_socket}" if nri.admin_socket else ""
        return f"CRI at {self.settings.listen}, {plugins}{why}, runtime at {self.runtime}"

    def asked(self, container_id: str) -> pb.LinuxContainerResources | None:
        """The resources that the kubelet asks for a container, by the plugins' name; None if they are not known."""
        record = self.store.named(container_id)
        return record.asked if record is not None and record.asked.ByteSize() else None

    @property
    def runtime_name(self) -> str:
        """The runtime's own name, such as ``containerd``; empty if it does not tell. Asked once for each connection."""
        if self._runtime_name is None:
            try:
                answer = self.backend.call("Version", pb.VersionRequest(), timeout_s=_ASK_S)
            except NriError:
                return ""
            self._runtime_name = str(answer.runtime_name)
        return self._runtime_name

    def _connected(self) -> None:
        self._runtime_name = None  # it may be another one

    @property
    def listening(self) -> bool:
        """Whether the kubelet is let in."""
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


def _taken(pods: PodCalls, containers: ContainerCalls, exits: Exits) -> dict[str, Answer]:
    """The methods that are not passed on as they are, by their whole names."""
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
