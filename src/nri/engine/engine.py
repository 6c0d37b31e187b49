"""The engine: all of its parts put together, started, and stopped while containers run on.

One job: wiring, in the order in which the parts need each other. Next: :mod:`nri.engine.lifecycle`, what they do.
"""

from __future__ import annotations

import importlib.metadata
import logging
import threading
from typing import Any, NamedTuple, Self

from nri.cri.pb import api_pb2 as pb
from nri.engine.config import EngineConfig
from nri.engine.images import ImageStore
from nri.engine.lifecycle import Containers, Domain, EventBus, NriHub, Pods, container_status, pod_status
from nri.engine.lifecycle.creation import Creation
from nri.engine.lifecycle.ends import Ends
from nri.engine.lifecycle.lives import Lives
from nri.engine.lifecycle.parts.dry import DryMachinery
from nri.engine.lifecycle.parts.machinery import Machinery
from nri.engine.lifecycle.parts.places import Places
from nri.engine.lifecycle.pod_steps import PodSteps
from nri.engine.lifecycle.replay import Replay
from nri.engine.lifecycle.resources import Resources
from nri.engine.lifecycle.updates import Updates
from nri.engine.network import find_network
from nri.engine.state import Store
from nri.engine.support.errors import NotThere

__all__ = ["Condition", "Engine"]

_log = logging.getLogger(__name__)


class Condition(NamedTuple):
    """One condition of the engine, as the CRI's Status tells it. `reason` and `message` say why it does not hold."""

    kind: str
    holds: bool
    reason: str = ""
    message: str = ""


class Engine:
    """A CRI container engine with NRI in it. Raises EngineError, ConfigError if it cannot be made.

    Args:
        config: all settings.
        nri_options: more for `nri.adaptation.Adaptation`, such as `builtin` or `observer`.

    Attributes:
        pods, containers: the calls of the CRI.
        images: the images of this node.
        events: the CRI's container events.
        complaints: what was found that is not as it should be, one line each.
    """

    def __init__(self, config: EngineConfig, **nri_options: Any) -> None:
        self.config = config
        places = Places(config.root, config.state)
        self._store = Store(places.records)
        try:
            self._wire(config, places, nri_options)
        except BaseException:
            self._store.close()
            raise

    def _wire(self, config: EngineConfig, places: Places, nri_options: dict[str, Any]) -> None:
        self.machinery = machinery = (DryMachinery if config.dry else Machinery)(config, places)
        self.images: ImageStore = machinery.images
        self.events = bus = EventBus()
        self.lives = lives = Lives(self._store)
        self.nri = hub = NriHub(
            config.nri, importlib.metadata.version("nri"), places.root / "plugins.json", **nri_options
        )
        resources = Resources(lives, machinery.machine, machinery.runtime, machinery.generator)
        self.domain = domain = Domain(hub, lives, resources)
        self._ends = ends = Ends(lives, machinery, domain, bus)
        steps = PodSteps(machinery, ends)
        creation = Creation(lives, machinery, domain, steps, ends)
        ends.clear = creation.end_process
        updates = Updates(lives, machinery, domain, resources)
        self.containers = Containers(lives, machinery, domain, bus, creation, ends, updates)
        self.pods = Pods(lives, machinery, domain, bus, steps)
        self.pods.end_containers = self.containers.end_all
        bus.describe = self._describe
        self._replay = Replay(lives, machinery, steps, creation, ends)
        self.complaints: list[str] = []
        self._returning: threading.Thread | None = None
        self._stopped = False

    # --- life ---

    def start(self) -> None:
        """Take up what an earlier life has left, and let plugins in. Raises EngineError, NriError."""
        try:
            self._replay.records()
            self.nri.start()
            self._replay.ends()
        except BaseException:
            self.stop()
            raise
        self.complaints += [*self.images.complaints, *self._replay.complaints]
        self._returning = threading.Thread(target=self._await_plugins, name="nri-engine-return")
        self._returning.start()

    def _await_plugins(self) -> None:
        """Have ends that came while no engine ran told once the plugins of before are back."""
        self.nri.await_return()
        self._ends.open()

    def stop(self) -> None:
        """Let go of everything; containers run on, and the next engine finds them. A second call does nothing."""
        if self._stopped:
            return
        self._stopped = True
        self._ends.close()
        self.events.close()
        self.nri.stop()
        if self._returning is not None:
            self._returning.join()
        self._store.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # --- how it is ---

    @property
    def conditions(self) -> list[Condition]:
        """Whether the engine can run pods, and whether pods get networks; as the CRI's Status has it."""
        network, complaints = find_network(self.config.network.config_dir)
        if network is not None:
            row = Condition("NetworkReady", True)
        else:
            row = Condition("NetworkReady", False, "NetworkPluginNotReady", "; ".join(complaints))
        missing = self.machinery.missing_programs()
        why = f"not on this machine: {', '.join(missing)}" if missing else ""
        ready = Condition("RuntimeReady", not missing, "ProgramsMissing" if missing else "", why)
        return [ready, row]

    def _describe(self, event: pb.ContainerEventResponse, pod_id: str) -> None:
        """Add the statuses of a pod and its containers to an event."""
        try:
            event.pod_sandbox_status.CopyFrom(pod_status(self.lives.pod(pod_id)))
        except NotThere:
            return  # it is removed
        event.containers_statuses.extend(map(container_status, self.lives.containers(pod_id)))
