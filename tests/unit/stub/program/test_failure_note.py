"""Notes that failed plugins write for the doctor."""

from __future__ import annotations

import os
import time
from pathlib import Path

from nri.stub.program.failure_note import MAX_ERROR_CHARS, note_path, read_notes, remove_note, write_note


def test_written_notes_can_be_read(tmp_path: Path) -> None:
    sock = str(tmp_path / "nri.sock")
    write_note(sock, "10-pin", "first")
    write_note(sock, "10-pin", "KeyError: 'zöne'")
    write_note(sock, "20-far", "x" * MAX_ERROR_CHARS * 2)
    first, second = read_notes(str(tmp_path))
    assert (first.plugin, first.error, first.pid) == ("10-pin", "KeyError: 'zöne'", os.getpid())
    assert abs(first.time_s - time.time()) < 60
    assert (second.plugin, len(second.error)) == ("20-far", MAX_ERROR_CHARS)


def test_removing_a_missing_note_is_not_an_error(tmp_path: Path) -> None:
    sock = str(tmp_path / "nri.sock")
    write_note(sock, "10-pin", "boom")
    remove_note(sock, "10-pin")
    remove_note(sock, "10-pin")
    assert read_notes(str(tmp_path)) == []


def test_no_folder_is_created_for_a_missing_runtime(tmp_path: Path) -> None:
    write_note(str(tmp_path / "none" / "nri.sock"), "10-pin", "boom")
    assert list(tmp_path.iterdir()) == []


def test_a_link_at_the_path_of_a_note_is_not_followed(tmp_path: Path) -> None:
    sock, victim = str(tmp_path / "nri.sock"), tmp_path / "victim"
    victim.write_text("mine")
    path = Path(note_path(sock, "10-pin"))
    path.parent.mkdir()
    Path(f"{path}.new").symlink_to(victim)
    write_note(sock, "10-pin", "boom")
    assert victim.read_text() == "mine"


def test_invalid_notes_are_ignored(tmp_path: Path) -> None:
    write_note(str(tmp_path / "nri.sock"), "10-pin", "boom")
    (tmp_path / "failed-plugins" / "broken").write_text("{")
    (tmp_path / "failed-plugins" / "other").write_text("[1]")
    (tmp_path / "failed-plugins" / ".20-half.new").write_text('{"error": "boom", "time": 1, "pid": 1}')
    assert [note.plugin for note in read_notes(str(tmp_path))] == ["10-pin"]
