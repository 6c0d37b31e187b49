"""One adaptation for all domains of an engine: namespaces of containers that know nothing of each other.

The hub joins the states of the domains for plugins that register, and hands each update and eviction to the domain that
has the container. An id that exists in two domains belongs to neither: what plugins want for it is refused with the
names of both. Without NRI there is no adaptation, and events are not sent.
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

#: How long after a restart the plugins of before have to come back before they get the events that they missed, in
#: seconds.
RETURN_S = 5.0
#: How long after plugins got the state it is written down which of them take part, in seconds.
NOTED_AFTER_S = 0.5
#: The longest file of names.
_MEMORY_BYTES = 1 << 20
#: States of plugins (`nri.adaptation.PluginHealth`).
_ON_THE_WAY, _TAKES_PART = "starting", ("active", "late", "open")
_log = logging.getLogger(__name__)


class NriDomain(Protocol):
    """One namespace of pods and containers, as containerd's ``k8s.io`` and ``moby`` are."""

    name: str

    def snapshot(self) -> tuple[list[m.PodSandbox], list[m.Container]]:
        """All pods and containers that plugins are to know of, now."""

    def has(self, container_id: str) -> bool:
        """Whether this is one of its containers."""

    def update(self, updates: OrderedUpdates) -> list[UpdateResult]:
        """Apply updates by plugins."""

    def evict(self, evictions: list[m.ContainerEviction]) -> None:
        """Begin to stop containers that plugins want gone."""


class NriHub:
    """The adaptation and its domains. `memory` is the file that keeps which plugins took part."""

    def __init__(self, config: NriConfig, version: str, memory: Path, **more: Any) -> None:
        self.tell_refused = config.tell_refused
        self._domains: dict[str, NriDomain] = {}
        self._memory = memory
        self._before = _read_names(memory)
        self._noting, self._writing = threading.Lock(), threading.Lock()
        self._timer: threading.Timer | None = None
        self._noted: list[str] | None = None
        self._stopped = False
        self.adaptation = None if config.disable else self._adaptation(config, version, more)

    def _adaptation(self, config: NriConfig, version: str, more: dict[str, Any]) -> Adaptation:
        return Adaptation(
            "nri-engine",
            version,
            synchronize=self._synchronize,
            update=self.update,
            evict=self.evict,
            commits=True,
            **config.arguments(),
            **more,
        )

    def register(self, domain: NriDomain) -> None:
        """Take a domain in, before the start. Raises EngineError if there is one of that name."""
        if domain.name in self._domains:
            raise EngineError(f"there is a domain {domain.name!r} already")
        self._domains[domain.name] = domain

    def start(self) -> None:
        """Start plugins and listen for others. Raises EngineError if the socket or a plugin of the engine fails."""
        if self.adaptation is None:
            return
        try:
            self.adaptation.start()
        except OSError as error:
            raise EngineError(f"NRI cannot listen: {error}") from error

    def await_return(self) -> None:
        """Wait, after a restart, for the plugins of before, or until their time is over."""
        if self.adaptation is not None and self._before:
            self.adaptation.ready(self._before, RETURN_S)

    def stop(self) -> None:
        """End connections and launched plugins."""
        with self._noting:
            self._stopped = True
            if self._timer is not None:
                self._timer.cancel()
        if self.adaptation is not None:
            self._note()
            self.adaptation.stop()

    # --- what the adaptation asks for ---

    def _synchronize(self) -> tuple[list[m.PodSandbox], list[m.Container]]:
        pods: list[m.PodSandbox] = []
        containers: list[m.Container] = []
        for domain in self._domains.values():
            its_pods, its_containers = domain.snapshot()
            pods += its_pods
            containers += its_containers
        self._note_soon()
        return pods, containers

    def update(self, updates: OrderedUpdates) -> list[UpdateResult]:
        """Apply updates that plugins want, each in the domain that has the container."""
        results = []
        for update in updates:
            homes = self._homes(update.container_id)
            if len(homes) == 1:
                results += homes[0].update(updates.only(update))
            else:
                results.append(UpdateResult.all_stale(update, _why_not(update.container_id, homes)))
        return results

    def evict(self, evictions: Sequence[m.ContainerEviction]) -> None:
        """Begin evictions that plugins want, each in the domain that has the container."""
        for eviction in evictions:
            homes = self._homes(eviction.container_id)
            if len(homes) == 1:
                homes[0].evict([eviction])
            else:
                _log.warning("an eviction is left out: %s", _why_not(eviction.container_id, homes))

    def _homes(self, container_id: str) -> list[NriDomain]:
        return [domain for domain in self._domains.values() if domain.has(container_id)]

    # --- which plugins take part, for the next start ---

    def _note_soon(self) -> None:
        """Note the plugins once those that are joining have joined."""
        with self._noting:
            if self._timer is None and not self._stopped:
                self._timer = threading.Timer(NOTED_AFTER_S, self._note_joined)
                self._timer.daemon = True
                self._timer.start()

    def _note_joined(self) -> None:
        with self._noting:
            self._timer = None  # before the look at them: who joins after it has a note of its own
        if self._note():
            self._note_soon()

    def _note(self) -> bool:
        """Write down which plugins take part; returns whether some are still on their way."""
        assert self.adaptation is not None
        with self._writing:
            rows = self.adaptation.plugins
            names = sorted(row.plugin for row in rows if row.state in _TAKES_PART)
            try:
                if names != self._noted:
                    write_whole(self._memory, json.dumps(names).encode())
                    self._noted = names
            except OSError as error:
                _log.warning("which plugins take part cannot be written down: %s", error)
        return any(row.state == _ON_THE_WAY for row in rows)


def _read_names(path: Path) -> list[str]:
    try:
        found = parse_json(read_regular(path, _MEMORY_BYTES))
    except (OSError, ValueError):
        return []
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


def _why_not(container_id: str, homes: Sequence[NriDomain]) -> str:
    if not homes:
        return f"there is no container {container_id!r}"
    return f"container {container_id!r} is in several domains: {', '.join(home.name for home in homes)}"
