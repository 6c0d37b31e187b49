"""An observer that sees what a trial's runtime does not tell: silent plugins, shadows, requests for absent containers.

Rules: it is told in the threads of the runtime, and emptied by the trial after each event. Next:
`nri.cli.support.trial.trial`.
"""

from __future__ import annotations

from typing import NamedTuple

from nri.adaptation.audit.shadow import ShadowReport
from nri.errors import RpcError
from nri.metrics import Observer

__all__ = ["Seen", "Watching"]


class Seen(NamedTuple):
    """The sightings since the last look: (plugin, event, error), reports, (plugin, event)."""

    silent: list[tuple[str, str, BaseException]]
    shadows: list[ShadowReport]
    left_out: list[tuple[str, str]]


class Watching(Observer):
    """Observer that collects what a runtime tells until `take` is called."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen = Seen([], [], [])

    def take(self) -> Seen:
        """Return what was seen since the last time."""
        seen, self._seen = self._seen, Seen([], [], [])
        return seen

    def record_plugin_invocation(self, plugin: str, operation: str, error: BaseException | None) -> None:
        """Keep a plugin that gave no answer. An error status is an answer, and the event's own error."""
        if error is not None and not isinstance(error, RpcError):
            self._seen.silent.append((plugin, operation, error))

    def record_shadow(self, report: object) -> None:
        """Keep what a shadow plugin would have done, if that is anything."""
        if isinstance(report, ShadowReport) and not report.empty:
            self._seen.shadows.append(report)

    def record_left_out(self, plugin: str, operation: str) -> None:
        """Keep a plugin that asked for something of a container that is not there."""
        self._seen.left_out.append((plugin, operation))
