"""The proxy put together: what stands between a kubelet and its runtime, started and stopped as one thing.

One job: wiring. Rules: the kubelet is let in last, and out first; containers run on whatever happens here. A runtime
that is not there is no error: it is waited for beside everything else. Next: `nri.proxy.passing`, the way of a call.
"""

from __future__ import annotations

import importlib.metadata
import logging
import threading
from collections.abc import Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Self

from nri.adaptation import Adaptation
from nri.cri.client import find_socket
from nri.cri.pb import api_pb2 as pb
from nri.errors import NriError
from nri.proxy.events import Adoption, ContainerCalls, Domain, Exits, Inquiry, Parts, PodCalls, Reconciler, Updates
from nri.proxy.hook_servers import RegisteredServers
from nri.proxy.passing import Backend, Front
from nri.proxy.passing.backend import RUNTIME_SERVICE
from nri.proxy.settings import ProxySettings
from nri.proxy.state import Book, Checkpoint

if TYPE_CHECKING:
    from nri.adaptation import BuiltinPlugin
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
        observer: metrics, as `nri.adaptation.Adaptation` takes them.
        admit: called with the adaptation when plugins may join, before the kubelet is let in: for a plugin of this
            process that no container is to pass by.

    Attributes:
        runtime: the path of the runtime's socket.
        adaptation: the plugins.
        book: what is known of pods and containers.
    """

    def __init__(
        self,
        settings: ProxySettings,
        *,
        builtin: Sequence[BuiltinPlugin] = (),
        hook_servers: HookServers | None = None,
        observer: Observer | None = None,
        admit: Callable[[Adaptation], object] = lambda _: None,
    ) -> None:
        self.settings, self._admit = settings, admit
        self.runtime = (settings.runtime_endpoint or find_socket("--runtime-endpoint")).removeprefix("unix://")
        self._stopped = threading.Event()
        hook_servers = self._hook_servers = hook_servers or RegisteredServers.of(settings)
        self._checkpoint = Checkpoint(settings.state)
        self.book = Book(self._checkpoint)
        self.backend = Backend(self.runtime)
        self._domain = Domain(self.book)
        self._updates = Updates(self.book, self.backend, self._domain)
        self.adaptation = self._domain.adaptation = self._adaptation(builtin, observer)
        self._domain.follow = self._updates.follow
        inquiry = Inquiry(self.backend)
        self._adoption = Adoption(settings, self.book, inquiry, self._domain)
        parts = Parts(
            settings, self.book, self.backend, inquiry, self._domain, self._updates, self._adoption, hook_servers
        )
        containers = ContainerCalls(parts)
        self._exits = Exits(parts, containers.ended)
        taken = _taken(PodCalls(parts), containers, self._exits)
        self._front = Front(settings.listen.removeprefix("unix://"), self.backend, taken)
        self._reconciler = Reconciler(self._adoption)

    def _adaptation(self, builtin: Sequence[BuiltinPlugin], observer: Observer | None) -> Adaptation:
        nri = self.settings.nri
        return Adaptation(
            "nri-proxy",
            importlib.metadata.version("nri"),
            synchronize=self._domain.snapshot,
            update=self._updates.apply,
            evict=self._updates.evict,
            plugin_path=nri.plugin_path,
            plugin_config_path=nri.plugin_config_path,
            socket_path=nri.socket_path,
            disable_connections=nri.disable_connections,
            registration_timeout_s=nri.plugin_registration_timeout,
            request_timeout_s=nri.plugin_request_timeout,
            policy_path=nri.policy_path or None,
            provenance=nri.provenance,
            admin_socket=nri.admin_socket or None,
            allowed_uids=nri.allowed_uids,
            compat=nri.compat,
            default_validator=nri.default_validator,
            builtin=builtin,
            observer=observer,
            commits=True,
        )

    # --- life ---

    def start(self) -> None:
        """Take up what an earlier proxy has left, let plugins in, and listen. Raises OSError, NriError.

        The runtime may be there or not. Nothing is left if it raises.
        """
        try:
            self._checkpoint.open()
            self.book.load()
            self.backend.on_connect(self._reconciler.wake)  # from now on: it may come while plugins are let in
            self.backend.start()
            try:
                self._adoption.everything(late=False, deadline=monotonic() + _TAKE_IN_S)
            except NriError as error:
                _log.warning("the runtime does not answer yet: %s", error)
                self._reconciler.wake()
            self.adaptation.start()
            if self._hook_servers is not None:
                self._hook_servers.start()
            self._admit(self.adaptation)
            self._reconciler.start()
            self._exits.start()
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
        self._reconciler.give_up()
        self.backend.stop()  # whatever waits for the runtime ends
        self._exits.stop()
        self._reconciler.stop()
        self._updates.stop()
        if self._hook_servers is not None:
            self._hook_servers.stop()
        self.adaptation.stop()
        self._checkpoint.close()

    def run(self, end: threading.Event) -> None:
        """Start, wait until `end` is set, and stop. Raises as `start` does."""
        with self:
            end.wait()

    def describe(self) -> str:
        """Say in one line where it listens and which runtime it stands before."""
        nri = self.settings.nri
        plugins = f"plugins in {nri.plugin_path} only" if nri.disable_connections else f"NRI at {nri.socket_path}"
        return f"CRI at {self.settings.listen}, {plugins}, runtime at {self.runtime}"

    def asked(self, container_id: str) -> pb.LinuxContainerResources | None:
        """The resources that the kubelet asks for a container, by the plugins' name; None if they are not known."""
        record = self.book.named(container_id)
        return record.asked if record is not None and record.asked.ByteSize() else None

    @property
    def runtime_name(self) -> str:
        """The runtime's own name, such as ``containerd``; empty if it does not tell."""
        try:
            return str(self.backend.call("Version", pb.VersionRequest(), timeout_s=_ASK_S).runtime_name)
        except NriError:
            return ""

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
