"""Directories of hooks are read after changes, completely or not at all."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from nri.config.complaint import single_errors
from nri.config.hooks import directories as module
from nri.config.hooks.directories import HookDirectories, HooksChange


def text_of(argument: str, path: str = "/bin/sh") -> str:
    hook = {"path": path, "args": [argument]}
    return json.dumps({"version": "1.0.0", "hook": hook, "when": {"always": True}, "stages": ["poststop"]})


def arguments(expected: HookDirectories) -> list[str]:
    return [hook.args[0] for hook in expected.hooks]


def change_after(expected: HookDirectories) -> HooksChange:
    news = expected.refresh()
    assert news is not None, "a change was not seen"
    return news


def test_directories_that_appear_and_disappear_are_noticed(tmp_path: Path) -> None:
    directories = HookDirectories([f"{tmp_path}/low/deep", f"{tmp_path}/high"])
    assert change_after(directories) == HooksChange(None, [])
    assert directories.refresh() is None
    (tmp_path / "low" / "deep").mkdir(parents=True)
    (tmp_path / "low" / "deep" / "a.json").write_text(text_of("low"))
    assert change_after(directories).error is None and arguments(directories) == ["low"]
    (tmp_path / "high").mkdir()
    (tmp_path / "high" / "a.json").write_text(text_of("high"))
    change_after(directories)
    assert arguments(directories) == ["high"]
    (tmp_path / "high" / "a.json").unlink()
    (tmp_path / "high").rmdir()
    change_after(directories)
    assert arguments(directories) == ["low"]


def test_a_written_removed_or_renamed_file_is_noticed(tmp_path: Path) -> None:
    directories = HookDirectories([str(tmp_path)])
    change_after(directories)
    (tmp_path / "b.json").write_text(text_of("b"))
    (tmp_path / "A.json").write_text(text_of("a"))
    (tmp_path / "c.txt").write_text("no hook")
    change_after(directories)
    assert arguments(directories) == ["a", "b"]
    assert directories.refresh() is None
    (tmp_path / "b.json").write_text(text_of("bb"))
    change_after(directories)
    assert arguments(directories) == ["a", "bb"]
    (tmp_path / "A.json").rename(tmp_path / "z.json")
    change_after(directories)
    assert arguments(directories) == ["bb", "a"]
    (tmp_path / "z.json").rename(tmp_path / "z.txt")
    change_after(directories)
    assert arguments(directories) == ["bb"]


def test_a_replaced_config_map_is_noticed(tmp_path: Path) -> None:
    for version in ("1", "2"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "a.json").write_text(text_of(version))
    (tmp_path / "data").symlink_to("1")
    (tmp_path / "hooks.d").mkdir()
    (tmp_path / "hooks.d" / "a.json").symlink_to("../data/a.json")
    directories = HookDirectories([f"{tmp_path}/hooks.d"])
    change_after(directories)
    assert arguments(directories) == ["1"]
    (tmp_path / "next").symlink_to("2")
    os.replace(tmp_path / "next", tmp_path / "data")
    change_after(directories)
    assert arguments(directories) == ["2"]
    (tmp_path / "data").unlink()
    assert change_after(directories).error is None, "a link that leads nowhere is not a file"
    assert arguments(directories) == []


def test_an_invalid_file_is_an_error_with_file_and_key_and_keeps_all_hooks(tmp_path: Path) -> None:
    directories = HookDirectories([str(tmp_path)])
    (tmp_path / "a.json").write_text(text_of("a"))
    change_after(directories)
    (tmp_path / "b.json").write_text(text_of("b"))
    (tmp_path / "c.json").write_text(text_of("c").replace("poststop", "never"))
    (tmp_path / "d.json").write_text("{")
    error = change_after(directories).error
    assert error is not None
    assert [(hook.source.rpartition("/")[2], hook.key) for hook in (error, *error.others)] == [
        ("c.json:1", "stages[0]"),
        ("d.json:1", ""),
    ]
    assert arguments(directories) == ["a"]
    assert directories.refresh() is None, "the same mistake is reported once"
    (tmp_path / "c.json").write_text(text_of("c"))
    assert change_after(directories).error is not None
    (tmp_path / "d.json").unlink()
    assert change_after(directories).error is None
    assert arguments(directories) == ["a", "b", "c"]


def test_a_hook_exists_while_its_program_exists(tmp_path: Path) -> None:
    program = tmp_path / "program"
    directories = HookDirectories([f"{tmp_path}/d"])
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a.json").write_text(text_of("a", str(program)))
    (tmp_path / "d" / "b.json").write_text(text_of("b"))
    (warning,) = change_after(directories).warnings
    assert str(warning) == (
        f"{tmp_path}/d/a.json: hook.path: {program} does not exist (the hook is ignored until the program exists)"
    )
    assert arguments(directories) == ["b"]
    assert directories.refresh() is None
    program.touch()
    assert change_after(directories) == HooksChange(None, [])
    assert arguments(directories) == ["a", "b"]
    program.unlink()
    change_after(directories)
    assert arguments(directories) == ["b"]


@pytest.mark.parametrize(
    ("old", "new"),
    [('"poststop"', '"precreate"'), ('["poststop"]', "null"), ('"always": true', '"commands": ["("]')],
)
def test_mistakes_in_the_values_of_a_hook_without_its_program_do_not_matter(tmp_path: Path, old: str, new: str) -> None:
    program = tmp_path / "program"
    directories = HookDirectories([f"{tmp_path}/d"])
    (tmp_path / "d").mkdir()
    text = text_of("a", str(program))
    (tmp_path / "d" / "a.json").write_text(text.replace(old, new))
    (tmp_path / "d" / "b.json").write_text(text_of("b"))
    change = change_after(directories)
    assert change.error is None and f"{program} does not exist" in str(change.warnings[0])
    assert arguments(directories) == ["b"]
    program.touch()
    assert change_after(directories).error is not None


def test_a_value_of_another_type_is_an_error_without_the_program_too(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(text_of("a", "/missing").replace('["poststop"]', '"poststop"'))
    (tmp_path / "b.json").write_text('{"hook": "/missing", "stages": ["poststop"], "stage": ["poststop"]}')
    (tmp_path / "c.json").write_text('{"hook": "/missing", "stage": ["later"]}')
    error = change_after(HookDirectories([str(tmp_path)])).error
    assert error is not None
    assert [single.key for single in single_errors(error)] == ["stages", "stage"]


@pytest.mark.parametrize(("end", "reason"), [("/below", "Not a directory"), ("a" * 300, "File name too long")])
def test_a_program_that_cannot_be_reached_is_an_error(tmp_path: Path, end: str, reason: str) -> None:
    (tmp_path / "program").touch()
    (tmp_path / "a.json").write_text(text_of("a", f"{tmp_path}/program{end}"))
    error = change_after(HookDirectories([str(tmp_path)])).error
    assert error is not None and error.key == "hook.path" and error.reason.endswith(f"cannot be used: {reason}")


def test_an_unreadable_directory_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    directories = HookDirectories([f"{tmp_path}/file"])
    error = change_after(directories).error
    assert error is not None
    assert str(error) == f"{tmp_path}/file: cannot read the directory: Not a directory"
    assert directories.refresh() is None
    (tmp_path / "file").unlink()
    assert change_after(directories).error is None


def test_a_folder_with_the_name_of_a_hook_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.json").mkdir()
    error = change_after(HookDirectories([str(tmp_path)])).error
    assert error is not None and "a.json: cannot read it: Is a directory" in str(error)


def test_the_number_of_files_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_FILES", 2)
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.json").write_text(text_of(name))
    error = change_after(HookDirectories([str(tmp_path)])).error
    assert error is not None and "has 3 hooks; at most 2 are read" in str(error)


def test_readers_get_complete_sets_of_hooks_during_writes(tmp_path: Path) -> None:
    directories = HookDirectories([str(tmp_path)])

    def write(version: str) -> None:
        new = tmp_path / "new"
        for name in ("a", "b", "c"):
            new.write_text(text_of(version))
            new.rename(tmp_path / f"{name}.json")

    write("0")
    change_after(directories)
    events: set[tuple[str, ...]] = set()
    event = threading.Event()

    def read() -> None:
        while not event.is_set():
            directories.refresh()
            events.add(tuple(arguments(directories)))

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for version in range(1, 40):
        write(str(version))
    event.set()
    for reader in readers:
        reader.join()
    directories.refresh()
    assert arguments(directories) == ["39"] * 3
    # Files are exchanged one by one, so a set may hold two versions, but no file is read in part.
    assert {len(thread) for thread in events} == {3}


def test_a_pipe_or_device_among_the_files_is_an_error_without_waiting(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(text_of("a"))
    directories = HookDirectories([str(tmp_path)])
    change_after(directories)
    os.mkfifo(tmp_path / "b.json")
    (tmp_path / "c.json").symlink_to("/dev/zero")
    news: list[HooksChange | None] = []
    thread = threading.Thread(target=lambda: news.append(directories.refresh()), daemon=True)
    thread.start()
    thread.join(5)
    assert news and news[0] is not None and news[0].error is not None, "it waits for a writer"
    texts = [f"{tmp_path}/{name}: cannot read it: not a regular file" for name in ("b.json", "c.json")]
    assert [str(error) for error in single_errors(news[0].error)] == texts
    assert arguments(directories) == ["a"]
