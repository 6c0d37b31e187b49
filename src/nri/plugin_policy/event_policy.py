"""The policy of a plugin for an event, computed when the plugin joins and when the policy changes.

The hot path reads `EventPolicy`; None means that the plugin does not get the event. The flag `guarded` covers
all rare rules (filters, least privilege, shadow).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nri.api.events import EVENTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nri.api import messages as m
    from nri.api.events import EventMask
    from nri.plugin_policy.policy import PluginPolicy


class EventPolicy:
    """The policy of a plugin for an event.

    Attributes:
        timeout_s: the time for an answer, in seconds.
        keep_connected: a late answer does not disconnect the plugin.
        fail_request: a request fails without the plugin's answer.
        guarded: filters, least privilege or shadow apply: read `policy`.
        policy: the whole policy.
        number: the number of the event.
    """

    __slots__ = ("fail_request", "guarded", "keep_connected", "number", "policy", "timeout_s")

    def __init__(self, number: int, policy: PluginPolicy, request_timeout_s: float) -> None:
        timeout_s = policy.timeout_s(number)
        self.number = number
        self.policy = policy
        self.timeout_s = request_timeout_s if timeout_s is None else timeout_s
        self.keep_connected = policy.keep_connected
        self.fail_request = policy.fails_request(number)
        self.guarded = policy.shadow or policy.allow is not None or policy.filters is not None

    def must_answer(self, pod: m.PodSandbox) -> bool:
        """Whether the request fails without the plugin's answer."""
        return self.fail_request or self.policy.requires(self.number, pod.namespace)

    def admits(self, pod: m.PodSandbox) -> bool:
        """Whether the plugin is called for this pod. Needed only if `guarded`."""
        filters = self.policy.filters
        return filters is None or filters.admits(pod)


def event_policies(mask: EventMask, policy: PluginPolicy, request_timeout_s: float) -> Sequence[EventPolicy | None]:
    """A plugin's policies by number of the event, from 1. An entry is None if the plugin does not get the event."""
    if policy.allow is not None:
        mask &= policy.allow.events_mask
    return (
        None,
        *(EventPolicy(spec.number, policy, request_timeout_s) if mask & spec.bit else None for spec in EVENTS),
    )
