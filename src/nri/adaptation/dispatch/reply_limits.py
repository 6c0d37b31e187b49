"""Limits of a plugin's answer: its size, its entries, and the length of the requests that contain it.

If a plugin exceeds a limit, the event fails with an error that names the plugin. `nri.adaptation.merge.limits` counts
the entries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nri.adaptation.merge import limits
from nri.adaptation.peers.synchronize import ENVELOPE_BYTES
from nri.errors import PluginError
from nri.ttrpc.codes import Code
from nri.ttrpc.frames import MAX_DATA

if TYPE_CHECKING:
    from typing import Final

#: A request to a plugin has at most this many bytes.
MAX_REQUEST_BYTES: Final = MAX_DATA - ENVELOPE_BYTES
#: The headers of fields add at most this many bytes to a request for one answer.
REPLY_HEADER_BYTES: Final = 64


def oversized_reply(kind: Any, rpc: str, plugin: str, reply: bytes) -> PluginError | None:
    """The error if an encoded answer exceeds the limits of an event, else None."""
    reason = limits.excess(kind, reply, limits.MAX_ENTRIES, limits.MAX_BYTES)
    return PluginError(plugin, f"its reply to {rpc} {reason}", code=Code.RESOURCE_EXHAUSTED) if reason else None


def check_next_request(rpc: str, plugin: str, original: bytes, request: bytes) -> None:
    """Raise PluginError if the next request, with the answer of this plugin in it, is too long for a message.

    Args:
        rpc: the event.
        plugin: ``NN-name``.
        original: the runtime's own request; no plugin is responsible for its length.
        request: the next request.
    """
    if len(request) > MAX_REQUEST_BYTES and len(request) > len(original):
        reason = f"its reply to {rpc} makes the next request {len(request)} bytes long"
        raise PluginError(plugin, f"{reason}, at most {MAX_REQUEST_BYTES} are sent", code=Code.RESOURCE_EXHAUSTED)


def validation_too_long(rpc: str, plugin: str, size_bytes: int) -> PluginError:
    """The error if the request to validators is too long for a message. `plugin` has the largest answer."""
    reason = f"its reply to {rpc} makes the request to validators {size_bytes} bytes long"
    return PluginError(plugin, f"{reason}, at most {MAX_REQUEST_BYTES} are sent", code=Code.RESOURCE_EXHAUSTED)
