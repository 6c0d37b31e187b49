"""A token opens one request, once, within a minute; the number of tokens is limited."""

from __future__ import annotations

import pytest

from nri.engine.streaming import server
from nri.engine.streaming.server import StreamRequest, Tokens
from nri.engine.support.errors import TooMany
from tests.support.clock import Clock

ASK = StreamRequest("exec", "c1", ("sh",), stdout=True)


def test_a_token_can_be_used_once() -> None:
    waiting = Tokens()
    token = waiting.put(ASK)
    assert len(token) == 32 and token != waiting.put(ASK)
    assert waiting.take(token) == ASK
    assert waiting.take(token) is None and waiting.take("x" * 32) is None


def test_a_token_expires_after_a_minute() -> None:
    clock = Clock(100.0)
    waiting = Tokens(60, clock)
    early, late = waiting.put(ASK), waiting.put(ASK)
    clock.now += 60 - 0.1
    assert waiting.take(early) == ASK
    clock.now += 0.1
    assert waiting.take(late) is None


def test_the_number_of_tokens_is_limited_and_expired_tokens_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_TOKENS", 3)
    clock = Clock(100.0)
    waiting = Tokens(60, clock)
    tokens = [waiting.put(ASK) for _ in range(3)]
    with pytest.raises(TooMany, match="at most 3"):
        waiting.put(ASK)
    waiting.take(tokens[1])
    waiting.put(ASK)
    clock.now += 60
    assert len({waiting.put(ASK) for _ in range(3)}) == 3
    with pytest.raises(TooMany):
        waiting.put(ASK)
