"""The folder from which runtimes launch plugins."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nri.errors import ConfigError, NriError
from nri.plugins import installation


def test_a_launcher_names_its_command_and_its_removal() -> None:
    text = installation.launcher(["/usr/bin/python3", "/opt/my plugin.py"], "10-a")
    assert text.splitlines() == [
        "#!/bin/sh",
        "# Written by `nri enable`. Remove it with: nri disable 10-a",
        "exec /usr/bin/python3 '/opt/my plugin.py' \"$@\"",
    ]


@pytest.mark.parametrize(("index", "name"), [("1", "a"), ("ab", "a"), ("10", "a/b"), ("10", "")])
def test_a_name_that_runtimes_refuse_is_an_error(index: str, name: str) -> None:
    assert installation.file_name_of("10", "a") == "10-a"
    with pytest.raises(ConfigError):
        installation.file_name_of(index, name)


def test_a_file_is_written_atomically_with_its_mode(tmp_path: Path) -> None:
    folder = tmp_path / "plugins"
    for content in (b"old", b"new"):
        installation.put(folder, "10-a", content, 0o755)
    assert os.listdir(folder) == ["10-a"]
    assert ((folder / "10-a").read_bytes(), (folder / "10-a").stat().st_mode & 0o777) == (b"new", 0o755)


def test_a_failed_write_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        installation.put(tmp_path, "10-a", b"x", 0o755)
    assert os.listdir(tmp_path) == []


def test_only_launchers_with_our_mark_are_recognized(tmp_path: Path) -> None:
    (tmp_path / "10-a").write_text(installation.launcher(["/bin/true"], "10-a"))
    (tmp_path / "20-b").write_text("#!/bin/sh\n")
    assert installation.is_ours(tmp_path / "10-a")
    assert not installation.is_ours(tmp_path / "20-b")
    assert not installation.is_ours(tmp_path / "gone")


def test_a_launcher_is_found_by_its_name_with_or_without_index(tmp_path: Path) -> None:
    (tmp_path / "10-a").write_text(installation.launcher(["/bin/true"], "10-a"))
    assert installation.find(tmp_path, "a") == installation.find(tmp_path, "10-a") == tmp_path / "10-a"
    assert installation.find(tmp_path, "20-a") is None
    error = installation.not_there(tmp_path, "20-a")
    assert str(error) == f"{tmp_path}: plugin 20-a not found. Did you mean 10-a? Plugins in the folder: 10-a"


def test_configuration_without_its_plugin_is_reported(tmp_path: Path) -> None:
    folder, drop_ins = tmp_path / "plugins", tmp_path / "conf.d"
    for place in (folder, drop_ins):
        place.mkdir()
    for name in ("10-a.conf", "20-b.conf", "30-b.conf", "a.conf", "40-c.yaml"):
        (drop_ins / name).touch()
    assert installation.find_left_over(folder, drop_ins, "a") == drop_ins / "10-a.conf"
    assert installation.find_left_over(folder, drop_ins, "30-b") == drop_ins / "30-b.conf"
    assert installation.find_left_over(folder, drop_ins, "c") is None
    with pytest.raises(NriError, match=r"several files of b remain: 20-b\.conf, 30-b\.conf"):
        installation.find_left_over(folder, drop_ins, "b")
    (folder / "10-a").touch()
    assert installation.find_left_over(folder, drop_ins, "a") is None, "it belongs to a plugin that is there"


def test_the_launch_command_depends_on_the_kind_of_plugin(tmp_path: Path) -> None:
    script, program = tmp_path / "a.py", tmp_path / "b"
    script.write_text("MyPlugin.main()\n")
    program.write_bytes(b"\x7fELF")
    assert installation.command_of(script)[1:] == [str(script)]
    with pytest.raises(NriError, match="neither a Python file nor executable"):
        installation.command_of(program)
    wasm = program.with_name("plugin.wasm")
    wasm.write_bytes(b"\0asm\1\0\0\0")
    with pytest.raises(NriError, match=r"without a launcher\. Install it: install -m 755 .*plugin\.wasm"):
        installation.command_of(wasm)
    program.chmod(0o755)
    assert installation.command_of(program) == [str(program)]


def test_a_second_index_and_a_foreign_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "10-a").write_text("#!/bin/sh\n")
    with pytest.raises(NriError, match="a is already enabled with another index"):
        installation.refuse_clash(tmp_path, "20-a")
    with pytest.raises(NriError, match="did not write"):
        installation.refuse_clash(tmp_path, "10-a")
    installation.refuse_clash(tmp_path, "10-b")
