"""The folder in which hook servers register."""

import json
import logging
import os
import threading
from pathlib import Path

import pytest

from nri.proxy.hook_servers import registrations
from nri.proxy.hook_servers.dispatch import HookServer
from nri.proxy.hook_servers.registrations import Registrations, parse


def write(folder: Path, name: str, endpoint: str = "/run/a.sock", **more: object) -> Path:
    path = folder / name
    path.write_text(json.dumps({"remote-endpoint": endpoint, "runtime-hooks": ["PreRunPodSandbox"], **more}))
    return path


def endpoints(actual: Registrations) -> list[str]:
    return [server.endpoint for server in actual.servers()]


def test_koordlets_registration_is_read_and_unknown_stages_are_ignored() -> None:
    text = """{
\t"remote-endpoint": "/host-var-run-koordlet/koordlet.sock",
\t"failure-policy": "Ignore",
\t"runtime-hooks": ["PreRunPodSandbox", "PreRemoveRunPodSandbox", "PreCreateContainer"]
}"""
    stages = ("PreRunPodSandbox", "PreCreateContainer")
    assert parse(text) == HookServer("/host-var-run-koordlet/koordlet.sock", stages, "Ignore")
    assert parse('{"Remote-Endpoint": "unix:///a.sock"}') == HookServer("/a.sock", (), "")


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("", "is not JSON"),
        ("[]", "is not an object"),
        ("{}", "not the path of a unix socket"),
        ('{"remote-endpoint": "koordlet.sock"}', "not the path of a unix socket"),
        ('{"remote-endpoint": "/%s"}' % ("x" * 107), "not the path of a unix socket"),
        ('{"remote-endpoint": "/a", "failure-policy": "fail"}', "'fail' must be Fail or Ignore"),
        ('{"remote-endpoint": "/a", "runtime-hooks": "PreRunPodSandbox"}', "runtime-hooks"),
    ],
)
def test_an_invalid_registration_is_an_error_that_names_the_key(text: str, output: str) -> None:
    with pytest.raises(ValueError, match=output):
        parse(text)


def test_servers_have_the_order_of_their_files(tmp_path: Path) -> None:
    registrations = Registrations(tmp_path)
    assert endpoints(registrations) == []
    write(tmp_path, "20-b.json", "/b.sock")
    first = write(tmp_path, "10-a.json", "/a.sock")
    write(tmp_path, "README", "/c.sock")
    assert endpoints(registrations) == ["/a.sock", "/b.sock"]
    first.unlink()
    assert endpoints(registrations) == ["/b.sock"]


def test_a_folder_may_be_created_later_and_its_removal_removes_its_servers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING", "nri.proxy.hook_servers")
    registrations = Registrations(tmp_path / "later")
    assert endpoints(registrations) == endpoints(registrations) == []
    absent = f"{tmp_path}/later not found: no hook server is called until one registers in it"
    assert [record.getMessage() for record in caplog.records] == [absent], "it is said once, not at every request"
    (tmp_path / "later").mkdir()
    path = write(tmp_path / "later", "a.json")
    assert endpoints(registrations) == ["/run/a.sock"]
    path.unlink()
    (tmp_path / "later").rmdir()
    assert endpoints(registrations) == []
    assert [record.getMessage() for record in caplog.records] == [absent, absent], "it is gone again"


def test_a_changed_or_replaced_file_is_read_again(tmp_path: Path) -> None:
    registrations = Registrations(tmp_path)
    path = write(tmp_path, "a.json", "/1.sock")
    assert endpoints(registrations) == ["/1.sock"]
    before = path.stat()
    other = write(tmp_path, "a.new", "/2.sock")
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))  # the same size and time: only the inode is another
    other.replace(path)
    assert endpoints(registrations) == ["/2.sock"]
    write(tmp_path, "a.json", "/three.sock")
    assert endpoints(registrations) == ["/three.sock"]


def test_an_invalid_file_is_logged_and_its_last_valid_server_is_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    write(tmp_path, "a.json", "/a.sock")
    (tmp_path / "b.json").write_text("{half")
    registrations = Registrations(tmp_path)
    assert endpoints(registrations) == ["/a.sock"]
    (tmp_path / "a.json").write_text("")
    for _ in range(3):
        assert endpoints(registrations) == ["/a.sock"]
    assert [(record.getMessage().split(": ")[0], record.getMessage().split("; ")[1]) for record in caplog.records] == [
        (f"{tmp_path}/b.json", "the file is ignored"),
        (f"{tmp_path}/a.json", "its last valid content stays in force"),
    ]
    write(tmp_path, "b.json", "/b.sock")
    (tmp_path / "a.json").unlink()
    assert endpoints(registrations) == ["/b.sock"]
    caplog.clear()
    (tmp_path / "a.json").write_text("")
    (tmp_path / "b.json").write_text("{half")
    assert endpoints(registrations) == ["/b.sock"]
    assert len(caplog.records) == 2, "a repeated error is logged again after the file was fixed or removed"


def test_a_file_that_others_can_write_is_ignored(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path, "a.json").chmod(0o666)
    (tmp_path / "b.json").mkdir()
    registrations = Registrations(tmp_path)
    assert endpoints(registrations) == []
    assert f"{tmp_path}/a.json: other users can write to it (mode 0666" in caplog.text
    assert f"{tmp_path}/b.json: Is a directory; the file is ignored" in caplog.text


def test_a_file_with_a_corrected_mode_is_read(tmp_path: Path) -> None:
    path = write(tmp_path, "a.json")
    path.chmod(0o666)
    registrations = Registrations(tmp_path)
    assert endpoints(registrations) == []
    path.chmod(0o644)
    assert endpoints(registrations) == ["/run/a.sock"]


def test_files_above_the_limits_are_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a.json").write_text(" " * (registrations.MAX_BYTES + 1))
    monkeypatch.setattr(registrations, "MAX_FILES", 2)
    write(tmp_path, "b.json", "/b.sock")
    write(tmp_path, "c.json", "/c.sock")
    actual = Registrations(tmp_path)
    assert endpoints(actual) == ["/b.sock"]
    assert f"{tmp_path}/a.json: longer than" in caplog.text
    assert f"{tmp_path}/c.json: the folder has more than 2 files; the file is ignored" in caplog.text


def test_a_file_above_the_limit_of_files_returns_when_others_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(registrations, "MAX_FILES", 1)
    write(tmp_path, "b.json", "/b.sock")
    actual = Registrations(tmp_path)
    assert endpoints(actual) == ["/b.sock"]
    for _ in range(2):
        caplog.clear()
        first = write(tmp_path, "a.json", "/a.sock")
        for _ in range(3):
            assert endpoints(actual) == ["/a.sock"]
        warned = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
        assert warned == [f"{tmp_path}/b.json: the folder has more than 1 files; the file is ignored"]
        first.unlink()
        assert endpoints(actual) == ["/b.sock"]


def test_an_unreadable_folder_changes_no_registration(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "hooks"
    folder.mkdir()
    write(folder, "a.json")
    registrations = Registrations(folder)
    assert endpoints(registrations) == ["/run/a.sock"]
    folder.rename(tmp_path / "away")
    folder.write_text("a file is not a folder")
    assert endpoints(registrations) == ["/run/a.sock"]
    assert endpoints(registrations) == ["/run/a.sock"]
    assert caplog.text.count("cannot be read") == 1, "it is said once, not at every request"


def test_a_file_that_becomes_a_pipe_does_not_block_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The open file is checked, because another process could replace the file after a check by path."""
    path, swapped, stat = write(tmp_path, "a.json"), list[bool](), Path.stat

    def swap(self: Path, **more: bool) -> os.stat_result:
        actual = stat(self, **more)
        if self == path and not swapped:
            swapped.append(True)
            path.unlink()
            os.mkfifo(path)
        return actual

    monkeypatch.setattr(Path, "stat", swap)
    registrations, received = Registrations(tmp_path), list[list[str]]()
    thread = threading.Thread(target=lambda: received.append(endpoints(registrations)), daemon=True)
    thread.start()
    thread.join(20)
    assert received == [[]]
    assert "not a regular file" in caplog.text
