"""Portions of streams."""

from __future__ import annotations

from nri.engine.services.call import CHUNK, chunks


def test_a_stream_has_portions_of_bounded_length_and_one_if_there_is_nothing() -> None:
    assert [*chunks([])] == [[]]
    assert [len(part) for part in chunks([1] * (2 * CHUNK + 1))] == [CHUNK, CHUNK, 1]
    assert [len(part) for part in chunks([1] * CHUNK)] == [CHUNK]
