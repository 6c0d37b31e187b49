"""The errors that a runtime's request fails with because of a plugin: they carry its name, and say where it stands.

Whether it fails at all is decided before. Next: `nri.errors`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from nri.adaptation.peers.state import State
from nri.errors import DeadlineExceeded, NriError, PluginClosed, PluginError, PluginRejected, PluginTimeout, RpcError
from nri.ttrpc.codes import Code

if TYPE_CHECKING:
    from nri.adaptation.dispatch.event import Event
    from nri.adaptation.peers.peer import Peer

__all__ = ["named", "refuse", "standing", "unnamed"]


def named(label: str, error: NriError) -> PluginError:
    """The error for the runtime that stands for what a plugin answered with: it carries the plugin's name."""
    if not isinstance(error, RpcError):
        return PluginError(label, str(error))
    if error.code == Code.PERMISSION_DENIED:
        return PluginRejected(label, error.message)
    return PluginError(label, str(error), code=error.code, message=error.message)


def unnamed(label: str, error: RpcError) -> RpcError:
    """Take the plugin's name out of a status text: it is there for runtimes that name no plugin, and we do."""
    for beginning in (f"plugin {label}: ", f"plugin {label} refused: "):
        if error.message.startswith(beginning):
            return RpcError(error.code, error.message.removeprefix(beginning))
    return error


def standing(peer: Peer) -> str:
    """The standing of a plugin that cannot be asked, for an error's text."""
    state = "not connected" if peer.state is State.GONE else peer.state.value
    if peer.state is State.OPEN:
        state = f"left out after {peer.breaker.missed} requests without an answer"
    return f"{state} ({peer.last_error})" if peer.last_error else state


def refuse(peer: Peer, event: Event, cause: NriError) -> NoReturn:
    """Raise what the request fails with because of a plugin that gave no answer; the text is the reference's."""
    kind = PluginTimeout if isinstance(cause, DeadlineExceeded) else PluginClosed
    error = kind(peer.label, f"failed to handle {event.rpc} request: {cause}")
    error.args = (f"plugin {peer.label} failed to handle {event.rpc} request: {cause}",)
    error.__cause__ = cause  # by hand: compiled, a `raise` has no `from`
    try:
        raise error
    finally:
        del error, cause  # they have this frame, which must not keep them and the event
