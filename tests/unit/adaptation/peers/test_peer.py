"""What all kinds of plugins share on the runtime's side."""

from __future__ import annotations

from typing import Any

import pytest

from nri.adaptation.peers.peer import EXTERNAL, Peer
from nri.adaptation.peers.state import Action, Signal, State


@pytest.mark.pure
def test_a_plugin_of_no_kind_cannot_be_made() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Peer(None, EXTERNAL)  # type: ignore[abstract,arg-type]


@pytest.mark.pure
def test_a_kind_that_begins_nothing_is_asked_when_the_answer_is_wanted() -> None:
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
def test_whoever_is_told_of_a_plugin_that_takes_part_finds_its_handshake_over() -> None:
    """A supervisor that looked a moment too early waited another second."""
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
