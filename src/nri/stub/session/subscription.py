"""Choose the events that a plugin asks for: those that it handles, that were chosen, and that the runtime knows.

Next: `nri.stub.session.session`, which answers Configure with it.
"""

from __future__ import annotations

from nri import versions
from nri.api.events import ALL, BY_RPC, OLD, EventMask
from nri.errors import RegistrationError
from nri.stub.base import PluginBase
from nri.stub.handler.call import overridden
from nri.stub.handler.coroutines import resolve
from nri.stub.session.background import marked
from nri.stub.support.mirror import MIRROR_EVENTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from nri.stub.support.runtime_handle import RuntimeHandle

__all__ = ["choose", "known_to", "warn_of_ignored_policy"]

#: First NRI release with UpdatePodSandbox, PostUpdatePodSandbox and ValidateContainerAdjustment.
MORE_EVENTS_SINCE = "v0.10.0"
#: First NRI release that applies a plugin's failure policy.
FAILURE_POLICY_SINCE = "v0.12.4"


def choose(plugin: PluginBase, served: Iterable[str], only: EventMask | None) -> EventMask:
    """Ask the plugin's `configure`, and put the mask together; never empty, because on the wire that means everything.

    Args:
        served: names of the calls that are answered.
        only: what the command line chose; None for no choice.

    Raises:
        RegistrationError: nothing is left, or the plugin asks for events that it does not handle.
    """
    name = type(plugin).__name__
    own = EventMask.of(*(word for word in served if word in BY_RPC))
    own = EventMask.of(*(spec for spec in own if overridden(plugin, PluginBase, spec.method)))
    wanted = own if only is None else own & only
    if own and not wanted:
        raise RegistrationError(f"{name} handles none of the chosen events: {only or EventMask(0)}")
    chosen = _mask(name, resolve(plugin.configure()))
    if chosen is not None:
        if chosen - own:
            excess = str(EventMask(int(chosen) & ~int(own)))
            raise RegistrationError(f"{name}.configure asks for events without a handler: {excess}")
        if wanted and not wanted & chosen:
            raise RegistrationError(f"{name}.configure takes only {chosen}, and the command line only {wanted}")
        wanted &= chosen
    if plugin.mirror:
        wanted |= MIRROR_EVENTS
    mask = _known(plugin, wanted, wanted & own)
    if not mask and not overridden(plugin, PluginBase, "synchronize") and not marked(type(plugin)):
        raise RegistrationError(
            f"{name} handles no event: override a method such as create_container, or mark one with @nri.every(30)"
        )
    # A plugin that only wants Synchronize, or works in the background, takes the rarest event, which it ignores.
    return mask or EventMask.of("RemovePodSandbox")


def _mask(name: str, chosen: Any) -> EventMask | None:
    """Check what `configure` has returned. RegistrationError if it is no mask, or one without events."""
    if chosen is None:
        return None
    if not isinstance(chosen, EventMask):
        returned = type(chosen).__name__
        raise RegistrationError(f"{name}.configure returned {returned}: None is expected, or an nri.EventMask")
    if not chosen:
        raise RegistrationError(
            f"{name}.configure returned an empty mask, and a plugin without events does nothing: return None for all"
            " the events that it handles"
        )
    return chosen


def known_to(runtime: RuntimeHandle) -> EventMask:
    """Return the events that a runtime knows, as far as its version tells."""
    return ALL if versions.version_at_least(runtime.nri_version, MORE_EVENTS_SINCE) else OLD


def _known(plugin: PluginBase, wanted: EventMask, handled: EventMask) -> EventMask:
    """Cut the events to those that the runtime knows. RegistrationError if none remains.

    A warning names those of the author's handlers that are never called; what the mirror would like is not missed.
    """
    runtime = plugin.runtime
    known = known_to(runtime)
    mask = wanted & known
    if wanted and not mask:
        raise RegistrationError(
            f"{runtime.name} {runtime.version} knows none of the events of {type(plugin).__name__}: {wanted}"
        )
    if handled - known:
        missing = str(EventMask(int(handled) & ~int(known)))
        plugin.log.warning("%s %s does not know %s: not subscribed", runtime.name, runtime.version, missing)
    return mask


def warn_of_ignored_policy(plugin: PluginBase) -> None:
    """Warn if the runtime is too old to apply the failure policy that the plugin declares."""
    runtime = plugin.runtime
    if versions.version_at_least(runtime.nri_version, FAILURE_POLICY_SINCE):
        return
    speaks = f"speaks NRI {runtime.nri_version}" if runtime.nri_version else "does not say which NRI it speaks"
    plugin.log.warning(
        "%s %s ignores failure_policy: it %s, and runtimes apply it since %s",
        runtime.name, runtime.version, speaks, FAILURE_POLICY_SINCE,
    )  # fmt: skip
