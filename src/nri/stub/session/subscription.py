"""Choose the events to subscribe to: events that the plugin handles, the options select, and the runtime knows."""

from __future__ import annotations

from nri import versions
from nri.api.events import ALL, BY_RPC, OLD, EventMask
from nri.errors import RegistrationError
from nri.stub.base import PluginBase
from nri.stub.handler.call import overridden
from nri.stub.handler.coroutines import resolve
from nri.stub.session.background import background_methods
from nri.stub.support.mirror import MIRROR_EVENTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from nri.stub.support.runtime_handle import RuntimeHandle

#: The first NRI release with UpdatePodSandbox, PostUpdatePodSandbox and ValidateContainerAdjustment.
MORE_EVENTS_SINCE = "v0.10.0"
#: The first NRI release that applies a plugin's failure policy.
FAILURE_POLICY_SINCE = "v0.12.4"


def choose(plugin: PluginBase, served: Iterable[str], only: EventMask | None) -> EventMask:
    """Call the plugin's `configure`, and return the event mask. It is never empty, because that would mean all events.

    Args:
        plugin: the plugin.
        served: the names of the calls that have a function.
        only: the events selected on the command line; None for all events.

    Raises:
        RegistrationError: no event remains, or `configure` returned events without a handler.
    """
    name = type(plugin).__name__
    handled = EventMask.of(*(word for word in served if word in BY_RPC))
    handled = EventMask.of(*(spec for spec in handled if overridden(plugin, PluginBase, spec.method)))
    requested = handled if only is None else handled & only
    if handled and not requested:
        raise RegistrationError(f"{name} handles none of the selected events: {only or EventMask(0)}")
    chosen = _mask(name, resolve(plugin.configure()))
    if chosen is not None:
        if chosen - handled:
            excess = str(EventMask(int(chosen) & ~int(handled)))
            raise RegistrationError(f"{name}.configure returned events without a handler: {excess}")
        if requested and not requested & chosen:
            raise RegistrationError(f"{name}.configure selects only {chosen}, but the command line only {requested}")
        requested &= chosen
    if plugin.mirror:
        requested |= MIRROR_EVENTS
    mask = _known_events(plugin, requested, requested & handled)
    if not mask and not overridden(plugin, PluginBase, "synchronize") and not background_methods(type(plugin)):
        raise RegistrationError(
            f"{name} handles no event: override a method, for example create_container, or mark one with @nri.every(30)"
        )
    # A plugin with only `synchronize` or background work subscribes to the rarest event, and ignores it.
    return mask or EventMask.of("RemovePodSandbox")


def _mask(name: str, chosen: Any) -> EventMask | None:
    """Check the return value of `configure`. Raises RegistrationError if it is not a mask, or if it is empty."""
    if chosen is None:
        return None
    if not isinstance(chosen, EventMask):
        returned = type(chosen).__name__
        raise RegistrationError(f"{name}.configure returned {returned}: None is expected, or an nri.EventMask")
    if not chosen:
        raise RegistrationError(
            f"{name}.configure returned an empty mask, with which the plugin would do nothing: return None for all"
            " events that it handles"
        )
    return chosen


def known_to(runtime: RuntimeHandle) -> EventMask:
    """The events that a runtime knows, according to its version."""
    return ALL if versions.version_at_least(runtime.nri_version, MORE_EVENTS_SINCE) else OLD


def _known_events(plugin: PluginBase, requested: EventMask, handled: EventMask) -> EventMask:
    """The requested events that the runtime knows. Raises RegistrationError if it knows none of them.

    A warning lists the plugin's handlers that are never called, but not events that only the mirror uses.
    """
    runtime = plugin.runtime
    known_events = known_to(runtime)
    mask = requested & known_events
    if requested and not mask:
        raise RegistrationError(
            f"{runtime.name} {runtime.version} knows none of the events of {type(plugin).__name__}: {requested}"
        )
    if handled - known_events:
        missing = str(EventMask(int(handled) & ~int(known_events)))
        plugin.log.warning("%s %s does not know %s: not subscribed", runtime.name, runtime.version, missing)
    return mask


def warn_of_ignored_policy(plugin: PluginBase) -> None:
    """Warn if the runtime is too old to apply the failure policy that the plugin declares."""
    runtime = plugin.runtime
    if versions.version_at_least(runtime.nri_version, FAILURE_POLICY_SINCE):
        return
    version = f"NRI {runtime.nri_version}" if runtime.nri_version else "an unknown version of NRI"
    plugin.log.warning(
        "%s %s ignores failure_policy: it has %s, and failure_policy requires %s",
        runtime.name, runtime.version, version, FAILURE_POLICY_SINCE,
    )  # fmt: skip
