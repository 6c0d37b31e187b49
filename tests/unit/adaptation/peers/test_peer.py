"""Common behaviour of all kinds of plugins in the runtime."""

from __future__ import annotations

from typing import Any

import pytest

from nri.adaptation.peers.peer import EXTERNAL, Peer
from nri.adaptation.peers.state import Action, Signal, State


@pytest.mark.pure
def test_a_peer_without_a_kind_is_abstract() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Peer(None, EXTERNAL)  # type: ignore[abstract,arg-type]


@pytest.mark.pure
def test_a_peer_without_an_early_start_is_called_when_the_answer_is_collected() -> None:
    class Direct(Peer):
        def invoke(self, question: Any, deadline: float) -> bytes:
            return b"%s until %d" % (question, deadline)

        def command(self, *_: Any) -> bytes:
            return b""

        def synchronize(self, *_: Any, **__: Any) -> list[Any]:
            return []

    peer: Any = Direct(None, EXTERNAL)  # type: ignore[arg-type]
    sent = peer.begin(b"asked", 5)
    assert sent is None
    assert peer.collect(b"asked", sent, 5) == b"asked until 5"
    peer.abandon(sent)
    peer.close("done")
    peer.release(5)


@pytest.mark.pure
def test_listeners_of_an_active_plugin_find_its_handshake_finished() -> None:
    """A supervisor that looked too early waited another second."""
    matches: list[bool] = []

    class Owner:
        def act(self, peer: Peer, action: Action) -> None:
            matches.append(peer.handshake_over.is_set())

    class Kind(Peer):
        def invoke(self, *_: Any) -> bytes:
            return b""

        def command(self, *_: Any) -> bytes:
            return b""

        def synchronize(self, *_: Any, **__: Any) -> list[Any]:
            return []

    peer = Kind(Owner(), EXTERNAL, "10", "p", state=State.SYNCHRONIZING)
    peer.signal(Signal.SYNCHRONIZED)
    assert matches == [True]
