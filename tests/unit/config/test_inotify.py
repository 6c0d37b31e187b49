"""Waiting for changes of files with inotify."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nri.config import inotify
from nri.config.inotify import FileChanges, folders_on_the_way
from nri.config.watch import Watch
from tests.support.waiting import wait_for


class Looks:
    """Counts the looks at a file, and those that saw a change."""

    def __init__(self, *paths: Path, interval_s: float = 0.01) -> None:
        self.looks = self.changes = 0
        self._watch = Watch(*paths)
        self.file_changes = FileChanges(*paths, interval_s=interval_s)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while self.file_changes.wait():
            self.changes += self._watch.changed()
            self.looks += 1

    def end(self) -> None:
        self.file_changes.end()
        self._thread.join(20)
        assert not self._thread.is_alive()
        self.file_changes.close()


@pytest.fixture
def looks_at() -> Iterator[Callable[..., Looks]]:
    changes: list[Looks] = []

    def make(*paths: Path) -> Looks:
        changes.append(Looks(*paths))
        return changes[-1]

    yield make
    for moment in changes:
        moment.end()


@pytest.fixture(autouse=True)
def never_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inotify, "IDLE_CHECK_INTERVAL_S", 3600.0)


def config_map(folder: Path, version: str) -> None:
    """Swap the links of a ConfigMap, as kubelet does."""
    (folder / version).mkdir()
    (folder / version / "policy").write_text(version)
    (folder / "new").symlink_to(version)
    (folder / "new").rename(folder / "..data")


def test_a_written_replaced_or_removed_file_is_checked(tmp_path: Path, looks_at: Callable[..., Looks]) -> None:
    path = tmp_path / "policy"
    path.write_text("a")
    looks = looks_at(path)
    path.write_text("longer")
    wait_for(lambda: looks.changes == 1, "the write is seen")
    (tmp_path / "new").write_text("replaced")
    (tmp_path / "new").rename(path)
    wait_for(lambda: looks.changes == 2, "the replacement is seen")
    path.unlink()
    wait_for(lambda: looks.changes == 3, "the removal is seen")


def test_a_file_written_under_another_name_is_checked(tmp_path: Path, looks_at: Callable[..., Looks]) -> None:
    """The folder of a bind-mounted file gets no inotify event."""
    path = tmp_path / "here" / "policy"
    path.parent.mkdir()
    path.write_text("a")
    (tmp_path / "elsewhere").mkdir()
    other = tmp_path / "elsewhere" / "policy"
    other.hardlink_to(path)
    looks = looks_at(path)
    other.write_text("longer")
    wait_for(lambda: looks.changes == 1, "the write is seen")


def test_a_link_to_itself_does_not_cause_constant_checks(tmp_path: Path, looks_at: Callable[..., Looks]) -> None:
    path = tmp_path / "policy"
    path.symlink_to("policy")
    looks = looks_at(path)
    looks.file_changes.wake()
    wait_for(lambda: looks.looks == inotify.CHECKS_PER_EVENT, "it looks some times")
    path.unlink()
    path.write_text("a")
    wait_for(lambda: looks.changes == 1, "the file is seen")


def test_a_file_in_new_folders_is_noticed(tmp_path: Path, looks_at: Callable[..., Looks]) -> None:
    path = tmp_path / "etc" / "nri" / "policy"
    looks = looks_at(path)
    path.parent.parent.mkdir()
    wait_for(lambda: looks.looks, "the first folder is seen")
    path.parent.mkdir()
    path.write_text("a")
    wait_for(lambda: looks.changes, "the file is seen")


def test_a_replaced_config_map_is_noticed(tmp_path: Path, looks_at: Callable[..., Looks]) -> None:
    config_map(tmp_path, "..1")
    (tmp_path / "policy").symlink_to("..data/policy")
    looks = looks_at(tmp_path / "policy")
    config_map(tmp_path, "..22")
    wait_for(lambda: looks.changes == 1, "the swap is seen")


def test_a_wake_up_causes_some_checks(tmp_path: Path, looks_at: Callable[..., Looks]) -> None:
    looks = looks_at(tmp_path / "policy")
    looks.file_changes.wake()
    wait_for(lambda: looks.looks == inotify.CHECKS_PER_EVENT, "it looks some times")
    looks.file_changes.wake()
    wait_for(lambda: looks.looks == 2 * inotify.CHECKS_PER_EVENT, "it looks as often again, and did not in between")


def test_without_files_the_watcher_sleeps_until_a_wake_up(looks_at: Callable[..., Looks]) -> None:
    looks = looks_at()
    looks.file_changes.wake()
    wait_for(lambda: looks.looks == inotify.CHECKS_PER_EVENT, "it is woken")


@pytest.mark.parametrize("missing_call", ["_inotify", "_add"])
def test_without_inotify_files_are_checked_periodically(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looks_at: Callable[..., Looks], missing_call: str
) -> None:
    monkeypatch.setattr(inotify, missing_call, lambda *_: -1 if missing_call == "_inotify" else False)
    looks = looks_at(tmp_path / "policy")
    wait_for(lambda: looks.looks > 2 * inotify.CHECKS_PER_EVENT, "it looks again and again")


def test_files_are_also_checked_from_time_to_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looks_at: Callable[..., Looks]
) -> None:
    monkeypatch.setattr(inotify, "IDLE_CHECK_INTERVAL_S", 0.01)
    looks = looks_at(tmp_path / "policy")
    wait_for(lambda: looks.looks > 2 * inotify.CHECKS_PER_EVENT, "it looks without an event")


def test_a_folder_moved_with_its_parent_is_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "above" / "folder" / "policy"
    path.parent.mkdir(parents=True)
    changes = FileChanges(path, interval_s=0.01)
    path.parent.parent.rename(tmp_path / "away")
    path.parent.mkdir(parents=True)
    monkeypatch.setattr(inotify, "IDLE_CHECK_INTERVAL_S", 0.01)
    assert changes.wait()
    path.write_text("a")
    monkeypatch.setattr(inotify, "IDLE_CHECK_INTERVAL_S", 20.0)
    began = threading.Thread(target=changes.wait, daemon=True)
    began.start()
    began.join(10)
    assert not began.is_alive(), "the write is seen without the seldom look"
    changes.close()


def test_folders_of_the_file_and_of_its_links_are_watched(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (real / "file").touch()
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "folder").symlink_to(real)
    assert folders_on_the_way(str(tmp_path / "links" / "folder" / "file")) == {str(tmp_path / "links"), str(real)}
    assert folders_on_the_way(str(tmp_path / "no" / "such" / "file")) == {str(tmp_path)}
    (tmp_path / "round").symlink_to("round")
    assert folders_on_the_way(str(tmp_path / "round")) == {str(tmp_path)}
