"""The exit files that conmon writes."""

import os
from pathlib import Path

import pytest

from nri.engine.process import exits
from nri.engine.process.conmon import PERSIST
from nri.engine.process.exits import Exit, Exits, read_exit
from nri.engine.process.runtime import Runtime
from tests.support.no_threads import no_threads


def write_exit(bundle: Path, text: str) -> Path:
    file = bundle / "persist" / "c1"
    file.parent.mkdir()
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("text", "oom", "code", "reason"),
    [
        ("0", False, 0, "Completed"),
        ("3\n", False, 3, "Error"),
        ("137", True, 137, "OOMKilled"),
        ("0", True, 0, "Completed"),
    ],
)
def test_exit_code_and_reason_are_read(tmp_path: Path, text: str, oom: bool, code: int, reason: str) -> None:
    file = write_exit(tmp_path, text)
    if oom:
        (tmp_path / "persist/oom").touch()
    exit_ = read_exit("c1", tmp_path)
    assert exit_ is not None
    assert (exit_.code, exit_.reason, exit_.finished_at_ns) == (code, reason, file.stat().st_mtime_ns)


def test_a_container_without_a_readable_exit_file_has_no_exit(tmp_path: Path) -> None:
    assert read_exit("c1", tmp_path) is None
    write_exit(tmp_path, "")
    assert read_exit("c1", tmp_path) is None


def test_a_conmon_with_a_reused_pid_has_exited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = iter([os.getpid(), 0])  # first that of a conmon, then one that means another process
    monkeypatch.setattr(exits, "find_conmon", lambda *_: next(numbers))
    write_exit(tmp_path, "3")
    exits_: list[Exit] = []
    watching = Exits(exits_.append)
    try:
        watching.watch("c1", tmp_path, Runtime("/bin/false", tmp_path / "state"))
        assert [(exit_.container_id, exit_.code) for exit_ in exits_] == [("c1", 3)]
    finally:
        watching.close()


def test_a_lost_conmon_is_reported_without_a_free_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def out_of_processes(*_: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(exits, "end_lost", out_of_processes)
    exits_: list[Exit] = []
    watching = Exits(exits_.append)
    try:
        with no_threads():
            watching.watch("c1", tmp_path, Runtime("/bin/false", tmp_path / "state"))
        assert [(exit_.container_id, exit_.reason) for exit_ in exits_] == [("c1", exits.MONITOR_LOST)]
    finally:
        watching.close()


def test_an_exit_file_that_is_not_a_file_is_ignored(tmp_path: Path) -> None:
    (tmp_path / PERSIST).mkdir()
    os.mkfifo(tmp_path / PERSIST / "c1")
    assert read_exit("c1", tmp_path) is None
    (tmp_path / PERSIST / "c2").symlink_to("/dev/zero")
    assert read_exit("c2", tmp_path) is None
