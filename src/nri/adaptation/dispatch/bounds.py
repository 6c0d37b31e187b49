"""The bounds of one answer: its size, the room that it leaves for the next request, how much is told of it.

The plugin that asks for too much is the one that fails, by name. Next: `nri.adaptation.dispatch.event`, which takes
answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from nri.adaptation.audit import shadow
from nri.adaptation.merge import limits
from nri.adaptation.merge.update_book import NO_CONTAINER, NOT_IN_UPDATES, UNKNOWN_CONTAINER
from nri.adaptation.peers.synchronize import ENVELOPE
from nri.errors import PluginError
from nri.text import count, cut, quote
from nri.ttrpc.codes import Code
from nri.ttrpc.frames import MAX_DATA

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nri.adaptation.audit.reporting import Reporting
    from nri.adaptation.merge.update_book import Ignored
    from nri.adaptation.peers.event_request import EventRequest
    from nri.adaptation.peers.peer import Peer
    from nri.adaptation.plugin_policy.event_policy import EventPolicy

__all__ = ["HEADERS", "ROOM", "leave_room", "left_out", "too_much", "weighed"]

#: Bytes that the request to a plugin may have.
ROOM: Final = MAX_DATA - ENVELOPE
#: What the headers of fields may add to a request for one answer, in bytes.
HEADERS: Final = 64
#: Updates left out that the record of an event names.
_NAMED: Final = 20


def too_much(kind: Any, rpc: str, plugin: str, reply: bytes) -> PluginError | None:
    """The error if an encoded answer is more than a plugin may ask for in an event; None if it is not."""
    reason = limits.too_much(kind, reply, limits.MOST_ENTRIES, limits.MOST_BYTES)
    return PluginError(plugin, f"its reply to {rpc} {reason}", code=Code.RESOURCE_EXHAUSTED) if reason else None


def weighed(
    request: EventRequest, serial: int, kind: Any, reporting: Reporting, peer: Peer, policy: EventPolicy, reply: bytes
) -> bytes | None:
    """Hold an answer of a kind to the limits; returns it, or None for a shadow's. PluginError: it is too much."""
    rpc = request.spec.rpc
    error = too_much(kind, rpc, peer.label, reply)
    if error is None:
        return reply
    peer.last_error = str(error)
    if policy.policy.shadow:
        reporting.shadow_answered(shadow.failure(peer.label, rpc, request.pod, error.reason))
        return None
    if reporting.watched:
        reporting.reply_merged(peer.label, rpc, serial, None, error)
    try:
        raise error
    finally:
        del error  # it has this frame, with the reply: they would keep each other


def leave_room(rpc: str, plugin: str, asked: bytes, request: bytes) -> None:
    """Raise PluginError if the next request, with the answer of this plugin in it, is more than a message takes.

    Args:
        asked: the request as the runtime made it: what that has too much is no plugin's fault.
        request: the next request.
    """
    if len(request) > ROOM and len(request) > len(asked):
        reason = f"its reply to {rpc} makes the next request {len(request)} bytes long, at most {ROOM} are sent"
        raise PluginError(plugin, reason, code=Code.RESOURCE_EXHAUSTED)


def left_out(container_id: str, ignored: Sequence[Ignored]) -> list[tuple[str, str, str, str]]:
    """The updates and fields that were left out, as outcomes: the first ones by name, all others by their number.

    An update of a container that is not there is told in the record of the event's own container.
    """
    rows = []
    for one in ignored:
        if one.reason in (NO_CONTAINER, UNKNOWN_CONTAINER):
            what = f"update of container {quote(cut(one.container_id, 128))} by {one.plugin}"
            rows.append((container_id, what, "left out", one.reason))
        elif one.reason == NOT_IN_UPDATES:
            rows.append((one.container_id, f"{one.field} of an update by {one.plugin}", "left out", one.reason))
    if len(rows) > _NAMED:
        more = count(len(rows) - _NAMED, "more update")
        rows[_NAMED:] = [(container_id, more, "left out", "as those before them")]
    return rows
