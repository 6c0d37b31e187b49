"""Discovery of installed plugins and their configuration; untrusted files are not launched."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from nri.adaptation.launch import discovery
from nri.adaptation.launch.discovery import config_text, discover
from nri.errors import ConfigError
from nri.rules import Rules
from tests.support import wat
from tests.support.needs import need_module, need_root
from tests.support.programs import script


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    created = tmp_path / "plugins"
    created.mkdir()
    return created


def plugin(folder: Path, name: str = "10-a") -> Path:
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def refused(folder: Path) -> list[str]:
    matches, skipped = discover(str(folder))
    assert matches == []
    return [row.reason for row in skipped]


def test_a_file_of_another_user_is_refused(folder: Path) -> None:
    need_root()
    os.chown(plugin(folder), 4711, -1)
    assert refused(folder) == ["it belongs to user 4711, who can change it; remedy: chown root"]


def test_a_folder_of_another_user_is_refused(folder: Path) -> None:
    need_root()
    plugin(folder)
    os.chown(folder, 4711, -1)
    assert refused(folder) == ["its folder belongs to user 4711, who can change it; remedy: chown root"]


def test_a_link_in_a_folder_that_others_can_write_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (folder / "10-a").symlink_to(plugin(tmp_path / "bin", "real"))
    folder.chmod(0o777)
    assert refused(folder) == ["its folder can be written by group or others (mode 0777); remedy: chmod go-w"]


def test_a_link_to_a_file_in_a_folder_that_others_can_write_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (folder / "10-a").symlink_to(plugin(tmp_path / "bin", "real"))
    (tmp_path / "bin").chmod(0o777)
    assert refused(folder) == ["its folder can be written by group or others (mode 0777); remedy: chmod go-w"]


def test_a_file_that_disappears_during_discovery_is_ignored(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    removed = plugin(folder, "10-gone")
    plugin(folder, "20-stays")
    scandir = os.scandir

    def late(path: str) -> Any:
        entries = list(scandir(path))
        removed.unlink()
        return entries

    monkeypatch.setattr(discovery.os, "scandir", late)
    matches, skipped = discover(str(folder))
    assert [peer.label for peer in matches] == ["20-stays"]
    assert skipped == []


def test_a_name_with_unprintable_characters_is_reported(folder: Path) -> None:
    plugin(folder, "10-a\nWARNING all is well")
    assert refused(folder) == ["its name has unprintable characters"]


def test_a_name_that_is_not_utf_8_is_reported(folder: Path) -> None:
    plugin(folder, os.fsdecode(b"10-\xff"))
    assert refused(folder) == ["its name is not UTF-8 text"]


def test_plugins_are_sorted_by_name(tmp_path: Path) -> None:
    for name in ("20-b", "10-z", "10-a"):
        script(tmp_path, name, "")
    assert [match_.label for match_ in discover(str(tmp_path))[0]] == ["10-a", "10-z", "20-b"]


def test_folders_and_files_that_are_not_executable_are_ignored(tmp_path: Path) -> None:
    script(tmp_path, "10-data", "", 0o644)
    (tmp_path / "20-folder").mkdir()
    assert discover(str(tmp_path)) == ([], [])


def test_a_missing_folder_has_no_plugins(tmp_path: Path) -> None:
    assert discover(str(tmp_path / "nowhere")) == ([], [])


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda folder: script(folder, "10-a", "", 0o775), "it can be written by group or others (mode 0775)"),
        (lambda folder: (folder / "10-a").symlink_to(folder / "gone"), "it cannot be examined"),
        (
            lambda folder: (script(folder, "10-a", ""), folder.chmod(0o777)),
            "its folder can be written by group or others",
        ),
    ],
    ids=["writable", "dangling link", "writable folder"],
)
def test_a_file_that_cannot_be_launched_is_reported_with_the_reason(tmp_path: Path, make: object, reason: str) -> None:
    folder = tmp_path / "plugins"
    folder.mkdir()
    assert callable(make)
    make(folder)
    matches, skipped = discover(str(folder))
    assert matches == []
    assert skipped[0].reason.startswith(reason)


def test_webassembly_is_recognized_by_its_content(tmp_path: Path) -> None:
    need_module("wasmtime")
    script(tmp_path, "10-a.wasm", "")
    wat.install(tmp_path, "20-b", wat.plugin())
    assert [(match_.label, match_.wasm) for match_ in discover(str(tmp_path))[0]] == [
        ("10-a.wasm", False),
        ("20-b", True),
    ]


def test_webassembly_without_the_extra_is_reported_with_the_command_to_install_it(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "wasmtime", None)  # as if it were not installed
    wat.install(tmp_path, "20-b", b"\0asm\1\0\0\0")
    matches, skipped = discover(str(tmp_path))
    assert matches == []
    reason = "it is WebAssembly, which requires wasmtime: run pip install '.[wasm]' in a checkout of nri"
    assert skipped[0].reason == reason


def test_a_link_to_a_plugin_is_a_plugin(tmp_path: Path) -> None:
    target = script(tmp_path / "bin", "real", "")
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "10-link").symlink_to(target)
    assert [match_.label for match_ in discover(str(tmp_path / "plugins"))[0]] == ["10-link"]


def test_configuration_with_an_index_overrides_the_common_one(tmp_path: Path) -> None:
    assert config_text(str(tmp_path), "10", "foo") == ("", None)
    (tmp_path / "foo.conf").write_text("common")
    assert config_text(str(tmp_path), "10", "foo")[0] == "common"
    (tmp_path / "10-foo.conf").write_text("own\n")
    assert config_text(str(tmp_path), "10", "foo") == ("own\n", str(tmp_path / "10-foo.conf"))


def test_an_unreadable_configuration_is_an_error_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "10-foo.conf").mkdir()
    with pytest.raises(ConfigError, match=r"10-foo.conf: the configuration of plugin 10-foo cannot be read"):
        config_text(str(tmp_path), "10", "foo")


def test_configuration_must_be_a_regular_file_of_at_most_1_mib(tmp_path: Path) -> None:
    """A pipe would block the plugin's supervisor forever, and a misplaced log file would fill memory."""
    path = tmp_path / "10-foo.conf"
    os.mkfifo(path)
    with pytest.raises(ConfigError, match=r"10-foo.conf: the configuration .* cannot be read: not a regular file"):
        config_text(str(tmp_path), "10", "foo")
    path.unlink()
    path.write_text("x" * (1 << 20))
    assert len(config_text(str(tmp_path), "10", "foo")[0]) == 1 << 20
    path.write_text("x" * ((1 << 20) + 1))
    with pytest.raises(ConfigError, match=r"10-foo.conf: the configuration .* cannot be read: more than 1 MiB"):
        config_text(str(tmp_path), "10", "foo")


def program(folder: Path, name: str, mode: int = 0o755) -> None:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)


def test_bad_files_skipped(tmp_path: Path) -> None:
    for name in ("10-good", "bad", "1-short"):
        program(tmp_path, name)
    program(tmp_path, "20-writable", 0o777)
    matches, skipped = discover(str(tmp_path), Rules.DEFAULT)
    assert [peer.label for peer in matches] == ["10-good"]
    assert {Path(peer.path).name: peer.reason.split(";")[0] for peer in skipped} == {
        "bad": 'invalid plugin name "bad", idx-pluginname expected',
        "1-short": 'invalid plugin index "1", must be 2 digits',
        "20-writable": "it can be written by group or others (mode 0777)",
    }
    with pytest.raises(ConfigError, match="failed to discover plugins: invalid plugin"):
        discover(str(tmp_path), Rules.REFERENCE)
    for name in ("bad", "1-short"):
        (tmp_path / name).unlink()
    assert [peer.label for peer in discover(str(tmp_path), Rules.REFERENCE)[0]] == ["10-good", "20-writable"]
