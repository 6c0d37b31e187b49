"""`Observer`: an object that gets each result of a plugin and ignores it; subclass it, or use `nri.metrics.prometheus`.

Every method may be called from several threads at once, and is called on the hot path: it must be quick, and must not
raise. `plugin` is ``NN-name``; `operation` is the RPC name of an event (``CreateContainer``) or ``Synchronize``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nri.api import messages as m

__all__ = ["Observer"]


class Observer:
    """The base of observers, which ignores everything."""

    __slots__ = ()

    def record_plugin_invocation(self, plugin: str, operation: str, error: BaseException | None) -> None:
        """A plugin was asked; `error` is None if it answered well."""

    def record_plugin_latency(self, plugin: str, operation: str, seconds: float) -> None:
        """A plugin took so many seconds to answer; follows every `record_plugin_invocation`."""

    def record_plugin_adjustments(
        self, plugin: str, operation: str, adjustment: m.ContainerAdjustment | None, updates: int, evictions: int
    ) -> None:
        """A plugin answered CreateContainer, UpdateContainer, StopContainer or Synchronize with so much."""

    def update_plugin_count(self, count: int) -> None:
        """So many plugins are active now."""

    def record_left_out(self, plugin: str, operation: str) -> None:
        """A plugin asked for an update or an eviction of a container that is not there. Not of the reference."""

    def record_withdrawn(self, plugin: str, operation: str) -> None:
        """A plugin's answer was dropped, because another one failed the event. Not of the reference."""

    def record_refused(self, reason: str) -> None:
        """A connection or a registration was refused, for a reason of `docs/howto/metrics.md`. Not of the reference."""

    def record_shadow(self, report: object) -> None:
        """A shadow plugin answered; `report` is a `nri.adaptation.audit.shadow.ShadowReport`. Not of the reference."""
