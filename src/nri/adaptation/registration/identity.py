"""The name that a plugin gives itself, held to what a plugin can be called, and whether its present bearer still lives.

Refusals are the answers to RegisterPlugin, with the reference's texts where it has one. Next:
`nri.adaptation.registration.registry`, which gives names away.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from nri.adaptation.peers.remote import RemotePeer
from nri.adaptation.peers.state import Signal, State
from nri.api import naming
from nri.errors import RpcError
from nri.text import plain
from nri.ttrpc import Code

if TYPE_CHECKING:
    from nri.adaptation.peers.peer import Peer
    from nri.api import messages as m

__all__ = ["VERSION_LENGTH", "check", "is_alive", "take_from"]

#: Longest name: a plugin is `NN-name` in a folder as well, and files have 255 characters. Names are kept and logged.
NAME_LENGTH = 252
#: How much is kept of the version that a plugin says it speaks.
VERSION_LENGTH = 64


def check(request: m.RegisterPluginRequest) -> None:
    """Raise RpcError if this cannot be a plugin's name or index."""
    length = len(request.plugin_name)
    try:
        if length > NAME_LENGTH:
            raise ValueError(f"{length} characters, at most {NAME_LENGTH}")
        naming.check_name(request.plugin_name)
    except ValueError as error:
        raise RpcError(Code.UNKNOWN, f"invalid plugin name: {plain(str(error))}") from None
    try:
        naming.check_index(request.plugin_idx)
    except ValueError as error:
        raise RpcError(Code.UNKNOWN, f"invalid plugin index: {plain(str(error))}") from None


def is_alive(peer: Peer) -> bool:
    """Whether a plugin's process lives and its connection is open."""
    if isinstance(peer, RemotePeer):
        peer.endpoint.poll()  # takes note of a hang-up that no thread has read yet
        if peer.state is not State.GONE and peer.pid:
            try:
                os.kill(peer.pid, 0)
            except ProcessLookupError:
                return False
            except OSError:
                pass  # it lives, and is another user's
    return peer.state is not State.GONE


def take_from(holder: Peer, label: str) -> None:
    """Take a name from a plugin that is gone. RpcError: it lives, and keeps its name."""
    if is_alive(holder):
        process = f" (process {holder.pid})" if holder.pid else ""
        raise RpcError(Code.ALREADY_EXISTS, f"plugin {label} is connected already{process}")
    holder.signal(Signal.STOP, "replaced by a new connection")
