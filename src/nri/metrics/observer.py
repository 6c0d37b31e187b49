"""`Observer`: the base class of objects that receive each result of a plugin.

Methods may be called from several threads at once, on the hot path: they must be quick and must not raise. `plugin` is
``NN-name``; `operation` is the RPC name of an event (``CreateContainer``) or ``Synchronize``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nri.api import messages as m


class Observer:
    """The base class of observers; its methods do nothing."""

    __slots__ = ()

    def record_plugin_invocation(self, plugin: str, operation: str, error: BaseException | None) -> None:
        """Called after a request to a plugin; `error` is None if the plugin replied without error."""

    def record_plugin_latency(self, plugin: str, operation: str, seconds: float) -> None:
        """Called after every `record_plugin_invocation`, with the duration of the request."""

    def record_plugin_adjustments(
        self, plugin: str, operation: str, adjustment: m.ContainerAdjustment | None, updates: int, evictions: int
    ) -> None:
        """Called after a reply to CreateContainer, UpdateContainer, StopContainer or Synchronize was merged."""

    def update_plugin_count(self, count: int) -> None:
        """Called when the number of active plugins has changed."""

    def record_left_out(self, plugin: str, operation: str) -> None:
        """Called for an ignored update or eviction of an unknown container. The Go library has no such call."""

    def record_withdrawn(self, plugin: str, operation: str) -> None:
        """Called for a dropped reply, because another plugin failed the event. The Go library has no such call."""

    def record_refused(self, reason: str) -> None:
        """Called for a refused connection or registration. The Go library has no such call.

        The reasons are listed in `docs/howto/metrics.md`.
        """

    def record_shadow(self, report: object) -> None:
        """Called for a shadow's reply; `report` is an `audit.shadow.ShadowReport`. The Go library has no such call."""
