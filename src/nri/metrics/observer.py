"""`Observer`: the base class of objects that get each result of a plugin. See `nri.metrics.prometheus` for one.

Methods may be called from several threads at once, on the hot path: they must be quick and must not raise. `plugin` is
``NN-name``; `operation` is the RPC name of an event (``CreateContainer``) or ``Synchronize``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nri.api import messages as m

__all__ = ["Observer"]


class Observer:
    """The base class of observers; its methods do nothing."""

    __slots__ = ()

    def record_plugin_invocation(self, plugin: str, operation: str, error: BaseException | None) -> None:
        """Called after a plugin was asked; `error` is None for an answer without error."""

    def record_plugin_latency(self, plugin: str, operation: str, seconds: float) -> None:
        """Called after every `record_plugin_invocation` with the duration."""

    def record_plugin_adjustments(
        self, plugin: str, operation: str, adjustment: m.ContainerAdjustment | None, updates: int, evictions: int
    ) -> None:
        """Called after an answer to CreateContainer, UpdateContainer, StopContainer or Synchronize was merged."""

    def update_plugin_count(self, count: int) -> None:
        """Called when the number of active plugins has changed."""

    def record_left_out(self, plugin: str, operation: str) -> None:
        """Called for an ignored update or eviction of an unknown container. Not in the reference."""

    def record_withdrawn(self, plugin: str, operation: str) -> None:
        """Called for an answer that was dropped, because another plugin failed the event. Not in the reference."""

    def record_refused(self, reason: str) -> None:
        """Called for a refused connection or registration; reasons: `docs/howto/metrics.md`. Not in the reference."""

    def record_shadow(self, report: object) -> None:
        """Called for a shadow's answer; `report` is an `audit.shadow.ShadowReport`. Not in the reference."""
