"""What all kinds of plugins share on the runtime's side."""

from __future__ import annotations

from typing import Any

import pytest

from nri.adaptation.peers.peer import EXTERNAL, Peer


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
