"""A memtierd process: adoption after a restart, end and removal. test_plugin.py tests the plugin."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from nri.errors import Reject
from nri.plugins.memtierd.daemon import Daemon, existing_folders

OWNER = ("default", "pod", "app")


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "bin").mkdir()
    built = tmp_path / "bin" / "memtierd"
    built.write_text("#!/bin/sh\nwhile :; do kill -STOP $$; done\n")
    built.chmod(0o755)
    monkeypatch.setenv("PATH", f"{built.parent}:{os.environ['PATH']}")
    return built


def test_another_process_with_the_same_pid_is_neither_adopted_nor_killed(tmp_path: Path) -> None:
    folder = tmp_path / "run" / "/".join(OWNER)
    folder.mkdir(parents=True)
    child = os.posix_spawnp("sleep", ["sleep", "1000"], os.environ)
    try:
        (folder / "memtierd.pid").write_text(f"{child}\n")
        assert Daemon.adopt(str(folder)) is None
        Daemon(str(folder), child).stop()
        assert os.waitpid(child, os.WNOHANG) == (0, 0) and not folder.exists()
    finally:
        os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("text", ["", "x", "-1", "999999999"])
def test_an_invalid_pid_file_is_no_process(tmp_path: Path, text: str) -> None:
    (tmp_path / "memtierd.pid").write_text(text)
    assert Daemon.adopt(str(tmp_path)) is None


def test_a_running_process_is_adopted_and_ended(tmp_path: Path, program: Path) -> None:
    run = str(tmp_path / "run")
    first = Daemon.start(run, OWNER, "x: $CGROUP2_ABS_PATH", "/cgroup")
    assert list(existing_folders(run)) == [(OWNER, first.folder)]
    adopted = Daemon.adopt(first.folder)
    assert adopted is not None and not adopted.ended
    assert adopted.has("x: $CGROUP2_ABS_PATH", "/cgroup") and not adopted.has("x: $CGROUP2_ABS_PATH", "/other")
    adopted.stop()
    assert first.ended and adopted.ended and not os.path.exists(first.folder) and list(existing_folders(run)) == []


def test_a_program_that_cannot_be_run_is_an_error(tmp_path: Path, program: Path) -> None:
    program.write_text("")
    program.chmod(0o644)
    with pytest.raises(Reject, match="memtierd"):
        Daemon.start(str(tmp_path / "run"), OWNER, "", "")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\0b"])
def test_a_name_that_is_not_a_folder_name_is_refused(tmp_path: Path, program: Path, name: str) -> None:
    run = tmp_path / "run"
    with pytest.raises(Reject, match="not the name of a folder"):
        Daemon.start(str(run), ("default", "pod", name), "", "")
    assert list(existing_folders(str(run))) == [] and not list(tmp_path.glob("**/memtierd.pid"))


def test_a_link_in_place_of_a_folder_is_refused(tmp_path: Path, program: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "default").symlink_to(tmp_path)
    with pytest.raises(Reject, match="not a folder, or a link"):
        Daemon.start(str(run), OWNER, "", "")


def test_a_program_missing_in_path_is_an_error_with_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Reject, match=f"program memtierd not found in PATH .{tmp_path}"):
        Daemon.start(str(tmp_path / "run"), OWNER, "", "")


def test_without_output_the_last_line_is_empty(tmp_path: Path) -> None:
    daemon = Daemon(str(tmp_path))
    assert daemon.last_line() == "" and daemon.ended and not daemon.has("", "")
    (tmp_path / "memtierd.output").write_text("first\nlast\n\n")
    assert daemon.last_line() == "last"
    (tmp_path / "memtierd.output").unlink()
    os.mkfifo(tmp_path / "memtierd.output")
    assert daemon.last_line() == ""


def test_long_output_is_truncated_while_the_process_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nri.plugins.memtierd.daemon.MAX_OUTPUT_BYTES", 10)
    output, running = tmp_path / "memtierd.output", Daemon(str(tmp_path))
    running.trim()  # there is no output yet
    with output.open("ab", buffering=0) as writing:
        writing.write(b"short\n")
        running.trim()
        assert output.read_bytes() == b"short\n"
        writing.write(b"longer\n")
        running.trim()
        writing.write(b"again\n")
    assert output.read_bytes() == b"again\n"
    output.unlink()
    output.symlink_to(tmp_path / "other")
    (tmp_path / "other").write_bytes(b"x" * 20)
    running.trim()
    assert (tmp_path / "other").read_bytes() == b"x" * 20, "a link is not followed"
