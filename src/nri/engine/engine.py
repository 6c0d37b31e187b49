"""The engine: its parts wired together, started, and stopped while containers continue to run."""

from __future__ import annotations

import importlib.metadata
import logging
import threading
from typing import Any, NamedTuple, Self

from nri.engine.calls.container_creation import ContainerCreation
from nri.engine.calls.container_removal import ContainerRemoval
from nri.engine.calls.container_start import ContainerStart
from nri.engine.calls.execution import RunningContainers
from nri.engine.calls.pod_creation import PodCreation, PodSteps
from nri.engine.calls.pod_removal import PodRemoval
from nri.engine.calls.resource_updates import ResourceUpdates
from nri.engine.config import FIRST_DOMAIN, EngineConfig
from nri.engine.images import ImageStore
from nri.engine.lifecycle.bus import EventBus
from nri.engine.lifecycle.domain import Domain
from nri.engine.lifecycle.dry import DryMachinery
from nri.engine.lifecycle.exit_handler import ExitHandler
from nri.engine.lifecycle.hub import NriHub
from nri.engine.lifecycle.inventory import Inventory
from nri.engine.lifecycle.machinery import Machinery
from nri.engine.lifecycle.parts import Parts
from nri.engine.lifecycle.places import Places, lock_folders
from nri.engine.lifecycle.processes import Processes
from nri.engine.lifecycle.resources import Resources
from nri.engine.network import find_network
from nri.engine.replay import Replay
from nri.engine.state import Store

_log = logging.getLogger(__name__)


class Condition(NamedTuple):
    """A condition of the CRI's Status. `reason` and `message` explain why it does not hold."""

    kind: str
    holds: bool
    reason: str = ""
    message: str = ""


class Engine:
    """A CRI container engine with NRI in it. Raises EngineError or ConfigError if it cannot be created.

    Args:
        config: all settings.
        name: the domain of the pods.
        hub: the connection to plugins of the main engine, if this is a further domain.
        nri_options: further options for `nri.adaptation.Adaptation`, for example `builtin` or `observer`.

    Attributes:
        domains: the further domains by name; each is an engine that shares the plugins.
        pod_creation, pod_removal, container_creation, container_start, container_removal, resource_updates: calls of
            the CRI; `nri.engine.server` adds those that only report.
        running_containers: programs and streams in containers.
        images: the images of this node.
        events: the CRI's container events.
        complaints: problems that the start found, one line each.
    """

    def __init__(
        self, config: EngineConfig, name: str = FIRST_DOMAIN, hub: NriHub | None = None, **nri_options: Any
    ) -> None:
        self.config, self.name = config, name
        self._locks = lock_folders(config.root, config.state)
        try:
            places = Places(config.root, config.state, config.outermost_folders(name))
            self._wire(config, places, hub, nri_options)
        except BaseException:
            self._locks.close()
            raise
        self.domains: dict[str, Engine] = {}
        try:
            for domain in config.domains:
                self.domains[domain] = Engine(config.of_domain(domain), domain, self.nri)
        except BaseException:
            self.stop()
            raise

    def _wire(self, config: EngineConfig, places: Places, hub: NriHub | None, nri_options: dict[str, Any]) -> None:
        self.machinery = machinery = (DryMachinery if config.dry else Machinery)(config, places)
        self.images: ImageStore = machinery.images
        self.inventory = inventory = Inventory(Store(places.records))
        self.events = bus = EventBus(inventory)
        self.nri = hub = hub or NriHub(
            config.nri, importlib.metadata.version("nri"), places.root / "plugins.json", **nri_options
        )
        resources = Resources(inventory, machinery.machine, machinery.runtime, machinery.generator)
        processes = Processes(inventory, machinery)
        self.domain = domain = Domain(self.name, hub, inventory, resources, processes)
        self._exit_handler = exit_handler = ExitHandler(inventory, machinery, domain, processes, bus)
        parts = Parts(inventory, machinery, processes, resources, domain, exit_handler, bus)
        pod_steps = PodSteps(parts)
        self.pod_creation = PodCreation(parts, pod_steps)
        self.container_creation = ContainerCreation(parts, pod_steps)
        self.container_start = ContainerStart(parts)
        self.container_removal = ContainerRemoval(parts, self.container_creation)
        self.pod_removal = PodRemoval(parts, pod_steps, self.container_removal)
        self.resource_updates = ResourceUpdates(parts)
        self.running_containers = RunningContainers(inventory, machinery)
        self._replay = Replay(parts, pod_steps, self.container_creation)
        self.complaints: list[str] = []
        self._returning: threading.Thread | None = None
        self._stopped = False

    # --- life ---

    def start(self) -> None:
        """Restore what an earlier engine left, and accept plugins. Raises EngineError, NriError."""
        try:
            for engine in self._all():
                engine._replay.restore()
            self.nri.start()
            for engine in self._all():
                engine._replay.resume()
        except BaseException:
            self.stop()
            raise
        for engine in self._all():
            self.complaints += [*engine.images.complaints, *engine._replay.complaints]
        self._returning = threading.Thread(target=self._await_plugins, name="nri-engine-return")
        self._returning.start()

    def _await_plugins(self) -> None:
        """Report ends from before the start once the earlier plugins have reconnected."""
        try:
            self.nri.await_return()
        finally:  # otherwise the ends of containers would wait forever
            for engine in self._all():
                engine._exit_handler.open()

    def stop(self) -> None:
        """Release everything; containers continue to run for the next engine. Calling it again has no effect."""
        if self._stopped:
            return
        self._stopped = True
        for engine in self._all():
            engine._exit_handler.close()
            engine.events.close()
        self.nri.stop()
        if self._returning is not None:
            self._returning.join()
        for engine in self._all():
            engine._locks.close()

    def _all(self) -> list[Engine]:
        """This engine and its further domains."""
        return [self, *self.domains.values()]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # --- conditions ---

    @property
    def conditions(self) -> list[Condition]:
        """Whether the engine can run pods, and whether pods get networks, for the CRI's Status."""
        network, complaints = find_network(self.config.network.config_dir)
        if network is not None:
            row = Condition("NetworkReady", True)
        else:
            row = Condition("NetworkReady", False, "NetworkPluginNotReady", "; ".join(complaints))
        missing = self.machinery.missing_programs()
        message = f"not found on this machine: {', '.join(missing)}" if missing else ""
        ready = Condition("RuntimeReady", not missing, "ProgramsMissing" if missing else "", message)
        return [ready, row]
