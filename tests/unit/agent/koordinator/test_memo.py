"""Long texts are parsed once, within a limit."""

from collections.abc import Callable

import pytest

from nri.agent.koordinator.memo import LONG, Memo


def counted(read: list[str]) -> Callable[[str], int]:
    def reader(text: str) -> int:
        read.append(text)
        if text.startswith("bad"):
            raise ValueError("it is bad")
        return len(text)

    return reader


def test_a_long_text_is_parsed_once_per_reader_and_a_short_one_each_time() -> None:
    memo, read = Memo(), list[str]()
    long = "x" * LONG
    assert [memo.get("a", long, counted(read)) for _ in range(3)] == [LONG] * 3
    assert len(read) == 1
    memo.get("b", long, counted(read))
    assert len(read) == 2
    for _ in range(2):
        memo.get("a", "short", counted(read))
    assert len(read) == 4


def test_an_error_is_remembered() -> None:
    memo, read = Memo(), list[str]()
    for _ in range(2):
        with pytest.raises(ValueError, match="it is bad"):
            memo.get("a", "bad" * LONG, counted(read))
    assert len(read) == 1


def test_remembered_text_is_limited_and_the_oldest_is_dropped_first() -> None:
    memo, read = Memo(3 * LONG), list[str]()
    texts = [str(number) * LONG for number in range(4)]
    for text in texts:
        memo.get("a", text, counted(read))
    memo.get("a", texts[3], counted(read))
    assert len(read) == 4
    memo.get("a", texts[0], counted(read))
    memo.get("a", "9" * 4 * LONG, counted(read))
    memo.get("a", "9" * 4 * LONG, counted(read))
    assert len(read) == 7
