"""The engine object: create its parts, start and stop them. Containers continue to run when the engine stops."""

from __future__ import annotations

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
from nri.engine.network import find_networks, values_of, write_network
from nri.engine.replay import Replay
from nri.engine.state import Store
from nri.engine.support.errors import EngineError, InvalidRequest
from nri.user_agent import package_version

_log = logging.getLogger(__name__)


class Condition(NamedTuple):
    """A condition of the CRI's Status. If it is false, `reason` and `message` explain why."""

    kind: str
    holds: bool
    reason: str = ""
    message: str = ""


class Engine:
    """A CRI container engine with NRI. The constructor raises EngineError or ConfigError if a part cannot be created.

    Args:
        config: all settings.
        name: the name of the engine's domain.
        hub: the main engine's connection to plugins, if this engine is a further domain.
        nri_options: further options for `nri.adaptation.Adaptation`, for example `builtin` or `observer`.

    Attributes:
        domains: the engines of the further domains, by name. All domains share the plugins.
        pod_creation, pod_removal, container_creation, container_start, container_removal, resource_updates: the CRI
            calls that change something. `nri.engine.server` creates the objects for calls that only report.
        running_containers: runs programs in containers, and connects to streams of containers.
        images: the images of this domain.
        events: publishes the CRI's container events.
        complaints: the problems that were found at the start, one line each.
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
        self.nri = hub = hub or NriHub(config.nri, package_version(), places.root / "plugins.json", **nri_options)
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
        """Restore the pods and containers of an earlier engine, and accept plugins. Raises NriError if that fails."""
        try:
            for engine in self._all_engines():
                engine._replay.restore()
            self.nri.start()
            for engine in self._all_engines():
                engine._replay.resume()
        except BaseException:
            self.stop()
            raise
        for engine in self._all_engines():
            self.complaints += [*engine.images.complaints, *engine._replay.complaints]
        self._returning = threading.Thread(target=self._await_plugins, name="nri-engine-return")
        self._returning.start()

    def _await_plugins(self) -> None:
        """Wait until earlier plugins have reconnected, then report the containers that ended before the start."""
        try:
            self.nri.await_return()
        finally:  # otherwise ends of containers would never be reported
            for engine in self._all_engines():
                engine._exit_handler.open()

    def configure(self, config: EngineConfig) -> None:
        """Use other settings for the next calls, in all domains.

        Raises ConfigError if a file that the settings name is invalid; then nothing changes.
        """
        files = [
            engine.machinery.read_files(config if engine is self else config.of_domain(engine.name))
            for engine in self._all_engines()
        ]
        for engine, settings_files in zip(self._all_engines(), files, strict=True):
            engine.machinery.configure(settings_files)
            engine.config = settings_files.config  # last, because Status asks for the features of its runtimes

    def stop(self) -> None:
        """Release all resources. Containers continue to run. Calling it again has no effect."""
        if self._stopped:
            return
        self._stopped = True
        for engine in self._all_engines():
            engine._exit_handler.close()
            engine.events.close()
        self.nri.stop()
        if self._returning is not None:
            self._returning.join()
        for engine in self._all_engines():
            engine._locks.close()

    def _all_engines(self) -> list[Engine]:
        """Return this engine and the engines of the further domains."""
        return [self, *self.domains.values()]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def use_pod_cidr(self, pod_cidrs: str) -> None:
        """Write the pod network from its template, if there is a template and no network yet, as in containerd.

        Raises InvalidRequest if `pod_cidrs` are not address ranges, and EngineError if the file cannot be written.
        """
        try:
            values_of(pod_cidrs)
        except ValueError as error:
            raise InvalidRequest(f"podCIDR: {error}") from None
        folder, template = self.config.network.config_dir, self.machinery.network_template
        if template is None or self.config.dry or find_networks(folder)[0]:
            return
        try:
            path = write_network(template, folder, pod_cidrs)
        except (OSError, ValueError) as error:
            source = self.config.network.conf_template
            raise EngineError(f"{source}: no network could be written for {pod_cidrs}: {error}") from error
        _log.info("the network for %s was written to %s", pod_cidrs, path)

    # --- conditions ---

    @property
    def conditions(self) -> list[Condition]:
        """The CRI's conditions RuntimeReady and NetworkReady."""
        networks, complaints = find_networks(self.config.network.config_dir)
        if networks:
            row = Condition("NetworkReady", True)
        else:
            row = Condition("NetworkReady", False, "NetworkPluginNotReady", "; ".join(complaints))
        missing = self.machinery.missing_programs()
        message = f"not found on this machine: {', '.join(missing)}" if missing else ""
        ready = Condition("RuntimeReady", not missing, "ProgramsMissing" if missing else "", message)
        return [ready, row]
