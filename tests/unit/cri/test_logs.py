"""Logs in the CRI's format: partial lines, the last lines, following and rotation."""

from __future__ import annotations

import json
import os
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri.cri import logs
from nri.cri.logs import MAX_LINE_BYTES, Joiner, LogEntry, parse_line, read_log
from nri.files import open_regular

T = "2026-01-02T03:04:05.000000001Z"


def row(text: str, tag: str = "F", stream: str = "stdout") -> str:
    return f"{T} {stream} {tag} {text}\n"


def texts(log_entry: Iterator[LogEntry]) -> list[str]:
    return [entry.text.decode() for entry in log_entry]


def test_a_line_has_time_stream_tags_and_any_text() -> None:
    assert parse_line(f"{T} stderr F a  b ".encode()) == LogEntry(T, "stderr", b"a  b ")
    assert parse_line(f"{T} stdout P:x half".encode()) == LogEntry(T, "stdout", b"half", True)
    assert parse_line(f"{T} stdout F".encode()) == LogEntry(T, "stdout", b"")


@pytest.mark.parametrize("line", [b"", b"words", b"t stdlog F x", b"t stdout X x", b"t stdout"])
def test_invalid_lines_are_skipped(line: bytes) -> None:
    assert parse_line(line) is None


def test_partial_lines_are_joined_per_stream(tmp_path: Path) -> None:
    log = tmp_path / "0.log"
    log.write_text(row("a", "P") + row("E", "P", "stderr") + row("b") + row("F", "F", "stderr") + row("open", "P"))
    assert texts(read_log(str(log))) == ["ab", "EF", "open"]


def test_an_endless_line_is_returned_in_parts() -> None:
    joiner = Joiner()
    assert joiner.add(LogEntry(T, "stdout", b"x" * MAX_LINE_BYTES, True)) == LogEntry(
        T, "stdout", b"x" * MAX_LINE_BYTES
    )


def test_a_line_of_many_parts_is_joined_in_linear_time() -> None:
    joiner, part = Joiner(), LogEntry(T, "stdout", b"x", True)  # of a program that writes byte by byte
    before = time.process_time()
    assert not any(joiner.add(part) for _ in range(600_000))
    assert joiner.take_unfinished() == [LogEntry(T, "stdout", b"x" * 600_000)]
    assert time.process_time() - before < 4


def test_a_long_line_is_split(tmp_path: Path) -> None:
    log, text = tmp_path / "0.log", "x" * 3 * MAX_LINE_BYTES + "end"
    log.write_text(row("before") + row(text) + row("after"))
    before, *pieces, after = read_log(str(log))
    assert (before.text, after.text) == (b"before", b"after")
    assert b"".join(piece.text for piece in pieces).decode() == text and len(pieces) == 3
    assert {(piece.time, piece.stream) for piece in pieces} == {(T, "stdout")}


@pytest.mark.parametrize("tail", [None, 3])
def test_a_log_without_newlines_uses_bounded_memory(tmp_path: Path, tail: int | None) -> None:
    log = tmp_path / "0.log"
    with log.open("wb") as file:
        file.truncate(32 << 20)  # like a log that was emptied while a program wrote to it
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + row("new").encode())
    tracemalloc.start()
    try:
        assert texts(read_log(str(log), tail=tail)) == ["new"]
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("count", "expected"), [(0, []), (1, ["c"]), (2, ["aab", "c"]), (9, ["x", "aab", "c"])])
def test_the_last_lines_are_complete_lines(tmp_path: Path, count: int, expected: list[str]) -> None:
    log = tmp_path / "0.log"
    log.write_text(row("x") + row("aa", "P") + row("b") + row("c"))
    assert texts(read_log(str(log), tail=count)) == expected


def test_the_last_lines_of_a_long_log_are_found_from_its_end(tmp_path: Path) -> None:
    log = tmp_path / "0.log"
    log.write_text("".join(row(f"line {number} {'x' * 100}") for number in range(5000)))
    lines = texts(read_log(str(log), tail=1500))
    assert (len(lines), lines[0].split()[1], lines[-1].split()[1]) == (1500, "3500", "4999")


def test_the_last_lines_of_a_log_of_parts_are_found_in_one_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[bytes] = []

    def look(line: bytes) -> LogEntry | None:
        looks.append(line)
        return parse_line(line)

    log = tmp_path / "0.log"
    log.write_text(row("x", "P") * 20_000)
    monkeypatch.setattr(logs, "parse_line", look)
    assert texts(read_log(str(log), tail=5)) == ["x" * 20_000]
    assert len(looks) < 41_000  # once to find them, once to read them


def test_following_continues_over_rotation_without_loss(tmp_path: Path) -> None:
    log = tmp_path / "0.log"
    log.write_text(row("one"))
    steps = iter(range(9))

    def more() -> bool:
        match next(steps):
            case 0:
                with log.open("a") as file:
                    file.write(row("two") + row("three")[:20])
            case 1:
                os.rename(log, tmp_path / "0.log.1")
                with (tmp_path / "0.log.1").open("a") as file:
                    file.write(row("three")[20:])
            case 2:
                log.write_text(row("four"))
            case 3:
                log.write_text("")
            case 4:
                log.write_text(row("5"))
            case 5:
                return False
        return True

    assert texts(read_log(str(log), follow=more, poll_s=0)) == ["one", "two", "three", "four", "5"]


def test_a_renamed_log_is_read_to_its_end_before_the_new_one(tmp_path: Path) -> None:
    log = tmp_path / "0.log"
    log.write_text(row("one"))

    def more() -> bool:
        if (tmp_path / "0.log.1").exists():
            return False
        os.rename(log, tmp_path / "0.log.1")
        with (tmp_path / "0.log.1").open("a") as file:
            file.write(row("last of the old"))
        log.write_text(row("first of the new"))
        return True

    assert texts(read_log(str(log), follow=more, poll_s=0)) == ["one", "last of the old", "first of the new"]


def test_a_log_renamed_again_during_opening_is_awaited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, rotations = tmp_path / "0.log", [True]
    log.write_text(row("one"))

    def more() -> bool:
        if log.with_suffix(".1").exists():
            return not rotations
        os.rename(log, log.with_suffix(".1"))
        log.write_text(row("two"))
        return True

    def open_late(path: str, flags: int) -> int:
        if log.with_suffix(".1").exists() and rotations:
            rotations.pop()
            raise FileNotFoundError(path)
        return open_regular(path, flags)

    monkeypatch.setattr(logs, "open_regular", open_late)
    lines = read_log(str(log), follow=more, poll_s=0)
    assert [next(lines).text, next(lines).text] == [b"one", b"two"]


def test_a_missing_log_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        list(read_log(str(tmp_path / "none")))


def docker_row(text: str, stream: str = "stdout") -> str:
    return json.dumps({"log": text, "stream": stream, "time": T}) + "\n"


def test_docker_lines_of_isulad_are_read_and_joined(tmp_path: Path) -> None:
    log = tmp_path / "0.log"
    log.write_text(docker_row("a") + docker_row("E\n", "stderr") + docker_row("b\n") + docker_row("ü \n"))
    assert list(read_log(str(log))) == [
        LogEntry(T, "stderr", b"E"),
        LogEntry(T, "stdout", b"ab"),
        LogEntry(T, "stdout", "ü ".encode()),
    ]


@pytest.mark.parametrize("line", [b"{", b"{}", b"[]", b'{"log": 5, "stream": "stdout", "time": "t"}', b'{"log": "x"}'])
def test_a_malformed_docker_line_is_skipped(line: bytes) -> None:
    assert parse_line(line) is None
