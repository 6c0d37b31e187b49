"""The NRI adaptation that all domains of an engine share.

Plugins receive the pods and containers of all domains. The hub passes each update and eviction to the domain that has
the container. If two domains have a container with the same id, the update or eviction is rejected. If NRI is disabled,
there is no adaptation.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from nri.adaptation import Adaptation, OrderedUpdates, UpdateResult
from nri.api import messages as m
from nri.config.syntax import parse_json
from nri.engine.config import NriConfig
from nri.engine.support.errors import EngineError
from nri.files import read_regular, write_whole

#: How long the engine waits after a restart for earlier plugins to reconnect, so that they receive missed events.
RETURN_S = 5.0
#: The delay between a synchronization and the recording of the plugins' names.
RECORD_DELAY_S = 0.5
#: The maximum size of the file with the plugins' names.
_NAMES_BYTES = 1 << 20
#: States of plugins (`nri.adaptation.PluginHealth`).
_JOINING, _JOINED = "starting", ("active", "late", "open")
_log = logging.getLogger(__name__)


class NriDomain(Protocol):
    """A namespace of pods and containers, like containerd's ``k8s.io`` and ``moby``."""

    name: str

    def snapshot(self) -> tuple[list[m.PodSandbox], list[m.Container]]:
        """Return the pods and containers for a synchronization."""

    def has(self, container_id: str) -> bool:
        """Return whether the domain has this container."""

    def update(self, updates: OrderedUpdates) -> list[UpdateResult]:
        """Apply updates that plugins request."""

    def evict(self, evictions: list[m.ContainerEviction]) -> None:
        """Begin to stop the containers that plugins evict."""


class NriHub:
    """The adaptation and its domains. `memory` is the file that keeps the names of the connected plugins."""

    def __init__(self, config: NriConfig, version: str, memory: Path, **options: Any) -> None:
        self.tell_refused = config.tell_refused
        self._domains: dict[str, NriDomain] = {}
        self._memory = memory
        self._earlier_names = _read_names(memory)
        self._timer_lock, self._file_lock = threading.Lock(), threading.Lock()
        self._timer: threading.Timer | None = None
        self._recorded_names: list[str] | None = None
        self._stopped = False
        self.adaptation = None if config.disable else self._adaptation(config, version, options)

    def _adaptation(self, config: NriConfig, version: str, options: dict[str, Any]) -> Adaptation:
        return Adaptation(
            "nri-engine",
            version,
            synchronize=self._synchronize,
            update=self.update,
            evict=self.evict,
            commits=True,
            **config.arguments(),
            **options,
        )

    def register(self, domain: NriDomain) -> None:
        """Add a domain before the start. Raises EngineError if another domain has its name."""
        if domain.name in self._domains:
            raise EngineError(f"a domain {domain.name!r} already exists")
        self._domains[domain.name] = domain

    def start(self) -> None:
        """Start the engine's plugins and listen for other plugins. Raises EngineError if the socket fails."""
        if self.adaptation is None:
            return
        try:
            self.adaptation.start()
        except OSError as error:
            raise EngineError(f"NRI cannot listen: {error}") from error

    def await_return(self) -> None:
        """Wait for the earlier plugins to reconnect after a restart, at most `RETURN_S`."""
        if self.adaptation is not None and self._earlier_names:
            self.adaptation.ready(self._earlier_names, RETURN_S)

    def stop(self) -> None:
        """Close all connections, and end the plugins that the engine launched."""
        with self._timer_lock:
            self._stopped = True
            if self._timer is not None:
                self._timer.cancel()
        if self.adaptation is not None:
            self._record_names()
            self.adaptation.stop()

    # --- callbacks of the adaptation ---

    def _synchronize(self) -> tuple[list[m.PodSandbox], list[m.Container]]:
        pods: list[m.PodSandbox] = []
        containers: list[m.Container] = []
        for domain in self._domains.values():
            domain_pods, domain_containers = domain.snapshot()
            pods += domain_pods
            containers += domain_containers
        self._record_names_soon()
        return pods, containers

    def update(self, updates: OrderedUpdates) -> list[UpdateResult]:
        """Apply updates that plugins request, each in the domain that has the container."""
        results = []
        for update in updates:
            homes = self._domains_with(update.container_id)
            if len(homes) == 1:
                results += homes[0].update(updates.only(update))
            else:
                results.append(UpdateResult.all_stale(update, _rejection(update.container_id, homes)))
        return results

    def evict(self, evictions: Sequence[m.ContainerEviction]) -> None:
        """Start evictions that plugins request, each in the domain that has the container."""
        for eviction in evictions:
            homes = self._domains_with(eviction.container_id)
            if len(homes) == 1:
                homes[0].evict([eviction])
            else:
                _log.warning("an eviction is ignored: %s", _rejection(eviction.container_id, homes))

    def _domains_with(self, container_id: str) -> list[NriDomain]:
        return [domain for domain in self._domains.values() if domain.has(container_id)]

    # --- the names of connected plugins, for the next start ---

    def _record_names_soon(self) -> None:
        """Record the names of the connected plugins after a delay, in which joining plugins complete."""
        with self._timer_lock:
            if self._timer is None and not self._stopped:
                self._timer = threading.Timer(RECORD_DELAY_S, self._record_joined)
                self._timer.daemon = True
                self._timer.start()

    def _record_joined(self) -> None:
        with self._timer_lock:
            self._timer = None  # before names are read: a plugin that joins later starts another timer
        if self._record_names():
            self._record_names_soon()

    def _record_names(self) -> bool:
        """Write the names of the connected plugins, and return whether other plugins are still joining."""
        assert self.adaptation is not None
        with self._file_lock:
            rows = self.adaptation.plugins
            names = sorted(row.plugin for row in rows if row.state in _JOINED)
            try:
                if names != self._recorded_names:
                    write_whole(self._memory, json.dumps(names).encode())
                    self._recorded_names = names
            except OSError as error:
                _log.warning("the names of the connected plugins cannot be written: %s", error)
        return any(row.state == _JOINING for row in rows)


def _read_names(path: Path) -> list[str]:
    try:
        names = parse_json(read_regular(path, _NAMES_BYTES))
    except (OSError, ValueError):
        return []
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def _rejection(container_id: str, homes: Sequence[NriDomain]) -> str:
    if not homes:
        return f"there is no container {container_id!r}"
    return f"container {container_id!r} is in several domains: {', '.join(home.name for home in homes)}"
