"""`FakeRuntime`: a runtime for tests. The adaptation and the plugins' connections are real, the containers are not.

It keeps pods and containers as a runtime does, so a plugin that is added later is given them, and notes what plugins
ask for. Plugins run in threads of this process, each on its own socket pair; everything between is bytes. No root, no
files, no container engine. Next: `nri.testing.builders` for pods and containers, `nri.testing.wire` for connections
that fail.
"""

from __future__ import annotations

import os
import socket
import tempfile
import threading
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Self

from nri.adaptation import Adaptation, BuiltinPlugin, PluginHealth
from nri.api import messages as m
from nri.api.builders.eviction import Eviction
from nri.api.builders.update import Update
from nri.api.events import BY_METHOD
from nri.errors import LocalProtocolError
from nri.stub.plugin import Plugin
from nri.stub.session.session import Session
from nri.testing.builders import make_container, make_pod
from nri.testing.created import Created

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nri.testing.wire import Link

__all__ = ["FakeRuntime"]

#: How long the runtime waits for a plugin to take part, in seconds. Machines that build are slow.
PATIENCE_S = 20.0


class _Attached:
    """One plugin and its present session."""

    def __init__(self, plugin: Plugin, index: str, name: str, config: str) -> None:
        self.plugin, self.index, self.name, self.config = plugin, index, name, config
        self.session: Session | None = None
        self.thread: threading.Thread | None = None
        self.error: BaseException | None = None

    @property
    def label(self) -> str:
        return f"{self.index}-{self.name}"

    @property
    def ready(self) -> bool:
        return self.session is not None and self.session.stage == "ready"

    def run(self, session: Session) -> None:
        try:
            session.run()
        except Exception as error:  # noqa: BLE001 - told by whoever waits for the plugin
            self.error = error


class FakeRuntime:
    """A runtime for tests.

    Events are methods, as on `nri.adaptation.Adaptation`; pod and container may be left out.

    Args:
        compat: "default" or "reference".
        policy: text of a policy.toml.
        pods, containers: what there is at the start.
        name, version: what plugins are told.
        options: more of what `Adaptation` takes (`builtin`, `observer`, `default_validator`, `request_timeout_s`; with
            `socket_path` it listens, with `plugin_path` it launches).

    Attributes:
        pods, containers: what there is now, by id.
        updates: what plugins asked for by themselves, in order.
        evictions: likewise.
        refuse_updates: ids of containers whose updates fail.
        adaptation: the real thing.
    """

    def __init__(
        self,
        *,
        compat: Any = "default",
        policy: str | None = None,
        pods: Iterable[m.PodSandbox] = (),
        containers: Iterable[m.Container] = (),
        name: str = "fake",
        version: str = "v1.0.0",
        **options: Any,
    ) -> None:
        self.pods = {pod.id: pod for pod in pods}
        self.containers = {container.id: container for container in containers}
        self.updates: list[Update] = []
        self.evictions: list[Eviction] = []
        self.refuse_updates: set[str] = set()
        self._lock = threading.Lock()
        self._attached: dict[str, _Attached] = {}
        self._policy_path = _write(policy) if policy is not None else None
        options.setdefault("disable_connections", "socket_path" not in options)
        options.setdefault("plugin_path", "/nonexistent")
        #: Where plugins can connect; "" if nowhere.
        self.socket_path: str = options.get("socket_path", "")
        self._options = {"name": name, "version": version, "compat": compat, **options}
        self.adaptation = self._start()

    def _start(self) -> Adaptation:
        adaptation = Adaptation(
            synchronize=self._snapshot,
            update=self._update,
            evict=self._evict,
            policy_path=self._policy_path,
            **self._options,
        )
        adaptation.start()
        return adaptation

    # -- plugins ------------------------------------------------------------------------------------------------------

    def add(
        self,
        plugin: Plugin | BuiltinPlugin,
        idx: str = "10",
        name: str | None = None,
        *,
        config: str = "",
        link: Link | None = None,
        wait: bool = True,
    ) -> FakeRuntime:
        """Connect a plugin and wait until it takes part; returns the runtime, for chaining.

        Args:
            plugin: an instance.
            idx: its index, two digits.
            name: its name, if not its own.
            config: what the runtime gives it as configuration.
            link: connect over this link, for faults.
            wait: False: return before it takes part.

        Raises: what kept it from taking part.
        """
        if not isinstance(plugin, Plugin):
            raise LocalProtocolError(f"add() takes an instance of nri.Plugin, not {plugin!r}")
        attached = _Attached(plugin, idx, name or plugin.name, config)
        self._connect(attached, link)
        if wait:
            self._wait_for(attached)
        self._attached[attached.label] = attached
        return self

    def _connect(self, attached: _Attached, link: Link | None = None) -> None:
        ours, theirs = (link.runtime, link.plugin) if link is not None else socket.socketpair()
        attached.error = None
        attached.session = Session(attached.plugin, theirs, index=attached.index, name=attached.name)
        attached.thread = threading.Thread(
            target=attached.run, args=(attached.session,), name=f"plugin-{attached.label}", daemon=True
        )
        attached.thread.start()
        self.adaptation.connect(ours, attached.config)

    def _wait_for(self, attached: _Attached) -> None:
        deadline = monotonic() + PATIENCE_S
        while not (self.adaptation.ready([attached.label], 0.02) and attached.ready):
            ended = attached.thread is None or not attached.thread.is_alive()
            if attached.error is not None:  # looked at after the thread: its last act is to set this
                raise attached.error
            if ended or monotonic() > deadline:
                state = next((row for row in self.plugins if row.plugin == attached.label), None)
                raise LocalProtocolError(
                    f"plugin {attached.label} does not take part: {state or 'it never registered'}"
                )

    def connect(self, sock: socket.socket) -> None:
        """Take over a socket with something else at its other end."""
        self.adaptation.connect(sock)

    @property
    def plugins(self) -> list[PluginHealth]:
        """How the plugins are."""
        return self.adaptation.plugins

    def health(self, label: str) -> PluginHealth:
        """How one plugin is, by its ``NN-name``."""
        for row in self.plugins:
            if row.plugin == label:
                return row
        raise LookupError(f"no plugin {label} has ever registered: {[row.plugin for row in self.plugins]}")

    # -- making things go wrong ---------------------------------------------------------------------------------------

    def timeout(self, seconds: float) -> FakeRuntime:
        """From now on a plugin has so many seconds to answer a request."""
        self.adaptation.set_request_timeout(seconds)
        return self

    def disconnect(self, label: str = "") -> FakeRuntime:
        """Cut a plugin's connection (``NN-name``), or all; returns when both sides have noticed."""
        for attached in list(self._attached.values()):
            if label in ("", attached.label):
                self._cut(attached)
        return self

    def _cut(self, attached: _Attached) -> None:
        if attached.session is not None:
            attached.session.stop()
        if attached.thread is not None:
            attached.thread.join(PATIENCE_S)
        deadline = monotonic() + PATIENCE_S
        while self.health(attached.label).state not in ("gone", "crash loop") and monotonic() < deadline:
            sleep(0.002)

    def restart(self) -> FakeRuntime:
        """End the runtime and start it anew, with the same pods and containers; all plugins connect again."""
        self._end()
        self.adaptation = self._start()
        for attached in self._attached.values():
            self._connect(attached)
            self._wait_for(attached)
        return self

    # -- events -------------------------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        """The events without an answer: `runtime.start_container(pod, container)`."""
        spec = BY_METHOD.get(name)
        if spec is None or not spec.relayed:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

        def event(pod: m.PodSandbox | None = None, container: m.Container | None = None, **when: Any) -> None:
            pod = self._pod(pod)
            arguments: list[Any] = [pod] if spec.kind == "pod" else [pod, self._container(pod, container)]
            with self.adaptation.block_sync(urgent=name.startswith(("stop", "remove"))):
                getattr(self.adaptation, name)(*arguments, **when)
                if name == "remove_pod_sandbox":
                    self.pods.pop(pod.id, None)
                elif name == "remove_container":
                    self.containers.pop(arguments[1].id, None)

        return event

    def create_container(
        self, pod: m.PodSandbox | None = None, container: m.Container | None = None, **when: Any
    ) -> Created:
        """Create a container; raises what the creation fails with."""
        pod = self._pod(pod)
        if container is None:
            container = make_container(pod=pod)
        elif not container.pod_sandbox_id:
            container.pod_sandbox_id = pod.id
        with self.adaptation.block_sync():
            reply = self.adaptation.create_container(pod, container, **when)
            outcome = m.Container()
            outcome.CopyFrom(reply.container)
            self.containers[container.id] = outcome
        return Created(reply, outcome)

    def update_container(
        self,
        pod: m.PodSandbox | None = None,
        container: m.Container | None = None,
        resources: m.LinuxResources | Update | None = None,
        **when: Any,
    ) -> Any:
        """Update a container's resources; returns the adaptation's `UpdateReply`."""
        pod = self._pod(pod)
        container = self._container(pod, container)
        wanted = resources.message.linux.resources if isinstance(resources, Update) else resources
        with self.adaptation.block_sync():
            reply = self.adaptation.update_container(pod, container, wanted or m.LinuxResources(), **when)
            container.linux.resources.MergeFrom(reply.resources)
        return reply

    def stop_container(self, pod: m.PodSandbox | None = None, container: m.Container | None = None, **when: Any) -> Any:
        """Stop a container; returns the adaptation's `StopReply`."""
        pod = self._pod(pod)
        with self.adaptation.block_sync(urgent=True):
            return self.adaptation.stop_container(pod, self._container(pod, container), **when)

    def update_pod_sandbox(
        self,
        pod: m.PodSandbox | None = None,
        overhead: m.LinuxResources | None = None,
        resources: m.LinuxResources | None = None,
        **when: Any,
    ) -> None:
        """Update a pod's resources."""
        with self.adaptation.block_sync():
            self.adaptation.update_pod_sandbox(self._pod(pod), overhead, resources, **when)

    def _pod(self, pod: m.PodSandbox | None) -> m.PodSandbox:
        """The pod of an event: the one given, else the last one, else a new one."""
        with self._lock:
            if pod is None:
                pod = next(reversed(self.pods.values()), None) or make_pod()
            return self.pods.setdefault(pod.id, pod)

    def _container(self, pod: m.PodSandbox, container: m.Container | None) -> m.Container:
        with self._lock:
            if container is None:
                inside = [each for each in self.containers.values() if each.pod_sandbox_id == pod.id]
                container = inside[-1] if inside else make_container(pod=pod)
            return self.containers.setdefault(container.id, container)

    # -- what the adaptation asks for ---------------------------------------------------------------------------------

    def _snapshot(self) -> tuple[list[m.PodSandbox], list[m.Container]]:
        with self._lock:
            return list(self.pods.values()), list(self.containers.values())

    def _update(self, updates: list[m.ContainerUpdate]) -> list[m.ContainerUpdate]:
        failed = []
        with self._lock:
            for update in updates:
                container = self.containers.get(update.container_id)
                if container is None or update.container_id in self.refuse_updates:
                    failed.append(update)
                    continue
                container.linux.resources.MergeFrom(update.linux.resources)
                self.updates.append(Update.of(update))
        return failed

    def _evict(self, evictions: list[m.ContainerEviction]) -> None:
        with self._lock:
            self.evictions.extend(Eviction.of(eviction) for eviction in evictions)

    # -- the end ------------------------------------------------------------------------------------------------------

    def _end(self) -> None:
        self.adaptation.stop()
        for attached in self._attached.values():
            if attached.thread is not None:
                attached.thread.join(PATIENCE_S)

    def close(self) -> None:
        """End everything."""
        self._end()
        if self._policy_path is not None:
            os.unlink(self._policy_path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _write(policy: str) -> str:
    descriptor, path = tempfile.mkstemp(prefix="nri-policy-", suffix=".toml")
    with os.fdopen(descriptor, "w") as file:
        file.write(policy)
    return path
